"""The interface of an engine. Rooms use only these protocols, and the folder of each engine implements them.

A verb opens one transaction, `with store.write() as tx` or `with store.read() as tx`, and runs statements of the
catalogue, `tx.sql.<name>`, with named binds. Nothing else reaches the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, TypeVar, overload

from postroom.core.errors import Refusal
from postroom.store.catalogue import Catalogue
from postroom.store.tables import Query

T = TypeVar("T")

Row = tuple[Any, ...]


class Transaction(Protocol):
    """One transaction: all of it or nothing."""

    door: str

    @property
    def checked_names(self) -> set[str]:
        """The names of which the store knows that they may act: `agents.check_acting_name` keeps them."""

    def was_just_seen(self, agent: str) -> bool:
        """Return whether the store knows already that an agent acts now, so that the transaction need not write it."""

    candidate_limit: int
    """How many candidates a caller that takes a thread reads, because others may be taking the first ones. 1 if writers run alone."""

    @property
    def sql(self) -> Catalogue: ...

    def lock_thread(self, thread_id: str, *, wait: bool = True) -> bool:
        """Keep other transactions from changing a thread until this one ends, and return True.

        Without `wait`, return False at once if another transaction holds the lock.
        """

    def now(self) -> int:
        """Return the time of this transaction in microseconds since 1970. It is the same at every call."""

    def new_id(self, prefix: str) -> str:
        """Return a new id that begins with `prefix`."""

    @overload
    def fetch_one(self, statement: Query[T], **binds: object) -> T | None: ...

    @overload
    def fetch_one(self, statement: str, **binds: object) -> Any:
        """Return the first row of a query as its record, or None. A plain `str`, which the store itself and tests use, gives a tuple."""

    @overload
    def fetch_all(self, statement: Query[T], **binds: object) -> list[T]: ...

    @overload
    def fetch_all(self, statement: str, **binds: object) -> list[Any]:
        """Return every row, as `fetch_one` does."""

    def execute(self, statement: str, **binds: object) -> None:
        """Run a write. A failure fails the transaction: at once, at a later statement, or at the end."""

    def execute_exactly_one(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        """Run a write that must change exactly one row. Otherwise the transaction fails with the refusal, at once or later."""

    def require_until_commit(self, otherwise: Refusal, query: str, **binds: object) -> None:
        """Fail the transaction with the refusal unless the query, which has found a row, still finds one when COMMIT is sent.

        An engine on which nobody else writes during a write transaction does not look again.
        """

    def waive_requirement(self, query: str, **binds: object) -> None:
        """Drop a requirement, because this transaction itself deletes the row."""

    def insert_event(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        """Insert into the event log and return the id of the event. Waiters that watch one of its topics wake after the COMMIT."""

    def send_event(self, statement: str, topics: Iterable[str], **binds: object) -> int | None:
        """Do as `insert_event`, for a caller that does not need the id. Returns the id if it is known at once."""

    def prefetch(self, statement: str, **binds: object) -> None:
        """Announce a query that the transaction is about to run with these binds, behind the one that it runs now.

        An engine may run both in one round trip. The result is the same: the announced query sees what the one before has locked.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Watch(Protocol):
    """A wait for events. It may return without an event, or seconds late if a notification is lost. The caller reads the store again."""

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        """Return when something may have changed, when `seconds` are over, or when descriptor `wake` is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Store(Protocol):
    """An open store. Threads may share one. A forked child may use it too, but not a transaction that began before the fork."""

    location: str
    is_remote: bool
    """Whether it is behind a server. Verbs then run on the server, and `read` and `write` refuse."""
    is_one_transaction: bool
    """Whether it is a batch, whose transactions are parts of one. On PostgreSQL, others may commit between them."""

    @property
    def replacements(self) -> int:
        """How often another database was found at the location since the store was opened. Cursors of events end with each."""

    @property
    def data_folder(self) -> str | None:
        """The folder of the files that are kept beside the store, or None."""

    def with_door(self, door: str) -> Store:
        """Return the same store with another `door` to record."""

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[Store]:
        """Run many verbs in one transaction. Each verb is all or nothing, and all of them are on disk when the batch ends.

        The topics of the committed events are added to `committed_topics`.
        Raises `Contended`, with nothing kept, if a verb refused after it had written. Then run all of them again with `isolate_verbs`,
        which costs more.
        """

    def read(self) -> Transaction: ...

    def write(self) -> Transaction: ...

    def watch(self, *topics: str) -> Watch:
        """Return a watch for events of any of these topics. Without topics, it watches for all events."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None:
        """Close the store."""
