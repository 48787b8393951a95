"""Batches: requests that arrive together share one transaction and one COMMIT, and each verb is still all or nothing.

If a verb of the batch fails after it has written, or waits too long for a lock that another batch holds, the whole batch is rolled back,
and the caller runs it again with `isolate_verbs`: each verb in a transaction of its own.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Self

from postroom.core import clock
from postroom.core.errors import Contended, InvalidState, Refusal, StoreBusy
from postroom.store.postgres.engine import NOW_AND_LISTENING, PostgresTransaction, PostgresWriteTransaction, guard_row_count

if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.store.postgres.connections.pipelined_connection import Reply
    from postroom.store.postgres.driver import Error
    from postroom.store.postgres.engine import PostgresStore

WRITES = ("INSERT", "UPDATE", "DELETE", guard_row_count("").split()[0])
LOCK_WAIT = "500ms"  # a deadlock of two batches would last until the server looks for it, by default after a second


class _BatchState:
    """Whether a batch has failed, and the refusal that its remaining verbs then get. One object for all transactions of a batch."""

    def __init__(self) -> None:
        self.has_failed = False
        # Not `Contended`: the verb must not try again in a transaction that is rolled back anyway.
        self.refusal = InvalidState("the batch of this verb has failed", hint="The batch runs again.")


class BatchTransaction(PostgresWriteTransaction):
    """The transaction that the verbs of a batch share."""

    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout TO '{LOCK_WAIT}'; {NOW_AND_LISTENING}"


class PostgresBatch:
    """A store whose transactions are parts of one outer transaction. Nothing is committed before the batch ends."""

    is_remote = False
    is_one_transaction = True
    replacements = 0
    data_folder = None  # the files beside the store mirror committed rows, and a batch has none yet

    def __init__(self, store: PostgresStore, *, committed_topics: set[str] | None) -> None:
        self._isolates_verbs = store.isolates_verbs
        if self._isolates_verbs:
            self._outer: PostgresWriteTransaction = PostgresWriteTransaction(store)
        else:
            store = store.with_door(store.door)
            store.committed_topics = committed_topics
            self._outer = BatchTransaction(store)
        self._state = _BatchState()
        self.location = store.location
        self.door = store.door

    def read(self) -> NestedPostgresTransaction:
        return NestedPostgresTransaction(self._outer, self.door, self._state, self._began)

    write = read

    def with_door(self, door: str) -> PostgresBatch:
        other = object.__new__(PostgresBatch)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> NoReturn:
        raise InvalidState("a batch cannot contain another batch", hint="Run all verbs in one batch.")

    def watch(self, *topics: str) -> NoReturn:
        raise InvalidState("a batch cannot wait for events", hint="Wait on the store itself.")

    def close(self) -> None:
        """Do nothing: the store stays open."""

    def __enter__(self) -> Self:
        self._outer.__enter__()
        try:
            self._outer.now()
        except BaseException:
            self._outer.__exit__(*sys.exc_info())
            raise
        self._began = monotonic()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._state.has_failed and (exc[0] is None or exc[1] is self._state.refusal):
            failed = Contended(
                "a verb of the batch failed after it had written", hint="Run the batch again, each verb in a transaction of its own."
            )
            self._outer.__exit__(Contended, failed, None)
            raise failed
        if self._isolates_verbs and isinstance(exc[1], Refusal) and not self._state.has_failed:
            exc = (None, None, None)  # what the verb had ended before it was refused is kept, as without a batch
        try:
            self._outer.__exit__(*exc)
        except Refusal as error:
            if self._isolates_verbs or (not isinstance(error, Contended | StoreBusy) and error is not self._outer.failed_guard):
                raise
            # A statement that was still on its way failed, and nobody knows of which verb.
            raise Contended(str(error), hint=error.hint) from None


class NestedPostgresTransaction(PostgresTransaction):
    """The part of a batch that belongs to one verb. If it fails after a write, or by an error of the server, so does the batch."""

    def __init__(self, outer: PostgresWriteTransaction, door: str, state: _BatchState, began: float) -> None:
        super().__init__(outer.store)
        self.door = door
        self._outer = outer
        self._state = state
        self._has_written = False
        self._now = outer.now() + int((monotonic() - began) * clock.MICROSECONDS_PER_SECOND)
        if outer.store.clock is not None:
            self._now = outer.store.clock()
        self._guards = outer._guards

    def __enter__(self) -> Self:
        if self._state.has_failed:
            raise self._state.refusal
        self._process = self._outer._process
        self._connection = self._outer._connection
        return self

    def __exit__(self, *exc: object) -> None:
        self._check_same_process()
        if exc[0] is None:
            self._outer._topics.update(self._topics)
            self._outer._seen_agents.update(self._seen_agents)
            self._outer._event_ids.extend(self._event_ids)
            self._outer._sent_events.extend(self._sent_events)
            self._outer._requirements.update(self._requirements)
        elif self._has_written:
            self._state.has_failed = True

    def _send_statement(self, statement: str, binds: dict[str, object]) -> Reply:
        self._has_written = self._has_written or statement.lstrip().startswith(WRITES)
        return super()._send_statement(statement, binds)

    def _map_error(self, error: Error) -> Refusal:
        self._state.has_failed = True  # an error ends the whole transaction
        return super()._map_error(error)
