"""A pasted secret is erased from everything that repeats it: rows, histories, mirrors, the search index, free space and the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from postroom import mail, people, work
from postroom.core.errors import NotFound
from postroom.core.records.work import Attachment
from postroom.maintenance.backups import back_up, restore
from postroom.maintenance.erasing import erase
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore
from tests.contract import people_data
from tests.contract.columns import columns_of
from tests.contract.thread_data import ended, sent

SECRET = "sk-hunter2-4f9a1c"
OTHER = "An ordinary sentence that stays"


def texts_of(store: Store) -> str:
    """Every value of every row."""
    tables = columns_of(store)
    with store.read() as tx:
        return repr([tx.fetch_all(f"SELECT * FROM {table}") for table in tables])


def paste_in_thread(store: Store) -> dict[str, str]:
    """A thread with the secret in every text that it has, and the entry that shows its question."""
    place = work.send(
        store,
        sender="leader",
        to="builder",
        subject=f"Use {SECRET}",
        body=f"The key is {SECRET}. {OTHER}",
        payload_json=f'{{"key": "{SECRET}"}}',
        artifacts=[Attachment(f"{SECRET}.txt")],
    )
    thread = place.thread.thread_id
    work.claim(store, thread, agent="builder")
    work.update(store, thread, agent="builder", status="blocked", summary=f"Is {SECRET} right?", to="user")
    (entry,) = people.history(store).entries
    people.reply(store, entry.id, person="user", body=f"No, not {SECRET}")
    return {"thread_id": thread}


def paste_in_entry(store: Store) -> dict[str, str]:
    entry = people_data.asked(store, f"May I publish {SECRET}?")
    people.reply(store, entry, person="user", body=f"Never publish {SECRET}")
    return {"entry_id": entry}


def paste_in_mail(store: Store) -> dict[str, str]:
    mail.enqueue(store, {"msg_id": "m1", "from": "lead", "to": "box", "payload": f"{SECRET} {'x' * 9000}"})
    delivery = mail.dequeue(store, "box")
    assert delivery is not None
    mail.nack(store, "box", "m1", delivery_token=delivery.delivery_token, reason=f"what is {SECRET}?")
    return {"msg_id": "m1"}


def paste_in_message(store: Store) -> dict[str, str]:
    thread = sent(store, OTHER)
    return {"msg_id": work.send(store, sender="leader", thread_id=thread, summary=f"It is {SECRET}", body=SECRET).message.message_id}


def ask_in_thread(store: Store, question: str) -> tuple[str, str]:
    """A thread with a question to a person, and the entry that shows it."""
    thread = people_data.blocked(store, question)
    (entry,) = people.history(store).entries
    return thread, entry.id


def paste_in_question_and_answer(store: Store) -> dict[str, str]:
    _, entry = ask_in_thread(store, f"Is it {SECRET}?")
    people.reply(store, entry, person="user", body=f"Use {SECRET}")
    return {"entry_id": entry}


def paste_in_answer(store: Store) -> dict[str, str]:
    thread, entry = ask_in_thread(store, "Which key?")
    people.reply(store, entry, person="user", body=f"Use {SECRET}")
    return {"msg_id": work.show(store, thread).messages[-1].message_id}


def paste_in_answer_of_command(store: Store) -> dict[str, str]:
    thread, _ = ask_in_thread(store, "Which key?")
    answer = work.reply(store, thread, sender="user", body=f"Use {SECRET}").message
    people.history(store)
    return {"msg_id": answer.message_id}


def paste_in_reply_by_mail(store: Store) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        entry = people_data.pushed(store, people_data.new_workspace(store, Path(folder), "desk"), f"{OTHER} about keys")
        reply = people.reply(store, entry, person="user", body=f"{SECRET} about keys").reply
    assert reply.message_id is not None
    return {"msg_id": reply.message_id}


def paste_in_subject(store: Store) -> dict[str, str]:
    """The subject came with the first message, although it is not its summary."""
    return {"msg_id": work.send(store, sender="leader", to="builder", subject=f"Use {SECRET}", summary="Use this").message.message_id}


PASTES = [
    paste_in_thread,
    paste_in_entry,
    paste_in_mail,
    paste_in_message,
    paste_in_question_and_answer,
    paste_in_answer,
    paste_in_answer_of_command,
    paste_in_reply_by_mail,
    paste_in_subject,
]


@pytest.mark.every_value
@pytest.mark.parametrize("paste", PASTES)
def test_no_row_has_the_secret_any_more(store: Store, paste: Callable[[Store], dict[str, str]]) -> None:
    stays = sent(store, OTHER)
    named = paste(store)
    assert "hunter2" in texts_of(store)
    assert erase(store, **named).rows >= 1
    assert "hunter2" not in texts_of(store)
    assert work.show(store, stays).thread.subject == OTHER
    erase(store, **named)  # an interrupted call can be repeated


@pytest.mark.parametrize("paste", PASTES)
def test_no_file_of_the_store_has_a_byte_of_it(sqlite_place: str, paste: Callable[[Store], dict[str, str]], tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store, SqliteStore(sqlite_place) as other:
        work.show(other, sent(other))  # another process has the store open
        named = paste(store)
        people.push(store, people_data.new_workspace(store, tmp_path), comments=OTHER)
        assert _files_with_secret(tmp_path)
        erase(store, **named)
        assert _files_with_secret(tmp_path) == []
        assert work.show(other, sent(other)).thread.status == "pending"


def test_the_copies_that_a_restore_set_aside_are_named(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        named = paste_in_entry(store)
        people.push(store, people_data.new_workspace(store, tmp_path), comments=OTHER)
        back_up(store, str(tmp_path / "backup.db"))
        restore(str(tmp_path / "backup.db"), sqlite_place, replace=True)
        (tmp_path / "backup.db").unlink()
        note = erase(store, **named).note
    left = _files_with_secret(tmp_path)
    assert len(left) == 2  # the store as it was before, and its mirror
    assert all(file in note for file in left)


def _files_with_secret(folder: Path) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]


def test_the_search_no_longer_finds_it(store: Store) -> None:
    named = paste_in_entry(store)
    assert people.search(store, "hunter2").entries
    erase(store, **named)
    assert people.search(store, "hunter2").entries == ()


@pytest.mark.parametrize("paste", [paste_in_answer, paste_in_reply_by_mail])
def test_the_search_no_longer_finds_an_erased_reply(store: Store, paste: Callable[[Store], dict[str, str]]) -> None:
    named = paste(store)
    (entry,) = people.search(store, "hunter2").entries
    erase(store, **named)
    assert people.search(store, "hunter2").entries == ()
    assert people.find_entry(store, entry.id)


def test_a_message_leaves_its_place_in_the_thread(store: Store) -> None:
    named = paste_in_message(store)
    thread = next(iter(work.list_threads(store).threads)).thread_id
    before = work.show(store, thread)
    erase(store, **named)
    after = work.show(store, thread)
    assert [message.event_id for message in after.messages] == [message.event_id for message in before.messages]
    assert [message.summary for message in after.messages] == [OTHER, "[erased]"]


@pytest.mark.parametrize(
    "named", [{"thread_id": "thr_none"}, {"entry_id": "none"}, {"msg_id": "none"}], ids=lambda named: next(iter(named))
)
def test_what_never_was_is_not_found(store: Store, named: dict[str, str]) -> None:
    with pytest.raises(NotFound):
        erase(store, **named)


def test_a_watcher_reads_on_past_an_erased_thread(store: Store) -> None:
    thread = ended(store)
    later = sent(store)
    erase(store, thread_id=thread)
    assert work.watch(store, after_event=0, timeout_seconds=5).events[-1].thread_id == later
