"""Passes: a link that works once, a session that ends, a bearer token; and a store that keeps only their hashes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postroom import people, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, NotFound, Refusal
from postroom.core.records.passes import ListedPass
from postroom.people.access import passes
from postroom.store import open_store
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import ADA, USER, field, persons, sha256
from tests.contract.thread_data import events
from tests.faults.mail_children import everything as every_row

DAY = 86_400


def refused(store: Store, token: str) -> bool:
    """Check that neither way of signing in accepts it."""
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


def test_a_bearer_token_ends_ninety_days_after_its_last_use(store: Store, clock: Clock) -> None:
    token = people.issue_bearer(store, person=USER)
    for _ in range(5):
        clock.advance(89 * DAY)
        people.record_use(store, sha256(token.encode()))
        assert people.person_of(store, token) == USER
    clock.advance(90 * DAY)
    assert refused(store, token)


def test_a_use_is_recorded_once_a_day(store: Store, clock: Clock) -> None:
    token = people.issue_bearer(store, person=USER)
    assert only_pass(store).last_used_at is None
    people.record_use(store, sha256(token.encode()))
    first = only_pass(store)
    assert (first.last_used_at, first.expires_at) == (time.format_stamp(clock()), time.format_stamp(clock() + 90 * DAY * 10**6))
    clock.advance(DAY - 1)
    people.record_use(store, sha256(token.encode()))
    assert only_pass(store) == first
    clock.advance(1)
    people.record_use(store, sha256(token.encode()))
    assert only_pass(store).last_used_at == time.format_stamp(clock())


def test_the_use_of_a_session_does_not_make_it_longer(store: Store) -> None:
    session = people.redeem(store, people.issue_link(store, person=USER))
    people.record_use(store, sha256(session.token.encode()))
    assert only_pass(store).expires_at == session.expires_at


def test_a_new_bearer_token_makes_the_persons_old_one_void(store: Store) -> None:
    persons(store)
    session, of_ada = people.redeem(store, people.issue_link(store, person=USER)).token, people.issue_bearer(store, person=ADA)
    old, new = (people.issue_bearer(store, person=USER) for _ in range(2))
    assert refused(store, old)
    assert [people.person_of(store, token) for token in (new, session, of_ada)] == [USER, USER, ADA]


def test_a_person_who_becomes_an_agent_loses_every_pass_at_once(store: Store) -> None:
    persons(store)
    session = people.redeem(store, people.issue_link(store, person=ADA)).token
    link, bearer, mine = (
        people.issue_link(store, person=ADA),
        people.issue_bearer(store, person=ADA),
        people.issue_bearer(store, person=USER),
    )
    work.add_agent(store, ADA, kind="human")
    assert people.person_of(store, session) == ADA
    work.add_agent(store, ADA, kind="agent")
    assert [listed.name for listed in people.list_passes(store).passes] == [USER]
    work.add_agent(store, ADA, kind="human")
    assert all(refused(store, token) for token in (session, link, bearer))
    assert people.person_of(store, mine) == USER


@pytest.mark.needs_the_store("it changes a row behind the verbs")
def test_a_pass_of_a_name_that_is_no_longer_a_persons_is_void(store: Store) -> None:
    persons(store)
    link, bearer = people.issue_link(store, person=ADA), people.issue_bearer(store, person=ADA)
    with store.write() as tx:
        tx.execute("UPDATE agents SET kind = 'agent' WHERE name = :name", name=ADA)
    assert refused(store, link)
    assert refused(store, bearer)


# The list


def only_pass(store: Store) -> ListedPass:
    [listed] = people.list_passes(store).passes
    return listed


def test_passes_are_listed_with_their_facts_and_without_their_tokens(store: Store, clock: Clock) -> None:
    persons(store)
    issued = {
        "link": people.issue_link(store, person=ADA, seconds=60),
        "session": people.redeem(store, people.issue_link(store, person=USER)).token,
        "bearer": people.issue_bearer(store, person=USER),
        "agent": people.issue_agent_token(store, name="builder"),
    }
    page = people.list_passes(store)
    assert (page.more, page.after) == (False, None)
    assert {listed.pass_id for listed in page.passes} == {f"pass_{sha256(token.encode())[:12]}" for token in issued.values()}
    facts = {listed.kind: (listed.name, listed.created_at, listed.expires_at, listed.last_used_at) for listed in page.passes}
    now = time.format_stamp(clock())
    lasting = {"link": 60, "session": 30 * DAY, "bearer": 90 * DAY}
    until = {kind: time.format_stamp(clock() + seconds * 10**6) for kind, seconds in lasting.items()}
    assert facts == {
        "link": (ADA, now, until["link"], None),
        "session": (USER, now, until["session"], None),
        "bearer": (USER, now, until["bearer"], None),
        "agent": ("builder", now, None, None),
    }
    assert not [token for token in issued.values() if token[4:] in repr(page) or sha256(token.encode()) in repr(page)]
    clock.advance(60)
    assert "link" not in {listed.kind for listed in people.list_passes(store).passes}


def test_a_long_list_is_read_in_pages_and_by_name(store: Store) -> None:
    persons(store)
    mine = {people.issue_link(store, person=USER) for _ in range(5)}
    people.issue_link(store, person=ADA)
    whole = people.list_passes(store, person=USER).passes
    assert {listed.pass_id for listed in whole} == {f"pass_{sha256(token.encode())[:12]}" for token in mine}
    pages, after = [], None
    while True:
        page = people.list_passes(store, person=USER, after=after, limit=2)
        pages.append(page.passes)
        after = page.after
        if not page.more:
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sum(pages, ()) == whole


def test_one_pass_is_revoked_by_its_id(store: Store) -> None:
    sessions = [people.redeem(store, people.issue_link(store, person=USER)).token for _ in range(2)]
    gone = f"pass_{sha256(sessions[0].encode())[:12]}"
    assert [listed.pass_id for listed in people.revoke_passes(store, pass_id=gone)] == [gone]
    assert refused(store, sessions[0])
    assert people.person_of(store, sessions[1]) == USER
    with pytest.raises(NotFound):
        people.revoke_passes(store, pass_id=gone)
    assert people.revoke_passes(store, pass_id=only_pass(store).pass_id[:11])


def test_the_beginning_of_two_passes_is_refused_with_both(store: Store) -> None:
    with store.write() as tx:
        for token in ("prq_323", "prq_441"):  # their hashes begin with 19aa
            passes.insert_question_pass(tx, token, USER, "e1", 60)
    ids = [f"pass_{sha256(token.encode())[:12]}" for token in ("prq_323", "prq_441")]
    with pytest.raises(InvalidInput) as refusal:
        people.revoke_passes(store, pass_id="19aa")
    assert all(one in str(refusal.value.hint) for one in ids)
    assert [one.pass_id for one in people.revoke_passes(store, pass_id=ids[0][:-2])] == ids[:1]


def test_all_passes_of_a_name_or_of_everyone_are_revoked(store: Store) -> None:
    persons(store)
    of_ada = [people.issue_link(store, person=ADA), people.issue_bearer(store, person=ADA)]
    mine, agents = people.issue_bearer(store, person=USER), people.issue_agent_token(store, name="builder")
    assert {listed.kind for listed in people.revoke_passes(store, person=ADA)} == {"link", "bearer"}
    assert all(refused(store, token) for token in of_ada)
    assert (people.person_of(store, mine), held(store, agents)) == (USER, (passes.AGENT, "builder"))
    assert {listed.name for listed in people.revoke_passes(store, everyone=True)} == {USER, "builder"}
    assert (held(store, mine), held(store, agents), people.revoke_passes(store, everyone=True)) == (NOBODY, NOBODY, ())


@pytest.mark.parametrize(
    "which",
    [
        *({}, {"pass_id": "pass_0123456789ab", "person": USER}, {"person": USER, "everyone": True}, {"pass_id": ""}, {"pass_id": "pass_"}),
        *({"pass_id": "pass_xyz0"}, {"pass_id": "pass_" + "0" * 64}, {"person": ""}, {"person": "zoe"}, {"pass_id": "pass_0123456789ab"}),
    ],
    ids=str,
)
def test_an_unclear_or_unknown_choice_revokes_nothing(store: Store, which: dict[str, Any]) -> None:
    people.issue_bearer(store, person=USER)
    before = people.list_passes(store)
    with pytest.raises((InvalidInput, NotFound)):
        people.revoke_passes(store, **which)
    assert people.list_passes(store) == before


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
        known = passes.find_pass(tx, token)
    return NOBODY if known is None else (known.kind, known.person)


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
