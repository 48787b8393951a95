"""Batches: requests that arrive together share one transaction and one COMMIT, and each verb is still all or nothing.

A savepoint for each verb would cost as much as the verb. So a batch first runs without savepoints. If a verb refuses after it has
written, which is rare, the whole batch is rolled back, and the caller runs it again with `isolate_verbs`.
"""

from __future__ import annotations

from postroom.core.errors import Contended, InvalidState
from postroom.store.sqlite.engine import SqliteTransaction, SqliteWriteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Self

    from postroom.store.sqlite.engine import SqliteStore


class RetryWithSavepoints(Contended):
    """A verb of the batch refused after it had written. Nothing of the batch was kept."""


class BatchStore:
    """A store whose transactions are parts of one outer transaction. Nothing is committed before the batch ends."""

    is_remote = False
    is_one_transaction = True
    replacements = 0
    data_folder = None  # the files beside the store mirror committed rows, and a batch has none yet

    def __init__(self, store: SqliteStore, *, isolate_verbs: bool, committed_topics: set[str] | None = None) -> None:
        self._store = store
        self._outer = SqliteWriteTransaction(store)
        self._isolate_verbs = isolate_verbs
        self._spoiled: list[bool] = []
        self._committed_topics = committed_topics
        self.location = store.location
        self.door = store.door

    def read(self) -> NestedSqliteTransaction:
        return NestedSqliteTransaction(self._store, self._outer, self.door, None if self._isolate_verbs else self._spoiled)

    write = read

    def with_door(self, door: str) -> BatchStore:
        other = object.__new__(BatchStore)
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
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None and self._spoiled:
            spoiled = RetryWithSavepoints("a verb of the batch refused after it had written", hint="Run the batch again, with savepoints.")
            self._outer.__exit__(RetryWithSavepoints, spoiled, None)
            raise spoiled
        self._outer.__exit__(*exc)
        if exc[0] is None and self._committed_topics is not None:
            self._committed_topics.update(self._outer._topics)


class NestedSqliteTransaction(SqliteTransaction):
    """The part of a batch that belongs to one verb.

    With savepoints, `spoiled` is None and a failed verb is rolled back alone. Without savepoints, a verb that fails after a write
    appends to `spoiled`, and the whole batch has to run again.
    """

    def __init__(self, store: SqliteStore, outer: SqliteWriteTransaction, door: str, spoiled: list[bool] | None) -> None:
        super().__init__(store)
        self.door = door
        self._outer = outer
        self._spoiled = spoiled
        self._changes = 0

    def _begin_transaction(self) -> None:
        self._connection = self._outer._connection
        if self._spoiled is None:
            self._connection.execute("SAVEPOINT verb")
        self._changes = self._connection.total_changes

    def _end_transaction(self, *, commit: bool) -> None:
        if commit:
            self._outer._topics.update(self._topics)
        if not self._connection.in_transaction:
            return  # a full disk has already rolled back the whole batch
        if self._spoiled is None:
            self._connection.execute("RELEASE verb" if commit else "ROLLBACK TO verb")
            if not commit:
                self._connection.execute("RELEASE verb")
        elif not commit and self._connection.total_changes != self._changes:
            self._spoiled.append(True)
