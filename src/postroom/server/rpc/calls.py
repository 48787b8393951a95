"""Calls of verbs: the one way from every door to a verb. A call checks its caller inside the transactions of the verb."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from postroom.core import tracing
from postroom.core.errors import Refusal
from postroom.core.verbs import VERBS, WAIT, Verb
from postroom.server.http.auth import Caller, verify_token
from postroom.server.observability import metrics
from postroom.server.rpc import permissions
from postroom.store.interface import Store, Transaction

T = TypeVar("T")


class Signature(NamedTuple):
    """The arguments of a verb, after the store."""

    positional: tuple[str, ...]
    names: frozenset[str]
    required: frozenset[str]
    optional: frozenset[str]  # their default is None
    texts: frozenset[str]  # they are text, or None if they are optional


@cache
def signature_of(verb: Verb) -> Signature:
    """Return the arguments of a verb. Cached, because `inspect.signature` costs more than the verb."""
    parameters = list(inspect.signature(verb.function).parameters.values())[1:]
    return Signature(
        tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD),
        frozenset(one.name for one in parameters),
        frozenset(one.name for one in parameters if one.default is one.empty),
        frozenset(one.name for one in parameters if one.default is None),
        frozenset(one.name for one in parameters if one.annotation in ("str", "str | None")),
    )


class VerbCall:
    """One call of a verb by one caller. Called with a store, it runs the verb there and returns what the caller may see of the result.

    A call that is not for this kind of caller is refused with `Forbidden` when it is made. The rest of the permission check, and that of
    the caller's token, run in the verb's own transactions, so that on SQLite nothing changes between the check and the write.
    """

    __slots__ = ("arguments", "caller", "door", "traceparent", "verb")

    def __init__(self, caller: Caller, verb: Verb, arguments: dict[str, Any]) -> None:
        permissions.complete_arguments(caller, verb, signature_of(verb).optional, arguments)
        permissions.check_caller(caller, verb, arguments)
        self.caller = caller
        self.verb = verb
        self.arguments = arguments
        self.door = permissions.door_of(caller, verb, arguments)
        self.traceparent = tracing.current_traceparent()  # of the request: the verb may run in another thread

    def __call__(self, store: Store, arguments: dict[str, Any] | None = None) -> Any:
        """Run the verb. `arguments` replace those of the call, for the turns of a wait."""
        began, outcome = perf_counter(), metrics.ERROR
        try:
            guarded = GuardedStore(store, self.check)
            result = self._run_traced(guarded, self.arguments if arguments is None else arguments)
            if not guarded.passed:  # the verb needed no transaction
                self.check_store(store)
            outcome = metrics.OK
        except Refusal as refusal:
            outcome = refusal.code
            raise
        finally:
            seconds = None if self.verb.mode == WAIT else perf_counter() - began
            metrics.note_verb(metrics.VerbOutcome(self.verb.name, self.door, outcome, seconds))
        return permissions.restrict_result(self.caller, result)

    def _run_traced(self, store: GuardedStore, arguments: dict[str, Any]) -> Any:
        """Run the verb as a part of the trace of its request."""
        run = partial(self.verb.function, store, **arguments)
        with tracing.use_traceparent(self.traceparent):
            return tracing.call_in_span(f"postroom {self.verb.name}", run) if tracing.is_recording() else run()

    def check(self, tx: Transaction) -> None:
        """Refuse the call if the caller's token is void, or if it may not touch what the arguments name."""
        permissions.prefetch(tx, self.caller, self.verb, self.arguments)
        verify_token(tx, self.caller)
        permissions.authorise(tx, self.caller, self.verb, self.arguments)

    def check_store(self, store: Store) -> None:
        """Run `check` in a transaction of its own. A wait does so before each turn."""
        with store.read() as tx:
            self.check(tx)


def make_call(caller: Caller, verb: Callable[..., Any], **arguments: Any) -> VerbCall:
    """Return the call of a verb that is given as a function of a room."""
    return VerbCall(caller, verb.verb, arguments)  # type: ignore[attr-defined] # set by `core.verbs.verb`


def make_task_call(caller: Caller, name: str, **arguments: Any) -> VerbCall:
    """Return the call of a verb of the conductor. The first one loads the conductor, which imports pydantic and registers its verbs."""
    from postroom.tasks import conductor

    assert conductor
    return VerbCall(caller, VERBS[f"tasks.{name}"], arguments)


def verify_in_write(
    caller: Caller, write: Callable[[Store], T], prefetch: Callable[[Transaction], None] | None = None
) -> Callable[[Store], T]:
    """Return a write that verifies the caller's token in its own transactions, for handlers that call no verb.

    `prefetch` announces what the write reads first, so that it comes with the answer about the token.
    """

    def check(tx: Transaction) -> None:
        if prefetch is not None:
            prefetch(tx)
        verify_token(tx, caller)

    return lambda store: write(cast(Store, GuardedStore(store, check)))


class GuardedStore:
    """A store for one call. Its first transaction, and each that writes, runs `check` before the verb does anything.

    The transactions of a batch are one. There the first check is enough: on SQLite nothing changes between them, and on PostgreSQL the
    token is looked up once more with the COMMIT.
    """

    def __init__(self, store: Store, check: Callable[[Transaction], None]) -> None:
        self._store = store
        self.check = check
        self.passed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self) -> Any:
        return self._store.read() if self.passed else _GuardedTransaction(self, self._store.read())

    def write(self) -> Any:
        is_checked = self.passed and self._store.is_one_transaction
        return self._store.write() if is_checked else _GuardedTransaction(self, self._store.write())

    def with_door(self, door: str) -> GuardedStore:
        other = GuardedStore(self._store.with_door(door), self.check)
        other.passed = self.passed
        return other


class _GuardedTransaction:
    """A transaction that begins with the check of its store. If it fails, the next one is checked again."""

    def __init__(self, guarded: GuardedStore, transaction: Any) -> None:
        self._guarded = guarded
        self._transaction = transaction

    def __enter__(self) -> Any:
        tx = self._transaction.__enter__()
        try:
            self._guarded.check(tx)
        except BaseException:
            self._transaction.__exit__(*sys.exc_info())
            raise
        self._guarded.passed = True
        return tx

    def __exit__(self, *exc: Any) -> Any:
        if exc[0] is not None:
            self._guarded.passed = False
        return self._transaction.__exit__(*exc)
