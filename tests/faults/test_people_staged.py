"""Races in the people room on PostgreSQL, staged: one stands before its COMMIT, and another comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from postroom import people, work
from postroom.core.errors import InvalidState, Refusal
from postroom.people.agents import handovers
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.people_data import AGENT, USER, asked, ids, new_workspace, pushed, surfaced
from tests.contract.thread_data import last_message
from tests.faults.inspection import assert_no_lock
from tests.faults.test_mail_staged import Act, Stage
from tests.postgres_server import Postgres


@pytest.fixture
def stage(postgres: Postgres, clock: Clock) -> Iterator[Stage]:
    with postgres.store() as url, ExitStack() as stack:
        yield Stage(url, postgres, clock, stack)
        assert_no_lock(url)


def test_all_entries_are_read_although_one_is_deleted_at_the_same_time(stage: Stage, tmp_path: Path) -> None:
    desk = new_workspace(stage.first, tmp_path)
    kept, deleted = pushed(stage.first, desk), pushed(stage.first, desk)
    _, read = stage.raced(
        lambda store: people.delete_entry(store, deleted, person=USER), lambda store: people.mark_all_read(store, person=USER)
    )
    assert read == 1
    (entry,) = people.history(stage.first).entries
    assert (entry.id, entry.read_by) == (kept, USER)


def test_a_list_is_read_although_an_entry_whose_time_has_come_is_deleted(stage: Stage, clock: Clock, tmp_path: Path) -> None:
    desk = new_workspace(stage.first, tmp_path)
    kept, deleted = pushed(stage.first, desk), pushed(stage.first, desk)
    for entry_id in (kept, deleted):
        people.set_state(stage.first, entry_id, person=USER, state="snoozed", until=int(clock() / 1000) + 60_000)
    with stage.before_commit(lambda store: people.delete_entry(store, deleted, person=USER)):
        clock.advance(61)
        listed = stage.meanwhile(people.history)
    assert [entry.id for entry in listed().entries] == [kept]
    assert ids(stage.first) == [kept]


def test_a_question_that_is_deleted_while_it_is_answered_is_not_declined_too(stage: Stage) -> None:
    thread_id, entry_id = surfaced(stage.first, "Which colour?")
    stage.raced(
        lambda store: work.reply(store, thread_id, sender=USER, summary="Blue"),
        lambda store: people.delete_entry(store, entry_id, person=USER),
    )
    assert last_message(stage.first, thread_id).summary == "Blue"
    assert people.history(stage.first).entries == ()


def test_a_job_that_ends_gives_back_the_task_that_is_accepted_for_it_at_the_same_time(stage: Stage) -> None:
    first, second = Conductor(stage.first), Conductor(stage.second)
    for agent in ("lead", AGENT):
        first.register(agent)
    task_id, job_id = first.submit("lead", AGENT, "Count").task_id, first.start_job(AGENT).job_id
    accepted, ended = stage.raced(lambda store: first.accept_next(AGENT, job_id=job_id), lambda store: second.end_job(job_id))
    assert (accepted.task.task_id, ended.job_id) == (task_id, job_id)
    assert first.get(task_id).status.value == "pending"
    late = second.start_job(AGENT).job_id
    _, refused = stage.raced(lambda store: first.end_job(late), lambda store: second.accept_next(AGENT, job_id=late))
    assert isinstance(refused, InvalidState)
    assert first.get(task_id).status.value == "pending"


@pytest.mark.parametrize("whose", [{"everyone": True}, {"person": USER}])
def test_a_link_that_is_redeemed_while_passes_are_revoked_opens_nothing(stage: Stage, whose: dict[str, Any]) -> None:
    link = people.issue_link(stage.first, person=USER)
    session, _ = stage.raced(lambda store: people.redeem(store, link), lambda store: people.revoke_passes(store, **whose))
    with pytest.raises(Refusal):
        people.person_of(stage.first, session.token)


def test_what_was_handed_again_stays_with_its_new_client_when_the_one_before_is_ended(stage: Stage, clock: Clock) -> None:
    people.reply(stage.first, asked(stage.first), person=USER, body="Yes")
    assert people.hand_over_messages(stage.first, agent=AGENT, client="gone").messages
    clock.advance(handovers.HANDOVER_SECONDS + 1)
    handed, _ = stage.raced(
        lambda store: people.hand_over_messages(store, agent=AGENT, client="new"),
        lambda store: handovers.end_handovers(store, agent=AGENT, client="gone"),
    )
    assert [message.body for message in handed.messages] == ["Yes"]
    assert _hand_over(stage.first) == []
    assert people.confirm_handover(stage.first, agent=AGENT, client="new") == 1


def test_a_new_name_is_not_made_a_person_and_an_agent_at_the_same_time(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()

    def make_person(store: Store) -> object:
        return work.add_agent(store, "zed", kind="human")

    def forget(name: str) -> None:
        for workspace in people.list_workspaces(stage.first):
            people.remove_workspace(stage.first, workspace.workspace_id)
        with stage.first.write() as tx:
            tx.execute("DELETE FROM agents WHERE name = :name", name=name)
            tx.execute("DELETE FROM passes WHERE person = :name", name=name)

    agents: list[Act] = [
        lambda store: people.issue_agent_token(store, name="zed"),
        lambda store: people.add_workspace(store, str(tmp_path / "desk"), label="Desk", agent="zed"),
    ]
    for make_agent in agents:
        for acts in ((make_person, make_agent), (make_agent, make_person)):
            done = stage.raced(*acts)
            assert [isinstance(one, Refusal) for one in done] == [False, True]
            forget("zed")


def _hand_over(store: Store) -> list[str]:
    return [message.body for message in people.hand_over_messages(store, agent=AGENT).messages]


def _read(store: Store) -> list[str]:
    return [message.body for message in people.read_messages(store, agent=AGENT)]


@pytest.mark.parametrize("first", [_hand_over, _read])
@pytest.mark.parametrize("second", [_hand_over, _read])
def test_of_two_receivers_of_an_agent_one_gets_an_answer(stage: Stage, first: Act, second: Act) -> None:
    people.reply(stage.first, asked(stage.first), person=USER, body="Yes")
    assert stage.raced(first, second) == (["Yes"], [])
    people.reply(stage.first, asked(stage.first), person=USER, body="No")
    with stage.before_commit(first) as got:
        later = asked(stage.second)
        people.reply(stage.second, later, person=USER, body="Later")
        other = stage.meanwhile(second)
    assert (got, other()) == ([["No"]], ["Later"])
