"""Recovery: work of a dead agent goes to another, a lapse is told, and what failed is tried again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import work
from postroom.core.errors import InvalidState, LeaseHeld, NotFound
from postroom.store.interface import Store
from postroom.work import lapses
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.thread_data import asking, ended, events, everything, held, last_message, latest, sent, status_of, thread_of

pytestmark = pytest.mark.travels("http")


def types_after(store: Store, cursor: int) -> list[str]:
    return [event.event_type for event in events(store, cursor)]


# Giving work to another agent


def test_pending_work_can_be_given_to_another_agent(store: Store) -> None:
    thread_id = sent(store, to="dead")
    posted = work.reassign(store, thread_id, agent="leader", to="alive", reason="dead does not answer")
    assert (posted.thread.status, posted.thread.assigned_to) == ("pending", "alive")
    said = last_message(store, thread_id)
    assert (said.kind, said.from_agent, said.to_agent, said.summary) == ("event", "leader", "alive", "dead does not answer")
    taken = work.take(store, agent="alive")
    assert taken is not None
    assert taken.thread.thread_id == thread_id
    assert work.fetch(store, agent="dead").candidates == ()


def test_lapsed_work_can_be_given_to_another_agent_and_its_holder_is_refused(store: Store, clock: Clock) -> None:
    claim = held(store, agent="dead", lease_seconds=10)
    clock.advance(11)
    work.reassign(store, claim.thread.thread_id, agent="leader", to="alive")
    with pytest.raises(InvalidState):
        work.done(store, claim.thread.thread_id, agent="dead", lease_token=claim.lease.lease_token)
    assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="alive").candidates] == [claim.thread.thread_id]


def test_work_that_is_held_cannot_be_given_to_another_agent(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(LeaseHeld):
        work.reassign(store, thread_id, agent="leader", to="alive")
    assert everything(store) == before


def test_what_has_ended_or_never_was_cannot_be_given_away(store: Store) -> None:
    with pytest.raises(InvalidState):
        work.reassign(store, ended(store), agent="leader", to="alive")
    with pytest.raises(NotFound):
        work.reassign(store, "thr_nowhere", agent="leader", to="alive")


# Trying again


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_thread_that_failed_or_was_cancelled_is_reopened_with_its_history(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    before = work.show(store, thread_id).messages
    posted = work.retry_thread(store, thread_id, agent="leader", reason="The API is back")
    shown = work.show(store, thread_id)
    assert (shown.thread.status, shown.thread.assigned_to) == ("pending", "builder")
    assert shown.messages == (*before, posted.message)
    assert (posted.message.kind, posted.message.to_agent, posted.message.summary) == ("event", "builder", "The API is back")
    taken = work.take(store, agent="builder")
    assert taken is not None
    work.done(store, thread_id, agent="builder", lease_token=taken.lease.lease_token)
    assert status_of(store, thread_id) == "done"


def test_the_token_of_the_failed_attempt_is_refused(store: Store) -> None:
    claim = held(store)
    thread_id, token = claim.thread.thread_id, claim.lease.lease_token
    work.fail(store, thread_id, agent="builder", summary="No", lease_token=token)
    work.retry_thread(store, thread_id, agent="leader")
    with pytest.raises(InvalidState):
        work.done(store, thread_id, agent="builder", lease_token=token)


@pytest.mark.parametrize("make", [ended, sent, lambda store: held(store).thread.thread_id])
def test_what_is_done_or_has_not_ended_cannot_be_retried(store: Store, make: Callable[[Store], str]) -> None:
    thread_id = make(store)
    before = everything(store)
    with pytest.raises(InvalidState):
        work.retry_thread(store, thread_id, agent="leader")
    assert everything(store) == before


# Telling that a lease ran out


@pytest.mark.needs_the_store("its clock and that of a waiting server differ")
def test_a_watch_tells_once_that_a_lease_ran_out(store: Store, clock: Clock) -> None:
    claim = held(store, lease_seconds=10)
    start = latest(store)
    clock.advance(11)
    seen = work.watch(store, agent="leader", statuses=["lapsed"], after_event=start, timeout_seconds=LONG)
    (event,) = seen.events
    assert (event.event_type, event.thread_id, event.source) == ("thread.lapsed", claim.thread.thread_id, "")
    assert "builder" in event.summary
    assert not work.watch(store, agent="leader", after_event=seen.next_event_id, timeout_seconds=0.05).woke
    assert types_after(store, start) == ["thread.lapsed"]


@pytest.mark.needs_the_store("its clock and that of a waiting server differ")
def test_a_watch_sleeps_until_the_next_lease_runs_out_or_another_process_notes_it(
    store: Store, connect: Callable[..., Store], clock: Clock
) -> None:
    asking(store, lease_seconds=10)

    def note_elsewhere() -> None:
        clock.advance(11)
        lapses.note_lapses(store)

    with BlockingStore(connect(clock), note_elsewhere) as sleeper:
        seen = work.watch(sleeper, statuses=["lapsed"], timeout_seconds=LONG)
    assert sleeper.sleeps[0] == 10
    assert [event.event_type for event in seen.events] == ["thread.lapsed"]


@pytest.mark.needs_the_store("it calls no verb")
def test_a_lapse_is_noted_by_one_of_several_processes(store: Store, connect: Callable[..., Store], clock: Clock) -> None:
    held(store, lease_seconds=10)
    clock.advance(11)
    start = latest(store)
    assert (lapses.note_lapses(connect(clock)), lapses.note_lapses(store)) == (1, 0)
    assert types_after(store, start) == ["thread.lapsed"]


@pytest.mark.needs_the_store("it calls no verb")
def test_a_lease_that_was_renewed_and_ran_out_again_is_noted_again(store: Store, clock: Clock) -> None:
    claim = held(store, lease_seconds=10)
    clock.advance(11)
    lapses.note_lapses(store)
    work.renew(store, claim.thread.thread_id, agent="builder")
    clock.advance(5)
    assert lapses.note_lapses(store) == 0
    clock.advance(6)
    assert lapses.note_lapses(store) == 1


@pytest.mark.needs_the_store("it sets the clock back")
def test_after_the_clock_was_set_back_lapses_are_noted_again(store: Store, clock: Clock) -> None:
    lapses.note_lapses(store)
    clock.advance(-3600)
    held(store, lease_seconds=10)
    lapses.note_lapses(store)
    clock.advance(11)
    assert lapses.note_lapses(store) == 1


@pytest.mark.parametrize(
    "verb", [lambda s, t: work.claim(s, t, agent="alive"), lambda s, t: work.reassign(s, t, agent="leader", to="alive")]
)
def test_taking_lapsed_work_from_its_holder_tells_that_it_lapsed_first(store: Store, clock: Clock, verb: Callable[..., object]) -> None:
    claim = held(store, lease_seconds=10)
    clock.advance(11)
    start = latest(store)
    verb(store, claim.thread.thread_id)
    assert types_after(store, start)[0] == "thread.lapsed"
    assert len(types_after(store, start)) == 2
    assert thread_of(store, claim.thread.thread_id).assigned_to == "alive"


@pytest.mark.parametrize(("reason", "summary"), [("", "reopened: it was failed"), ("It is back", "It is back")])
def test_a_retry_says_in_the_thread_what_happened(store: Store, reason: str, summary: str) -> None:
    claim = held(store)
    work.fail(store, claim.thread.thread_id, agent=claim.lease.agent_id, summary="The API is gone")
    work.retry_thread(store, claim.thread.thread_id, agent="leader", reason=reason)
    assert last_message(store, claim.thread.thread_id).summary == summary
    assert events(store)[-1].summary == summary
