"""The routes for monitors: `/metrics`, `/ready` and `/health`."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core import clock
from postroom.core.errors import Interrupted, Refusal, StoreUnreachable
from postroom.core.records import Record
from postroom.mail import reading
from postroom.people import entries
from postroom.server.http.auth import Caller
from postroom.server.http.responses import JsonResponse, refusal_response
from postroom.server.http.state import AppState
from postroom.store.interface import Store
from postroom.work import listing

MAX_COUNTED_ROWS = 1000
READY_SECONDS = 1.0  # for which the answer of /ready is kept: strangers may ask, and each look costs a connection on a database server


class StoreCounts(Record):
    """Numbers of threads, entries, questions and messages that wait in a store. Each is counted up to a limit."""

    newest_event_id: int
    unread_entries: int
    open_questions: int
    pending_threads: int
    oldest_pending_seconds: float
    waiting_mail: int
    dead_letters: int


def read_store_counts(store: Store) -> StoreCounts:
    """Read what waits in a store, at a cost that does not grow with the store."""
    with store.read() as tx:
        newest, waiting, now = tx.fetch_one(tx.sql.event_latest) or 0, entries.count_waiting(tx), tx.now()
    pending = listing.list_threads(store, statuses=("pending",), limit=MAX_COUNTED_ROWS).threads
    oldest = min((clock.parse_stamp(thread.created_at) for thread in pending), default=now)
    boxes = reading.sessions(store, limit=MAX_COUNTED_ROWS).sessions
    return StoreCounts(
        newest,
        waiting.unread,
        waiting.questions,
        len(pending),
        max(now - oldest, 0) / clock.MICROSECONDS_PER_SECOND,
        sum(box.pending + box.nacked + box.in_flight for box in boxes),
        sum(box.dead_letter for box in boxes),
    )


class _StateCollector(Collector):
    """The metrics that are read when they are asked for: the places of the server that are in use, and what waits in the store."""

    def __init__(self, state: AppState, counts: StoreCounts | None) -> None:
        self._state = state
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        access = self._state.store_access
        yield GaugeMetricFamily("postroom_waiting_calls", "Calls that wait for something to happen", self._state.wait_pool.waits)
        yield GaugeMetricFamily("postroom_event_listeners", "Event streams that are open", access.broadcaster.streams)
        yield GaugeMetricFamily("postroom_queued_writes", "Writes that wait for a transaction", access.queued_writes)
        yield CounterMetricFamily("postroom_dropped_log_lines", "Log lines that nobody read in time", self._state.log.dropped_lines)
        build = GaugeMetricFamily("postroom_build_info", "Always 1; the version is its label", labels=("version",))
        build.add_metric((__version__,), 1)
        yield build
        yield GaugeMetricFamily("postroom_store_up", "Whether the store could be read", 0 if self._counts is None else 1)
        if self._counts is not None:
            yield from _describe_counts(self._counts)


def _describe_counts(counts: StoreCounts) -> Iterator[Metric]:
    up_to = f"counted up to {MAX_COUNTED_ROWS}"
    yield GaugeMetricFamily("postroom_newest_event_id", "The id of the newest event of the store", counts.newest_event_id)
    yield GaugeMetricFamily("postroom_unread_entries", f"Entries that no person has read, {up_to}", counts.unread_entries)
    yield GaugeMetricFamily("postroom_open_questions", f"Questions that wait for a person, {up_to}", counts.open_questions)
    yield GaugeMetricFamily("postroom_pending_threads", f"Threads that nobody has taken, {up_to}", counts.pending_threads)
    yield GaugeMetricFamily("postroom_oldest_pending_thread_seconds", "Age of the oldest of them", counts.oldest_pending_seconds)
    yield GaugeMetricFamily("postroom_waiting_mail", f"Messages that are not acked, mailboxes {up_to}", counts.waiting_mail)
    yield GaugeMetricFamily("postroom_dead_letters", f"Messages that could not be delivered, mailboxes {up_to}", counts.dead_letters)


async def serve_metrics(request: Request, state: AppState, caller: Caller) -> Response:
    """Print all metrics. Any token will do, also that of an agent: they name no thread, no person and no text."""
    try:
        counts = await state.store_access.read_in_thread(read_store_counts)
    except (StoreUnreachable, Interrupted):
        counts = None
    own = CollectorRegistry(auto_describe=False)
    own.register(_StateCollector(state, counts))
    return Response(generate_latest(REGISTRY) + generate_latest(own), media_type=CONTENT_TYPE_LATEST)


async def serve_health(request: Request) -> Response:
    """Answer as long as the process answers. It does not look into the store."""
    return JsonResponse({"ok": True})


class ReadinessProbe:
    """The route `/ready`: whether this server can read its store now, and is not about to end. For load balancers."""

    def __init__(self) -> None:
        self._checked_at = -READY_SECONDS  # monotonic seconds
        self._refusal: Refusal | None = None

    async def serve(self, request: Request) -> Response:
        state: AppState = request.app.state.app_state
        if state.store_access.broadcaster.stopping:
            return refusal_response(Interrupted("the server is about to end", hint="Use another one."))
        if monotonic() - self._checked_at >= READY_SECONDS:
            self._checked_at = monotonic()
            self._refusal = await _find_store_trouble(state)
        return JsonResponse({"ok": True}) if self._refusal is None else refusal_response(self._refusal)


async def _find_store_trouble(state: AppState) -> Refusal | None:
    try:
        await state.store_access.read_in_thread(_read_newest_event)
    except Refusal as refusal:
        return StoreUnreachable("the store cannot be read now", hint=f"Code {refusal.code}; the log of the server says more.")
    return None


def _read_newest_event(store: Store) -> None:
    with store.read() as tx:
        tx.fetch_one(tx.sql.event_latest)
