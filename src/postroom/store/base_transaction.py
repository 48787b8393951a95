"""The part of a transaction that engines share: records of rows and, on SQLite, the store's mutex."""

from __future__ import annotations

from postroom.store.forks import forked_inside_transaction
from postroom.store.tables import Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, TypeVar, overload

    from postroom.core.errors import Refusal

    T = TypeVar("T")


class BaseTransaction:
    """A transaction. It holds the store's mutex, so that threads which share a connection take turns; PostgreSQL overrides that."""

    _mutex: Any
    store: Any

    @property
    def checked_names(self) -> set[str]:
        return self.store.checked_names  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        self._mutex.acquire()
        try:
            self._begin_transaction()
        except BaseException:
            self._mutex.release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._check_same_process()
            self._end_transaction(commit=exc[0] is None)
        finally:
            self._mutex.release()

    def was_just_seen(self, agent: str) -> bool:
        """Return whether the store knows already that an agent acts now."""
        return False

    def require_until_commit(self, otherwise: Refusal, query: str, **binds: object) -> None:
        """Do nothing: in a read, or where nobody else writes, the row stays."""

    def waive_requirement(self, query: str, **binds: object) -> None:
        """Do nothing: there are no requirements."""

    # Each engine implements `_fetch_one` and `_fetch_all`: they run a statement and return the first row or None, or all rows.
    if TYPE_CHECKING:  # the signatures of `interface.Transaction`

        @overload
        def fetch_one(self, statement: Query[T], **binds: object) -> T | None: ...
        @overload
        def fetch_one(self, statement: str, **binds: object) -> Any: ...
        def fetch_one(self, statement: str, **binds: object) -> Any: ...

        @overload
        def fetch_all(self, statement: Query[T], **binds: object) -> list[T]: ...
        @overload
        def fetch_all(self, statement: str, **binds: object) -> list[Any]: ...
        def fetch_all(self, statement: str, **binds: object) -> list[Any]: ...

    else:

        def fetch_one(self, statement, **binds):
            row = self._fetch_one(statement, binds)
            return statement.make(*row) if row is not None and type(statement) is Query else row

        def fetch_all(self, statement, **binds):
            rows = self._fetch_all(statement, binds)
            if type(statement) is not Query:
                return rows
            make = statement.make
            return [make(*row) for row in rows]

    def _check_same_process(self) -> None:
        """Refuse a transaction that began before a fork. A child replaces the mutex of each store."""
        if self._mutex is not self.store.mutex:
            raise forked_inside_transaction()

    def _begin_transaction(self) -> None:
        """BEGIN. Each engine implements it."""

    def _end_transaction(self, *, commit: bool) -> None:
        """COMMIT or ROLLBACK. Each engine implements it."""
