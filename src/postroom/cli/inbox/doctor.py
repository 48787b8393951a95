"""Handler of `inbox doctor`: checks of the store and of this machine."""

from __future__ import annotations

import os

from postroom.cli.framework.output import OK, TROUBLE, Outcome
from postroom.cli.inbox import inputs
from postroom.core.errors import StoreTrouble
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

    Finding = tuple[str, str, str]  # the subject; ok, warn or fail; a sentence for a person

MAX_EXAMINED_ROWS = 1000


def handle_doctor(args: Arguments) -> Outcome:
    from postroom.store.location import find_location

    location = find_location(args.db)
    checks = [
        *(_make_check(*finding) for finding in _examine(location, fix=args.fix)),
        _make_check("agent", "ok" if args.agent else "warn", args.agent or inputs.NAME_YOURSELF),
        {"what": "compiled", **_check_compiled()},
    ]
    failed = any(check["state"] == "fail" for check in checks)
    return Outcome({"healthy": not failed, "checks": checks}, view="checks", exit_code=TROUBLE if failed else OK, only_reads=not args.fix)


def _make_check(what: str, state: str, text: str) -> dict[str, str]:
    return {"what": what, "state": state, "says": text}


def _examine(location: str, *, fix: bool) -> Iterator[Finding]:
    """Yield the findings of a store. A store that cannot be opened is examined as far as possible."""
    from postroom.store import examine_store, open_store, repair_store
    from postroom.store.location import shown_location

    if fix:
        repair_store(location)
    store = None
    try:
        store = open_store(location, door="cli")
        yield ("store", "ok", shown_location(location))
    except StoreTrouble as refusal:
        yield ("store", "fail", f"{refusal}. {refusal.hint}")
    try:
        yield from examine_store(location)
        if store is not None:
            yield from _examine_contents(store)
    except StoreTrouble as refusal:
        yield ("contents", "fail", f"{refusal}. {refusal.hint}")


def _examine_contents(store: Store) -> Iterator[Finding]:
    from postroom.people.workspaces import list_workspaces
    from postroom.work.agents import list_agents
    from postroom.work.listing import list_threads

    seen = {agent.name for agent in list_agents(store, limit=MAX_EXAMINED_ROWS) if agent.last_seen_at or agent.is_person}
    pending = list_threads(store, statuses=("pending",), limit=MAX_EXAMINED_ROWS).threads
    unknown = sorted({thread.assigned_to for thread in pending} - seen)
    said = f"{len(pending)} wait"
    if unknown:
        names = ", ".join(unknown[:5])
        yield ("pending work", "warn", f"{said}; never seen: {names}; check the name, or use `inbox reassign --thread ID --to NAME`")
    else:
        yield ("pending work", "ok", said)
    gone = [workspace.path for workspace in list_workspaces(store) if not store.is_remote and not os.path.isdir(workspace.path)]
    said = f"{', '.join(gone[:3])} is gone: its documents cannot be shown; run `inbox workspace remove ID`" if gone else "all are there"
    yield ("workspaces", "warn" if gone else "ok", said)
    yield _examine_mailboxes(store)


def _examine_mailboxes(store: Store) -> Finding:
    from postroom.mail.reading import sessions

    dead = [counts for counts in sessions(store, limit=MAX_EXAMINED_ROWS).sessions if counts.dead_letter]
    if not dead:
        return ("mailboxes", "ok", "no dead letters")
    total, first = sum(counts.dead_letter for counts in dead), dead[0].session
    return ("mailboxes", "warn", f"{total} dead letters: see `mailbox peek-dead-letter --session {shell_quote(first)}`")


def _check_compiled() -> dict[str, str]:
    """Check that Python can cache compiled modules. Without the cache every command starts more slowly."""
    from importlib.util import cache_from_source

    if os.path.exists(cache_from_source(__file__)):
        return {"state": "ok", "says": "commands start at full speed"}
    return {"state": "warn", "says": "no .pyc files: commands take twice as long; run `python -m compileall` on the package"}
