"""Every text in an index may be as long as its limit says. A key of PostgreSQL's indexes has at most 2,704 bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people, work
from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.people import read_documents
from postroom.store.event_log import BLOCK_EVENTS
from postroom.store.interface import Store
from postroom.tasks.conductor import Conductor

# Four bytes each in UTF-8, and chosen at random: PostgreSQL compresses a key, so a text that repeats itself would fit.
LETTERS = [chr(code) for code in range(0x20000, 0x2A6D0)]


def text_of(characters: int, seed: str = "") -> str:
    return "".join(random.Random(seed).choices(LETTERS, k=characters))


name = partial(text_of, limits.MAX_NAME_CHARS)
LINE = text_of(limits.MAX_LINE_BYTES // 4)


def send(store: Store, **more: Any) -> None:
    work.send(store, sender=name("leader"), to=name("builder"), subject=LINE, thread_id=name("thread"), **more)


def send_block(store: Store, run: str) -> None:
    """Send as many threads of a run as there are events in a block, which is summarised by its topics."""
    assert BLOCK_EVENTS <= limits.MAX_BATCH_ITEMS
    work.send_all(store, [{"to": name("builder"), "subject": "S", "run": run, "task": run}] * BLOCK_EVENTS, sender=name("leader"))


def enqueue(store: Store, msg_id: str) -> None:
    mail.enqueue(store, {"msg_id": msg_id, "from": name("leader"), "to": name("builder"), "payload": "x"})
    assert len(people.hand_over_messages(store, agent=name("builder"), client=LINE).messages) == 1


def register_route(store: Store, session: str) -> None:
    people.register_route(store, agent=name("builder"), route="hook", session=session, program=LINE, host=LINE)


def note_injected(store: Store, item: str) -> None:
    people.note_injected(store, (item,), agent=name("builder"), route="hook", session="s")


INDEXED_TEXTS: dict[str, Callable[[Store, str], object]] = {
    "run": lambda store, text: send(store, run_id=text),
    "run of a block of events": send_block,
    "task": lambda store, text: send(store, task_id=text),
    "msg_id": enqueue,
    "session": register_route,
    "items": note_injected,
}


@pytest.mark.parametrize("field", INDEXED_TEXTS)
def test_a_text_in_an_index_may_be_as_long_as_its_limit(store: Store, field: str) -> None:
    longest = text_of(limits.MAX_INDEXED_BYTES // 4)
    with pytest.raises(InvalidInput) as refused:
        INDEXED_TEXTS[field](store, longest + "x")
    assert refused.value.facts["field"] == field.partition(" ")[0]
    INDEXED_TEXTS[field](store, longest)


def test_the_path_of_a_document_may_be_as_long_as_its_limit(store: Store, tmp_path: Path) -> None:
    path = "/".join(text_of(62, str(part)) for part in range(4)) + "/"  # a name on a disk has at most 255 bytes
    path += "x" * (limits.MAX_INDEXED_BYTES - len(path.encode()))
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("# Report")
    workspace = people.add_workspace(store, str(tmp_path), label=name("label"), agent=name("atlas")).workspace.workspace_id
    with pytest.raises(InvalidInput):
        people.push(store, workspace, docs=[path + "x"])
    entry = people.push(store, workspace, docs=[path])
    read_documents.note_shown(store, entry_id=entry.id, path=path, person=name("person"), visit="1", sha256="0" * 64, text="# Report")


def test_names_may_be_as_long_as_their_limit(store: Store) -> None:
    send(store)
    mail.set_alias(store, name("alias"), name("session"))
    people.keep_conversation(store, name("thread"), agent=name("builder"), program=LINE, session=LINE, turns=1)
    Conductor(store).register(name("builder"), skills=[name("skill")])
    Conductor(store).submit(name("leader"), name("builder"), "Build")
    assert [thread.subject for thread in work.list_threads(store, agent=name("builder")).threads] == [LINE]
