"""Tasks over HTTP: people see and give them, agents see and give their own, and run their jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postroom.core.errors import Forbidden, LeaseLost, NotFound
from postroom.tasks import Conductor
from tests.cli import fork_client
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import TokenAgent


@pytest.fixture
def worker(server: RunningServer, workspace: WorkspaceClient) -> str:
    """The agent of `workspace`, which has a card and a skill of its own."""
    server.inbox.ok("agent", "register", workspace.agent, "--skill", f"skill-{workspace.agent}")
    return workspace.agent


def test_a_person_gives_a_task_and_sees_its_life(server: RunningServer, worker: str) -> None:
    given = server.person.post("/api/tasks", json={"to": worker, "description": "Review it", "context": {"n": 1}, "priority": "high"})
    assert given.status_code == 201, given.text
    task = given.json()["task"]
    assert (task["source_agent"], task["status"], task["verified"], task["door"] in ("web", "http")) == ("user", "pending", True, True)
    server.inbox.ok("task", "accept", "--agent", worker, "--task", task["task_id"])
    server.inbox.ok("task", "complete", "--agent", worker, "--task", task["task_id"], "--artifacts-json", '{"review": "fine"}')
    shown = server.get(f"/api/tasks/{task['task_id']}")
    assert (shown["task"]["status"], shown["task"]["artifacts"]) == ("completed", {"review": "fine"})
    assert [event["event_type"].removeprefix("task.A2ATask") for event in shown["events"]][-2:] == ["Accepted", "Completed"]
    assert "lse_" not in str(shown)
    (result,) = server.get("/api/tasks", **{"from": worker, "agent": "user"})["tasks"]
    assert (result["kind"], result["answers"]) == ("result", task["task_id"])


def test_tasks_are_listed_in_pages_and_by_status(server: RunningServer, worker: str) -> None:
    ids = [
        server.inbox.ok("task", "submit", "--from", "user", "--to", worker, "--description", str(number))["task"]["task_id"]
        for number in range(3)
    ]
    first = server.get("/api/tasks", agent=worker, limit="2")
    rest = server.get("/api/tasks", agent=worker, limit="2", before_event=str(first["next_before_event"]))
    assert [task["task_id"] for task in first["tasks"] + rest["tasks"]] == ids[::-1]
    assert (first["more"], rest["more"], rest["next_before_event"]) == (True, False, None)
    assert server.get("/api/tasks", agent=worker, status="completed")["tasks"] == []
    assert {task["verified"] for task in first["tasks"]} == {False}
    for wrong in ("?status=done", "?limit=x", "?colour=red"):
        refusal(server.person.get(f"/api/tasks{wrong}"), 400, "invalid_input")


def test_a_task_is_given_by_skill_and_not_to_oneself(server: RunningServer, workspace: WorkspaceClient, worker: str) -> None:
    by_skill = {"skill": f"skill-{worker}", "description": "Review it"}
    assert server.person.post("/api/tasks", json=by_skill).json()["task"]["target_agent"] == worker
    refusal(workspace.http.post("/api/tasks", json=by_skill), 404, "not_found")
    refusal(server.person.post("/api/tasks", json={"description": "x"}), 400, "invalid_input")
    refusal(server.person.post("/api/tasks", json={**by_skill, "to": worker}), 400, "invalid_input")
    refusal(server.person.post("/api/tasks", json={"to": worker}), 400, "invalid_input")
    refusal(server.person.post("/api/tasks", json={"to": "nobody-at-all", "description": "x"}), 404, "not_found")


def test_an_agent_sees_and_cancels_only_what_it_gave_or_got(server: RunningServer, worker: str) -> None:
    other = server.add_workspace()
    server.inbox.ok("agent", "register", other.agent)
    foreign = server.inbox.ok("task", "submit", "--from", "user", "--to", worker, "--description", "Secret")["task"]["task_id"]
    own = other.http.post("/api/tasks", json={"to": worker, "description": "Mine"}).json()["task"]
    assert (own["source_agent"], own["verified"]) == (other.agent, True)
    assert [task["task_id"] for task in other.http.get("/api/tasks").json()["tasks"]] == [own["task_id"]]
    refusal(other.http.get(f"/api/tasks/{foreign}"), 404, "not_found")
    refusal(other.http.post(f"/api/tasks/{foreign}/cancel", json={}), 404, "not_found")
    cancelled = other.http.post(f"/api/tasks/{own['task_id']}/cancel", json={"reason": "Not needed"}).json()["task"]
    assert (cancelled["status"], cancelled["reason"], cancelled["reason_code"]) == ("failed", "Not needed", "cancelled")


def test_a_person_cancels_what_an_agent_gave(server: RunningServer, worker: str) -> None:
    other = server.add_workspace()
    task = other.http.post("/api/tasks", json={"to": worker, "description": "Mine"}).json()["task"]
    answer = server.person.post(f"/api/tasks/{task['task_id']}/cancel", json={})
    assert answer.json()["task"]["reason_code"] == "cancelled", answer.text
    refusal(server.person.post(f"/api/tasks/{task['task_id']}/cancel", json={}), 409)
    refusal(server.stranger.get("/api/tasks"), 401)


def test_an_agent_conducts_a_whole_job_over_a_server(server: RunningServer) -> None:
    """Each step with the token of the agent, and nothing else: it has no file."""
    giver, doer = TokenAgent(server), TokenAgent(server)
    with giver.store as gives, doer.store as does:
        asking, conductor = Conductor(gives), Conductor(does)
        asking.register(giver.name)
        conductor.register(doer.name)
        first, second, third = [asking.submit(giver.name, doer.name, f"Review {name}").task_id for name in ("one", "two", "three")]
        job = conductor.start_job(doer.name, state={"step": 1})
        held: dict[str, Any] = {"lease_token": job.lease_token}
        accepted = conductor.accept(first, agent=doer.name, job_id=job.job_id)
        conductor.complete(first, agent=doer.name, artifacts={"review": "fine"}, lease_token=accepted.lease_token)
        sheet = conductor.begin_sheet(job.job_id, **held)
        assert [task.task_id for task in sheet.tasks] == [second, third]
        answered = conductor.answer_sheet(job.job_id, f"@complete {second}: fine", sheet.token, **held)
        assert ([task.task_id for task in answered.completed], answered.not_applied) == ([second], ())
        with conductor.checkpoint(job.job_id, **held) as state:
            assert (state.data, [task.task_id for task in state.inbox.get_pending_tasks()]) == ({"step": 1}, [third])
            state.data["step"] = 2
            state.inbox.complete_task(third, artifacts={"review": "poor"})
        continued = conductor.start_job(doer.name, job_id=job.job_id)  # as another process of the agent does
        with pytest.raises(LeaseLost):
            conductor.end_job(job.job_id, **held)
        with conductor.checkpoint(job.job_id, lease_token=continued.lease_token) as state:
            assert (state.data, len(state.inbox.tasks)) == ({"step": 2}, 0)
        with pytest.raises((Forbidden, NotFound)):
            asking.begin_sheet(job.job_id)
        assert conductor.end_job(job.job_id, lease_token=continued.lease_token).status == "ended"
        assert [shown.status for shown in conductor.jobs(doer.name)] == ["ended"]
        assert {result.answers for result in asking.waiting(giver.name)} == {first, second, third}


def test_the_first_request_to_a_new_server_may_give_a_task(found: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of other tests are forked from a process that has loaded every module. This one is a new interpreter."""
    monkeypatch.setattr(fork_client, "suits", lambda argv, environment: False)
    server = found().open()
    server.inbox.ok("agent", "register", "builder")
    given = server.person.post("/api/tasks", json={"to": "builder", "description": "Review it"})
    assert given.status_code == 201, given.text
    assert server.close() == 0
