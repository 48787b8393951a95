"""An agent with a token of its own meets the threads of others: it neither sees, takes nor ends them, at any door."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import people, work
from postroom.core.errors import Forbidden, LeaseHeld, NotFound, Refusal
from postroom.tasks import Conductor
from tests.server.agents import at
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import TokenAgent, say

SECRET = "PRIVATE: the password is hunter2"


@pytest.fixture
def ada(server: RunningServer) -> TokenAgent:
    return TokenAgent(server)


@pytest.fixture
def evil(server: RunningServer) -> TokenAgent:
    return TokenAgent(server)


@pytest.fixture
def thread(server: RunningServer, ada: TokenAgent) -> str:
    """A thread of the person for ada."""
    with opened(server) as store:
        return work.send(store, sender="user", to=ada.name, subject=SECRET).thread.thread_id


def test_a_stranger_cannot_tell_a_thread_of_others_from_none(thread: str, evil: TokenAgent) -> None:
    calls: dict[str, dict[str, Any]] = {
        "work.show": {},
        "work.claim": {"agent": evil.name},
        "work.done": {"agent": evil.name},
        "work.cancel": {"agent": evil.name},
        "work.reply": {"sender": evil.name, "summary": "yes"},
        "work.wait_reply": {"agent": evil.name, "timeout_seconds": 0.01},
    }
    for verb, named in calls.items():
        hidden = refusal(say(evil.http, verb, thread_id=thread, **named), 404, "not_found")
        unknown = refusal(say(evil.http, verb, thread_id="thr_nowhere", **named), 404, "not_found")
        assert str(hidden) == str(unknown).replace("thr_nowhere", thread)


def test_a_stranger_lists_nothing_of_others(thread: str, ada: TokenAgent, evil: TokenAgent) -> None:
    assert [one.thread_id for one in work.list_threads(ada.store).threads] == [thread]
    assert work.list_threads(evil.store).threads == ()
    assert work.list_threads(evil.store, assigned_to=ada.name).threads == ()
    refusal(say(evil.http, "work.list_threads", visible_to=ada.name), 403, "forbidden")


def test_a_stranger_lists_no_tasks_of_others(server: RunningServer, ada: TokenAgent, evil: TokenAgent) -> None:
    for one in (ada, evil):
        Conductor(one.store).register(one.name)
    other = TokenAgent(server)
    Conductor(other.store).register(other.name)
    task = Conductor(ada.store).submit(ada.name, other.name, SECRET)
    assert Conductor(evil.store).tasks().tasks == ()
    assert [one.task_id for one in Conductor(other.store).tasks()] == [task.task_id]
    with pytest.raises(NotFound):
        Conductor(evil.store).get(task.task_id)
    with pytest.raises(NotFound):
        Conductor(evil.store).submit(evil.name, other.name, "Below theirs", parent=task.task_id)


def test_a_workspace_does_not_take_what_is_pending_for_another_agent(thread: str, workspace: WorkspaceClient) -> None:
    refusal(say(workspace.http, "work.claim", thread_id=thread, agent=workspace.agent), 404, "not_found")
    with at(workspace) as agent:
        for call in ({"tool": "work_claim"}, {"tool": "work_fetch"}, {"tool": "work_done", "outcome": "done"}):
            assert agent.refused(threadId=thread, **call)["code"] == "not_found"


def test_a_lease_token_is_shown_to_its_holder_alone(server: RunningServer, thread: str, ada: TokenAgent) -> None:
    token = work.claim(ada.store, thread, agent=ada.name).lease.lease_token
    held = work.show(ada.store, thread).lease
    assert held is not None
    assert held.lease_token == token
    assert work.show_agent(ada.store, ada.name).holds[0].lease.lease_token == token
    reads = {"work.show": {"thread_id": thread}, "work.show_agent": {"name": ada.name}, "work.show_run": {"run_id": ""}}
    for verb, arguments in {**reads, "work.list_presences": {}}.items():
        answer = say(server.person, verb, **arguments)
        assert answer.status_code == 200, answer.text
        assert token not in answer.text
    for path in (f"/api/threads/{thread}", "/api/threads", "/api/agents", "/api/runs/~"):
        assert token not in server.person.get(path).text


def test_a_party_of_a_thread_that_does_not_hold_it_does_not_control_it(server: RunningServer, thread: str, ada: TokenAgent) -> None:
    guest = TokenAgent(server)
    with opened(server) as store:
        work.send(store, sender="user", thread_id=thread, to=guest.name, summary="Look at it, too")
    assert work.reply(guest.store, thread, sender=guest.name, summary="I will").message.from_agent == guest.name
    for verb, named in {
        "work.cancel": {"agent": guest.name},
        "work.reply": {"sender": guest.name, "kind": "control", "summary": "Stop"},
        "work.send": {"sender": guest.name, "priority": "low", "summary": "Later"},
        "work.claim": {"agent": guest.name},
    }.items():
        refusal(say(guest.http, verb, thread_id=thread, **named), 403, "forbidden")
    work.claim(ada.store, thread, agent=ada.name)
    with pytest.raises(LeaseHeld):
        work.done(guest.store, thread, agent=guest.name)
    assert work.cancel(ada.store, thread, agent=ada.name).thread.status == "cancelled"


def test_a_lapsed_thread_is_seen_and_taken_by_any_agent(server: RunningServer, ada: TokenAgent, evil: TokenAgent) -> None:
    with opened(server) as store:
        thread = work.send(store, sender="user", to=ada.name, subject="Lapses").thread.thread_id
        work.claim(store, thread, agent=ada.name, lease_seconds=0.001)
    assert work.show(evil.store, thread).thread.subject == "Lapses"
    with pytest.raises(Forbidden):
        work.reply(evil.store, thread, sender=evil.name, summary="Not mine yet")
    assert work.claim(evil.store, thread, agent=evil.name).lease.agent_id == evil.name
    assert work.show(ada.store, thread).thread.assigned_to == evil.name


def test_a_leader_sees_every_thread_and_ends_it_but_has_only_its_own_entries(server: RunningServer, thread: str) -> None:
    with opened(server) as store:
        token = people.issue_agent_token(store, name="the-leader", scope="all")
        entry = people.notify(store, sender="cron", text="The build is green").id
    leader = server.client(token)
    assert thread in say(leader, "work.list_threads", limit=1000).text
    refusal(say(leader, "people.find_entry", entry_id=entry), 404, "not_found")
    refusal(say(leader, "people.history"), 403, "forbidden")
    refusal(say(leader, "work.reply", thread_id=thread, sender="the-leader", summary="Hello"), 403, "forbidden")
    assert say(leader, "work.cancel", thread_id=thread, agent="the-leader").status_code == 200


def test_a_token_that_is_revoked_does_nothing_more_though_the_server_knew_it(server: RunningServer, ada: TokenAgent) -> None:
    client = ada.http
    sent = {"sender": ada.name, "to": "builder", "subject": "Once"}
    assert say(client, "work.send", once="a key of ada's", **sent).status_code == 200
    with opened(server) as store:
        people.revoke_agent_token(store, name=ada.name)
    refusal(say(client, "work.send", once="a key of ada's", **sent), 401, "unauthenticated")
    refusal(say(client, "work.send", **sent), 401, "unauthenticated")
    refusal(say(client, "work.list_agents"), 401, "unauthenticated")


def test_what_an_agent_says_in_a_thread_of_others_is_not_kept(thread: str, evil: TokenAgent, server: RunningServer) -> None:
    with pytest.raises(Refusal):
        work.send(evil.store, sender=evil.name, thread_id=thread, summary="yes")
    with opened(server) as store:
        assert len(work.show(store, thread).messages) == 1
