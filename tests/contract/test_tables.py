"""Each table is declared once, and the declaration is the schema's: statements and copies come from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from postroom.core.records import Record
from postroom.queues.notifier import open_notifier
from postroom.queues.queue import open_queue
from postroom.queues.subscriptions import subscribe
from postroom.store.catalogue import Catalogue
from postroom.store.copying import TABLES
from postroom.store.interface import Store
from postroom.store.postgres import statements as postgres_statements
from postroom.store.sqlite import statements
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.queues import notifier_statements, queue_statements
from postroom.store.sqlite.queues.queue_databases import init_queue
from postroom.store.tables import Query, Table
from tests.contract.columns import columns_of


def declared(tables: tuple[Table, ...]) -> dict[str, set[str]]:
    return {table.name: set(table.columns) for table in tables}


def found(store: Store) -> dict[str, set[str]]:
    return {table: set(columns) for table, columns in columns_of(store).items()}


def test_every_table_and_column_of_the_schema_is_declared_and_no_other(store: Store) -> None:
    assert declared(TABLES) == found(store)


def test_no_table_is_declared_twice_and_no_column_either() -> None:
    assert len(TABLES) == len({table.name for table in TABLES})
    assert [table.name for table in TABLES if len(table.columns) != len(set(table.columns))] == []


def test_the_tables_of_a_queue_are_declared(tmp_path: Path) -> None:
    init_queue(str(tmp_path / "queue"))
    tables = (
        queue_statements.EVENTS,
        queue_statements.SUBSCRIPTION_TABLE,
        queue_statements.PROGRESS_TABLE,
        queue_statements.ENVIRONMENT_TABLE,
    )
    with open_queue(str(tmp_path / "queue")) as queue:
        subscribe(queue, "c", handler="true", environment={"KEY": "1"})
        assert declared(tables) == found(queue.file)


def test_the_tables_of_the_notifier_are_declared(tmp_path: Path) -> None:
    sql = notifier_statements
    tables = (sql.TASK_TABLE, sql.RUN_TABLE, sql.TIMER_TABLE, sql.SETTING_TABLE, sql.QUEUE_TABLE)
    with open_notifier(str(tmp_path)) as notifier:
        assert declared(tables) == found(notifier)


def test_the_columns_of_a_query_are_the_fields_of_its_record(sqlite_place: str) -> None:
    renamed = {"gone_find": ["ts", "entry_seq"], "entry_place": ["active_ts", "seq"]}
    wrong = {}
    with SqliteStore(sqlite_place) as store:
        for name, query in queries().items():
            if isinstance(query.make, type) and issubclass(query.make, Record):
                selected = [column[0] for column in store.connection.execute(query, _Binds()).description]
                needed = [field for field in query.make.__fields__ if field not in vars(query.make)]  # others have a default
                if len(needed) > len(selected) or selected != renamed.get(name, list(query.make.__fields__[: len(selected)])):
                    wrong[name] = selected
    assert wrong == {}


def queries() -> dict[str, Query[Any]]:
    """Every statement that returns rows."""
    return {name: getattr(statements, name) for name, kind in Catalogue.__annotations__.items() if kind.startswith("Query")}


def test_a_statement_is_a_query_if_and_only_if_the_catalogue_says_so() -> None:
    others = [name for name in Catalogue.__annotations__ if name not in queries()]
    for module in (statements, postgres_statements):
        assert [name for name in queries() if not isinstance(getattr(module, name), Query)] == []
        assert [name for name in others if isinstance(getattr(module, name), Query)] == []


class _Binds(dict[str, object]):
    """Any bind, as a number that fits every column."""

    def __missing__(self, name: str) -> object:
        return "1"
