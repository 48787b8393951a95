"""Tables and queries: the columns of a table, and the record type of the rows of a statement. The statement modules use them."""

from __future__ import annotations

import sys

NEWEST = {"after_at": "~", "after_id": ""}  # the binds of the first page of threads: the text sorts behind every time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Generic, TypeVar

    T_co = TypeVar("T_co", covariant=True)

    class Query(str, Generic[T_co]):
        """A statement that returns rows. `make` takes the columns of one row and returns its record."""

        make: Callable[..., T_co]

        def __new__(cls, text: str, make: Callable[..., T_co]) -> Query[T_co]: ...

else:

    class Query(str):
        """A statement that returns rows. `make` takes the columns of one row and returns its record."""

        __slots__ = ("make",)

        def __new__(cls, text, make):
            query = str.__new__(cls, text)
            query.make = make
            return query


SCHEMA_VERSION = 18  # of a store, on both engines: the number of the newest script


class Table:
    """The one declaration of a table: its name, its columns, and how many of the first columns are its primary key.

    The columns of a SELECT, an INSERT and a copy come from here. A test compares every declaration with the schema of each engine.
    """

    def __init__(self, name: str, columns: tuple[str, ...], *, key_columns: int = 1) -> None:
        self.name = name
        self.columns = columns
        self.key = columns[:key_columns]
        self.column_list = ", ".join(columns)

    def column_list_as(self, alias: str) -> str:
        """Return every column, for a SELECT in which the table has an alias."""
        return f"{alias}.{f', {alias}.'.join(self.columns)}"

    def insert_statement(self) -> str:
        """Return an INSERT of one row that binds every column by its name."""
        return f"INSERT INTO {self.name} ({self.column_list}) VALUES (:{', :'.join(self.columns)})"

    def upsert_statement(self) -> str:
        """Return an INSERT of one row that replaces the row with the same key."""
        rest = self.columns[len(self.key) :]
        action = f"UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}" if rest else "NOTHING"
        return f"{self.insert_statement()} ON CONFLICT ({', '.join(self.key)}) DO {action}"


def single_value(column: Any) -> Any:
    """Return the value of a row with one column: the `make` of such a query."""
    return column


def row_values(*columns: Any) -> tuple[Any, ...]:
    """Return the values of a row as they are: the `make` of a query of a few columns."""
    return columns


# The room of a statement, by the first word of its name. Every other statement belongs to the work room, which has events and agents.
_ROOM_OF = {
    **dict.fromkeys(("mailbox", "mailboxes", "delivery", "deliveries", "pair", "mail", "alias", "aliases"), "mail"),
    **dict.fromkeys(("task", "tasks", "job", "jobs", "skill", "skills"), "tasks"),
    **dict.fromkeys(("workspace", "workspaces", "entry", "entries", "text", "texts", "gone", "words"), "people"),
    **dict.fromkeys(("ask", "asks", "reply", "replies", "pass", "passes", "cursor", "handover", "handovers"), "people"),
    **dict.fromkeys(("conversation", "conversations", "route", "routes"), "people"),
    **dict.fromkeys(("queue", "queues"), "watched queues"),
    **dict.fromkeys(("prune", "removed", "setting"), "retention"),
    **dict.fromkeys(("channel", "channels", "alert", "alerts"), "channels"),
}


def make_statement_finder(catalogue: dict[str, Any], modules: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for the catalogue of an engine. `modules` has the module of each room's statements.

    A command uses the statements of one or two rooms. So a module is imported when one of its statements is first used.
    """

    def find_statement(name: str) -> Any:
        module = modules[_ROOM_OF.get(name.partition("_")[0], "work")]
        __import__(module)  # also if it is in `sys.modules`: another thread may be in the middle of importing it
        statement = vars(sys.modules[module]).get(name)
        if not isinstance(statement, str):
            raise AttributeError(f"no statement is called {name}")
        catalogue[name] = statement
        return statement

    return find_statement
