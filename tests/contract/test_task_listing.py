"""Lists and histories of tasks as records, and the choice of an agent by a skill."""

from __future__ import annotations

import pytest

from postroom import mail, people, tasks, work
from postroom.core import limits
from postroom.core.errors import InvalidInput, NotFound
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.contract.task_data import ANN, BOB, CID, asked, conductor_with_agents, held


def _descriptions(store: Store, **chosen: object) -> list[str]:
    return [task.description for task in tasks.list_tasks(store, **chosen).tasks]  # type: ignore[arg-type]


def test_a_list_is_cut_at_its_limit_and_goes_on_from_its_cursor(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for number in range(5):
        asked(conductor, str(number))
    first = tasks.list_tasks(store, limit=2)
    assert first.next_before_event is not None
    second = tasks.list_tasks(store, limit=2, before_event=first.next_before_event)
    third = tasks.list_tasks(store, limit=2, before_event=second.next_before_event)
    assert [task.description for page in (first, second, third) for task in page.tasks] == ["4", "3", "2", "1", "0"]
    assert (third.next_before_event, third.to_json()["more"], first.to_json()["more"]) == (None, False, True)
    exact = tasks.list_tasks(store, limit=5)
    assert (len(exact.tasks), exact.next_before_event) == (5, None)


def test_a_list_of_large_tasks_is_cut_before_its_answer_is_too_large(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for _ in range(6):
        asked(conductor, "Large", context={"text": "x" * (limits.MAX_ANSWER_BYTES // 5)})
    page = tasks.list_tasks(store)
    rest = tasks.list_tasks(store, before_event=page.next_before_event)
    assert 0 < len(page.tasks) < 6
    assert len(page.tasks) + len(rest.tasks) == 6


def test_a_list_is_filtered_as_that_of_the_conductor(store: Store) -> None:
    conductor = conductor_with_agents(store)
    one = held(conductor, description="done")
    conductor.complete(one.task_id, agent=BOB)
    asked(conductor, "open")
    asked(conductor, "other", source=CID, target=ANN)
    assert _descriptions(store, agent=BOB) == ["open", "done"]
    assert _descriptions(store, source=ANN, status="pending") == ["open"]
    assert _descriptions(store, visible_to=CID) == ["other"]
    assert _descriptions(store, agent=BOB, source=ANN, status="completed") == ["done"]
    for chosen in ({"status": "done"}, {"limit": 0}, {"before_event": -1}):
        with pytest.raises(InvalidInput):
            tasks.list_tasks(store, **chosen)


@pytest.mark.parametrize(("door", "verified"), [("cli", False), ("library", False), ("http", True), ("mcp", True)])
def test_a_task_shows_its_door_and_whether_its_giver_was_checked(store: Store, door: str, verified: bool) -> None:
    conductor_with_agents(store)
    task = asked(Conductor(store.with_door(door)))
    (listed,) = tasks.list_tasks(store).to_json()["tasks"]
    assert (listed["door"], listed["verified"], listed["context"], listed["artifacts"]) == (door, verified, {}, None)
    assert (task.door, task.verified) == (door, verified)
    assert "lease_token" not in listed


def test_a_prompt_marks_a_task_in_the_name_of_a_person_that_no_server_checked(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for door in ("cli", "web"):
        for giver in ("user", ANN):
            asked(Conductor(store.with_door(door)), source=giver)
    job = conductor.start_job(BOB)
    for text in (conductor.render(BOB).text, conductor.begin_sheet(job.job_id).text):
        givers = [line for line in text.splitlines() if line.startswith("From: ")]
        assert givers == ["From: user (unverified)", "From: ann", "From: user", "From: ann"]


def test_a_task_is_shown_with_every_step_of_its_life(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task_id, token = held(conductor)
    conductor.complete(task_id, agent=BOB, lease_token=token)
    shown = tasks.show_task(store, task_id)
    assert shown.task.status == "completed"
    steps = [(event.event_type.removeprefix("task.A2ATask"), event.source) for event in shown.events]
    assert steps == [("Submitted", ANN), ("Routed", BOB), ("Accepted", BOB), ("Completed", BOB)]
    with pytest.raises(NotFound):
        tasks.show_task(store, "nope")


def test_the_history_of_a_task_has_no_events_of_other_things_that_were_given_its_id(store: Store) -> None:
    task_id = asked(conductor_with_agents(store)).task_id
    before = tasks.show_task(store, task_id).events
    mail.enqueue(store, {"from": "stranger", "to": "stranger", "msg_id": task_id, "payload": "x"})
    people.note_injected(store, (task_id,), agent="stranger", route="hook", session="s")
    assert tasks.show_task(store, task_id).events == before


def test_of_the_agents_with_a_skill_the_least_busy_is_chosen(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.register(BOB, skills=("Review",))
    conductor.register(CID, skills=("review", "write"))
    assert tasks.choose_agent(store, "review") == BOB
    asked(conductor)
    assert tasks.choose_agent(store, "REVIEW") == CID
    assert tasks.choose_agent(store, "review", without=CID) == BOB
    with pytest.raises(NotFound, match="paint"):
        tasks.choose_agent(store, "paint")
    with pytest.raises(NotFound):
        tasks.choose_agent(store, "write", without=CID)


def test_a_giver_needs_no_card_but_the_store_must_know_it(store: Store) -> None:
    conductor = conductor_with_agents(store, BOB)
    with pytest.raises(NotFound):
        conductor.submit("dora", BOB, "Review it")
    work.add_agent(store, "dora", kind="human")
    assert conductor.submit("dora", BOB, "Review it").source_agent == "dora"
    with pytest.raises(NotFound):
        conductor.submit(BOB, "dora", "Review it")
