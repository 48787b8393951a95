"""Values of the store that a shell offers as completions: threads, agents, runs, mailboxes, entries and workspaces."""

from __future__ import annotations

from postroom.cli.framework.terminal import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.store.interface import Store

    Candidate = tuple[str, str]

MAX_CANDIDATES = 100
MAX_DESCRIPTION_CHARACTERS = 60


def list_values(owner: str, metavar: str, flag_values: dict[str, str]) -> list[Candidate]:
    """Return the values for a flag or a group of commands (`owner`) whose value has the form `metavar`. Raises what the store raises."""
    from postroom.store import open_store
    from postroom.store.location import find_location

    lister = _LISTERS.get(f"{owner} {metavar}") or _LISTERS.get(metavar)
    if lister is None:
        return []
    store = open_store(find_location(flag_values.get("db")), door="cli")
    return [(value, one_line(about)[:MAX_DESCRIPTION_CHARACTERS]) for value, about in lister(store) if value.isprintable()]


def _list_threads(store: Store) -> list[Candidate]:
    from postroom.work import list_threads

    return [(thread.thread_id, f"{thread.status}: {thread.subject}") for thread in list_threads(store, limit=MAX_CANDIDATES).threads]


def _list_agents(store: Store) -> list[Candidate]:
    from postroom.work import list_agents

    return [(agent.name, agent.kind) for agent in list_agents(store, limit=MAX_CANDIDATES)]


def _list_people(store: Store) -> list[Candidate]:
    from postroom.work import list_agents

    return [(agent.name, "") for agent in list_agents(store, limit=MAX_CANDIDATES) if agent.is_person]


def _list_runs(store: Store) -> list[Candidate]:
    from postroom.work import list_runs

    return [(run.run_id, "") for run in list_runs(store, limit=MAX_CANDIDATES) if run.run_id]


def _list_mailboxes(store: Store) -> list[Candidate]:
    from postroom.mail import sessions

    return [(mailbox.session, f"{mailbox.pending} pending") for mailbox in sessions(store, limit=MAX_CANDIDATES).sessions]


def _list_entries(store: Store) -> list[Candidate]:
    from postroom.people import history

    return [(entry.id, entry.comments or "") for entry in history(store, limit=MAX_CANDIDATES).entries]


def _list_workspaces(store: Store) -> list[Candidate]:
    from postroom.people import list_workspaces

    return [(workspace.workspace_id, workspace.label) for workspace in list_workspaces(store)]


_LISTERS: dict[str, Callable[[Store], list[Candidate]]] = {
    "THREAD_ID": _list_threads,
    "AGENT": _list_agents,
    "--agent NAME": _list_agents,
    "agent NAME": _list_agents,
    "PERSON": _list_people,
    "RUN_ID": _list_runs,
    "SESSION": _list_mailboxes,
    "--session NAME": _list_mailboxes,
    "entry ID": _list_entries,
    "--entry ID": _list_entries,
    "workspace ID": _list_workspaces,
    "--workspace ID": _list_workspaces,
}
