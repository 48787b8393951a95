"""Register the conductor's methods as RPC verbs, and the models of this package as wire types. Used by `conductor`.

`@remote_method(caller=…, access=…, mode=…)` is `@verb` for a method: with a remote store, the method runs on the server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, TypeVar

from pydantic import BaseModel

from postroom.core.rpc import wire
from postroom.core.verbs import VERBS, Verb, argument_names, call_observed, check_names
from postroom.tasks.a2a.models import (
    A2ATask,
    A2ATaskPage,
    Accepted,
    AnsweredSheet,
    Card,
    CardPage,
    Checkpoint,
    Job,
    JobPage,
    Sheet,
    UnappliedAnswer,
)
from postroom.tasks.a2a.rendering import Rendered

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
MODELS: tuple[type[BaseModel], ...] = (
    *(A2ATask, A2ATaskPage, Accepted, AnsweredSheet, Card, CardPage, Checkpoint, Job, JobPage, Sheet, UnappliedAnswer),
)
UNDECLARED = ("checkpoint", "keep_alive")  # context managers: the caller's block cannot run on the server


def _build_model(kind: type[BaseModel], fields: dict[str, Any]) -> BaseModel:
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in fields:
            raise KeyError(name)
    return kind.model_validate(fields)


def _build_rendered(fields: dict[str, Any]) -> Rendered:
    return Rendered(*(fields[name] for name in Rendered._fields))


for _kind in MODELS:
    wire.register_type(_kind, lambda model: model.model_dump(mode="json"), partial(_build_model, _kind))
wire.register_type(Rendered, Rendered._asdict, _build_rendered)


def remote_method(*, caller: str, mode: str, access: str | None = None) -> Callable[[F], F]:
    """Declare a method as a verb. `remote_methods` registers it when the class is complete."""

    def declare(function: F) -> F:
        function.__verb__ = {"caller": caller, "access": access, "mode": mode}  # type: ignore[attr-defined]
        return function

    return declare


def remote_methods(conductor: C) -> C:
    """Register every public method of a class as a verb. A method without a declaration raises `AttributeError` here, at import."""
    for name, function in list(vars(conductor).items()):
        if callable(function) and not name.startswith("_") and name not in UNDECLARED:
            setattr(conductor, name, _make_verb(conductor, function, function.__verb__))
    return conductor


def _make_verb(conductor: type, function: Callable[..., Any], declaration: dict[str, Any]) -> Callable[..., Any]:
    name, names = f"tasks.{function.__name__}", argument_names(function)

    def run_method(self: Any, *args: Any, **named: Any) -> Any:
        if self._store.is_remote:
            check_names(name, names, named)
            return self._store.call(name, args, named)
        return function(self, *args, **named)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        return call_observed(name, declaration["mode"], lambda: run_method(self, *args, **named))

    def run(store: Any, *args: Any, **named: Any) -> Any:
        return function(conductor(store), *args, **named)

    update_wrapper(call, function)
    update_wrapper(run, function)
    VERBS[name] = Verb(name, run, **declaration)
    return call
