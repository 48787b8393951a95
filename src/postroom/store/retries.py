"""Retries of a verb that lost a race with another transaction. The rooms decorate their verbs with it."""

from __future__ import annotations

from time import sleep

from postroom.core.errors import Contended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

MAX_ATTEMPTS = 8
RETRY_PAUSE_SECONDS = 0.005  # after the first attempt; after the nth, n times as long


def retry_on_contention(verb: Callable[P, T]) -> Callable[P, T]:
    """Return a verb that runs again, up to `MAX_ATTEMPTS` times, while it raises `Contended`. The verb must be one transaction."""

    def run_with_retries(*args: P.args, **named: P.kwargs) -> T:
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                return verb(*args, **named)
            except Contended:
                sleep(RETRY_PAUSE_SECONDS * attempt)
        return verb(*args, **named)

    run_with_retries.__name__ = verb.__name__
    run_with_retries.__doc__ = verb.__doc__
    run_with_retries.__module__ = verb.__module__
    run_with_retries.__wrapped__ = verb  # type: ignore[attr-defined]
    return run_with_retries
