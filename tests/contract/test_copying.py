"""`copy` moves a whole store, either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import postroom
from postroom import mail, people, work
from postroom.core.errors import InvalidState
from postroom.core.records.work import Attachment
from postroom.store.copying import BATCH_ROWS, copy_store
from postroom.store.interface import Store
from postroom.tasks.conductor import Conductor
from tests.conftest import ENGINES, Clock
from tests.contract.columns import columns_of
from tests.contract.thread_data import asking
from tests.postgres_server import Postgres


@pytest.fixture(params=ENGINES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A second, empty store, of each engine."""
    if request.param == "sqlite":
        postroom.init(str(tmp_path / "target.db"))
        yield postroom.open(str(tmp_path / "target.db"))
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.store() as url:
        store = postroom.open(url)
        yield store
        store.close()


def rows(store: Store) -> dict[str, list[object]]:
    """Every row of every table, with every column that the schema has, in the order of the columns' names.

    The place of a SQLite file is its own, and is not copied.
    """
    tables = columns_of(store)
    with store.read() as tx:
        found = {
            table: sorted(tx.fetch_all(f"SELECT {', '.join(sorted(columns))} FROM {table}"), key=repr) for table, columns in tables.items()
        }
    return {**found, "settings": [row for row in found["settings"] if row[0] != "place"]}


def fill(store: Store) -> str:
    with store.write() as tx:
        tx.execute(tx.sql.queue_insert, path="/queues/disk", label="Disk watch", created_at="2026-11-16T00:00:00.000000Z")
    asked = asking(store).thread.thread_id
    work.reply(store, asked, sender="user", summary="Grüße ☃", artifacts=[Attachment("a.txt"), Attachment("b.txt")])
    work.mark_read(store, asked, agent="builder", event_id=2)
    for number in range(3):
        work.send(store, sender="leader", to="builder", subject=f"thread {number}", priority="high")
    return asked


def test_everything_arrives(store: Store, target: Store) -> None:
    fill(store)
    told: list[tuple[str, int, int]] = []
    counts = copy_store(store, target, on_progress=lambda *progress: told.append(progress))
    assert rows(target) == rows(store)
    assert counts == {table: len(found) for table, found in rows(store).items()}
    assert ("threads", 4, 4) in told
    assert counts["watched_queues"] == 1


def test_no_column_of_any_table_is_left_out(store: Store, target: Store) -> None:
    fill_every_column(store)
    copy_store(store, target)
    assert rows(target) == rows(store)


def fill_every_column(store: Store) -> None:
    """Three rows in each table, in which every column has a value of its own: no default, and nothing is missing."""
    tables = columns_of(store)
    for table in ("threads", "messages", *tables):  # others refer to these two
        with store.write() as tx:
            names = list(tables[table])
            statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES (:{', :'.join(names)}) ON CONFLICT DO NOTHING"
            for number in (1001, 1002, 1003):
                tx.execute(statement, **{name: _distinct(name, kind, number) for name, kind in tables[table].items()})


def _distinct(column: str, kind: str, number: int) -> object:
    """The same in each table, so that one row refers to the other."""
    if column in ("created_at", "updated_at", "expires_at") and kind == "text":
        return f"2026-01-01T00:00:00.{number:06d}Z"  # another format would be taken for that of another program
    if kind in ("integer", "bigint"):
        return number
    return number + 0.5 if kind in ("real", "double precision") else f"{column} {number}"


def test_the_artifacts_of_a_message_stay_in_their_order(store: Store, target: Store) -> None:
    paths = [f"{number}.txt" for number in range(20)]
    sent = work.send(store, sender="leader", to="builder", subject="Read these", artifacts=[Attachment(path) for path in paths])
    copy_store(store, target)
    (message,) = work.show(target, sent.thread.thread_id).messages
    assert [artifact.path for artifact in message.artifacts] == paths


def test_the_skills_of_agents_are_copied_again_without_harm(store: Store, target: Store) -> None:
    Conductor(store).register("builder", skills=("python", "sql"))
    copy_store(store, target)
    copy_store(store, target)
    assert [card.name for card in Conductor(target).find("sql")] == ["builder"]


def test_the_copy_goes_on_where_the_source_stopped(store: Store, target: Store) -> None:
    asked = fill(store)
    copy_store(store, target)
    latest = work.show(target, asked).next_event_id
    assert work.update(target, asked, agent="builder", summary="On it").next_event_id == latest + 1
    assert work.take(target, agent="other") is None
    assert work.take(target, agent="builder") is not None


def test_a_copy_run_again_brings_the_target_up_to_date(store: Store, target: Store) -> None:
    asked = fill(store)
    copy_store(store, target)
    work.update(store, asked, agent="builder", summary="Meanwhile")
    copy_store(store, target)
    assert rows(target) == rows(store)


def test_a_copy_that_was_interrupted_can_be_run_again(store: Store, target: Store) -> None:
    fill(store)

    def cut(table: str, rows: int, total: int) -> None:
        if table == "messages":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(store, target, on_progress=cut)
    assert rows(target) != rows(store)
    copy_store(store, target)
    assert rows(target) == rows(store)


def test_more_than_a_batch_arrives(store: Store, target: Store) -> None:
    asked = fill(store)
    for _ in range(BATCH_ROWS // 100 + 1):
        work.send(store, sender="leader", thread_id=asked, summary="More")
    assert copy_store(store, target)["messages"] == len(work.show(target, asked).messages) + 3


def test_a_target_with_threads_of_its_own_is_left_alone(store: Store, target: Store) -> None:
    fill(store)
    work.send(target, sender="leader", to="builder", subject="Mine")
    before = rows(target)
    with pytest.raises(InvalidState):
        copy_store(store, target)
    assert rows(target) == before


def test_the_copy_of_yesterday_loses_what_the_source_removed_since(store: Store, target: Store, clock: Clock, tmp_path: Path) -> None:
    fill(store)
    workspace = people.add_workspace(store, str(tmp_path), label="Site", agent="site").workspace
    entry = people.notify(store, sender="job", text="Look")
    mail.set_alias(store, "reviewer", "ada")
    mail.enqueue(store, {"msg_id": "m1", "from": "ann", "to": "box", "payload": "x"})
    mail.dequeue(store, "box")
    mail.ack(store, "box", "m1")
    copy_store(store, target)
    clock.advance(86_400 * 2)
    mail.sweep(store, keep_days=1)
    mail.remove_alias(store, "reviewer")
    people.delete_entry(store, entry.id, person="user")
    people.remove_workspace(store, workspace.workspace_id)
    people.add_workspace(store, str(tmp_path), label="Site again", agent="site")
    copy_store(store, target)
    assert rows(target) == rows(store)
    assert not mail.enqueue(target, {"msg_id": "m1", "from": "ann", "to": "box", "payload": "x"}).queued
