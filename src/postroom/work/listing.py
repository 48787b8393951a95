"""Listing: threads by their names, statuses, run and task, latest activity first, with their holders."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput
from postroom.core.records.work import Thread, ThreadHold, ThreadPage
from postroom.core.states import HELD_STATUSES, STATUSES
from postroom.core.verbs import ANY_AGENT, READ, THREADS_SEEN, verb
from postroom.store.tables import NEWEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from postroom.store.interface import Store, Transaction
    from postroom.store.tables import Query

    NamePair = tuple[str | None, str | None]  # the creator and the assignee of a thread. None matches any name
    Cursor = tuple[str, str]  # the time and the id of the thread behind which a page starts

CURSOR_SEPARATOR = "/"  # no time contains one
_THREADS_PER_SEARCH = 100
_THREAD_OVERHEAD_CHARS = 500  # ids, names, stamps and field names of a thread in an answer


@verb(caller=ANY_AGENT, access=THREADS_SEEN, mode=READ)
def list_threads(
    store: Store,
    *,
    agent: str | None = None,
    statuses: Iterable[str] | None = None,
    created_by: str | None = None,
    assigned_to: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    limit: int = 50,
    visible_to: str | None = None,
    after: str | None = None,
) -> ThreadPage:
    """List threads, latest activity first, with their holders. `after` is the cursor of a page.

    A thread with new activity moves to the front, so that a later page does not show it.
    `agent` selects the threads that it created or that are assigned to it. An empty `run_id` selects the threads without a run.
    `visible_to` selects the threads that an agent sees: it takes part in them, or may take them. A server sets it for agents.
    """
    wanted = STATUSES if statuses is None else checks.choices("status", statuses, STATUSES)
    checks.limit("limit", limit)
    for field, chosen in (("agent", agent), ("run", run_id), ("task", task_id)):
        if chosen is not None and (created_by is not None or assigned_to is not None):
            raise InvalidInput(f"{field} cannot be combined with created-by or assigned-to", field=field, hint="Leave one of them out.")
    for field, name in (("agent", agent), ("created-by", created_by), ("assigned-to", assigned_to), ("visible-to", visible_to)):
        if name is not None:
            checks.name(field, name)
    if run_id is not None:
        checks.line("run", run_id)
    if task_id is not None and not checks.line("task", task_id):
        raise InvalidInput("'task' is empty", field="task", hint="Name the task, or leave --task out.")
    pairs: set[NamePair] = {(created_by, assigned_to)} if agent is None else {(agent, None), (None, agent)}
    start = (NEWEST["after_at"], NEWEST["after_id"]) if after is None else _parse_cursor(after)
    by_id: dict[str, Thread] = {}
    with store.read() as tx:
        for status in wanted:
            for thread in _list_with_status(tx, status, pairs, run_id, task_id, visible_to, start, limit + 1):
                by_id[thread.thread_id] = thread
        newest = sorted(by_id.values(), key=_position_of, reverse=True)
        page = _cut_page(newest[:limit])
        more = len(newest) > len(page)
        return ThreadPage(tuple(page), more, _read_holds(tx, page), CURSOR_SEPARATOR.join(_position_of(page[-1])) if more else None)


def _position_of(thread: Thread) -> Cursor:
    return thread.updated_at, thread.thread_id


def _parse_cursor(after: str) -> Cursor:
    """Return the time and the id in the cursor of a page. Refuses a text that no listing gave."""
    at, _, thread_id = after.partition(CURSOR_SEPARATOR) if isinstance(after, str) else ("", "", "")
    if not at[:1].isdigit() or not thread_id:
        raise checks.wrong_cursor_error(after)
    return checks.name("after", at), checks.name("after", thread_id)


def _cut_page(threads: list[Thread]) -> list[Thread]:
    """Return the first threads that fit into an answer, and at least one."""
    size = 0
    for number, thread in enumerate(threads):
        size += len(thread.subject) + len(thread.run_id) + len(thread.task_id) + _THREAD_OVERHEAD_CHARS
        if size > limits.MAX_ANSWER_BYTES and number:
            return threads[:number]
    return threads


def _read_holds(tx: Transaction, listed: list[Thread]) -> tuple[ThreadHold, ...]:
    held = [thread.thread_id for thread in listed if thread.status in HELD_STATUSES]
    if not held:
        return ()
    now = clock.format_stamp(tx.now())
    held_leases = tx.fetch_all(tx.sql.leases_of_threads, thread_ids=jsontext.dumps(held))
    return tuple(
        ThreadHold(lease.thread_id, lease.agent_id, lease.expires_at, not lease.is_live(now), lease.claimed_at) for lease in held_leases
    )


def _list_with_status(
    tx: Transaction,
    status: str,
    pairs: set[NamePair],
    run_id: str | None,
    task_id: str | None,
    visible_to: str | None,
    start: Cursor,
    limit: int,
) -> Iterator[Thread]:
    """List the threads of one status that match one of the pairs. An index serves each query, so the cost does not grow with the table."""
    if visible_to is not None:
        for thread in tx.fetch_all(tx.sql.threads_visited, agent=visible_to, status=status):
            is_wanted = run_id in (None, thread.run_id) and task_id in (None, thread.task_id) and _position_of(thread) < start
            if is_wanted and any(_matches_pair(thread, pair) for pair in pairs):
                yield thread
        pairs = _narrow_pairs(pairs, visible_to)
    page = {"status": status, "after_at": start[0], "after_id": start[1], "limit": limit}
    for created_by, assigned_to in pairs:
        names = {"created_by": created_by, "assigned_to": assigned_to}
        given = {key: name for key, name in names.items() if name is not None}
        every = {key: name or "" for key, name in names.items()}
        if task_id is not None:
            yield from tx.fetch_all(tx.sql.threads_of_task_chosen, task_id=task_id, run_id=run_id, **every, **page)
            continue
        by_run = {"run_id": run_id, "created_by": "", "assigned_to": ""}
        if run_id is None:
            yield from tx.fetch_all(_statement_for(tx, given), **given, **page)
        elif not given:
            yield from tx.fetch_all(tx.sql.threads_of_run_chosen, **by_run, **page)
        else:
            searches = (
                _Search(tx, tx.sql.threads_of_run_chosen, {**by_run, **page}),
                _Search(tx, _statement_for(tx, given), {**given, **page}),
            )
            yield from _list_by_either(searches, run_id, (created_by, assigned_to), limit)


def _statement_for(tx: Transaction, given: dict[str, str]) -> Query[Thread]:
    return {
        (): tx.sql.threads_any,
        ("created_by",): tx.sql.threads_created,
        ("assigned_to",): tx.sql.threads_assigned,
        ("created_by", "assigned_to"): tx.sql.threads_created_assigned,
    }[tuple(given)]


class _Search:
    """A search through one index, page by page, in the order of the list."""

    def __init__(self, tx: Transaction, statement: Query[Thread], binds: dict[str, Any]) -> None:
        self._tx = tx
        self._statement = statement
        self._binds = {**binds, "limit": _THREADS_PER_SEARCH}
        self.found: list[Thread] = []
        self.is_complete = False

    def read_on(self, is_wanted: Callable[[Thread], bool], limit: int) -> None:
        threads = self._tx.fetch_all(self._statement, **self._binds)
        self.found += [thread for thread in threads if is_wanted(thread)]
        self.is_complete = len(threads) < _THREADS_PER_SEARCH or len(self.found) >= limit
        if threads:
            self._binds["after_at"], self._binds["after_id"] = _position_of(threads[-1])


def _list_by_either(searches: tuple[_Search, ...], run_id: str, pair: NamePair, limit: int) -> list[Thread]:
    """List the threads of a run and of a name. No index has both, so search through both in turns: the narrower one ends first."""

    def is_wanted(thread: Thread) -> bool:
        return thread.run_id == run_id and _matches_pair(thread, pair)

    while True:
        for search in searches:
            search.read_on(is_wanted, limit)
            if search.is_complete:
                return search.found[:limit]


def _narrow_pairs(pairs: set[NamePair], viewer: str) -> set[NamePair]:
    """Return the pairs of creator and assignee that match only those threads that the viewer created or is assigned to."""
    created = {(viewer, assigned_to) for created_by, assigned_to in pairs if created_by in (None, viewer)}
    return created | {(created_by, viewer) for created_by, assigned_to in pairs if assigned_to in (None, viewer)}


def _matches_pair(thread: Thread, pair: NamePair) -> bool:
    return pair[0] in (None, thread.created_by) and pair[1] in (None, thread.assigned_to)
