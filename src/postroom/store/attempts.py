"""Trying again: what a race undid is done over, a bounded number of times, before anybody hears of it."""

from __future__ import annotations

from time import sleep

from postroom.core.errors import Contended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

ATTEMPTS = 8
PAUSE = 0.005


def retried(verb: Callable[P, T]) -> Callable[P, T]:
    """A verb that is one transaction: when the store says that another one was in the way, it is run again."""

    def attempt(*args: P.args, **named: P.kwargs) -> T:
        for tried in range(1, ATTEMPTS):
            try:
                return verb(*args, **named)
            except Contended:
                sleep(PAUSE * tried)
        return verb(*args, **named)

    attempt.__name__, attempt.__doc__, attempt.__module__ = verb.__name__, verb.__doc__, verb.__module__
    attempt.__wrapped__ = verb  # type: ignore[attr-defined]
    return attempt
