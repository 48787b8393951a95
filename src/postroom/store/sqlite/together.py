"""Many verbs, one transaction: requests that arrive together share a COMMIT, and each is still all or nothing."""

from __future__ import annotations

from postroom.core.errors import InvalidState
from postroom.store.sqlite.engine import Transaction, WriteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Self

    from postroom.store.sqlite.engine import SqliteStore


class Batch:
    """A store inside a transaction that is open already. Nothing in it counts before the whole has ended."""

    data = None  # files beside the store follow what is on disk, and nothing is yet

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._outer = WriteTransaction(store)
        self.place = store.place
        self.door = store.door

    def read(self) -> Nested:
        return Nested(self._store, self._outer, self.door)

    write = read

    def through(self, door: str) -> Batch:
        other = object.__new__(Batch)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def together(self) -> NoReturn:
        raise InvalidState("a batch cannot hold another", hint="Run the verbs in one of them.")

    def watch(self, *topics: str) -> NoReturn:
        raise InvalidState("nobody can wait inside a transaction", hint="Wait on the store itself.")

    def close(self) -> None:
        """The store stays open."""

    def __enter__(self) -> Self:
        self._outer.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._outer.__exit__(*exc)


class Nested(Transaction):
    """One verb's part of a batch: undone by itself when the verb refuses."""

    def __init__(self, store: SqliteStore, outer: WriteTransaction, door: str) -> None:
        super().__init__(store)
        self.door = door
        self._outer = outer

    def _open(self) -> None:
        self._connection.execute("SAVEPOINT verb")

    def _close(self, *, commit: bool) -> None:
        if commit:
            self._outer._topics.update(self._topics)
        elif self._connection.in_transaction:  # a full disk has undone the whole already
            self._connection.execute("ROLLBACK TO verb")
        if self._connection.in_transaction:
            self._connection.execute("RELEASE verb")
