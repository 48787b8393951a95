"""Handler of `inbox doctor`: checks of the store and of this machine."""

from __future__ import annotations

import os

from postroom.cli.framework.output import OK as SUCCESS
from postroom.cli.framework.output import TROUBLE, Outcome
from postroom.cli.inbox import inputs
from postroom.core.errors import Forbidden, Refusal, StoreTrouble
from postroom.core.records.health import FAIL, OK, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

TOKEN_NOTE = "token"  # noqa: S105 - the name of the file with the person's token, beside the address of the server


def handle_doctor(args: Arguments) -> Outcome:
    """Exit with 0 only if every check is `ok`."""
    from postroom.store.location import find_location

    location = find_location(args.db)
    findings = [
        *_examine(location, fix=args.fix),
        Finding("agent", OK, args.agent or f"no name is set. {inputs.NAME_YOURSELF}"),
        Finding("compiled", OK, _describe_compiled()),
    ]
    healthy = all(finding.state == OK for finding in findings)
    checks = [finding.to_json() for finding in findings]
    return Outcome(
        {"healthy": healthy, "checks": checks}, view="checks", exit_code=SUCCESS if healthy else TROUBLE, only_reads=not args.fix
    )


def _examine(location: str, *, fix: bool) -> Iterator[Finding]:
    """Yield the findings of a store. A store that cannot be opened is examined as far as possible."""
    from postroom.store import examine_store, open_store, repair_store
    from postroom.store.location import shown_location

    if fix:
        repair_store(location)
    store, trouble = None, ""
    try:
        store = open_store(location, door="cli")
        yield Finding("store", OK, shown_location(location))
    except StoreTrouble as refusal:
        trouble = str(refusal)
        yield _unreadable("store", refusal)
    try:
        yield from examine_store(location)
    except Refusal as refusal:
        if str(refusal) != trouble:  # a database that is away is one finding, not two
            yield _unreadable("server", refusal)
        return
    if store is not None:
        yield from _examine_contents(store)


def _unreadable(what: str, refusal: Refusal) -> Finding:
    return Finding(what, FAIL, str(refusal), "It could not be looked at, so nothing is known about it.", refusal.hint)


def _examine_contents(store: Store) -> Iterator[Finding]:
    """Yield a finding for each room. One that cannot be read is a finding, too."""
    from postroom.cli.inbox.room_checks import ROOM_CHECKS

    for what, examine in ROOM_CHECKS.items():
        try:
            yield examine(store)
        except Forbidden:
            yield Finding(what, OK, "not looked at: agents may not see it")
        except Refusal as refusal:
            yield _unreadable(what, refusal)
    if not store.is_remote:
        yield _examine_running_server(store)


def _examine_running_server(store: Store) -> Finding:
    from postroom.store.location import URL_NOTE, state_folder
    from postroom.store.remote.health import examine_running_server

    url = _read_note(os.path.join(state_folder(store.location), URL_NOTE))
    if not url:
        return Finding("server", OK, "none runs for this store, and commands need none")
    return examine_running_server(url, _read_note(os.path.join(state_folder(store.location), TOKEN_NOTE)))


def _read_note(path: str) -> str:
    """Return what a server wrote into a file of its state folder, or "" if there is none."""
    try:
        with open(path, encoding="ascii") as note:
            return note.read().strip()
    except (OSError, ValueError):
        return ""


def _describe_compiled() -> str:
    """Say whether Python can cache compiled modules. Without the cache every command starts more slowly."""
    from importlib.util import cache_from_source

    if os.path.exists(cache_from_source(__file__)):
        return "commands start at full speed"
    return "no .pyc files: commands take twice as long; run `python -m compileall` on the package"
