"""The loop of every blocking verb: read the store, wait for a notification, read again.

The rows decide whether there is something. A notification only shortens the wait.
"""

from __future__ import annotations

from time import monotonic

from postroom.core.errors import StorageFailure, StoreBusy, StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol, TypeVar

    from postroom.store.interface import Store

    T = TypeVar("T")

    class PeriodicTask(Protocol):
        """Work that a waiter does while it waits, such as a heartbeat."""

        def seconds_until_due(self) -> float | None:
            """Return the seconds until it is due, or None if it never is."""

        def run(self) -> None:
            """Do the work if it is due."""


RETRY_WHEN_UNREACHABLE_SECONDS = 1.0


def wait_until(
    store: Store,
    find_result: Callable[[], T | None],
    timeout_seconds: float,
    *,
    topics: Iterable[str],
    periodic: PeriodicTask | None = None,
    uses_cursor: bool = False,
) -> T | None:
    """Call `find_result` until it returns a result, and return that. Return None after `timeout_seconds` (0: no limit).

    The watch starts before the first look, so that no notification is missed. A waiter survives a restart of its server. If the store
    was unreachable at the last look, raise the error: do not report a timeout. `uses_cursor` declares that `find_result` reads after an
    event id. Such a wait ends with `StorageFailure` if another database replaces the store, because the id means nothing there.
    """
    replacements = store.replacements
    deadline = monotonic() + timeout_seconds if timeout_seconds else None
    with store.watch(*topics) as watch:
        while True:
            result, pause_seconds, store_error = None, None, None
            try:
                result = find_result()
                if result is None and periodic is not None:
                    periodic.run()
                    pause_seconds = periodic.seconds_until_due()
            except (StoreUnreachable, StoreBusy) as error:
                pause_seconds, store_error = RETRY_WHEN_UNREACHABLE_SECONDS, error
            if uses_cursor and store.replacements != replacements:
                raise StorageFailure(
                    f"{store.location} was replaced by another store during the wait", hint="Start again, without an event id from before."
                )
            if result is not None:
                return result
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                if store_error is not None:
                    raise store_error
                return None
            watch.wait(_shorter_time(left, pause_seconds))


def _shorter_time(first_seconds: float | None, second_seconds: float | None) -> float | None:
    """Return the shorter of two durations. None stands for no limit."""
    if first_seconds is None:
        return second_seconds
    return first_seconds if second_seconds is None else min(first_seconds, second_seconds)
