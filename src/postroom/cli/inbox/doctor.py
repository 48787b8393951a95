"""Handler of `inbox doctor`: checks of the store and of this machine."""

from __future__ import annotations

import os

from postroom.cli.framework.output import OK, TROUBLE, Outcome
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_doctor(args: Arguments) -> Outcome:
    from postroom.store import examine_store
    from postroom.store.location import shown_location

    store = inputs.open_store_for(args)
    checks = [
        {"what": "store", "state": "ok", "says": shown_location(store.location)},
        {"what": "agent", "state": "ok" if args.agent else "warn", "says": args.agent or inputs.NAME_YOURSELF},
        *({"what": what, "state": state, "says": text} for what, state, text in examine_store(store.location)),
        {"what": "compiled", **_check_compiled()},
    ]
    failed = any(check["state"] == "fail" for check in checks)
    return Outcome({"healthy": not failed, "checks": checks}, view="checks", exit_code=TROUBLE if failed else OK)


def _check_compiled() -> dict[str, str]:
    """Check that Python can cache compiled modules. Without the cache every command starts more slowly."""
    from importlib.util import cache_from_source

    if os.path.exists(cache_from_source(__file__)):
        return {"state": "ok", "says": "commands start at full speed"}
    return {"state": "warn", "says": "no .pyc files: commands take twice as long; run `python -m compileall` on the package"}
