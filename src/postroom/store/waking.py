"""Sleeping until something is there: look, wait for the bell, look again. The store is the truth, the bell only makes it fast."""

from __future__ import annotations

from time import monotonic

from postroom.core.errors import StoreAway, StoreBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol, TypeVar

    from postroom.store.port import Store

    T = TypeVar("T")

    class Chore(Protocol):
        """Something that a waiter does meanwhile."""

        def due(self) -> float | None:
            """Seconds until it must be done, if ever."""

        def perform(self) -> None:
            """Do it, if it is due."""


LOOK_WHEN_AWAY = 1.0


def until(
    store: Store, look: Callable[[], T | None], timeout_seconds: float, *, topics: Iterable[str], chore: Chore | None = None
) -> T | None:
    """Look until something is found or the time is over. The watch is set before the first look, so no bell is missed."""
    deadline = monotonic() + timeout_seconds if timeout_seconds else None
    with store.watch(*topics) as bell:
        while True:
            found, due, trouble = None, None, None
            try:
                found = look()
                if found is None and chore is not None:
                    chore.perform()
                    due = chore.due()
            except (StoreAway, StoreBusy) as refused:  # a waiter outlives its server's restart
                due, trouble = LOOK_WHEN_AWAY, refused
            if found is not None:
                return found
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                if trouble is not None:
                    raise trouble  # who could not look does not say that nothing came
                return None
            bell.wait(due if left is None else left if due is None else min(left, due))
