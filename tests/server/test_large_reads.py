"""A large read keeps nobody waiting: it is bounded, and it runs beside the event loop."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import httpx
import pytest

from postroom import mail, people, work
from postroom.core import clock
from postroom.core.limits import MAX_READS_PER_CALLER
from postroom.server.mcp.handlers import ToolHandlers
from postroom.server.mcp.open_calls import OpenCalls
from postroom.server.runtime.store_access import READ_THREADS, StoreAccess
from postroom.store import open_store
from postroom.store.interface import Store
from tests.cli.process import eventually
from tests.conftest import fresh_file
from tests.contract.thread_data import shortened
from tests.server.agents import at
from tests.server.mailbox_data import dead_letter, opened
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server_in_thread import LOOP_THREAD, ServerInThread

TEXT = re.compile(r"\b(body|subject|comments|payload|payload_json|card_json|docs_json)\b")
BODY = "x" * 4096
STUCK_SECONDS = 20.0  # longer than a request to the server may take
PATHS = [
    "/api/threads/{thread}",
    "/api/threads/{thread}?html=true",
    "/api/threads/{thread}?before_event=3",
    "/api/threads",
    "/api/runs",
    "/api/runs/R1",
    "/api/agents",
    "/api/inbox/history",
    "/api/inbox/search?q=look",
    "/api/inbox/{entry}",
    "/api/mailbox/builder/dead-letter",
]


def talk(store: Store, count: int, to: str = "builder", body: str = BODY) -> str:
    """A thread of so many messages, written in one batch."""
    thread_id: str = work.send(store, sender="leader", to=to, subject="Build", body="The task", run_id="R1").thread.thread_id
    with store.batch() as batch:
        for number in range(1, count):
            work.send(batch, sender="leader", thread_id=thread_id, kind="event", summary=str(number), body=body)
    return thread_id


@contextmanager
def served(relay: ServerInThread, folder: Path) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """A server over a store that has something of everything, and a client of it."""
    place = fresh_file(folder)
    with closing(open_store(place)) as store:
        made = {"thread": talk(store, 5), "entry": people.notify(store, sender="job", text="Look").id}
        mail.enqueue(store, {"from": "leader", "to": "builder", "payload": "Hello"})
        dead_letter(store, "builder")
    with relay.serving(place, clock.now), httpx.Client(base_url=relay.url("http"), timeout=STUCK_SECONDS / 2, verify=False) as client:
        yield client, made


@pytest.mark.parametrize("path", PATHS)
def test_nothing_large_is_read_by_the_event_loop(relay: ServerInThread, tmp_path: Path, path: str) -> None:
    ran: list[tuple[str, str]] = []
    with served(relay, tmp_path) as (client, made), relay.tracing(lambda statement: ran.append((current_thread().name, statement))):
        answer = client.get(path.format(**made))
    assert answer.status_code == 200, answer.text
    large = [(thread, statement) for thread, statement in ran if TEXT.search(statement)]
    assert large, "this path reads no text"
    assert not [statement for thread, statement in large if thread == LOOP_THREAD]


def test_the_server_answers_while_all_large_reads_of_a_caller_are_stuck(relay: ServerInThread, tmp_path: Path) -> None:
    reached, release = [], Event()

    def stick(statement: str) -> None:
        if current_thread().name.startswith("read") and "FROM messages" in statement:
            reached.append(statement)
            release.wait(STUCK_SECONDS)

    with served(relay, tmp_path) as (client, made), relay.tracing(stick), ThreadPoolExecutor(READ_THREADS) as pool:
        reading = [pool.submit(client.get, f"/api/threads/{made['thread']}") for _ in range(READ_THREADS)]
        try:
            eventually(lambda: len(reached) == MAX_READS_PER_CALLER)
            assert client.get("/health").json() == {"ok": True}
            assert client.get("/api/summary").status_code == 200
            assert client.post(f"/api/threads/{made['thread']}/reply", json={"body": "Go on"}).status_code == 201
        finally:
            release.set()
        assert [each.result().status_code for each in reading] == [200] * READ_THREADS


def test_no_tool_reads_a_thread_in_the_event_loop(tmp_path: Path) -> None:
    ran: list[tuple[str, str]] = []
    place = fresh_file(tmp_path)
    with closing(open_store(place)) as store:
        workspace = people.add_workspace(store, str(tmp_path), label="Atlas", agent="atlas").workspace
        thread_id = talk(store, 3, to="atlas")

    async def call() -> list[tuple[dict[str, Any], bool]]:
        access = StoreAccess(place)
        for store in access._stores:
            store.connection.set_trace_callback(lambda statement: ran.append((current_thread().name, statement)))  # type: ignore[attr-defined]
        tools = ToolHandlers(access, workspace, OpenCalls(access).begin_call(workspace.agent, "test", 1))
        asked: list[tuple[str, dict[str, Any]]] = [("work_fetch", {}), ("work_claim", {"threadId": thread_id})]
        asked += [("work_fetch", {"threadId": thread_id}), ("inbox_read", {"old": True, "entries": True})]
        try:
            return [await tools.call_tool(name, given) for name, given in asked]
        finally:
            await access.close()

    assert [refused for _, refused in asyncio.run(call())] == [False] * 4
    on_loop = [statement for thread, statement in ran if thread == current_thread().name]
    assert not [statement for statement in on_loop if re.search("FROM (messages|entries)", statement) and TEXT.search(statement)]
    assert [thread for thread, statement in ran if "FROM messages" in statement and TEXT.search(statement)]


def read_all(client: httpx.Client, thread_id: str) -> list[str]:
    """All messages of a thread, page by page, the oldest first."""
    page = client.get(f"/api/threads/{thread_id}").json()
    found: list[str] = []
    while True:
        found[:0] = [message["summary"] for message in page["messages"]]
        if not page["more"]:
            return found
        page = client.get(f"/api/threads/{thread_id}", params={"before_event": page["next_before_event"]}).json()


def test_four_readers_get_every_message_of_a_large_thread_beside_others(server: RunningServer) -> None:
    with opened(server) as store:
        thread_id = talk(store, 5000)
    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(read_all, server.person, thread_id) for _ in range(4)]
        while not all(each.done() for each in reading):
            assert server.stranger.get("/health").json() == {"ok": True}
        whole = ["Build", *map(str, range(1, 5000))]
        assert [each.result() == whole for each in reading] == [True] * 4


def test_a_page_of_a_large_thread_is_small(server: RunningServer) -> None:
    with opened(server) as store:
        thread_id = talk(store, 300, body="x" * 16384)
    shown = server.person.get(f"/api/threads/{thread_id}", params={"limit": "10000"})
    assert len(shown.content) < 1.5 * 1024 * 1024
    page = shown.json()
    assert (page["more"], page["first_message"]["body"], page["messages"][-1]["summary"]) == (True, "The task", "299")


def test_a_page_with_html_has_that_of_the_first_message(server: RunningServer) -> None:
    with opened(server) as store:
        thread_id = talk(store, 4, body="**loud**")
    page = server.get(f"/api/threads/{thread_id}", html="true", limit="1")
    assert page["html"][page["messages"][0]["message_id"]].strip() == "<p><strong>loud</strong></p>"
    assert page["html"][page["first_message"]["message_id"]].strip() == "<p>The task</p>"


@pytest.mark.parametrize("query", ["before_event=x", "before_event=-1", "after_event=1&before_event=2", "limit=0"])
def test_a_page_that_cannot_be_is_refused(server: RunningServer, query: str) -> None:
    with opened(server) as store:
        thread_id = talk(store, 1)
    refusal(server.person.get(f"/api/threads/{thread_id}?{query}"), 400, "invalid_input")


def test_a_claim_brings_the_task_and_the_newest_messages_alone(server: RunningServer, workspace: WorkspaceClient) -> None:
    with opened(server) as store:
        thread_id = talk(store, 40, to=workspace.agent)
    with at(workspace) as agent:
        claimed = agent.ok("work_claim", threadId=thread_id)
        assert len(json.dumps(claimed)) < 64 * 1024
        assert (claimed["firstMessage"]["body"], claimed["messages"][-1]["summary"], claimed["more"]) == ("The task", "39", True)
        found, page = list(claimed["messages"]), claimed
        while page["more"]:
            assert str(page["nextBeforeEvent"]) in page["earlier"]
            page = agent.ok("work_fetch", threadId=thread_id, beforeEvent=page["nextBeforeEvent"])
            found[:0] = page["messages"]
    assert [message["summary"] for message in found] == ["Build", *map(str, range(1, 40))]


def test_an_agent_is_told_that_the_beginning_of_a_thread_was_pruned(server: RunningServer, workspace: WorkspaceClient) -> None:
    with opened(server) as store:
        thread_id = shortened(store, to=workspace.agent)
    with at(workspace) as agent:
        assert "removed the beginning" in agent.ok("work_fetch", threadId=thread_id)["note"]


def test_an_agent_reads_no_thread_of_others_by_a_tool(server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    with opened(server) as store:
        thread_id = talk(store, 2, to=other.agent)
    with at(workspace) as agent:
        assert agent.refused("work_fetch", threadId=thread_id)["code"] == "not_found"
        assert agent.refused("work_fetch", beforeEvent=3)["code"] == "invalid_input"
    with at(other) as agent:
        assert [message["from"] for message in agent.ok("work_fetch", threadId=thread_id)["messages"]] == ["leader", "leader"]


def test_a_push_over_http_and_one_over_mcp_are_the_same_but_for_the_door(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("report.md", "# Done")
    workspace.push("report.md", comments="Look")
    with at(workspace) as agent:
        agent.ok("inbox_push", docs=[{"path": "report.md"}], comments="Look")
    over_mcp, over_http = workspace.entries()
    assert (over_http["door"], over_mcp["door"]) == ("http", "mcp")
    assert all(over_http[name] == over_mcp[name] for name in ("docs", "comments", "from", "workspaceId", "kind"))
