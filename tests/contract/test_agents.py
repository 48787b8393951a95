"""Agents: who exists, of what kind, and when last seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import as_shown, asking, ended, held, latest, sent

pytestmark = pytest.mark.travels("http")


def test_the_user_is_a_human_from_the_start(store: Store) -> None:
    assert work.show_agent(store, "user").agent.kind == "human"


def test_agents_are_listed_in_pages(store: Store) -> None:
    for name in ("ada", "bob", "cleo"):
        work.add_agent(store, name)
    first = work.list_agents(store, limit=2)
    assert [agent.name for agent in first] == ["ada", "bob"]
    assert (first.more, first.after, len(first), first[-1].name) == (True, "bob", 2, "bob")
    last = work.list_agents(store, limit=2, after="bob")
    assert [agent.name for agent in last] == ["cleo", "user"]
    assert (last.more, last.after) == (False, None)
    presences = work.list_presences(store, limit=1, after="bob")
    assert [presence.agent.name for presence in presences] == ["cleo"]
    assert (presences.more, presences.after) == (True, "cleo")
    assert not work.list_presences(store, limit=1, after="cleo").more


def test_who_acts_is_known_as_an_agent(store: Store) -> None:
    sent(store, sender="leader")
    assert work.show_agent(store, "leader").agent.kind == "agent"


def test_an_agent_can_be_made_known_as_a_human(store: Store) -> None:
    assert work.add_agent(store, "ada", kind="human").kind == "human"
    assert work.show_agent(store, "ada").agent.kind == "human"


def test_the_kind_of_an_agent_can_be_changed_and_the_rest_stays(store: Store, clock: Clock) -> None:
    sent(store, sender="ada")
    before = work.show_agent(store, "ada").agent
    clock.advance(60)
    assert work.add_agent(store, "ada", kind="human") == before.replace(kind="human")


@pytest.mark.needs_the_store("over the network a person speaks for no other")
def test_acting_does_not_change_the_kind(store: Store) -> None:
    work.add_agent(store, "ada", kind="human")
    sent(store, sender="ada")
    sent(store, sender="user")
    assert [work.show_agent(store, name).agent.kind for name in ("ada", "user")] == ["human", "human"]


def test_all_agents_are_listed_by_name(store: Store) -> None:
    for name in ("zoe", "ada", "max"):
        work.add_agent(store, name)
    assert [agent.name for agent in work.list_agents(store)] == ["ada", "max", "user", "zoe"]


def test_nobody_was_seen_before_they_acted(store: Store) -> None:
    assert work.add_agent(store, "ada").last_seen_at is None


@pytest.mark.parametrize(
    "act",
    [
        lambda store: work.send(store, sender="builder", to="leader", subject="Build"),
        lambda store: work.claim(store, sent(store), agent="builder"),
        lambda store: (sent(store), work.take(store, agent="builder")),
        lambda store: work.reply(store, sent(store), sender="builder", summary="Yes"),
        lambda store: work.cancel(store, sent(store), agent="builder"),
        lambda store: work.mark_read(store, sent(store), agent="builder", event_id=latest(store)),
    ],
    ids=["send", "claim", "take", "reply", "cancel", "mark_read"],
)
def test_every_write_is_a_sign_of_life(store: Store, clock: Clock, act: Callable[[Store], object]) -> None:
    act(store)
    assert work.show_agent(store, "builder").agent.last_seen_at == time.format_stamp(clock.instant)


@pytest.mark.parametrize("act", [work.renew, work.update, work.done, work.fail, work.release])
def test_every_write_of_a_holder_is_a_sign_of_life(store: Store, clock: Clock, act: Callable[..., object]) -> None:
    thread_id = held(store).thread.thread_id
    clock.advance(60)
    act(store, thread_id, agent="builder")
    assert work.show_agent(store, "builder").agent.last_seen_at == time.format_stamp(clock.instant)


def test_an_agent_is_shown_with_what_it_holds(store: Store) -> None:
    claimed = held(store)
    held(store, agent="other")
    ended(store)
    assert work.show_agent(store, "builder").holds == (claimed.replace(lease=as_shown(store, claimed.lease), messages=()),)


def test_an_agent_is_shown_with_how_much_is_unread(store: Store) -> None:
    asking(store)
    thread_id = asking(store).thread.thread_id
    assert work.show_agent(store, "leader").unread == 2
    work.mark_read(store, thread_id, agent="leader", event_id=latest(store))
    assert work.show_agent(store, "leader").unread == 1


def test_somebody_who_was_never_seen_cannot_be_shown(store: Store) -> None:
    with pytest.raises(NotFound):
        work.show_agent(store, "nobody")


@pytest.mark.parametrize(("name", "kind"), [("", "agent"), ("a\nb", "agent"), ("x" * 201, "agent"), ("ada", "robot"), ("ada", "")])
def test_a_malformed_agent_is_refused(store: Store, name: str, kind: str) -> None:
    before = work.list_agents(store)
    with pytest.raises(InvalidInput):
        work.add_agent(store, name, kind=kind)
    assert work.list_agents(store) == before


def test_everybody_is_listed_with_what_they_hold_and_what_waits_for_them(store: Store) -> None:
    claim = held(store, agent="builder")
    sent(store, sender="leader", to="other")
    asking(store, agent="builder")
    present = {presence.agent.name: presence for presence in work.list_presences(store)}
    assert list(present) == sorted(present)
    assert present == {name: work.show_agent(store, name) for name in present}
    assert claim.thread.thread_id in [held.thread.thread_id for held in present["builder"].holds]
    assert (len(present["builder"].holds), present["leader"].unread, present["user"].holds) == (2, 1, ())
    assert len(work.list_presences(store, limit=2)) == 2
    with pytest.raises(InvalidInput):
        work.list_presences(store, limit=0)


def test_an_agent_is_alive_that_was_seen_lately_or_holds_a_lease_that_runs(store: Store, clock: Clock) -> None:
    held(store, agent="builder", lease_seconds=900)

    def alive(name: str) -> bool:
        now = time.format_stamp(clock.instant)
        return work.show_agent(store, name).is_alive(now, time.format_stamp(clock.instant - 300 * time.MICROSECONDS_PER_SECOND))

    assert (alive("leader"), alive("builder"), alive("user")) == (True, True, False)
    clock.advance(300)
    assert (alive("leader"), alive("builder")) == (True, True)
    clock.advance(1)
    assert (alive("leader"), alive("builder")) == (False, True)
    clock.advance(599)
    assert alive("builder") is False
