"""Verbs: what a room offers, each a function whose first argument is a store.

Given a store that is elsewhere, a verb is said there, and its answer or its refusal comes back: the same call, for file and server alike.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

VERBS: dict[str, Callable[..., Any]] = {}  # by room and name, once their modules are loaded


def verb(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function a verb of its room."""
    name = f"{function.__module__.split('.')[1]}.{function.__name__}"
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    names = inner.__code__.co_varnames[1 : inner.__code__.co_argcount]

    def said(store: Any, *args: Any, **named: Any) -> Any:
        if store.elsewhere:
            return store.say(name, args[len(names) :], {**dict(zip(names, args)), **named})
        return function(store, *args, **named)

    said.__name__, said.__doc__, said.__module__ = function.__name__, function.__doc__, function.__module__
    said.__wrapped__ = function  # type: ignore[attr-defined]
    VERBS[name] = said
    return said  # type: ignore[return-value]
