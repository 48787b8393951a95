"""`copy` moves a whole store, either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import postroom
from postroom import work
from postroom.core.errors import InvalidState
from postroom.core.records import Attachment
from postroom.store.copying import BATCH, TABLES, copy
from postroom.store.port import Store
from tests.conftest import ENGINES
from tests.contract.scenes import asking
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
    with store.read() as tx:
        return {table: sorted(tx.all(f"SELECT {', '.join(columns)} FROM {table}"), key=repr) for table, (_, columns) in TABLES.items()}


def fill(store: Store) -> str:
    with store.write() as tx:
        tx.run(tx.sql.queue_insert, path="/queues/disk", label="Disk watch", created_at="2026-11-16T00:00:00.000000Z")
    asked = asking(store).thread.thread_id
    work.reply(store, asked, sender="user", summary="Grüße ☃", artifacts=[Attachment("a.txt"), Attachment("b.txt")])
    work.mark_read(store, asked, agent="builder", event_id=2)
    for number in range(3):
        work.send(store, sender="leader", to="builder", subject=f"thread {number}", priority="high")
    return asked


def test_everything_arrives(store: Store, target: Store) -> None:
    fill(store)
    told: list[tuple[str, int, int]] = []
    counts = copy(store, target, tell=lambda *progress: told.append(progress))
    assert rows(target) == rows(store)
    assert counts == {table: len(found) for table, found in rows(store).items()}
    assert ("threads", 4, 4) in told
    assert counts["watched_queues"] == 1


def test_the_copy_goes_on_where_the_source_stopped(store: Store, target: Store) -> None:
    asked = fill(store)
    copy(store, target)
    latest = work.show(target, asked).next_event_id
    assert work.update(target, asked, agent="builder", summary="On it").next_event_id == latest + 1
    assert work.take(target, agent="other") is None
    assert work.take(target, agent="builder") is not None


def test_a_copy_run_again_brings_the_target_up_to_date(store: Store, target: Store) -> None:
    asked = fill(store)
    copy(store, target)
    work.update(store, asked, agent="builder", summary="Meanwhile")
    copy(store, target)
    assert rows(target) == rows(store)


def test_a_copy_that_was_interrupted_can_be_run_again(store: Store, target: Store) -> None:
    fill(store)

    def cut(table: str, rows: int, total: int) -> None:
        if table == "messages":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(store, target, tell=cut)
    assert rows(target) != rows(store)
    copy(store, target)
    assert rows(target) == rows(store)


def test_more_than_a_batch_arrives(store: Store, target: Store) -> None:
    asked = fill(store)
    for _ in range(BATCH // 100 + 1):
        work.send(store, sender="leader", thread_id=asked, summary="More")
    assert copy(store, target)["messages"] == len(work.show(target, asked).messages) + 3


def test_a_target_with_threads_of_its_own_is_left_alone(store: Store, target: Store) -> None:
    fill(store)
    work.send(target, sender="leader", to="builder", subject="Mine")
    before = rows(target)
    with pytest.raises(InvalidState):
        copy(store, target)
    assert rows(target) == before
