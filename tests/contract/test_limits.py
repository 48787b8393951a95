"""Bounds of what is stored: the same for every engine and every door. A refused value changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import mail, people, work
from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.core.records.work import Attachment
from postroom.store.interface import Store
from postroom.tasks.conductor import Conductor

MIB = 1 << 20
LONG_LINE = "é" * (limits.MAX_LINE_BYTES // 2 + 1)  # one byte too many, in fewer characters
DEEP = '{"a":' + "[" * 100 + "]" * 100 + "}"
BAD_JSON = {
    "lone surrogate": '{"x": "\\ud800"}',
    "lone surrogate in a key": '{"\\udfff": 1}',
    "infinite number": '{"x": 1e999}',
    "101 levels": DEEP,
    "900 levels": '{"a":' + "[" * 900 + "]" * 900 + "}",
    "more than a MiB": '{"a": "' + "x" * MIB + '"}',
}


def send(store: Store, **more: object) -> object:
    return work.send(store, **{"sender": "leader", "to": "builder", "subject": "Build", **more})  # type: ignore[arg-type]


def _with(name: str) -> Attachment:
    return Attachment("a.md", "file", BAD_JSON[name])


OVER_THE_BOUND: dict[str, Callable[[Store], object]] = {
    "subject": lambda store: send(store, subject=LONG_LINE),
    "summary": lambda store: send(store, summary=LONG_LINE),
    "run": lambda store: send(store, run_id=LONG_LINE),
    "task": lambda store: send(store, task_id=LONG_LINE),
    "body": lambda store: send(store, body="x" * (MIB + 1)),
    "artifact": lambda store: send(store, artifacts=[Attachment("a.md")] * 101),
    "artifact-metadata-json": lambda store: send(store, artifacts=[Attachment("a.md", "file", '{"a": "' + "x" * 65_536 + '"}')]),
    "payload": lambda store: mail.enqueue(store, {"from": "leader", "to": "box", "payload": "x" * (10 * MIB + 1)}),
    "messages": lambda store: mail.enqueue_all(store, ({"from": "leader", "to": "box", "payload": ""} for _ in range(1001))),
    "messages in bytes": lambda store: mail.enqueue_all(store, [{"from": "leader", "to": "box", "payload": "x" * (9 * MIB)}] * 4),
    "message": lambda store: mail.enqueue(store, {"from": "leader", "to": "box", "payload": "", "extra": "x" * 65_536}),
    "skills": lambda store: Conductor(store).register("builder", skills=(f"skill {number}" for number in range(1001))),
    "description": lambda store: Conductor(store).register("builder", description="x" * (MIB + 1)),
    "text": lambda store: people.notify(store, sender="backup", text="x" * (256 * 1024 + 1)),
}


@pytest.mark.parametrize("field", OVER_THE_BOUND)
@pytest.mark.input_check
def test_a_value_over_its_bound_is_refused_and_nothing_is_stored(store: Store, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        OVER_THE_BOUND[field](store)
    assert refused.value.facts["field"] == field.partition(" ")[0]
    assert refused.value.hint
    with store.read() as tx:
        assert tx.fetch_one(tx.sql.event_latest) in (None, 0)


def test_values_at_their_bounds_are_stored(store: Store) -> None:
    line = "é" * (limits.MAX_LINE_BYTES // 2)
    attachments = [Attachment("a.md", "file", "{}")] * 100
    posted = work.send(store, sender="leader", to="builder", subject=line, summary=line, body="x" * MIB, artifacts=attachments)
    assert len(work.show(store, posted.thread.thread_id).messages[0].body) == MIB
    assert len(mail.enqueue_all(store, [{"from": "leader", "to": "box", "payload": ""}] * 1000)) == 1000


@pytest.mark.parametrize("name", BAD_JSON)
def test_json_that_some_reader_cannot_take_is_refused(store: Store, name: str) -> None:
    for field, more in (("payload-json", {"payload_json": BAD_JSON[name]}), ("artifact-metadata-json", {"artifacts": [_with(name)]})):
        with pytest.raises(InvalidInput) as refused:
            send(store, **more)
        assert refused.value.facts["field"] == field
    assert work.list_threads(store).threads == ()


def test_json_of_a_hundred_levels_is_stored_as_it_was_written(store: Store) -> None:
    payload = '{"a":' + "[" * 99 + "]" * 99 + ',"b":"\\u00e9"}'
    posted = work.send(store, sender="leader", to="builder", subject="Build", payload_json=payload)
    assert posted.message.payload_json == payload


def test_an_agent_takes_large_messages_in_several_answers_and_loses_none(store: Store) -> None:
    for number in range(3):
        mail.enqueue(store, {"from": "leader", "to": "box", "payload": f"{number}" * (MIB * 2 // 3)})
    answers = [people.read_messages(store, agent="box", limit=100) for _ in range(3)]
    assert [[message.body[0] for message in answer] for answer in answers] == [["0", "1"], ["2"], []]
    assert [message.body[0] for message in people.old_messages(store, agent="box", limit=100).messages] == ["2", "1"]


def test_a_list_of_threads_is_cut_by_its_size_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ANSWER_BYTES", 3000)
    for number in range(3):
        send(store, subject=f"{number}" * 1000)
    page = work.list_threads(store, limit=100)
    assert (len(page.threads), page.more) == (2, True)
    monkeypatch.setattr(limits, "MAX_ANSWER_BYTES", 100)
    assert len(work.list_threads(store, limit=100).threads) == 1
