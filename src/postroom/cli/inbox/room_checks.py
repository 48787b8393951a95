"""Checks of what a store holds, for `inbox doctor`: a finding for each room. They read all pages of a listing, up to a bound."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.core.records.health import OK, WARN, Finding
from postroom.core.states import HELD_STATUSES
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from postroom.core.records.queues import Consumer
    from postroom.core.records.watched_queues import WatchedQueue
    from postroom.core.records.work import ThreadPage
    from postroom.store.interface import Store

    Row = tuple[Any, ...]

MAX_PAGE_ROWS = 1000
MAX_EXAMINED_ROWS = 100_000
MAX_NAMED = 5
MAX_TASK_WAIT_SECONDS = 86_400
MAX_EVENT_WAIT_SECONDS = 3600


class _Examined:
    """The rows of all pages of a listing. `is_cut` is whether there are more than `MAX_EXAMINED_ROWS`: the rest is not read."""

    def __init__(self, read_page: Callable[[Any], tuple[Iterable[Row], Any]]) -> None:
        self.rows: list[Row] = []
        cursor = None
        while True:
            page, cursor = read_page(cursor)
            self.rows += page
            self.is_cut = cursor is not None
            if not self.is_cut or len(self.rows) >= MAX_EXAMINED_ROWS:
                return

    @property
    def count(self) -> str:
        return f"{len(self.rows)} or more" if self.is_cut else str(len(self.rows))

    def limit_claim(self, claim: str) -> str:
        """Return a claim about all rows. If rows were not read, it says so."""
        return f"{claim} among the {len(self.rows)} that were looked at; there are more" if self.is_cut else claim


def _list_threads(store: Store, statuses: tuple[str, ...], rows_of: Callable[[ThreadPage], Iterable[Row]]) -> _Examined:
    from postroom.work.listing import list_threads

    def read_page(after: str | None) -> tuple[Iterable[Row], str | None]:
        page = list_threads(store, statuses=statuses, limit=MAX_PAGE_ROWS, after=after)
        return rows_of(page), page.after

    return _Examined(read_page)


def _examine_pending(store: Store) -> Finding:
    pending = _list_threads(
        store, ("pending",), lambda page: [(thread.assigned_to, thread.thread_id, thread.created_by) for thread in page.threads]
    )
    said = f"{pending.count} wait"
    first_of = {assigned_to: (thread_id, created_by) for assigned_to, thread_id, created_by in pending.rows}
    agents = _list_agents(store)
    unknown = [] if agents.is_cut else sorted(first_of.keys() - {name for name, called in agents.rows if called})
    if not unknown:
        return Finding("pending work", OK, f"{said}; names were not compared: too many agents" if agents.is_cut else said)
    thread_id, created_by = first_of[unknown[0]]
    why = "Nobody of that name has ever called, so nobody takes it."
    mend = f"inbox list --status pending --assigned-to {shell_quote(unknown[0])}, then {_reassign_command(created_by, thread_id)}"
    return Finding("pending work", WARN, f"{said}; never seen: {', '.join(unknown[:MAX_NAMED])}", why, mend)


def _list_agents(store: Store) -> _Examined:
    """Return the name of each agent, and whether it ever called or is a person."""
    from postroom.work.agents import list_agents

    def read_page(after: str | None) -> tuple[Iterable[Row], str | None]:
        agents = list_agents(store, limit=MAX_PAGE_ROWS, after=after or "")
        rows = [(agent.name, bool(agent.last_seen_at or agent.is_person)) for agent in agents]
        return rows, agents.after

    return _Examined(read_page)


def _reassign_command(agent: str, thread_id: str) -> str:
    """Return the command that gives a thread to another agent. `agent` is its creator, which may always do that."""
    return f"inbox reassign --agent {shell_quote(agent)} --thread {shell_quote(thread_id)} --to NAME"


def _examine_held(store: Store) -> Finding:
    def rows_of(page: ThreadPage) -> Iterable[Row]:
        creators = {thread.thread_id: thread.created_by for thread in page.threads}
        return [(hold.lapsed, hold.thread_id, hold.held_by, creators[hold.thread_id]) for hold in page.holds]

    held = _list_threads(store, HELD_STATUSES, rows_of)
    lapsed = [row for row in held.rows if row[0]]
    if not lapsed:
        return Finding("held work", OK, f"{held.count} held, {held.limit_claim('no lease has run out')}")
    _, thread_id, holder, created_by = lapsed[0]
    said = f"{len(lapsed)} with a lease that ran out, for example {thread_id} of {holder}"
    mend = f"inbox take --agent NAME, or {_reassign_command(created_by, thread_id)}"
    return Finding("held work", WARN, said, "Its worker is gone or stuck, and nobody has taken it over.", mend)


def _examine_mailboxes(store: Store) -> Finding:
    from postroom.mail.reading import sessions

    def read_page(after: str | None) -> tuple[Iterable[Row], str | None]:
        page = sessions(store, limit=MAX_PAGE_ROWS, after=after)
        return [(counts.session, counts.dead_letter) for counts in page.sessions], page.after

    mailboxes = _Examined(read_page)
    dead = [row for row in mailboxes.rows if row[1]]
    if not dead:
        return Finding("mailboxes", OK, mailboxes.limit_claim("no dead letters"))
    said = f"{sum(count for _, count in dead)} dead letters"
    mend = f"mailbox peek-dead-letter --session {shell_quote(dead[0][0])}"
    return Finding("mailboxes", WARN, said, "They were not delivered, and are not tried again by themselves.", mend)


def _examine_tasks(store: Store) -> Finding:
    from postroom.tasks.listing import list_tasks

    def read_page(before_event: int | None) -> tuple[Iterable[Row], int | None]:
        page = list_tasks(store, status="pending", limit=MAX_PAGE_ROWS, before_event=before_event)
        rows = [(task.created_at, task.task_id, task.target_agent, task.source_agent) for task in page.tasks]
        return rows, page.next_before_event

    pending = _Examined(read_page)
    old = [row for row in pending.rows if row[0] < _stamp_ago(MAX_TASK_WAIT_SECONDS)]
    if not old:
        note = "; the oldest were not looked at" if pending.is_cut else ""
        return Finding("tasks", OK, f"{pending.count} wait{note}")
    _, task_id, target, source = min(old)
    said = f"{len(old)} wait for more than a day, for example {task_id} for {target}"
    cancel = f"inbox task cancel --agent {shell_quote(source)} --task {shell_quote(task_id)}"
    mend = f"inbox task show {shell_quote(task_id)}, then start its agent, or {cancel}"
    return Finding("tasks", WARN, said, "Its agent does not accept them, and no deadline ends them.", mend)


def _stamp_ago(seconds: int) -> str:
    return clock.format_stamp(clock.now() - seconds * clock.MICROSECONDS_PER_SECOND)


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
    from postroom.people.watched_queues import MAX_QUEUES, list_queues

    if store.is_remote:
        return Finding("queues", OK, "on the machine of the server")
    watched = list_queues(store)
    for queue in watched:
        finding = _examine_queue(queue)
        if finding is not None:
            return finding
    count = f"{len(watched)} or more" if len(watched) == MAX_QUEUES else str(len(watched))
    return Finding(
        "queues", OK, f"{count} watched, all can be read, no event waits for more than an hour" if watched else "none is watched"
    )


def _examine_queue(queue: WatchedQueue) -> Finding | None:
    """Return the first fault of a queue, or None."""
    from postroom.people.watched_queues import report
    from postroom.queues.queue import info, open_queue

    folder = shell_quote(queue.path)
    reported = report(queue)
    if reported.error is not None:
        mend = f"thread info {folder}, or inbox queue remove {folder}"
        return Finding("queues", WARN, f"{queue.path}: {reported.error}", "Its events are not shown.", mend)
    if any(run.exit_code or run.signal for run in reported.runs[:1]):
        why = "Its handlers do not get the events."
        return Finding("queues", WARN, f"{queue.path}: the latest dispatch failed", why, f"thread dispatch {folder}")
    try:
        with open_queue(queue.path) as opened:
            consumers = info(opened).subscriptions
    except (Refusal, OSError) as error:
        return Finding("queues", WARN, f"{queue.path}: {error}", "Its events are not shown.", f"thread info {folder}")
    return next((finding for consumer in consumers if (finding := _examine_consumer(queue.path, consumer)) is not None), None)


def _examine_consumer(path: str, consumer: Consumer) -> Finding | None:
    """Return what keeps the events of a queue from a consumer, or None: events that were set aside, or that wait too long."""
    name, folder = consumer.subscription.consumer_id, shell_quote(path)
    if consumer.dead_events:
        said = f"{path}: {consumer.dead_events} set aside for {name}"
        mend = f"thread dead list --thread {folder}, then thread dead retry --thread {folder} --consumer {shell_quote(name)}"
        return Finding("queues", WARN, said, "Its handler did not handle them, and they are not tried again by themselves.", mend)
    since = consumer.waiting_since
    if since is None or since >= _stamp_ago(MAX_EVENT_WAIT_SECONDS):
        return None
    said = f"{path}: events wait for {name} since {since}"
    why = consumer.waiting_because or consumer.trouble or "Its handler runs, and does not keep up."
    return Finding("queues", WARN, said, why, f"thread info {folder}, then thread dispatch {folder}")


ROOM_CHECKS: dict[str, Callable[[Store], Finding]] = {
    "pending work": _examine_pending,
    "held work": _examine_held,
    "mailboxes": _examine_mailboxes,
    "tasks": _examine_tasks,
    "workspaces": _examine_workspaces,
    "queues": _examine_queues,
}
