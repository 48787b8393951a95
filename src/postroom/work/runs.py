"""Runs: groups of threads, summarized and as a history, and the activity of all agents by hour. The web page calls this."""

from __future__ import annotations

from heapq import merge
from itertools import islice

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.runs import ActivityHistogram, RunEvent, RunHistory, RunPage, RunSummary, RunWaitResult, ThreadWithLease
from postroom.core.states import STATUSES, TERMINAL_STATUSES
from postroom.core.text import short_repr
from postroom.core.verbs import LEADERS, READ, WAIT, verb
from postroom.store.tables import NEWEST
from postroom.work import messages
from postroom.work.listing import CURSOR_SEPARATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.core.records import Event
    from postroom.core.records.work import Thread
    from postroom.store.interface import Store, Transaction

MAX_THREADS_PER_STATUS = 500  # the latest ones, read for the list of runs
MAX_THREADS = 200
MAX_EVENTS = 5000
MAX_HOURS = 168  # hours
HOUR_SECONDS = 3600
_EVENTS_PER_PAGE = 50


@verb(caller=LEADERS, mode=READ)
def list_runs(store: Store, *, limit: int = 50, after: str | None = None) -> RunPage:
    """List runs, newest activity first. Threads without a run form the run with an empty id. `after` is the cursor of a run.

    Counts the latest `MAX_THREADS_PER_STATUS` threads of each status, so that the cost does not grow with the store. A run with older
    ones is `partial`: `summarize_run` counts all of its threads.
    """
    checks.limit("limit", limit)
    start = None if after is None else _parse_cursor(after)
    runs: dict[str, list[Thread]] = {}
    with store.read() as tx:
        oldest_counted: list[Thread] = []
        for status in STATUSES:
            counted = tx.fetch_all(tx.sql.threads_any, status=status, limit=MAX_THREADS_PER_STATUS, **NEWEST)
            oldest_counted += counted[MAX_THREADS_PER_STATUS - 1 :]
            for thread in counted:
                runs.setdefault(thread.run_id, []).append(thread)
        summaries = [_summarize_run(run_id, threads) for run_id, threads in runs.items()]
        older = summaries if start is None else [run for run in summaries if (run.last_at, run.run_id) < start]
        newest = sorted(older, key=lambda run: (run.last_at, run.run_id), reverse=True)
        shown = tuple(run.replace(partial=_has_older_threads(tx, run.run_id, oldest_counted)) for run in newest[:limit])
        more = len(newest) > limit
        return RunPage(shown, more, f"{shown[-1].last_at}{CURSOR_SEPARATOR}{shown[-1].run_id}" if more else None)


def _parse_cursor(after: str) -> tuple[str, str]:
    last_at, separator, run_id = after.partition(CURSOR_SEPARATOR) if isinstance(after, str) else ("", "", "")
    if not separator or not last_at[:1].isdigit():
        raise checks.wrong_cursor_error(after)
    return checks.name("after", last_at), checks.line("after", run_id)


def _has_older_threads(tx: Transaction, run_id: str, oldest_counted: list[Thread]) -> bool:
    """Return whether a run has threads behind the oldest counted one of their status."""
    return any(
        tx.fetch_all(
            tx.sql.threads_of_run_chosen,
            run_id=run_id,
            status=oldest.status,
            created_by="",
            assigned_to="",
            after_at=oldest.updated_at,
            after_id=oldest.thread_id,
            limit=1,
        )
        for oldest in oldest_counted
    )


def _summarize_run(run_id: str, threads: list[Thread]) -> RunSummary:
    by_status = {status: sum(thread.status == status for thread in threads) for status in STATUSES}
    return RunSummary(
        run_id,
        len(threads),
        {status: number for status, number in by_status.items() if number},
        tuple(sorted({thread.assigned_to for thread in threads})),
        min(thread.created_at for thread in threads),
        max(thread.updated_at for thread in threads),
    )


@verb(caller=LEADERS, mode=READ)
def show_run(store: Store, run_id: str) -> RunHistory:
    """Return the latest threads of a run with their leases, and their latest events. Refuses with `NotFound` if it has no thread."""
    checks.line("run", run_id)
    with store.read() as tx:
        held = [
            row for status in STATUSES for row in tx.fetch_all(tx.sql.threads_of_run, run_id=run_id, status=status, limit=MAX_THREADS + 1)
        ]
        latest = sorted(held, key=lambda row: (row.thread.updated_at, row.thread.thread_id), reverse=True)
        threads = tuple(ThreadWithLease(row.thread, row.lease) for row in latest[:MAX_THREADS])
        histories = [_iter_newest_first(tx, row.thread.thread_id) for row in threads]
        newest = merge(*histories, key=lambda event: event.event_id, reverse=True)
        events = list(islice(newest, MAX_EVENTS + 1))
    if not threads:
        raise _no_run_error(run_id)
    run_events = tuple(_to_run_event(event) for event in reversed(events[:MAX_EVENTS]))
    truncated = len(held) > MAX_THREADS or len(events) > MAX_EVENTS
    return RunHistory(run_id, threads, run_events, truncated)


