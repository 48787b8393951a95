"""Texts: any Unicode of any size passes whole. NUL and lone surrogates are refused, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import work
from postroom.core.errors import InvalidInput
from postroom.core.records.work import Attachment
from postroom.store.interface import Store
from tests.contract.thread_data import asking, everything, held, last_message, sent, thread_of

TEXTS = {
    "emoji": "👩🏽‍💻 builds 🏗️ and 🇪🇺",
    "right to left": "שלום עולם \u200fمرحبا\u200e",
    "combining": "Z̷̢͈a̴lg̴o, é and é",
    "astral": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
    "controls": "\x01\x02\x1b[31mred\x7f\t",
    "line ends": "one\r\ntwo\rthree\nfour\u2028five\x85six",
    "spaces": "  leading and trailing \n",
    "byte order": "\ufeffmark \ufffe \uffff",
    "sql": "'); DROP TABLE threads; -- %s :name ? $1",
    "backslashes": "\\ \\n \\u0000 {}",
    "cjk": "水はまだ流れている",
}
each_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
pytestmark = pytest.mark.every_value
BAD = {"nul": "a\0b", "only nul": "\0", "high surrogate": "a\ud800b", "low surrogate": "\udcff"}
each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())


@each_text
def test_a_body_comes_back_as_it_was_given(store: Store, text: str) -> None:
    thread_id = work.send(store, sender="leader", to="builder", subject="S", body=text).thread.thread_id
    assert last_message(store, thread_id).body == text


@each_text
def test_a_subject_and_a_summary_come_back_as_they_were_given(store: Store, text: str) -> None:
    thread_id = work.send(store, sender="leader", to="builder", subject=text, summary=text + "!").thread.thread_id
    assert (thread_of(store, thread_id).subject, last_message(store, thread_id).summary) == (text, text + "!")


@each_text
def test_every_verb_that_speaks_passes_text_whole(store: Store, text: str) -> None:
    thread_id = held(store).thread.thread_id
    work.update(store, thread_id, agent="builder", summary=text, body=text)
    work.update(store, thread_id, agent="builder", status="blocked", summary="?" + text, body=text)
    work.reply(store, thread_id, sender="leader", summary=text, body=text)
    work.done(store, thread_id, agent="builder", summary=text, body=text)
    assert [message.summary for message in work.show(store, thread_id).messages][1:] == [text, "?" + text, text, text]
    assert {message.body for message in work.show(store, thread_id).messages[1:]} == {text}


def test_a_payload_is_kept_as_the_text_that_came_in(store: Store) -> None:
    payload = ' {"b":1.0, "a": "\\u00e9 \U0001f600", "big": 123456789012345678901234567890, "b": 2}\n'
    thread_id = work.send(store, sender="leader", to="builder", subject="S", payload_json=payload).thread.thread_id
    assert last_message(store, thread_id).payload_json == payload


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_a_body_of_a_mebibyte_passes_whole(store: Store, character: str) -> None:
    body = character * (1_048_576 // len(character.encode()))
    thread_id = work.send(store, sender="leader", to="builder", subject="S", body=body).thread.thread_id
    work.claim(store, thread_id, agent="builder")
    work.done(store, thread_id, agent="builder", body=body)
    shown = work.show(store, thread_id)
    opening = () if shown.first_message is None else (shown.first_message,)  # it is beside the page unless both fit
    assert [message.body == body for message in (*opening, *shown.messages)] == [True, True]


def test_a_long_summary_and_a_large_payload_pass_whole(store: Store) -> None:
    summary, payload = "s" * 4096, '{"list": [' + ", ".join(["1"] * 300_000) + "]}"
    thread_id = work.send(store, sender="leader", to="builder", summary=summary, payload_json=payload).thread.thread_id
    message = last_message(store, thread_id)
    assert message.summary == summary
    assert message.payload_json == payload


def test_names_may_be_in_any_script(store: Store) -> None:
    thread_id = sent(store, sender="Ренате", to="建築者 👷")
    work.claim(store, thread_id, agent="建築者 👷")
    assert thread_of(store, thread_id).assigned_to == "建築者 👷"
    assert [one.thread_id for one in work.list_threads(store, created_by="Ренате").threads] == [thread_id]


SPOILT: dict[str, Callable[[Store, str, str], object]] = {
    "send: body": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", body=bad),
    "send: subject": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject=bad),
    "send: subject beside a summary": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject=bad, summary="S"),
    "send: summary": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", summary=bad),
    "send: sender": lambda s, t, bad: work.send(s, sender=bad, to="builder", subject="S"),
    "send: to": lambda s, t, bad: work.send(s, sender="leader", to=bad, subject="S"),
    "send: run": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", run_id=bad),
    "send: task": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", task_id=bad),
    "send: thread": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", thread_id=bad),
    "send: payload": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", payload_json='{"a": "' + bad + '"}'),
    "send: artifact": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", artifacts=[Attachment(bad)]),
    "send: artifact kind": lambda s, t, bad: work.send(s, sender="leader", to="builder", subject="S", artifacts=[Attachment("x", bad)]),
    "claim: agent": lambda s, t, bad: work.claim(s, t, agent=bad),
    "claim: thread": lambda s, t, bad: work.claim(s, bad, agent="builder"),
    "take: agent": lambda s, t, bad: work.take(s, agent=bad),
    "fetch: agent": lambda s, t, bad: work.fetch(s, agent=bad),
    "renew: agent": lambda s, t, bad: work.renew(s, t, agent=bad),
    "update: body": lambda s, t, bad: work.update(s, t, agent="builder", body=bad),
    "update: to": lambda s, t, bad: work.update(s, t, agent="builder", summary="S", to=bad),
    "release: reason": lambda s, t, bad: work.release(s, t, agent="builder", reason=bad),
    "release: to": lambda s, t, bad: work.release(s, t, agent="builder", to=bad),
    "reply: summary": lambda s, t, bad: work.reply(s, t, sender="leader", summary=bad),
    "reply: to": lambda s, t, bad: work.reply(s, t, sender="leader", summary="S", to=bad),
    "done: summary": lambda s, t, bad: work.done(s, t, agent="builder", summary=bad),
    "fail: body": lambda s, t, bad: work.fail(s, t, agent="builder", body=bad),
    "cancel: reason": lambda s, t, bad: work.cancel(s, t, agent="leader", reason=bad),
    "show: thread": lambda s, t, bad: work.show(s, bad),
    "mark_read: agent": lambda s, t, bad: work.mark_read(s, t, agent=bad, event_id=1),
    "list: agent": lambda s, t, bad: work.list_threads(s, agent=bad),
    "list: created_by": lambda s, t, bad: work.list_threads(s, created_by=bad),
    "list: assigned_to": lambda s, t, bad: work.list_threads(s, assigned_to=bad),
    "add_agent: name": lambda s, t, bad: work.add_agent(s, bad),
    "show_agent: name": lambda s, t, bad: work.show_agent(s, bad),
    "watch: agent": lambda s, t, bad: work.watch(s, agent=bad, timeout_seconds=0.01),
    "wait_take: agent": lambda s, t, bad: work.wait_take(s, agent=bad, timeout_seconds=0.01),
    "wait_reply: thread": lambda s, t, bad: work.wait_reply(s, bad, timeout_seconds=0.01),
    "wait_reply: after_message": lambda s, t, bad: work.wait_reply(s, t, after_message=bad, timeout_seconds=0.01),
}


@each_bad
@pytest.mark.parametrize("act", SPOILT.values(), ids=SPOILT.keys())
@pytest.mark.input_check
def test_what_cannot_be_stored_is_refused_and_nothing_changes(store: Store, act: Callable[[Store, str, str], object], bad: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        act(store, thread_id, bad)
    assert everything(store) == before


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800"], ids=["nul", "surrogate"])
def test_a_question_in_the_payload_cannot_smuggle_in_what_is_refused_elsewhere(store: Store, escape: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.update(store, thread_id, agent="builder", status="blocked", payload_json='{"question": "Which' + escape + '?"}')
    assert everything(store) == before


def test_text_that_looks_like_sql_or_a_bind_is_only_text(store: Store) -> None:
    name = "x'; DELETE FROM threads; --"
    asking(store, agent=name, question=":agent ?1 %s")
    assert [one.assigned_to for one in work.list_threads(store, assigned_to=name).threads] == [name]
    assert len(work.list_threads(store).threads) == 1
