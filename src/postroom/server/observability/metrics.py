"""The metrics that a server process counts as it runs. `exposition` prints them, docs/guides/operations.md lists them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import local
from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
OK, ERROR = "ok", "error"  # results of verbs. Others are the codes of refusals

_REQUESTS = Counter("postroom_http_requests", "HTTP requests that were answered", ("method", "route", "status"))
_REQUEST_SECONDS = Histogram(
    "postroom_http_request_seconds", "Time until a request is answered, without event streams", ("route",), buckets=SECONDS_BUCKETS
)
_VERBS = Counter("postroom_verbs", "Verbs that were run; the result is ok, or the code of the refusal", ("verb", "door", "result"))
_VERB_SECONDS = Histogram(
    "postroom_verb_seconds", "Time of a verb in the store, without verbs that wait", ("verb",), buckets=SECONDS_BUCKETS
)
REQUESTS_IN_PROGRESS = Gauge("postroom_http_requests_in_progress", "Requests, event streams and WebSockets that are open")
COMMIT_SECONDS = Histogram("postroom_commit_seconds", "Time of a transaction of group commit", buckets=SECONDS_BUCKETS)
COMMIT_VERBS = Histogram("postroom_commit_verbs", "Verbs in a transaction of group commit", buckets=(1, 2, 4, 8, 16, 32, 64, 128))

# `labels` costs as much as everything else about a metric. The number of different labels is bounded: routes, verbs and codes are ours.
_requests = cache(_REQUESTS.labels)
_request_seconds = cache(_REQUEST_SECONDS.labels)
_verbs = cache(_VERBS.labels)
_verb_seconds = cache(_VERB_SECONDS.labels)
_this_thread = local()


class VerbOutcome(NamedTuple):
    """A verb that was run. `result` is `OK` or the code of the refusal, and `seconds` is None for a verb that waits."""

    verb: str
    door: str
    result: str
    seconds: float | None


def count_request(method: str, route: str, status: int, seconds: float | None) -> None:
    """Count a request. `seconds` is None for a stream, which ends when its client leaves."""
    _requests(method, route, status).inc()
    if seconds is not None:
        _request_seconds(route).observe(seconds)


def note_verb(outcome: VerbOutcome) -> None:
    """Count a verb, or keep its outcome if this thread collects them."""
    collected: list[VerbOutcome] | None = getattr(_this_thread, "collected", None)
    if collected is None:
        count_verb(outcome)
    else:
        collected.append(outcome)


def count_verb(outcome: VerbOutcome) -> None:
    verb, door, result, seconds = outcome
    _verbs(verb, door, result).inc()
    if seconds is not None:
        _verb_seconds(verb).observe(seconds)


@contextmanager
def collect_verbs() -> Iterator[list[VerbOutcome]]:
    """Collect the verbs that this thread runs, and count none of them: those of a batch may run again, and then its commit may fail."""
    _this_thread.collected = []
    try:
        yield _this_thread.collected
    finally:
        _this_thread.collected = None
