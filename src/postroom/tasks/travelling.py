"""Travelling: the conductor's methods as verbs, so that they can be said where the store is; and its models on the wire."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, TypeVar

from pydantic import BaseModel

from postroom.core import wire
from postroom.core.verbs import VERBS
from postroom.tasks.models import A2ATask, Accepted, Card, Job, Sheet
from postroom.tasks.rendering import Rendered

C = TypeVar("C", bound=type)
STAYS = ("checkpoint",)  # a block of code, which is here


def _again(kind: type[BaseModel], items: list[Any]) -> BaseModel:
    return kind.model_validate(items[0])


MODELS: tuple[type[BaseModel], ...] = (A2ATask, Accepted, Card, Job, Sheet)

for _kind in MODELS:
    wire.teach(f"tasks.{_kind.__name__}", _kind, lambda model: [model.model_dump(mode="json")], partial(_again, _kind))
wire.teach("tasks.Rendered", Rendered, list, lambda items: Rendered(*items))


def travelling(conductor: C) -> C:
    """Make every method of a conductor a verb: with a store that is elsewhere, it is said there."""
    for name, method in list(vars(conductor).items()):
        if callable(method) and not name.startswith("_") and name not in STAYS:
            setattr(conductor, name, _verb(conductor, method))
    return conductor


def _verb(conductor: type, method: Callable[..., Any]) -> Callable[..., Any]:
    name = f"tasks.{method.__name__}"

    def said(self: Any, *args: Any, **named: Any) -> Any:
        if self._store.elsewhere:
            return self._store.say(name, args, named)
        return method(self, *args, **named)

    def here(store: Any, *args: Any, **named: Any) -> Any:
        return method(conductor(store), *args, **named)

    update_wrapper(said, method)
    update_wrapper(here, method)
    VERBS[name] = here
    return said
