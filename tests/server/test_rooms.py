"""The rooms beside the inbox, over HTTP: threads taken back, runs, agents, activity, mailboxes, queues."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people, queues, work
from postroom.queues import notifier
from postroom.store.sqlite.queues import notifier_statements as sql
from tests.server.conftest import own_server
from tests.server.mailbox_data import STRANGE, dead_letter, opened, part
from tests.server.running_server import RunningServer, WorkspaceClient, refusal

server = own_server  # others use mailboxes of the same names
NAMES = count(1)  # of runs and mailboxes that no two tests share


@pytest.fixture
def run_id() -> str:
    return f"run-{next(NAMES)}"


@pytest.fixture
def session() -> str:
    return f"session-{next(NAMES)}"


@pytest.fixture
def thread(server: RunningServer, workspace: WorkspaceClient, run_id: str) -> str:
    """A thread of a run that the agent of `workspace` holds."""
    with opened(server) as store:
        thread_id = work.send(store, sender="user", to=workspace.agent, subject="Build", run_id=run_id).thread.thread_id
        work.claim(store, thread_id, agent=workspace.agent)
    return thread_id


# Threads


def test_a_thread_is_taken_back_from_its_holder(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    answer = server.person.post(f"/api/threads/{thread}/release", json={"reason": "It hangs"})
    assert answer.status_code == 200, answer.text
    posted = answer.json()
    assert (posted["thread"]["status"], posted["thread"]["assigned_to"]) == ("pending", workspace.agent)
    assert (posted["message"]["kind"], posted["message"]["from_agent"], posted["message"]["to_agent"]) == (
        "control",
        "user",
        workspace.agent,
    )
    assert (posted["message"]["summary"], posted["message"]["verified"]) == ("It hangs", True)
    assert server.get(f"/api/threads/{thread}")["lease"] is None
    refused = server.inbox.run("done", "--agent", workspace.agent, "--thread", thread, "--summary", "Late", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (30, "invalid_state")
    refusal(server.person.post(f"/api/threads/{thread}/release", json={}), 409, "invalid_state")


def test_the_question_of_a_thread_that_was_taken_back_has_ended(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?")
    assert workspace.entries()[0]["question"]["state"] == "open"
    assert server.person.post(f"/api/threads/{thread}/release", json={}).status_code == 200
    assert workspace.entries()[0]["question"]["state"] == "ended"
    assert workspace.entries(open="true") == []


def test_what_cannot_be_taken_back_is_refused(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    refusal(server.person.post("/api/threads/thr_nowhere/release", json={}), 404, "not_found")
    refusal(server.person.post(f"/api/threads/{thread}/release", json={"reason": 3}), 400, "invalid_input")
    refusal(server.person.post(f"/api/threads/{thread}/release", json={"why": "x"}), 400, "invalid_input")
    refusal(server.person.post(f"/api/threads/{thread}/release", content=b"{"), 400, "invalid_input")
    refusal(workspace.http.post(f"/api/threads/{thread}/release", json={}), 403, "forbidden")
    refusal(server.stranger.post(f"/api/threads/{thread}/release", json={}), 401, "unauthenticated")
    assert server.get(f"/api/threads/{thread}")["lease"]["agent_id"] == workspace.agent
    assert server.person.post(f"/api/threads/{thread}/cancel", json={}).status_code == 200
    refusal(server.person.post(f"/api/threads/{thread}/release", json={}), 409, "invalid_state")


def test_threads_are_listed_by_run(server: RunningServer, workspace: WorkspaceClient, thread: str, run_id: str) -> None:
    with opened(server) as store:
        unnamed = work.send(store, sender="user", to=workspace.agent, subject="Without").thread.thread_id
    listed = server.get("/api/threads", run=run_id)["threads"]
    assert [each["thread_id"] for each in listed] == [thread]
    assert server.get("/api/threads", run=run_id, status="pending")["threads"] == []
    assert [each["thread_id"] for each in server.get("/api/threads", run="", agent=workspace.agent)["threads"]] == [unnamed]
    refusal(server.person.get("/api/threads", params={"run": "a\0b"}), 400, "invalid_input")


def test_what_was_said_is_shown_as_html_that_can_do_nothing(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    with opened(server) as store:
        said = work.update(store, thread, agent=workspace.agent, summary="S", body="**Bold** <script>alert(1)</script>").message.message_id
        silent = work.update(store, thread, agent=workspace.agent, summary="No body").message.message_id
    shown = server.get(f"/api/threads/{thread}", html="true")
    assert set(shown["html"]) == {said}
    assert "<strong>Bold</strong>" in shown["html"][said]
    assert "<script" not in shown["html"][said]
    assert silent in [message["message_id"] for message in shown["messages"]]
    assert "html" not in server.get(f"/api/threads/{thread}")
    refusal(server.person.get(f"/api/threads/{thread}?html=perhaps"), 400, "invalid_input")


# Runs


def test_a_run_is_listed_and_shown(server: RunningServer, workspace: WorkspaceClient, thread: str, run_id: str) -> None:
    run = server.get("/api/runs")["runs"][0]
    assert (run["run_id"], run["threads"], run["by_status"], run["agents"]) == (run_id, 1, {"claimed": 1}, [workspace.agent])
    assert run["first_at"] < run["last_at"]
    shown = server.get(f"/api/runs/{run_id}")
    assert (shown["run_id"], shown["truncated"]) == (run_id, False)
    (held,) = shown["threads"]
    assert (held["thread_id"], held["lease"]["agent_id"]) == (thread, workspace.agent)
    assert [(moment["type"], moment["status"], moment["to"]) for moment in shown["events"]] == [
        ("thread.created", "pending", workspace.agent),
        ("thread.claimed", "claimed", None),
    ]
    assert {moment["thread_id"] for moment in shown["events"]} == {thread}
    assert "lse_" not in json.dumps(shown)


def test_as_many_runs_are_listed_as_were_asked_for(server: RunningServer, thread: str) -> None:
    assert len(server.get("/api/runs", limit="1")["runs"]) == 1
    for limit in ("0", "x", "10001"):
        refusal(server.person.get(f"/api/runs?limit={limit}"), 400, "invalid_input")


@pytest.mark.parametrize("name", [*(name for name in STRANGE if name != "~"), "two\nlines", " "])
def test_a_run_of_any_name_is_shown(server: RunningServer, workspace: WorkspaceClient, name: str) -> None:
    with opened(server) as store:
        thread_id = work.send(store, sender="user", to=workspace.agent, subject="S", run_id=name).thread.thread_id
    shown = server.get(f"/api/runs/{part(name)}")
    assert (shown["run_id"], shown["threads"][0]["thread_id"]) == (name, thread_id)


def test_a_tilde_stands_for_the_run_without_a_name(server: RunningServer, workspace: WorkspaceClient) -> None:
    with opened(server) as store:
        thread_id = work.send(store, sender="user", to=workspace.agent, subject="S").thread.thread_id
    shown = server.get("/api/runs/~")
    assert (shown["run_id"], shown["threads"][0]["thread_id"]) == ("", thread_id)


def test_a_run_that_never_was_is_not_found(server: RunningServer) -> None:
    refusal(server.person.get("/api/runs/nowhere"), 404, "not_found")


# Agents and activity


def test_agents_are_listed_with_what_they_hold(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    agents = {agent["name"]: agent for agent in server.get("/api/agents")["agents"]}
    (held,) = agents[workspace.agent]["holds"]
    assert (held["thread_id"], held["subject"], held["status"], held["lapsed"]) == (thread, "Build", "claimed", False)
    assert held["expires_at"]
    assert (agents[workspace.agent]["alive"], agents[workspace.agent]["unread"], agents[workspace.agent]["kind"]) == (True, 1, "agent")
    assert agents["user"]["holds"] == []
    assert "lse_" not in server.person.get("/api/agents").text


def test_who_was_never_seen_is_not_alive_and_a_lapsed_lease_is_said_to_be(server: RunningServer, workspace: WorkspaceClient) -> None:
    with opened(server) as store:
        work.add_agent(store, "never-seen")
        thread_id = work.send(store, sender="user", to=workspace.agent, subject="Build").thread.thread_id
        work.claim(store, thread_id, agent=workspace.agent, lease_seconds=0.000001)
    agents = {agent["name"]: agent for agent in server.get("/api/agents")["agents"]}
    server.inbox.ok("cancel", "--agent", "user", "--thread", thread_id)  # or it would be offered to the agents of other tests
    assert (agents["never-seen"]["alive"], agents["never-seen"]["last_seen_at"]) == (False, None)
    assert [held["lapsed"] for held in agents[workspace.agent]["holds"]] == [True]


def test_activity_is_counted_by_agent_and_mailbox(server: RunningServer, workspace: WorkspaceClient, thread: str, session: str) -> None:
    with opened(server) as store:
        mail.enqueue(store, {"from": workspace.agent, "to": session, "payload": "Hello"})
    found = server.get("/api/activity")
    assert (found["step_seconds"], found["buckets"], len(found["total"])) == (3600, 24, 24)
    assert sum(found["agents"][workspace.agent]) >= 1
    assert (sum(found["sessions"][session]), len(found["sessions"][session])) == (1, 24)
    assert found["from"].endswith(":00:00.000000Z")
    assert server.get("/api/activity", hours="2")["buckets"] == 2
    for hours in ("0", "169", "x", "-1", "1.5"):
        refusal(server.person.get(f"/api/activity?hours={hours}"), 400, "invalid_input")


# Mailboxes


def counts(server: RunningServer, session: str) -> dict[str, Any]:
    found: dict[str, Any] = next(box for box in server.get("/api/mailboxes")["mailboxes"] if box["session"] == session)
    return found


def test_mailboxes_are_listed_by_the_states_of_their_messages(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        dead_letter(store, session)
        mail.enqueue(store, {"from": "leader", "to": session, "payload": "Waiting"})
    box = counts(server, session)
    assert box == {"session": session, "pending": 1, "in_flight": 0, "nacked": 0, "acked": 0, "dead_letter": 1, "expired": 0}
    refusal(server.person.get("/api/mailboxes?limit=0"), 400, "invalid_input")


def test_what_waits_is_shown_and_not_taken(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        sent = [mail.enqueue(store, {"from": f"agent-{number}", "to": session, "payload": "Hello"}).msg_id for number in range(3)]
    shown = server.get(f"/api/mailbox/{session}")
    assert ([message["msg_id"] for message in shown["messages"]], shown["total"]) == (sent, 3)
    assert {message["state"] for message in shown["messages"]} == {"pending"}
    assert (len(server.get(f"/api/mailbox/{session}", limit="1")["messages"]), counts(server, session)["pending"]) == (1, 3)
    refusal(server.person.get(f"/api/mailbox/{session}?limit=x"), 400, "invalid_input")


def test_what_is_due_was_carried_out_before_it_is_shown(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        mail.set_policy(store, session, ttl_secs=0.000001)
        mail.enqueue(store, {"from": "leader", "to": session, "payload": "Too late"})
    assert server.get(f"/api/mailbox/{session}") == {"messages": [], "total": 0, "more": False, "after": None}
    assert counts(server, session)["expired"] == 1


def test_a_mailbox_that_was_never_heard_of_is_empty(server: RunningServer, session: str) -> None:
    assert server.get(f"/api/mailbox/{session}") == {"messages": [], "total": 0, "more": False, "after": None}
    assert server.get(f"/api/mailbox/{session}/dead-letter") == {"entries": [], "total": 0, "more": False, "after": None}
    assert server.person.delete(f"/api/mailbox/{session}/dead-letter").json() == {"purged": 0}
    assert server.person.post(f"/api/mailbox/{session}/dead-letter/retry", json={}).json() == {"retried": 0}
    assert session not in [box["session"] for box in server.get("/api/mailboxes")["mailboxes"]]


def test_a_dead_letter_says_why_it_died(server: RunningServer, session: str) -> None:
    huge = 10**30
    with opened(server) as store:
        msg_id = dead_letter(store, session, "Grüße ☃", priority=huge)
    (entry,) = server.get(f"/api/mailbox/{session}/dead-letter")["entries"]
    assert (entry["msg_id"], entry["from"], entry["to"], entry["payload"]) == (msg_id, "leader", session, "Grüße ☃")
    assert entry["reason"].endswith("no such file")
    assert (entry["attempts"], entry["priority"]) == (0, huge)
    assert isinstance(entry["failed_at"], int)


def test_dead_letters_are_tried_again_one_or_all(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        ids = [dead_letter(store, session, str(number)) for number in range(3)]
    path = f"/api/mailbox/{session}/dead-letter"
    assert server.person.post(f"{path}/retry", json={"msg_id": ids[1]}).json() == {"retried": 1}
    assert [entry["msg_id"] for entry in server.get(path)["entries"]] == [ids[0], ids[2]]
    assert [message["msg_id"] for message in server.get(f"/api/mailbox/{session}")["messages"]] == [ids[1]]
    assert server.person.post(f"{path}/retry", json={}).json() == {"retried": 2}
    assert (server.get(path)["entries"], counts(server, session)["pending"]) == ([], 3)
    refusal(server.person.post(f"{path}/retry", json={"msg_id": ids[0]}), 409, "invalid_state")


def test_dead_letters_are_thrown_away_one_or_all(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        ids = [dead_letter(store, session, str(number)) for number in range(3)]
    path = f"/api/mailbox/{session}/dead-letter"
    assert server.person.delete(path, params={"msg_id": ids[1]}).json() == {"purged": 1}
    refusal(server.person.delete(path, params={"msg_id": ids[1]}), 409, "invalid_state")
    assert [entry["msg_id"] for entry in server.get(path)["entries"]] == [ids[0], ids[2]]
    assert server.person.delete(path).json() == {"purged": 2}
    assert counts(server, session)["dead_letter"] == 0


def test_an_empty_id_or_list_of_ids_does_not_stand_for_all_dead_letters(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        dead_letter(store, session)
    path = f"/api/mailbox/{session}/dead-letter"
    unfit: tuple[object, ...] = ("", 0, False, {}, [""])
    for no_id in unfit:
        refusal(server.person.post(f"{path}/retry", json={"msg_id": no_id}), 400, "invalid_input")
    assert server.person.post(f"{path}/retry", json={"msg_id": []}).json() == {"retried": 0}
    refusal(server.person.delete(path, params={"msg_id": ""}), 400, "invalid_input")
    assert counts(server, session)["dead_letter"] == 1


def test_what_becomes_of_dead_letters_is_heard_and_by_whom_it_came(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        msg_id = dead_letter(store, session)
    with server.listen(types="mail.", agent=session) as listener:
        server.person.post(f"/api/mailbox/{session}/dead-letter/retry", json={})
        assert listener.next().type == "mail.requeued"
    with opened(server) as store:
        assert mail.show(store, msg_id).state == "pending"


def test_what_makes_no_sense_for_a_mailbox_is_refused(server: RunningServer, workspace: WorkspaceClient, session: str) -> None:
    path = f"/api/mailbox/{session}/dead-letter"
    for spelling in ("msg_id", "msgId"):  # the protocol has both
        refusal(server.person.post(f"{path}/retry", json={spelling: 3}), 400, "invalid_input")
        refusal(server.person.post(f"{path}/retry", json={spelling: "nowhere"}), 404, "not_found")
    refusal(server.person.post(f"{path}/retry", json={"msg_id": "a", "msgId": "b"}), 400, "invalid_input")
    refusal(server.person.post(f"{path}/retry", content=b"{}"), 400, "invalid_input")
    refusal(server.person.post(f"{path}/retry", json={"msg_id": ""}), 400, "invalid_input")
    refusal(server.person.delete(path, params={"msg_id": "nowhere"}), 404, "not_found")
    refusal(server.person.delete(path, params={"msgId": "misspelt"}), 400, "invalid_input")
    refusal(server.person.delete(path, params={"msg_id": ""}), 400, "invalid_input")
    refusal(server.person.get("/api/mailbox/a%00b"), 400, "invalid_input")
    refusal(server.person.get(f"/api/mailbox/{'x' * 201}"), 400, "invalid_input")
    refusal(server.person.get("/api/mailbox/%20outer"), 400, "invalid_input")
    for method, address in (("GET", "/api/mailboxes"), ("GET", f"/api/mailbox/{session}"), ("GET", path), ("DELETE", path)):
        refusal(workspace.http.request(method, address), 403, "forbidden")
        refusal(server.stranger.request(method, address), 401, "unauthenticated")


@pytest.mark.parametrize("name", STRANGE)
def test_a_mailbox_of_any_name_is_found(server: RunningServer, name: str) -> None:
    with opened(server) as store:
        msg_id = dead_letter(store, name, msg_id=f"{next(NAMES)} {name}")
    assert counts(server, name)["dead_letter"] == 1
    path = f"/api/mailbox/{part(name)}/dead-letter"
    assert [entry["msg_id"] for entry in server.get(path)["entries"]] == [msg_id]
    assert server.person.post(f"{path}/retry", json={"msg_id": msg_id}).json() == {"retried": 1}
    assert [message["msg_id"] for message in server.get(f"/api/mailbox/{part(name)}")["messages"]] == [msg_id]
    with opened(server) as store:
        mail.dequeue(store, name)
        mail.nack(store, name, msg_id)
    assert server.person.delete(path, params={"msg_id": msg_id}).json() == {"purged": 1}


# Queues


@pytest.fixture
def queue(server: RunningServer, tmp_path: Path) -> str:
    """A watched queue with three events, and a consumer that has seen one."""
    folder = queues.init_queue(str(tmp_path / "events"))
    with queues.open_queue(folder) as opened_queue:
        queues.push_batch(opened_queue, [{"source": "self", "type": "message", "content": str(number)} for number in range(3)])
        queues.subscribe(opened_queue, "cleaner", handler="true", last_event_id=1)
    with opened(server) as store:
        people.add_queue(store, folder, label="Disk watch")
    return folder


def reported(server: RunningServer, path: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in server.get("/api/queues")["queues"] if each["path"] == path)
    return found


def test_a_watched_queue_is_reported(server: RunningServer, queue: str) -> None:
    found = reported(server, queue)
    assert (found["label"], found["events"], found["last_event_id"], found["error"]) == ("Disk watch", 3, 3, None)
    assert (len(found["rate"]), sum(found["rate"]), found["runs"]) == (24, 3, [])
    assert found["consumers"] == [{"id": "cleaner", "lag": 2, "last_acked_id": 1, "running": False, "trouble": None}]


def test_the_last_runs_come_from_the_notifier(server: RunningServer, queue: str) -> None:
    task, command = notifier.dispatch_task(queue)
    said = {"author": "a", "attempt": 1, "started": "2026-11-16T00:00:00.000000Z", "ended": "2026-11-16T00:00:01.000000Z", "seconds": 1.0}
    with notifier.open_notifier(str(server.folder / ".local" / "state" / "notifier")) as home, home.write() as tx:
        tx.execute(sql.RUN_INSERT, task=task, command=command, outcome="failed", status=1, signal=None, output="oh", **said)
    (run,) = reported(server, queue)["runs"]
    assert (run["task_id"], run["exit_code"], run["outcome"], run["output"]) == (task, 1, "failed", "oh")


def test_a_queue_that_cannot_be_read_hides_no_other(server: RunningServer, queue: str, tmp_path: Path) -> None:
    gone = queues.init_queue(str(tmp_path / "gone"))
    with opened(server) as store:
        people.add_queue(store, gone)
    shutil.rmtree(gone)
    assert "there is no queue" in reported(server, gone)["error"]
    assert reported(server, queue)["error"] is None
    assert not Path(gone).exists()


def test_a_queue_that_is_watched_no_more_is_not_shown(server: RunningServer, queue: str) -> None:
    with opened(server) as store:
        people.remove_queue(store, queue)
    assert queue not in [each["path"] for each in server.get("/api/queues")["queues"]]


def test_queues_are_for_people_and_are_never_added_over_the_network(
    server: RunningServer, workspace: WorkspaceClient, tmp_path: Path
) -> None:
    refusal(workspace.http.get("/api/queues"), 403, "forbidden")
    refusal(server.stranger.get("/api/queues"), 401, "unauthenticated")
    refusal(server.person.post("/api/queues", json={"path": str(tmp_path)}), 405, "wrong_method")


def test_a_cut_list_of_agents_or_runs_names_the_next_page(server: RunningServer) -> None:
    for number in (1, 2):
        server.inbox.ok("send", "--from", "leader", "--to", f"worker-{number}", "--subject", "Build", "--run", f"paged-{number}")
    for path, field, name in (("/api/agents", "agents", "name"), ("/api/runs", "runs", "run_id")):
        everything = server.get(path)
        assert (everything["more"], everything["after"]) == (False, None)
        first = server.get(path, limit="1")
        assert first["more"] is True
        rest = server.get(path, after=first["after"])
        assert [row[name] for row in (*first[field], *rest[field])] == [row[name] for row in everything[field]]


# The command `inbox status`, beside and over a server


def test_the_status_names_the_server_and_leaves_out_what_an_agent_may_not_see(
    server: RunningServer, workspace: WorkspaceClient, thread: str
) -> None:
    assert server.inbox.ok("status")["server"] == {"url": server.url, "answers": True, "trouble": None}
    server.ask(workspace.agent, "Only the person sees this")
    token = server.inbox.ok("agent", "token", "onlooker")["token"]
    afar = server.inbox.ok("status", INBOX_DB=server.url, INBOX_TOKEN=token)
    assert (afar["questions"], afar["queues"], afar["held"]["total"]) == (None, None, 0)
    person = server.inbox.ok("status", INBOX_DB=server.url, INBOX_TOKEN=server.ready["token"])
    assert thread in [held["thread_id"] for held in person["held"]["threads"]]


@pytest.mark.parametrize(
    "path",
    ["threads", "threads/{thread}", "runs", "runs/~", "activity", "agents", "queues", "workspaces", "inbox/{entry}", "tasks", "summary"],
)
def test_a_parameter_that_a_route_does_not_know_is_refused(server: RunningServer, workspace: WorkspaceClient, path: str) -> None:
    """A misspelt filter would return everything, and look as if it had filtered."""
    thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    place = "/api/" + path.format(thread=thread, entry=workspace.push(comments="One"))
    assert server.person.get(place).status_code == 200
    assert refusal(server.person.get(place, params={"q": "x"}), 400, "invalid_input")["field"] == "q"
