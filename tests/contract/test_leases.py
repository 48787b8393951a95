"""Leases: who owns a thread. The rows `leases`, `claim`, `fencing` and `acting without owning` of the design."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import tasks, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, LeaseLost, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import as_shown, ended, everything, held, last_message, lease_of, sent, status_of, thread_of

pytestmark = pytest.mark.travels("http")

Act = Callable[..., object]

HOLDERS_VERBS: dict[str, Act] = {
    "renew": work.renew,
    "update": work.update,
    "done": work.done,
    "fail": work.fail,
    "release": work.release,
    "done_and_take": tasks.done_and_take,
}
WRITES = {name: HOLDERS_VERBS[name] for name in ("renew", "update")}
each_verb = pytest.mark.parametrize("act", HOLDERS_VERBS.values(), ids=HOLDERS_VERBS.keys())


def seconds_left(store: Store, thread_id: str, clock: Clock) -> float:
    return (time.parse_stamp(lease_of(store, thread_id).expires_at) - clock.instant) / time.MICROSECONDS_PER_SECOND


def test_a_claim_gives_the_thread_a_token_and_the_claimer_the_thread(store: Store) -> None:
    claimed = work.claim(store, sent(store), agent="builder")
    assert (claimed.thread.status, claimed.thread.assigned_to, claimed.lease.agent_id) == ("claimed", "builder", "builder")
    assert claimed.lease.lease_token
    shown = work.show(store, claimed.thread.thread_id)
    assert (shown.thread, shown.lease) == (claimed.thread, as_shown(store, claimed.lease))


def test_a_lease_lasts_900_seconds_unless_said_otherwise(store: Store, clock: Clock) -> None:
    assert seconds_left(store, held(store).thread.thread_id, clock) == 900


def test_a_lease_lasts_as_long_as_asked(store: Store, clock: Clock) -> None:
    assert seconds_left(store, held(store, lease_seconds=1.5).thread.thread_id, clock) == 1.5


def test_anyone_may_claim_what_is_pending_and_it_becomes_theirs(store: Store) -> None:
    thread_id = sent(store, to="builder")
    work.claim(store, thread_id, agent="other")
    assert thread_of(store, thread_id).assigned_to == "other"


def test_an_agent_may_hold_any_number_of_threads(store: Store) -> None:
    assert len({held(store).lease.lease_token for _ in range(20)}) == 20


@pytest.mark.parametrize("agent", ["other", "builder"])
def test_a_live_lease_refuses_every_claimer_also_of_its_own_name(store: Store, agent: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent=agent)
    assert everything(store) == before


def test_the_refusal_of_ones_own_name_says_how_to_go_on(store: Store) -> None:
    with pytest.raises(LeaseHeld) as refused:
        work.claim(store, held(store).thread.thread_id, agent="builder")
    assert "renew" in refused.value.hint
    assert "claim --takeover" in refused.value.hint


def test_the_refusal_names_the_holder(store: Store) -> None:
    with pytest.raises(LeaseHeld) as refused:
        work.claim(store, held(store).thread.thread_id, agent="other")
    assert refused.value.facts["held_by"] == "builder"


def test_a_takeover_replaces_ones_own_live_lease_and_changes_the_token(store: Store) -> None:
    old = held(store)
    new = work.claim(store, old.thread.thread_id, agent="builder", takeover=True)
    assert new.lease.lease_token != old.lease.lease_token
    assert lease_of(store, old.thread.thread_id) == as_shown(store, new.lease)


def test_a_takeover_does_not_reach_anothers_live_lease(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="other", takeover=True)
    assert everything(store) == before


def test_a_takeover_of_what_nobody_holds_is_a_claim(store: Store) -> None:
    assert work.claim(store, sent(store), agent="builder", takeover=True).lease.agent_id == "builder"


def test_a_takeover_makes_a_blocked_thread_claimed(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.update(store, thread_id, agent="builder", status="blocked", summary="What?")
    assert work.claim(store, thread_id, agent="builder", takeover=True).thread.status == "claimed"


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_a_thread_that_ended_cannot_be_claimed(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    before = everything(store)
    with pytest.raises(InvalidState):
        work.claim(store, thread_id, agent="builder", takeover=True)
    assert everything(store) == before


def test_a_thread_that_is_not_there_cannot_be_claimed(store: Store) -> None:
    with pytest.raises(NotFound):
        work.claim(store, "thr_nowhere", agent="builder")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_lease_of_no_sensible_length_is_refused(store: Store, seconds: float) -> None:
    thread_id = sent(store)
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.claim(store, thread_id, agent="builder", lease_seconds=seconds)
    with pytest.raises(InvalidInput):
        work.take(store, agent="builder", lease_seconds=seconds)
    assert everything(store) == before


# Lapsed leases


def test_a_lease_is_live_to_its_last_moment(store: Store, clock: Clock) -> None:
    thread_id = held(store, lease_seconds=60).thread.thread_id
    clock.advance(59.999)
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="other")


@pytest.mark.parametrize("agent", ["other", "builder"])
def test_what_ran_out_may_be_claimed_by_anyone(store: Store, clock: Clock, agent: str) -> None:
    old = held(store, lease_seconds=60)
    clock.advance(60)
    new = work.claim(store, old.thread.thread_id, agent=agent)
    assert (new.thread.assigned_to, new.thread.status) == (agent, "claimed")
    assert new.lease.lease_token != old.lease.lease_token


@each_verb
def test_a_lapsed_holder_may_go_on_until_someone_takes_the_thread(store: Store, clock: Clock, act: Act) -> None:
    claimed = held(store)
    clock.advance(10_000)
    act(store, claimed.thread.thread_id, agent="builder", lease_token=claimed.lease.lease_token)


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES.keys())
def test_a_lapsed_holder_that_writes_is_live_again(store: Store, clock: Clock, act: Act) -> None:
    thread_id = held(store).thread.thread_id
    clock.advance(10_000)
    act(store, thread_id, agent="builder")
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="other")


@each_verb
def test_a_replaced_owner_is_refused_by_name(store: Store, clock: Clock, act: Act) -> None:
    claimed = held(store)
    clock.advance(900)
    work.claim(store, claimed.thread.thread_id, agent="other")
    before = everything(store)
    with pytest.raises(LeaseHeld):
        act(store, claimed.thread.thread_id, agent="builder")
    assert everything(store) == before


# Fencing


@each_verb
def test_the_current_token_is_accepted(store: Store, act: Act) -> None:
    claimed = held(store)
    act(store, claimed.thread.thread_id, agent="builder", lease_token=claimed.lease.lease_token)


@each_verb
def test_without_a_token_the_holders_name_suffices(store: Store, act: Act) -> None:
    act(store, held(store).thread.thread_id, agent="builder")


@each_verb
def test_a_token_that_was_replaced_is_refused(store: Store, act: Act) -> None:
    old = held(store)
    work.claim(store, old.thread.thread_id, agent="builder", takeover=True)
    before = everything(store)
    with pytest.raises(LeaseLost):
        act(store, old.thread.thread_id, agent="builder", lease_token=old.lease.lease_token)
    assert everything(store) == before


@each_verb
@pytest.mark.parametrize("token", ["", "lse_invented"])
def test_a_token_that_was_never_given_out_is_refused(store: Store, act: Act, token: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(LeaseLost):
        act(store, thread_id, agent="builder", lease_token=token)
    assert everything(store) == before


# Acting without owning


@each_verb
@pytest.mark.parametrize("stolen", [False, True])
def test_acting_on_what_another_holds_is_a_conflict_even_with_its_token(store: Store, act: Act, stolen: bool) -> None:
    claimed = held(store)
    before = everything(store)
    with pytest.raises(LeaseHeld):
        act(store, claimed.thread.thread_id, agent="other", lease_token=claimed.lease.lease_token if stolen else None)
    assert everything(store) == before


@each_verb
@pytest.mark.parametrize("released", [False, True])
def test_acting_on_what_nobody_holds_is_an_invalid_state(store: Store, act: Act, released: bool) -> None:
    thread_id = sent(store)
    if released:
        work.claim(store, thread_id, agent="builder")
        work.release(store, thread_id, agent="builder")
    before = everything(store)
    with pytest.raises(InvalidState):
        act(store, thread_id, agent="builder")
    assert everything(store) == before


@each_verb
@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
@pytest.mark.parametrize("agent", ["builder", "other"])
def test_acting_on_what_has_ended_is_an_invalid_state(store: Store, act: Act, how: str, agent: str) -> None:
    thread_id = ended(store, how)
    before = everything(store)
    with pytest.raises(InvalidState):
        act(store, thread_id, agent=agent)
    assert everything(store) == before


@each_verb
def test_acting_on_what_is_not_there_is_refused(store: Store, act: Act) -> None:
    with pytest.raises(NotFound):
        act(store, "thr_nowhere", agent="builder")


@each_verb
@pytest.mark.parametrize("agent", ["", " builder", "a\nb", "x" * 201])
@pytest.mark.input_check
def test_acting_under_no_proper_name_is_refused(store: Store, act: Act, agent: str) -> None:
    thread_id = held(store).thread.thread_id
    with pytest.raises(InvalidInput):
        act(store, thread_id, agent=agent)


# Renewing


def test_a_renewal_extends_from_now_by_the_leases_own_length(store: Store, clock: Clock) -> None:
    thread_id = held(store, lease_seconds=100).thread.thread_id
    clock.advance(70)
    renewed = work.renew(store, thread_id, agent="builder")
    assert seconds_left(store, thread_id, clock) == 100
    assert lease_of(store, thread_id) == as_shown(store, renewed.lease)


def test_a_renewal_can_set_another_length_which_later_writes_keep(store: Store, clock: Clock) -> None:
    thread_id = held(store, lease_seconds=100).thread.thread_id
    work.renew(store, thread_id, agent="builder", lease_seconds=300)
    clock.advance(50)
    work.update(store, thread_id, agent="builder", summary="On it")
    assert seconds_left(store, thread_id, clock) == 300


def test_a_renewal_keeps_the_token_and_the_thread_as_they_are(store: Store, clock: Clock) -> None:
    claimed = held(store)
    clock.advance(5)
    renewed = work.renew(store, claimed.thread.thread_id, agent="builder")
    assert renewed.thread == thread_of(store, claimed.thread.thread_id) == claimed.thread
    assert renewed.lease.lease_token == claimed.lease.lease_token


@pytest.mark.parametrize("seconds", [0, -5, float("nan")])
def test_a_renewal_by_no_sensible_length_is_refused(store: Store, seconds: float) -> None:
    thread_id = held(store).thread.thread_id
    with pytest.raises(InvalidInput):
        work.renew(store, thread_id, agent="builder", lease_seconds=seconds)


def test_every_write_of_the_holder_renews(store: Store, clock: Clock) -> None:
    thread_id = held(store, lease_seconds=100).thread.thread_id
    writes: list[Callable[[], object]] = [
        lambda: work.update(store, thread_id, agent="builder", summary="On it"),
        lambda: work.update(store, thread_id, agent="builder", status="blocked", summary="What?"),
        lambda: work.reply(store, thread_id, sender="builder", kind="progress", summary="More"),
        lambda: work.send(store, sender="builder", summary="More", thread_id=thread_id),
    ]
    for write in writes:
        clock.advance(60)
        write()
        assert seconds_left(store, thread_id, clock) == 100


# Giving back


def test_a_release_makes_the_thread_pending_for_the_same_agent(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.release(store, thread_id, agent="builder")
    thread = thread_of(store, thread_id)
    assert (thread.status, thread.assigned_to) == ("pending", "builder")


def test_a_release_can_name_who_is_next(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.release(store, thread_id, agent="builder", to="other", reason="Off home")
    assert thread_of(store, thread_id).assigned_to == "other"
    message = last_message(store, thread_id)
    assert (message.kind, message.from_agent, message.to_agent, message.summary) == ("event", "builder", "other", "Off home")


def test_what_was_released_can_be_claimed_at_once(store: Store) -> None:
    old = held(store)
    work.release(store, old.thread.thread_id, agent="builder")
    new = work.claim(store, old.thread.thread_id, agent="other")
    assert new.lease.lease_token != old.lease.lease_token
    assert status_of(store, old.thread.thread_id) == "claimed"


def test_a_released_token_is_worth_nothing_after_the_next_claim(store: Store) -> None:
    old = held(store)
    work.release(store, old.thread.thread_id, agent="builder")
    work.claim(store, old.thread.thread_id, agent="builder")
    with pytest.raises(LeaseLost):
        work.done(store, old.thread.thread_id, agent="builder", lease_token=old.lease.lease_token)


def test_the_token_is_the_holders_and_is_not_shown_to_others(store: Store) -> None:
    claimed = held(store)
    assert claimed.lease.lease_token not in repr(work.show(store, claimed.thread.thread_id).to_json())
    assert claimed.lease.lease_token not in repr(work.show_agent(store, "builder").to_json())
