"""Passes: a link that works once, a session that ends, a bearer token; and a store that keeps only their hashes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from postroom import people, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, NotFound, Refusal
from postroom.people import passes
from postroom.store import open_store
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import ADA, USER, field, persons, sha256
from tests.contract.thread_data import events
from tests.faults.mail_children import everything as every_row


def refused(store: Store, token: str) -> bool:
    """Nobody comes in with it, by either way."""
    for way in (people.person_of, people.redeem):
        with pytest.raises(NotFound):
            way(store, token)
    return True


def test_a_link_lets_its_person_in_once(store: Store) -> None:
    persons(store)
    link = people.issue_link(store, person=ADA)
    session = people.redeem(store, link)
    assert session.person == ADA
    assert people.person_of(store, session.token) == ADA
    assert people.person_of(store, session.token) == ADA
    with pytest.raises(NotFound):
        people.redeem(store, link)
    assert people.person_of(store, session.token) == ADA


def test_a_link_is_no_pass_and_a_pass_is_no_link(store: Store) -> None:
    link = people.issue_link(store, person=USER)
    with pytest.raises(NotFound):
        people.person_of(store, link)
    session = people.redeem(store, link)
    for token in (session.token, people.issue_bearer(store, person=USER)):
        with pytest.raises(NotFound):
            people.redeem(store, token)
        assert people.person_of(store, token) == USER


@pytest.mark.parametrize("seconds", [None, 1, 90])
def test_a_link_works_until_its_time_is_over(store: Store, clock: Clock, seconds: int | None) -> None:
    links = [people.issue_link(store, person=USER, **({} if seconds is None else {"seconds": seconds})) for _ in range(2)]
    clock.instant += (seconds or 3600) * time.MICROSECONDS_PER_SECOND - 1
    assert people.redeem(store, links[0]).person == USER
    clock.instant += 1
    assert refused(store, links[1])


def test_a_session_ends(store: Store, clock: Clock) -> None:
    session = people.redeem(store, people.issue_link(store, person=USER))
    clock.instant = time.parse_stamp(session.expires_at) - 1
    assert people.person_of(store, session.token) == USER
    clock.instant += 1
    assert refused(store, session.token)


def test_a_bearer_token_is_good_until_it_is_revoked(store: Store, clock: Clock) -> None:
    token, other = people.issue_bearer(store, person=USER), people.issue_bearer(store, person=USER)
    clock.advance(365 * 86_400)
    assert people.person_of(store, token) == USER
    people.revoke(store, token)
    assert refused(store, token)
    assert people.person_of(store, other) == USER


def test_sessions_and_links_can_be_revoked(store: Store) -> None:
    session = people.redeem(store, people.issue_link(store, person=USER))
    link = people.issue_link(store, person=USER)
    for token in (session.token, link):
        people.revoke(store, token)
        assert refused(store, token)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_link_for_no_sensible_time_is_refused(store: Store, seconds: float) -> None:
    with pytest.raises(InvalidInput) as wrong:
        people.issue_link(store, person=USER, seconds=seconds)
    assert field(wrong.value) == "seconds"


@pytest.mark.parametrize("person", ["", "zoe", "builder", "two\nlines"])
def test_only_people_get_passes(store: Store, person: str) -> None:
    work.add_agent(store, "builder")
    for issue in (people.issue_link, people.issue_bearer):
        with pytest.raises(Refusal):
            issue(store, person=person)


def test_tokens_are_long_and_never_the_same(store: Store) -> None:
    tokens = [people.issue_link(store, person=USER) for _ in range(5)] + [people.issue_bearer(store, person=USER) for _ in range(5)]
    assert len(set(tokens)) == 10
    assert all(len(token) >= 32 and token.isascii() and token.isprintable() and " " not in token for token in tokens)


def test_the_store_and_its_events_keep_no_token(store: Store, place: str) -> None:
    link, bearer = people.issue_link(store, person=USER), people.issue_bearer(store, person=USER)
    session = people.redeem(store, people.issue_link(store, person=USER))
    kept = repr(every_row(place)) + repr(events(store))
    for token in (link, bearer, session.token):
        assert token not in kept
        assert token.rpartition("_")[2] not in kept


def test_what_is_no_token_lets_nobody_in(store: Store, tmp_path: Path) -> None:
    bearer, link = people.issue_bearer(store, person=USER), people.issue_link(store, person=USER)
    for token in (bearer, link):
        for wrong in ("", token[:-1], token + "x", token.upper(), sha256(token.encode()), f" {token}", "%", "\0", "\ud800"):
            assert refused(store, wrong), wrong
    assert people.person_of(store, bearer) == USER


def test_a_workspaces_token_is_no_persons_and_a_persons_no_workspaces(store: Store, tmp_path: Path) -> None:
    workspace = people.add_workspace(store, str(tmp_path), label="Desk", agent="desk")
    assert refused(store, workspace.token)
    session = people.redeem(store, people.issue_link(store, person=USER))
    for token in (session.token, people.issue_bearer(store, person=USER)):
        with pytest.raises(NotFound):
            people.workspace_of(store, token)


# Tokens of agents


def held(store: Store, token: str) -> tuple[str, str]:
    with store.read() as tx:
        return passes.find_holder(tx, token)


NOBODY = ("", "")


def test_an_agents_token_is_of_its_name_and_of_no_person(store: Store, clock: Clock) -> None:
    token = people.issue_agent_token(store, name="analyst")
    assert token.startswith("pra_")
    clock.advance(365 * 86_400)
    assert held(store, token) == (passes.AGENT, "analyst")
    assert refused(store, token)
    with pytest.raises(NotFound):
        people.workspace_of(store, token)


def test_who_gets_a_token_becomes_known_as_an_agent(store: Store) -> None:
    people.issue_agent_token(store, name="analyst")
    presence = work.show_agent(store, "analyst")
    assert (presence.agent.kind, presence.agent.last_seen_at) == ("agent", None)


def test_a_new_token_makes_the_old_one_void(store: Store) -> None:
    other = people.issue_agent_token(store, name="other")
    first, second = (people.issue_agent_token(store, name="analyst") for _ in range(2))
    assert (held(store, first), held(store, second)) == (NOBODY, (passes.AGENT, "analyst"))
    assert held(store, other) == (passes.AGENT, "other")


def test_a_revoked_token_is_void_and_so_it_stays(store: Store) -> None:
    token, other = people.issue_agent_token(store, name="analyst"), people.issue_agent_token(store, name="other")
    bearer = people.issue_bearer(store, person=USER)
    assert people.revoke_agent_token(store, name="analyst") is True
    assert people.revoke_agent_token(store, name="analyst") is False
    assert people.revoke_agent_token(store, name=USER) is False
    assert (held(store, token), held(store, other)) == (NOBODY, (passes.AGENT, "other"))
    assert people.person_of(store, bearer) == USER
    people.revoke(store, other)
    assert held(store, other) == NOBODY


def test_a_token_of_nobody_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(NotFound):
        people.revoke_agent_token(store, name="zoe")


@pytest.mark.parametrize("name", ["", "two\nlines", " outer", "a\0b", "x" * 201, USER])
def test_a_name_that_is_none_or_a_persons_gets_no_token(store: Store, name: str) -> None:
    before = work.list_agents(store)
    with pytest.raises(InvalidInput) as wrong:
        people.issue_agent_token(store, name=name)
    assert field(wrong.value) == "name"
    assert work.list_agents(store) == before


def test_who_has_an_agents_token_becomes_no_person(store: Store) -> None:
    people.issue_agent_token(store, name="analyst")
    with pytest.raises(InvalidState):
        work.add_agent(store, "analyst", kind="human")
    assert work.show_agent(store, "analyst").agent.kind == "agent"
    people.revoke_agent_token(store, name="analyst")
    assert work.add_agent(store, "analyst", kind="human").kind == "human"


def test_the_store_keeps_no_agents_token(store: Store, place: str) -> None:
    token = people.issue_agent_token(store, name="analyst")
    assert token.rpartition("_")[2] not in repr(every_row(place)) + repr(events(store))


def test_of_many_tokens_made_at_once_one_is_good(store: Store, place: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: _issued(place), range(24)))
    assert sum(held(store, token) != NOBODY for token in made) == 1


def _issued(place: str) -> str:
    with closing(open_store(place)) as own:
        return people.issue_agent_token(own, name="analyst")
