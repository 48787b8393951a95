"""Sending: opening a thread, and saying more in one."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import work
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.core.records.work import Attachment
from postroom.core.states import KINDS, PRIORITIES
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import asking, ended, everything, held, last_message, sent, status_of, thread_of

pytestmark = pytest.mark.travels("http")


def test_a_new_thread_waits_for_its_addressee(store: Store) -> None:
    thread = work.send(store, sender="leader", to="builder", subject="Add the login page").thread
    assert (thread.status, thread.created_by, thread.assigned_to) == ("pending", "leader", "builder")


def test_what_was_returned_is_what_was_stored(store: Store) -> None:
    posted = work.send(store, sender="leader", to="builder", subject="Build", body="All of it", payload_json='{"a": 1}')
    shown = work.show(store, posted.thread.thread_id)
    assert (shown.thread, shown.messages) == (posted.thread, (posted.message,))


def test_each_thread_and_each_message_has_an_id_of_its_own(store: Store) -> None:
    posted = [work.send(store, sender="leader", to="builder", subject="Same") for _ in range(50)]
    assert len({one.thread.thread_id for one in posted}) == 50
    assert len({one.message.message_id for one in posted}) == 50


def test_the_subject_stands_in_for_a_missing_summary(store: Store) -> None:
    assert work.send(store, sender="leader", to="builder", subject="Build it").message.summary == "Build it"


def test_the_summary_stands_in_for_a_missing_subject(store: Store) -> None:
    assert work.send(store, sender="leader", to="builder", summary="Build it").thread.subject == "Build it"


def test_subject_and_summary_are_kept_apart_when_both_are_given(store: Store) -> None:
    posted = work.send(store, sender="leader", to="builder", subject="The subject", summary="The summary")
    assert (posted.thread.subject, posted.message.summary) == ("The subject", "The summary")


def test_run_and_task_are_empty_and_kind_is_task_unless_given(store: Store) -> None:
    posted = work.send(store, sender="leader", to="builder", subject="Build")
    assert (posted.thread.run_id, posted.thread.task_id, posted.message.kind) == ("", "", "task")


def test_run_and_task_are_kept_on_the_thread(store: Store) -> None:
    thread = work.send(store, sender="leader", to="builder", subject="Build", run_id="run 7", task_id="T4").thread
    assert (thread.run_id, thread.task_id) == ("run 7", "T4")


def test_priority_is_normal_unless_given(store: Store) -> None:
    assert work.send(store, sender="leader", to="builder", subject="Build").thread.priority == "normal"


@pytest.mark.parametrize("priority", PRIORITIES)
def test_each_priority_can_be_given(store: Store, priority: str) -> None:
    assert thread_of(store, sent(store, priority=priority)).priority == priority


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_sent(store: Store, kind: str) -> None:
    assert work.send(store, sender="leader", to="builder", subject="Build", kind=kind).message.kind == kind


def test_an_unknown_thread_id_makes_that_thread(store: Store) -> None:
    posted = work.send(store, sender="leader", to="builder", subject="Build", thread_id="thr_mine")
    assert posted.thread.thread_id == "thr_mine"
    assert status_of(store, "thr_mine") == "pending"


def test_a_message_to_a_thread_that_exists_is_appended_to_it(store: Store) -> None:
    thread_id = sent(store)
    posted = work.send(store, sender="leader", to="builder", summary="One more thing", thread_id=thread_id)
    assert [message.summary for message in work.show(store, thread_id).messages] == ["Add the login page", "One more thing"]
    assert thread_of(store, thread_id).latest_message_id == posted.message.message_id


def test_an_appended_message_leaves_the_subject_the_status_and_the_owner_alone(store: Store) -> None:
    before = held(store).thread
    after = work.send(store, sender="leader", to="reviewer", subject="Other", thread_id=before.thread_id).thread
    assert (after.subject, after.status, after.assigned_to) == (before.subject, "claimed", "builder")


@pytest.mark.parametrize(("sender", "expected"), [("leader", "builder"), ("builder", "leader"), ("stranger", "builder")])
def test_an_appended_message_goes_to_the_other_side(store: Store, sender: str, expected: str) -> None:
    posted = work.send(store, sender=sender, summary="More", thread_id=sent(store))
    assert posted.message.to_agent == expected


def test_an_appended_message_can_change_the_priority(store: Store) -> None:
    thread_id = sent(store)
    posted = work.send(store, sender="leader", summary="Hurry", thread_id=thread_id, priority="high")
    assert posted.thread.priority == "high"
    assert thread_of(store, thread_id) == posted.thread


def test_an_appended_message_without_a_priority_keeps_the_threads(store: Store) -> None:
    thread_id = sent(store, priority="high")
    work.send(store, sender="leader", summary="More", thread_id=thread_id)
    assert thread_of(store, thread_id).priority == "high"


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_a_thread_that_ended_takes_no_more(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    before = everything(store)
    with pytest.raises(InvalidState):
        work.send(store, sender="leader", to="builder", subject="More", thread_id=thread_id)
    assert everything(store) == before


def test_a_blocked_thread_stays_blocked_when_more_is_sent(store: Store) -> None:
    asked = asking(store)
    work.send(store, sender="leader", summary="Think about it", thread_id=asked.thread.thread_id)
    assert status_of(store, asked.thread.thread_id) == "blocked"


def test_times_are_those_of_the_transaction(store: Store, clock: Clock) -> None:
    first = work.send(store, sender="leader", to="builder", subject="Build").thread
    clock.advance(60)
    then = work.send(store, sender="leader", summary="More", thread_id=first.thread_id).thread
    assert then.created_at == first.created_at == first.updated_at
    assert then.updated_at > first.updated_at
    assert last_message(store, first.thread_id).created_at == then.updated_at


@pytest.mark.needs_the_store("the door is the server's")
def test_every_message_records_its_door(store: Store) -> None:
    message = last_message(store, sent(store))
    assert (message.door, message.verified) == ("library", False)


def test_artifacts_stay_with_their_message_in_the_order_given(store: Store) -> None:
    files = [Attachment("out/log.txt", "log", '{"lines": 9}'), Attachment("fix.patch")]
    posted = work.send(store, sender="leader", to="builder", subject="See these", artifacts=files)
    kept = last_message(store, posted.thread.thread_id).artifacts
    assert [(one.path, one.kind, one.metadata_json) for one in kept] == [
        ("out/log.txt", "log", '{"lines": 9}'),
        ("fix.patch", "file", "{}"),
    ]
    assert posted.message.artifacts == kept


def test_an_artifacts_path_may_be_as_long_as_paths_are(store: Store) -> None:
    path = "/".join(["a folder with a long name"] * 40)
    posted = work.send(store, sender="leader", to="builder", subject="See", artifacts=[Attachment(path)])
    assert last_message(store, posted.thread.thread_id).artifacts[0].path == path


@pytest.mark.parametrize(
    "wrong",
    [
        {"sender": ""},
        {"sender": "two\nlines"},
        {"to": None},
        {"to": " "},
        {"subject": ""},
        {"subject": "   "},
        {"kind": "gossip"},
        {"priority": "urgent"},
        {"payload_json": "{"},
        {"payload_json": "[1]"},
        {"payload_json": "NaN"},
        {"payload_json": '"text"'},
        {"payload_json": '{"a": 1} {}'},
        {"payload_json": ""},
        {"thread_id": ""},
        {"thread_id": "a\nb"},
        {"artifacts": [Attachment("")]},
        {"artifacts": [Attachment("log", "file", "[]")]},
    ],
)
@pytest.mark.input_check
def test_what_is_malformed_or_missing_is_refused_and_nothing_is_stored(store: Store, wrong: dict[str, object]) -> None:
    before = everything(store)
    good: dict[str, object] = {"sender": "leader", "to": "builder", "subject": "Build"}
    with pytest.raises(InvalidInput):
        work.send(store, **{**good, **wrong})  # type: ignore[arg-type]
    assert everything(store) == before


@pytest.mark.parametrize("wrong", [{"run_id": "other"}, {"task_id": "other"}])
def test_a_message_cannot_move_a_thread_to_another_run_or_task(store: Store, wrong: dict[str, str]) -> None:
    thread = work.send(store, sender="leader", to="builder", subject="Build", run_id="R", task_id="T").thread
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.send(store, sender="leader", summary="More", thread_id=thread.thread_id, **wrong)  # type: ignore[arg-type]
    assert everything(store) == before


def test_a_message_that_names_the_threads_own_run_and_task_is_taken(store: Store) -> None:
    thread = work.send(store, sender="leader", to="builder", subject="Build", run_id="R", task_id="T").thread
    work.send(store, sender="leader", summary="More", thread_id=thread.thread_id, run_id="R", task_id="T")
    assert len(work.show(store, thread.thread_id).messages) == 2


def test_a_message_that_is_sent_again_with_its_key_is_there_once(store: Store) -> None:
    first = work.send(store, sender="leader", to="builder", subject="Blue", key="once")
    assert work.send(store, sender="leader", to="builder", subject="Blue", key="once").message == first.message
    assert len(work.list_threads(store).threads) == 1
    more = work.send(store, sender="leader", thread_id=first.thread.thread_id, summary="And green", key="more")
    assert work.send(store, sender="leader", thread_id=first.thread.thread_id, summary="And green", key="more").message == more.message
    assert len(work.show(store, first.thread.thread_id).messages) == 2


@pytest.mark.parametrize("other", [{"subject": "Green"}, {"to": "tester"}, {"kind": "question"}, {"thread_id": "another"}])
def test_a_key_stands_for_one_message(store: Store, other: dict[str, str]) -> None:
    message = {"sender": "leader", "to": "builder", "subject": "Blue", "key": "once"}
    work.send(store, **message)  # type: ignore[arg-type]
    with pytest.raises(InvalidState, match="another message"):
        work.send(store, **(message | other))  # type: ignore[arg-type]
    assert len(work.list_threads(store).threads) == 1


def test_the_keys_of_two_senders_do_not_meet(store: Store) -> None:
    first = work.send(store, sender="leader", to="builder", subject="Blue", key="once")
    assert work.send(store, sender="boss", to="builder", subject="Blue", key="once").thread != first.thread


# Likely mistakes of a sender


def test_a_receiver_that_was_never_seen_is_pointed_out(store: Store) -> None:
    work.add_agent(store, "ada")
    posted = work.send(store, sender="leader", to="adda", subject="S")
    assert posted.note == "nobody called adda has been seen; did you mean ada?"
    assert posted.to_json()["note"] == posted.note
    assert work.send(store, sender="leader", to="zoe", subject="S").note.startswith("nobody called zoe has been seen")
    known = work.send(store, sender="leader", to="ada", subject="S")
    assert known.note == ""
    assert "note" not in known.to_json()


def test_a_new_name_is_pointed_out_once_while_its_work_waits(store: Store) -> None:
    def send_to(name: str, **more: Any) -> str:
        return work.send(store, sender="leader", to=name, subject="S", **more).note

    assert send_to("zoe", thread_id="first") == "nobody called zoe has been seen; the thread waits for that name"
    assert [send_to("zoe"), send_to("zoe", thread_id="first")] == ["", ""]
    batch = work.send_all(store, [{"to": "max", "subject": "S"}, {"to": "zoe", "subject": "S"}], sender="leader")
    assert [posted.note for posted in batch] == ["nobody called max has been seen; the thread waits for that name", ""]
    work.add_agent(store, "ada")
    assert {send_to("adda") for _ in range(3)} == {"nobody called adda has been seen; did you mean ada?"}  # likely a mistake each time
    with pytest.raises(NotFound):
        send_to("zoe", strict=True)


def test_a_strict_sender_refuses_a_receiver_that_was_never_seen(store: Store) -> None:
    work.add_agent(store, "ada")
    before = everything(store)
    with pytest.raises(NotFound) as refused:
        work.send(store, sender="leader", to="adda", subject="S", strict=True)
    assert (refused.value.hint, everything(store)) == ("Did you mean ada?", before)


def test_a_message_to_another_agent_leaves_a_pending_thread_where_it_is_and_says_so(store: Store) -> None:
    thread_id = sent(store, to="dead")
    posted = work.send(store, sender="leader", to="alive", thread_id=thread_id, summary="Take this over")
    assert posted.thread.assigned_to == "dead"
    assert f"inbox reassign --agent leader --thread {thread_id} --to alive" in posted.note
