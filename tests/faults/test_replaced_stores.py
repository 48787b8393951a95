"""A store whose file is deleted or replaced while it is open: nothing is accepted into a file that is gone."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import StorageFailure, StoreUnreachable
from postroom.store.interface import Store
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox, eventually
from tests.conftest import fresh_file
from tests.contract.blocking_store import BlockingStore
from tests.contract.mail_data import BOX, message, post
from tests.server.running_server import RunningServer


@pytest.fixture
def store(sqlite_place: str) -> Iterator[Store]:
    with closing(postroom.open(sqlite_place)) as opened:
        post(opened, "old")
        yield opened


def replace_by_rename(place: str) -> None:
    """Put another store at the same path, as a restored backup is. The log of the one before must go, or SQLite replays it."""
    for suffix in ("-wal", "-shm"):
        Path(place + suffix).unlink(missing_ok=True)
    folder = Path(place).with_name("backup")
    folder.mkdir()
    os.replace(fresh_file(folder), place)


def replace_by_creation(place: str) -> None:
    """Delete the folder of the store, and create another."""
    delete_folder(place)
    Path(place).parent.mkdir()
    fresh_file(Path(place).parent)


def delete_folder(place: str) -> None:
    """Delete the folder of a store at one instant: a server that still touches wake files would refill it between two steps of `rmtree`."""
    folder = Path(place).parent
    shutil.rmtree(folder.rename(folder.with_name("deleted")))


REPLACEMENTS = [replace_by_rename, replace_by_creation]


def stored_payloads(place: str) -> list[str]:
    with closing(sqlite3.connect(place)) as file:
        return [payload for (payload,) in file.execute("SELECT payload FROM deliveries")]


@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_a_write_goes_into_the_file_that_is_at_the_path_now(store: Store, replace: Callable[[str], None]) -> None:
    replace(store.location)
    post(store, "new")
    assert stored_payloads(store.location) == ["new"]


@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_a_file_that_is_replaced_inside_a_transaction_gets_the_whole_verb(
    store: Store, replace: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb is rolled back before its COMMIT, and runs again in the new file."""
    replaced: list[bool] = []

    def clock() -> int:
        if not replaced:
            replaced.append(True)
            replace(store.location)
        return 1_900_000_000_000_000

    monkeypatch.setattr(store, "clock", clock)
    post(store, "new")
    assert stored_payloads(store.location) == ["new"]


def test_a_deleted_store_is_refused_and_not_called_empty(store: Store) -> None:
    delete_folder(store.location)
    for verb in (lambda: mail.enqueue(store, message("new")), lambda: mail.dequeue(store, BOX)):
        with pytest.raises(StoreUnreachable, match="is gone"):
            verb()
    assert not Path(store.location).parent.exists()


def test_a_new_store_that_is_not_finished_is_waited_for(store: Store) -> None:
    delete_folder(store.location)
    Path(store.location).parent.mkdir()
    Path(store.location).touch()
    with pytest.raises(StoreUnreachable):
        mail.dequeue(store, BOX)
    fresh_file(Path(store.location).parent)
    assert mail.dequeue(store, BOX) is None


@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_a_wait_without_a_cursor_goes_on_in_the_new_store(store: Store, replace: Callable[[str], None]) -> None:
    mail.dequeue(store, BOX)

    def replace_and_post() -> None:
        replace(store.location)
        with closing(postroom.open(store.location)) as other:
            post(other, "new")

    waited = mail.wait(BlockingStore(store, replace_and_post), BOX, timeout_seconds=20)
    assert waited is not None
    assert waited.message.payload == "new"


@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_a_wait_with_a_cursor_ends_when_its_store_is_replaced(store: Store, replace: Callable[[str], None]) -> None:
    with pytest.raises(StorageFailure, match="was replaced"):
        work.watch(BlockingStore(store, lambda: replace(store.location)), agent="ann", timeout_seconds=20)


def test_waiting_commands_notice_a_new_store(tmp_path: Path) -> None:
    inbox, mailbox = Inbox(tmp_path), Mailbox(tmp_path)
    inbox.found()
    watch = inbox.start("watch", "--agent", "builder", "--timeout-seconds", "50", "--json").sleeping()
    wait = mailbox.start("wait", "--session", BOX, "--timeout-seconds", "50", "--json").sleeping()
    delete_folder(str(inbox.db))
    inbox.found()
    mailbox.ok("enqueue", "--from", "ann", "--to", BOX, "--payload", "new")
    assert wait.finish().json["message"]["payload"] == "new"
    finished = watch.finish()
    assert (finished.code, finished.json["error"]["code"]) == (50, "storage_error")


def test_a_worker_goes_on_in_a_new_store(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.found()
    worker = inbox.start("work", "--agent", "builder", "--command", "true").sleeping()
    delete_folder(str(inbox.db))
    inbox.found()
    thread = inbox.send()
    eventually(lambda: inbox.ok("show", "--thread", thread)["thread"]["status"] == "done")
    worker.process.terminate()
    worker.finish()


def test_a_server_accepts_nothing_into_a_store_that_is_gone(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, "--dev").open()
    try:
        assert server.person.post("/api/mailbox", json=message("old")).status_code == 201
        delete_folder(str(server.inbox.db))
        answer = server.person.post("/api/mailbox", json=message("lost"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_away")
        server.inbox.found()
        token = server.inbox.ok("agent", "token", "ann")["token"]
        assert server.client(token).post("/api/mailbox", json=message("new")).status_code == 201
        assert stored_payloads(str(server.inbox.db)) == ["new"]
    finally:
        server.close()
