"""The face of `inbox doctor`: can the promises be kept here?"""

from __future__ import annotations

import os

from postroom.cli import inputs
from postroom.cli.envelope import OK, TROUBLE, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments


def doctor(args: Arguments) -> Outcome:
    from postroom.store import examine

    store = inputs.store(args)
    checks = [
        {"what": "store", "state": "ok", "says": store.place},
        {"what": "agent", "state": "ok" if args.agent else "warn", "says": args.agent or inputs.NAME_YOURSELF},
        *({"what": what, "state": state, "says": says} for what, state, says in examine(store.place)),
        {"what": "compiled", **_compiled()},
    ]
    failed = any(check["state"] == "fail" for check in checks)
    return Outcome({"healthy": not failed, "checks": checks}, human="checks", exit_code=TROUBLE if failed else OK)


def _compiled() -> dict[str, str]:
    from importlib.util import cache_from_source

    if os.path.exists(cache_from_source(__file__)):
        return {"state": "ok", "says": "commands start at full speed"}
    return {"state": "warn", "says": "no .pyc files: commands take twice as long; run `python -m compileall` on the package"}
