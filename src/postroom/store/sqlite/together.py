"""Many verbs, one transaction: requests that arrive together share a COMMIT, and each is still all or nothing.

A savepoint for each would cost as much as the verb. So a batch runs without; if a verb refuses after it has written, which is rare,
the whole is undone, and has to be run again with `careful` on.
"""

from __future__ import annotations

from postroom.core.errors import Contended, InvalidState
from postroom.store.sqlite.engine import Transaction, WriteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Self

    from postroom.store.sqlite.engine import SqliteStore


class Spoiled(Contended):
    """A verb of the batch refused after it had written: nothing of the batch was kept."""


class Batch:
    """A store inside a transaction that is open already. Nothing in it counts before the whole has ended."""

    elsewhere = False
    data = None  # files beside the store follow what is on disk, and nothing is yet

    def __init__(self, store: SqliteStore, *, careful: bool) -> None:
        self._store = store
        self._outer = WriteTransaction(store)
        self._careful = careful
        self._spoiled: list[bool] = []
        self.place = store.place
        self.door = store.door

    def read(self) -> Nested:
        return Nested(self._store, self._outer, self.door, None if self._careful else self._spoiled)

    write = read

    def through(self, door: str) -> Batch:
        other = object.__new__(Batch)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def together(self, *, careful: bool = False) -> NoReturn:
        raise InvalidState("a batch cannot hold another", hint="Run the verbs in one of them.")

    def watch(self, *topics: str) -> NoReturn:
        raise InvalidState("nobody can wait inside a transaction", hint="Wait on the store itself.")

    def close(self) -> None:
        """The store stays open."""

    def __enter__(self) -> Self:
        self._outer.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None and self._spoiled:
            spoiled = Spoiled("a verb of the batch refused after it had written", hint="Run the batch again, carefully.")
            self._outer.__exit__(Spoiled, spoiled, None)
            raise spoiled
        self._outer.__exit__(*exc)


class Nested(Transaction):
    """One verb's part of a batch. `spoiled` is None where it has a savepoint, and is undone by itself."""

    def __init__(self, store: SqliteStore, outer: WriteTransaction, door: str, spoiled: list[bool] | None) -> None:
        super().__init__(store)
        self.door = door
        self._outer = outer
        self._spoiled = spoiled
        self._changes = 0

    def _open(self) -> None:
        if self._spoiled is None:
            self._connection.execute("SAVEPOINT verb")
        self._changes = self._connection.total_changes

    def _close(self, *, commit: bool) -> None:
        if commit:
            self._outer._topics.update(self._topics)
        if not self._connection.in_transaction:
            return  # a full disk has undone the whole already
        if self._spoiled is None:
            self._connection.execute("RELEASE verb" if commit else "ROLLBACK TO verb")
            if not commit:
                self._connection.execute("RELEASE verb")
        elif not commit and self._connection.total_changes != self._changes:
            self._spoiled.append(True)
