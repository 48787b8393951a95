"""Runs: threads that belong together, in numbers and as a history; and how busy everybody was."""

from __future__ import annotations

from heapq import merge
from itertools import islice

from postroom.core import checks, clock, jsontext
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.histories import Holding, Moment, Rhythm, RunHistory, RunSummary
from postroom.core.records import Event, Thread
from postroom.core.states import STATUSES
from postroom.core.verbs import verb
from postroom.core.words import shown
from postroom.work import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postroom.store.port import Store, Transaction

LATEST = 500  # threads of each status that are looked at for the list
MOST_THREADS = 200
MOST_EVENTS = 5000
LONGEST = 168  # hours
HOUR = 3600
_PAGE = 50
_END = 2**62


@verb
def list_runs(store: Store, *, limit: int = 50) -> tuple[RunSummary, ...]:
    """Runs, newest activity first, of the latest threads of each status. Threads without a run are the run without a name."""
    checks.limit("limit", limit)
    runs: dict[str, list[Thread]] = {}
    with store.read() as tx:
        for status in STATUSES:
            for row in tx.all(tx.sql.threads_any, status=status, limit=LATEST):
                thread = Thread(*row)
                runs.setdefault(thread.run_id, []).append(thread)
    found = sorted((_summary(run_id, threads) for run_id, threads in runs.items()), key=lambda run: (run.last_at, run.run_id), reverse=True)
    return tuple(found[:limit])


def _summary(run_id: str, threads: list[Thread]) -> RunSummary:
    by_status = {status: sum(thread.status == status for thread in threads) for status in STATUSES}
    return RunSummary(
        run_id,
        len(threads),
        {status: number for status, number in by_status.items() if number},
        tuple(sorted({thread.assigned_to for thread in threads})),
        min(thread.created_at for thread in threads),
        max(thread.updated_at for thread in threads),
    )


@verb
def show_run(store: Store, run_id: str) -> RunHistory:
    """The latest threads of a run, who holds them, and the latest that happened in them. Refuses with `NotFound` if it has none."""
    checks.text("run", run_id)
    with store.read() as tx:
        rows = tx.all(tx.sql.threads_of_run, run_id=run_id, limit=MOST_THREADS + 1)
        latest = [Holding(*messages.with_lease(row)) for row in rows[:MOST_THREADS]]
        threads = tuple(sorted(latest, key=lambda held: (held.thread.updated_at, held.thread.thread_id), reverse=True))
        newest = merge(*(_backwards(tx, found.thread.thread_id) for found in threads), key=lambda event: event.event_id, reverse=True)
        events = list(islice(newest, MOST_EVENTS + 1))
    if not threads:
        why = f"no thread belongs to the run {shown(run_id)}" if run_id else "no thread is without a run"
        raise NotFound(why, hint="`inbox send --run` opens a thread in one.", run_id=run_id)
    told = tuple(_moment(event) for event in reversed(events[:MOST_EVENTS]))
    return RunHistory(run_id, threads, told, len(rows) > MOST_THREADS or len(events) > MOST_EVENTS)


def _backwards(tx: Transaction, thread_id: str) -> Iterator[Event]:
    """The events of a thread, newest first, read in pages: of most threads nobody wants more than the first."""
    before = _END
    while True:
        rows = tx.all(tx.sql.events_of_thread, thread_id=thread_id, before=before, limit=_PAGE)
        for row in rows:
            yield Event(*row)
        if len(rows) < _PAGE:
            return
        before = rows[-1][0]


def _moment(event: Event) -> Moment:
    facts = _facts(event)
    status, to = (value if isinstance(value, str) else None for value in (facts.get("status"), facts.get("to")))
    return Moment(event.event_id, event.thread_id, event.event_type, event.source, event.created_at, event.summary, status, to)


def _facts(event: Event) -> dict[str, Any]:
    """What an event says; of one that another program wrote, and that makes no sense, nothing."""
    try:
        found = jsontext.loads(event.payload_json)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@verb
def rhythm(store: Store, *, hours: int = 24) -> Rhythm:
    """How much happened in each of the last hours, the current one included, by the latest events: whose, and in which mailbox."""
    if not 1 <= hours <= LONGEST:
        raise InvalidInput(f"hours must be from 1 to {LONGEST}, not {hours}", field="hours")
    with store.read() as tx:
        rows = tx.all(tx.sql.events_newest, before=_END, limit=MOST_EVENTS)
        now = tx.now() // clock.SECOND
    start = now - now % HOUR - (hours - 1) * HOUR
    agents: dict[str, list[int]] = {}
    sessions: dict[str, list[int]] = {}
    total = [0] * hours
    complete = len(rows) < MOST_EVENTS
    for event in (Event(*row) for row in rows):
        step = (clock.instant(event.created_at) // clock.SECOND - start) // HOUR
        if step < 0:
            complete = True
            break
        step = min(step, hours - 1)  # of a clock that is ahead of ours
        total[step] += 1
        if event.event_type.startswith("mail."):
            _count(sessions, _facts(event).get("session"), step, hours)
        _count(agents, event.source, step, hours)
    return Rhythm(clock.stamp(start * clock.SECOND), HOUR, complete, agents, sessions, total)


def _count(counts: dict[str, list[int]], name: object, step: int, steps: int) -> None:
    if isinstance(name, str) and name:
        counts.setdefault(name, [0] * steps)[step] += 1
