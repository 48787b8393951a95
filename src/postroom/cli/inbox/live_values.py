"""Values of the store that a shell offers as completions: threads, agents, runs, mailboxes and their messages, entries, tasks and more."""

from __future__ import annotations

import os

from postroom.cli.framework.terminal import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.store.interface import Store

    Candidate = tuple[str, str]

MAX_CANDIDATES = 100
MAX_SEARCHED_MAILBOXES = 20
MAX_DESCRIPTION_CHARACTERS = 60


def list_values(owner: str, metavar: str, flag_values: dict[str, str]) -> list[Candidate]:
    """Return the values for a flag or a group of commands (`owner`) whose value has the form `metavar`. Raises what the store raises."""
    from postroom.store import open_store
    from postroom.store.location import find_location

    lister = _LISTERS.get(f"{owner} {metavar}") or _LISTERS.get(metavar)
    if lister is None:
        return []
    store = open_store(find_location(flag_values.get("db")), door="cli")
    return [(value, one_line(about)[:MAX_DESCRIPTION_CHARACTERS]) for value, about in lister(store, flag_values) if value.isprintable()]


def _list_threads(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.work import list_threads

    return [(thread.thread_id, f"{thread.status}: {thread.subject}") for thread in list_threads(store, limit=MAX_CANDIDATES).threads]


def _list_agents(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.work import list_agents

    return [(agent.name, agent.kind) for agent in list_agents(store, limit=MAX_CANDIDATES)]


def _list_people(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.work import list_agents

    return [(agent.name, "") for agent in list_agents(store, limit=MAX_CANDIDATES) if agent.is_person]


def _list_runs(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.work import list_runs

    return [(run.run_id, "") for run in list_runs(store, limit=MAX_CANDIDATES) if run.run_id]


def _list_mailboxes(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.mail import sessions

    return [(mailbox.session, f"{mailbox.pending} pending") for mailbox in sessions(store, limit=MAX_CANDIDATES).sessions]


def _list_entries(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.people import history

    return [(entry.id, entry.comments or "") for entry in history(store, limit=MAX_CANDIDATES).entries]


def _list_workspaces(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.people import list_workspaces

    return [(workspace.workspace_id, workspace.label) for workspace in list_workspaces(store)]


def _list_mail(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    """Return what waits in the mailbox that is named, or else in the first mailboxes."""
    from postroom.mail import peek, sessions

    named = flag_values.get("session") or os.environ.get("MAILBOX_SESSION")
    mailboxes = [named] if named else [one.session for one in sessions(store, limit=MAX_SEARCHED_MAILBOXES).sessions]
    found = [message for session in mailboxes for message in peek(store, session, limit=MAX_CANDIDATES).messages]
    return [(message.msg_id, f"{message.state}, from {message.sender}") for message in found[:MAX_CANDIDATES]]


def _list_tasks(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.tasks.listing import list_tasks

    return [(task.task_id, f"{task.status}: {task.description}") for task in list_tasks(store, limit=MAX_CANDIDATES).tasks]


def _list_jobs(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.tasks import Conductor

    return [(job.job_id, job.agent) for job in Conductor(store).jobs(limit=MAX_CANDIDATES).jobs]


def _list_channels(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.people.channels.verbs import list_channels

    return [(channel.channel_id, f"{channel.kind} of {channel.person}") for channel in list_channels(store).channels]


def _list_passes(store: Store, flag_values: dict[str, str]) -> list[Candidate]:
    from postroom.people import list_passes

    return [(listed.pass_id, f"{listed.kind} of {listed.name}") for listed in list_passes(store, limit=MAX_CANDIDATES).passes]


_LISTERS: dict[str, Callable[[Store, dict[str, str]], list[Candidate]]] = {
    "THREAD_ID": _list_threads,
    "AGENT": _list_agents,
    "--agent NAME": _list_agents,
    "agent NAME": _list_agents,
    "PERSON": _list_people,
    "RUN_ID": _list_runs,
    "TASK_ID": _list_tasks,
    "--parent TASK": _list_tasks,
    "JOB_ID": _list_jobs,
    "--job ID": _list_jobs,
    "channel ID": _list_channels,
    "pass ID": _list_passes,
    "SESSION": _list_mailboxes,
    "--session NAME": _list_mailboxes,
    "--msg-id ID": _list_mail,
    "entry ID": _list_entries,
    "--entry ID": _list_entries,
    "--add-to ID": _list_entries,
    "--before ID": _list_entries,
    "ENTRY_ID": _list_entries,
    "workspace ID": _list_workspaces,
    "--workspace ID": _list_workspaces,
}
