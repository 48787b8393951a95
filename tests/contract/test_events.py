"""Events: every write announces itself, in the transaction that it announces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import tasks, work
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records import Event
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import asking, events, held, last_message, latest, sent

Prepare = Callable[[Store], str]
Act = Callable[[Store, str], object]


def holding(store: Store) -> str:
    return held(store).thread.thread_id


def question(store: Store) -> str:
    return asking(store).thread.thread_id


def nothing(store: Store) -> str:
    return "thr_new"


SPEAKING: dict[str, tuple[Prepare, Act, str, str]] = {
    "send": (nothing, lambda s, t: work.send(s, sender="leader", to="builder", subject="S", thread_id=t), "thread.created", "leader"),
    "send more": (sent, lambda s, t: work.send(s, sender="leader", summary="S", thread_id=t), "thread.message", "leader"),
    "reply": (question, lambda s, t: work.reply(s, t, sender="leader", summary="S"), "thread.replied", "leader"),
    "update": (holding, lambda s, t: work.update(s, t, agent="builder", summary="S"), "thread.updated", "builder"),
    "block": (holding, lambda s, t: work.update(s, t, agent="builder", status="blocked", summary="S"), "thread.updated", "builder"),
    "done": (holding, lambda s, t: work.done(s, t, agent="builder", summary="S"), "thread.done", "builder"),
    "fail": (holding, lambda s, t: work.fail(s, t, agent="builder", summary="S"), "thread.failed", "builder"),
    "cancel": (holding, lambda s, t: work.cancel(s, t, agent="leader", reason="S"), "thread.cancelled", "leader"),
    "release": (holding, lambda s, t: work.release(s, t, agent="builder", reason="S"), "thread.released", "builder"),
}


def new_events(store: Store, act: Callable[[], object]) -> list[Event]:
    before = latest(store)
    act()
    return events(store, before)


@pytest.mark.parametrize(("prepare", "act", "event_type", "source"), SPEAKING.values(), ids=SPEAKING.keys())
def test_what_is_said_writes_one_event_that_points_to_it(store: Store, prepare: Prepare, act: Act, event_type: str, source: str) -> None:
    thread_id = prepare(store)
    (event,) = new_events(store, lambda: act(store, thread_id))
    message = last_message(store, thread_id)
    assert (event.event_type, event.source, event.thread_id, event.summary) == (event_type, source, thread_id, "S")
    assert (event.message_id, event.event_id, event.created_at) == (message.message_id, message.event_id, message.created_at)


@pytest.mark.parametrize("verb", ["claim", "take"])
def test_a_claim_writes_one_event_and_no_message(store: Store, verb: str) -> None:
    thread_id = sent(store)
    (event,) = new_events(
        store, lambda: work.take(store, agent="builder") if verb == "take" else work.claim(store, thread_id, agent="builder")
    )
    assert (event.event_type, event.source, event.thread_id, event.message_id) == ("thread.claimed", "builder", thread_id, None)
    assert len(work.show(store, thread_id).messages) == 1


def test_a_takeover_is_a_claim(store: Store) -> None:
    thread_id = holding(store)
    (event,) = new_events(store, lambda: work.claim(store, thread_id, agent="builder", takeover=True))
    assert event.event_type == "thread.claimed"


def test_done_and_take_announces_the_end_and_then_the_claim(store: Store) -> None:
    thread_id, following = holding(store), sent(store)
    found = new_events(store, lambda: tasks.done_and_take(store, thread_id, agent="builder"))
    assert [(event.event_type, event.thread_id) for event in found] == [("thread.done", thread_id), ("thread.claimed", following)]


def test_a_renewal_writes_no_event(store: Store) -> None:
    thread_id = holding(store)
    assert new_events(store, lambda: work.renew(store, thread_id, agent="builder")) == []


def test_reading_writes_no_event(store: Store) -> None:
    thread_id = sent(store)

    def read() -> None:
        work.show(store, thread_id)
        work.fetch(store, agent="builder")
        work.list_threads(store)
        work.mark_read(store, thread_id, agent="builder", event_id=1)
        work.take(store, agent="nobody")

    assert new_events(store, read) == []


def test_a_new_event_has_a_higher_id_than_every_earlier_one(store: Store) -> None:
    for _ in range(5):
        question(store)
    ids = [event.event_id for event in events(store)]
    assert ids == sorted(set(ids))


def test_a_refusal_writes_no_event(store: Store) -> None:
    thread_id = sent(store)

    def refused() -> None:
        with pytest.raises(InvalidState):
            work.update(store, thread_id, agent="builder", summary="S")
        with pytest.raises(InvalidInput):
            work.reply(store, thread_id, sender="leader")

    assert new_events(store, refused) == []


def test_events_carry_the_run_and_the_task(store: Store) -> None:
    thread_id = work.send(store, sender="leader", to="builder", subject="S", run_id="R", task_id="T").thread.thread_id
    work.claim(store, thread_id, agent="builder")
    work.done(store, thread_id, agent="builder")
    assert {(event.run_id, event.task_id) for event in events(store)} == {("R", "T")}


def test_the_cursor_that_a_write_returns_is_its_own_event(store: Store) -> None:
    posted = work.send(store, sender="leader", to="builder", subject="S")
    assert posted.next_event_id == posted.message.event_id == latest(store)


def test_the_events_of_a_transaction_carry_its_time(store: Store, clock: Clock) -> None:
    sent(store)
    clock.advance(3600)
    sent(store)
    first, second = events(store)
    assert first.created_at < second.created_at