@verb(caller=LEADERS, mode=WAIT)
def wait_run(store: Store, run_id: str, *, open_threads: int | None = None, timeout_seconds: float = 0) -> RunWaitResult:
    """Wait until every thread of a run has ended, at most `timeout_seconds` (0: without a limit), and return its numbers.

    With `open_threads`, also return when the number of threads that have not ended is another one, for a caller that
    reports progress. Refuses with `NotFound` if the run has no thread.
    """
    from postroom.store.wait_loop import wait_until
    from postroom.work.lapses import LapseWatch

    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    if not checks.line("run", run_id):
        raise InvalidInput("'run' is missing", field="run", hint="Name the run; `inbox run list` shows them.")

    def find_change() -> int | None:
        with store.read() as tx:
            left = tx.fetch_one(tx.sql.run_open_count, run_id=run_id) or 0
        return left if left == 0 or open_threads not in (None, left) else None

    summarize_run(store, run_id)  # refuses an unknown run before the wait
    found = wait_until(store, find_change, timeout_seconds, topics=(messages.run_topic(run_id),), periodic=LapseWatch(store))
    summary = summarize_run(store, run_id)
    left = summary.threads - sum(summary.by_status.get(status, 0) for status in TERMINAL_STATUSES)
    return RunWaitResult(found is not None, left, summary)


@verb(caller=LEADERS, mode=READ)
def summarize_run(store: Store, run_id: str) -> RunSummary:
    """Return the numbers of one run, over all of its threads. Refuses with `NotFound` if it has no thread."""
    checks.line("run", run_id)
    with store.read() as tx:
        rows = tx.fetch_all(tx.sql.run_numbers, run_id=run_id)
        agents = tuple(sorted(tx.fetch_all(tx.sql.run_agents, run_id=run_id)))
    if not rows:
        raise _no_run_error(run_id)
    counts = {row.status: row.threads for row in rows}
    by_status = {status: counts[status] for status in STATUSES if status in counts}
    first_at, last_at = min(row.first_at for row in rows), max(row.last_at for row in rows)
    return RunSummary(run_id, sum(counts.values()), by_status, agents, first_at, last_at)


def _no_run_error(run_id: str) -> NotFound:
    why = f"no thread belongs to the run {short_repr(run_id)}" if run_id else "no thread is without a run"
    return NotFound(why, hint="`inbox send --run` opens a thread in one.", run_id=run_id)


def _iter_newest_first(tx: Transaction, thread_id: str) -> Iterator[Event]:
    """Yield the events of a thread, newest first. Reads them in pages, because most callers need only the first page."""
    before = checks.AFTER_ALL_IDS
    while True:
        events = tx.fetch_all(tx.sql.events_of_thread, thread_id=thread_id, before=before, limit=_EVENTS_PER_PAGE)
        yield from events
        if len(events) < _EVENTS_PER_PAGE:
            return
        before = events[-1].event_id


def _to_run_event(event: Event) -> RunEvent:
    facts = event.payload
    status, to = (value if isinstance(value, str) else None for value in (facts.get("status"), facts.get("to")))
    return RunEvent(event.event_id, event.thread_id, event.event_type, event.source, event.created_at, event.summary, status, to)


@verb(caller=LEADERS, mode=READ)
def activity_histogram(store: Store, *, hours: int = 24) -> ActivityHistogram:
    """Count the events of each of the last hours, by agent and by mailbox. The current hour is the last one.

    Reads at most `MAX_EVENTS` events. `complete` is false if older events of these hours were left out.
    """
    if not 1 <= hours <= MAX_HOURS:
        raise InvalidInput(f"hours must be from 1 to {MAX_HOURS}, not {hours}", field="hours")
    with store.read() as tx:
        events = tx.fetch_all(tx.sql.events_newest, before=checks.AFTER_ALL_IDS, limit=MAX_EVENTS)
        now = tx.now() // clock.MICROSECONDS_PER_SECOND
    start = now - now % HOUR_SECONDS - (hours - 1) * HOUR_SECONDS
    agents: dict[str, list[int]] = {}
    sessions: dict[str, list[int]] = {}
    total = [0] * hours
    complete = len(events) < MAX_EVENTS
    for event in events:
        try:
            step = (clock.parse_stamp(event.created_at) // clock.MICROSECONDS_PER_SECOND - start) // HOUR_SECONDS
        except ValueError:
            continue  # another program inserted the event, with an instant in a format of its own
        if step < 0:
            complete = True
            break
        step = min(step, hours - 1)  # the writer's clock may be ahead of ours
        total[step] += 1
        if event.event_type.startswith("mail."):
            _count_event(sessions, event.payload.get("session"), step, hours)
        _count_event(agents, event.source, step, hours)
    return ActivityHistogram(clock.format_stamp(start * clock.MICROSECONDS_PER_SECOND), HOUR_SECONDS, complete, agents, sessions, total)


def _count_event(counts: dict[str, list[int]], name: object, step: int, steps: int) -> None:
    if isinstance(name, str) and name:
        counts.setdefault(name, [0] * steps)[step] += 1
