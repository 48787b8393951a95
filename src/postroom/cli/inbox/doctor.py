"""Handler of `inbox doctor`: checks of the store and of this machine."""

from __future__ import annotations

import os

from postroom.cli.framework.output import OK as SUCCESS
from postroom.cli.framework.output import TROUBLE, Outcome
from postroom.cli.inbox import inputs
from postroom.core import clock
from postroom.core.errors import Forbidden, Refusal, StoreTrouble
from postroom.core.records.health import FAIL, OK, WARN, Finding
from postroom.core.states import HELD_STATUSES
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

MAX_EXAMINED_ROWS = 1000
MAX_AGENTS = 10_000
MAX_NAMED = 5
MAX_TASK_WAIT_SECONDS = 86_400
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
    rooms: dict[str, Callable[[Store], Finding]] = {
        "pending work": _examine_pending,
        "held work": _examine_held,
        "mailboxes": _examine_mailboxes,
        "tasks": _examine_tasks,
        "workspaces": _examine_workspaces,
        "queues": _examine_queues,
    }
    for what, examine in rooms.items():
        try:
            yield examine(store)
        except Forbidden:
            yield Finding(what, OK, "not looked at: agents may not see it")
        except Refusal as refusal:
            yield _unreadable(what, refusal)
    if not store.is_remote:
        yield _examine_running_server(store)


def _examine_pending(store: Store) -> Finding:
    from postroom.work.listing import list_threads

    page = list_threads(store, statuses=("pending",), limit=MAX_EXAMINED_ROWS)
    said = f"{len(page.threads)}{' or more' if page.more else ''} wait"
    unknown = _names_never_seen(store, {thread.assigned_to for thread in page.threads})
    if not unknown:
        return Finding("pending work", OK, said)
    why = "Nobody of that name has ever called, so nobody takes it."
    mend = f"inbox list --status pending --assigned-to {shell_quote(unknown[0])}, then inbox reassign --thread ID --to NAME"
    return Finding("pending work", WARN, f"{said}; never seen: {', '.join(unknown[:MAX_NAMED])}", why, mend)


def _names_never_seen(store: Store, names: set[str]) -> list[str]:
    """Return the names that never called. Nothing is known about them if there are more agents than a list has."""
    from postroom.work.agents import list_agents

    agents = list_agents(store, limit=MAX_AGENTS)
    seen = {agent.name for agent in agents if agent.last_seen_at or agent.is_person}
    return [] if len(agents) == MAX_AGENTS else sorted(names - seen)


def _examine_held(store: Store) -> Finding:
    from postroom.work.listing import list_threads

    holds = list_threads(store, statuses=HELD_STATUSES, limit=MAX_EXAMINED_ROWS).holds
    lapsed = [hold for hold in holds if hold.lapsed]
    if not lapsed:
        return Finding("held work", OK, f"{len(holds)} held, no lease has run out")
    said = f"{len(lapsed)} with a lease that ran out, for example {lapsed[0].thread_id} of {lapsed[0].held_by}"
    mend = f"inbox take --agent NAME, or inbox reassign --thread {shell_quote(lapsed[0].thread_id)} --to NAME"
    return Finding("held work", WARN, said, "Its worker is gone or stuck, and nobody has taken it over.", mend)


def _examine_mailboxes(store: Store) -> Finding:
    from postroom.mail.reading import sessions

    dead = [counts for counts in sessions(store, limit=MAX_EXAMINED_ROWS).sessions if counts.dead_letter]
    if not dead:
        return Finding("mailboxes", OK, "no dead letters")
    said = f"{sum(counts.dead_letter for counts in dead)} dead letters"
    mend = f"mailbox peek-dead-letter --session {shell_quote(dead[0].session)}"
    return Finding("mailboxes", WARN, said, "They were not delivered, and are not tried again by themselves.", mend)


def _examine_tasks(store: Store) -> Finding:
    from postroom.tasks.conductor import Conductor

    pending = Conductor(store).tasks(status="pending", limit=MAX_EXAMINED_ROWS)
    since = clock.format_stamp(clock.now() - MAX_TASK_WAIT_SECONDS * clock.MICROSECONDS_PER_SECOND)
    old = [task for task in pending if task.created_at < since]
    if not old:
        return Finding("tasks", OK, f"{len(pending)} wait")
    said = f"{len(old)} wait for more than a day, for example {old[0].task_id} for {old[0].target_agent}"
    mend = f"inbox task show {shell_quote(old[0].task_id)}, then start its agent, or inbox task cancel"
    return Finding("tasks", WARN, said, "Its agent does not accept them, and no deadline ends them.", mend)


def _examine_workspaces(store: Store) -> Finding:
    from postroom.people.access.workspaces import list_workspaces

    workspaces = list_workspaces(store)
    gone = [] if store.is_remote else [workspace for workspace in workspaces if not os.path.isdir(workspace.path)]
    if not gone:
        return Finding("workspaces", OK, f"{len(workspaces)}, all there" if workspaces else "none")
    said = f"{', '.join(workspace.path for workspace in gone[:MAX_NAMED])} is gone"
    return Finding("workspaces", WARN, said, "Its documents cannot be shown.", f"inbox workspace remove {gone[0].workspace_id}")


def _examine_queues(store: Store) -> Finding:
    """Check the queues that the store watches: they are folders of this machine."""
    from postroom.people.watched_queues import list_queues, report

    if store.is_remote:
        return Finding("queues", OK, "on the machine of the server")
    watched = list_queues(store)
    for queue in watched:
        reported = report(queue)
        if reported.error is not None:
            mend = f"thread info {shell_quote(queue.path)}, or inbox queue remove {shell_quote(queue.path)}"
            return Finding("queues", WARN, f"{queue.path}: {reported.error}", "Its events are not shown.", mend)
        if any(run.exit_code or run.signal for run in reported.runs[:1]):
            mend = f"thread dispatch {shell_quote(queue.path)}"
            return Finding("queues", WARN, f"{queue.path}: the latest dispatch failed", "Its handlers do not get the events.", mend)
    return Finding("queues", OK, f"{len(watched)} watched, all can be read" if watched else "none is watched")


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
