"""Writes that wait in the server: one whose client has left, or whose token was revoked, is dropped. Others are done."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from postroom import work
from postroom.core.errors import Unauthenticated
from postroom.core.rpc.wire import CONTENT_TYPE
from postroom.core.verbs import OWN_NAME, STEPS, Verb
from postroom.people.access import passes, tokens
from postroom.server.http.auth import identify_caller
from postroom.server.rpc.calls import VerbCall, verify_in_write
from postroom.store.interface import Store, Transaction
from tests.cli.process import LIMIT
from tests.server.agents import knock
from tests.server.blocked_writes import blocked_writes, pass_by, wait_until_queued
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import TokenAgent, say

LARGE = 200_000  # of bytes: uvicorn stops reading from a connection with so much


@pytest.fixture
def ada(server: RunningServer) -> TokenAgent:
    return TokenAgent(server)


def sent_and_left(server: RunningServer, request: bytes) -> None:
    """Send a whole request, and disconnect. When this returns, the server knows both."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), LIMIT) as connection:
        connection.sendall(request)
        wait_until_queued(server)
    for _ in range(2):
        pass_by(server)


def call_of(server: RunningServer, token: str, verb: str, key: str = "", **named: Any) -> bytes:
    body = json.dumps({"args": [], "named": named}).encode()
    return request_of(server, token, f"/api/verbs/{verb}", body, CONTENT_TYPE, key)


def request_of(server: RunningServer, token: str, path: str, body: bytes, kind: str = "application/json", key: str = "") -> bytes:
    host = urlsplit(server.url).netloc
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}", f"Content-Type: {kind}"]
    lines += [f"Content-Length: {len(body)}", *([f"Idempotency-Key: {key}"] if key else [])]
    return "\r\n".join([*lines, "", ""]).encode() + body


def threads_of(server: RunningServer, agent: str) -> list[str]:
    with opened(server) as store:
        return [thread.subject for thread in work.list_threads(store, created_by=agent).threads]


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_queued_write_of_a_client_that_left_is_not_done(server: RunningServer, ada: TokenAgent, size: int) -> None:
    with blocked_writes(server):
        sent_and_left(server, call_of(server, ada.token, "work.send", sender=ada.name, to="builder", subject="Gone", body="x" * size))
    assert say(ada.http, "work.send", sender=ada.name, to="builder", subject="Here").status_code == 200
    assert threads_of(server, ada.name) == ["Here"]


def test_a_queued_mail_of_a_client_that_left_is_not_stored(server: RunningServer, ada: TokenAgent) -> None:
    with blocked_writes(server):
        message = json.dumps({"msg_id": "gone", "to": ada.name, "payload": "x"}).encode()
        sent_and_left(server, request_of(server, ada.token, "/api/mailbox", message))
    assert ada.http.post("/api/mailbox", json={"msg_id": "here", "to": ada.name, "payload": "x"}).status_code == 201
    assert [one["msg_id"] for one in ada.http.get(f"/api/mailbox/{ada.name}").json()["messages"]] == ["here"]


def test_a_client_that_comes_back_with_its_key_gets_the_call_done_once(server: RunningServer, ada: TokenAgent) -> None:
    named = {"sender": ada.name, "to": "builder", "subject": "Again"}
    with ThreadPoolExecutor() as threads:
        with blocked_writes(server):
            sent_and_left(server, call_of(server, ada.token, "work.send", "k1", **named))
            back = threads.submit(say, ada.http, "work.send", once="k1", **named)
            pass_by(server)
        assert back.result(LIMIT).status_code == 200
    assert threads_of(server, ada.name) == ["Again"]


def test_a_queued_write_whose_token_is_revoked_is_not_done(server: RunningServer, ada: TokenAgent) -> None:
    with ThreadPoolExecutor() as threads:
        with blocked_writes(server) as tx:
            queued = threads.submit(say, ada.http, "work.send", sender=ada.name, to="builder", subject="Revoked")
            wait_until_queued(server)
            passes._delete_passes(tx, ada.name, passes.AGENT)
        refusal(queued.result(LIMIT), 401, "unauthenticated")
    assert threads_of(server, ada.name) == []


@pytest.mark.parametrize(
    ("tool", "arguments"), [("inbox_push", {"comments": "Look"}), ("inbox_ask", {"question": "May I?", "waitSeconds": 0})]
)
def test_a_queued_tool_call_whose_token_is_revoked_stores_nothing(
    server: RunningServer, workspace: WorkspaceClient, tool: str, arguments: dict[str, Any]
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    with ThreadPoolExecutor() as threads:
        with blocked_writes(server) as tx:
            queued = threads.submit(knock, workspace, workspace.token, message=message)
            wait_until_queued(server)
            _rotate(tx, workspace)
        answer = queued.result(LIMIT)
    assert answer.status_code == 200  # it was let in, so that the write has refused it
    assert "unauthenticated" in answer.text
    assert workspace.entries() == []


def _rotate(tx: Transaction, workspace: WorkspaceClient) -> None:
    tx.execute(tx.sql.workspace_retoken, workspace_id=workspace.workspace_id, token_hash=tokens.hash_token(f"new {workspace.workspace_id}"))


def test_a_push_whose_token_is_revoked_meanwhile_stores_nothing(server: RunningServer, workspace: WorkspaceClient) -> None:
    with ThreadPoolExecutor() as threads:
        with blocked_writes(server) as tx:
            queued = threads.submit(workspace.try_push, comments="Look")
            wait_until_queued(server)
            _rotate(tx, workspace)
        refusal(queued.result(LIMIT), 401, "unauthenticated")
    assert workspace.entries() == []


def in_two_steps(store: Store, *, agent: str, between: Callable[[], object]) -> None:
    """A verb of two transactions."""
    for step in ("first", "second"):
        with store.write() as tx:
            tx.execute(tx.sql.agent_seen, name=f"{agent} {step}", now="2026-11-15T21:12:00.000000Z")
        between()


@pytest.mark.parametrize("as_verb", [True, False], ids=["a verb", "no verb"])
def test_a_call_whose_token_is_revoked_between_its_transactions_writes_no_more(store: Store, as_verb: bool) -> None:
    token = passes.issue_agent_token(store, name="ada")
    with store.read() as tx:
        caller = identify_caller(tx, token, "http")

    def revoke() -> None:
        passes.revoke_agent_token(store, name="ada")

    arguments = {"agent": "ada", "between": revoke}
    verb = Verb("work.in_two_steps", in_two_steps, caller="agent", access=OWN_NAME, mode=STEPS)
    call: Callable[[Store], object]
    call = VerbCall(caller, verb, arguments) if as_verb else verify_in_write(caller, lambda here: in_two_steps(here, **arguments))  # type: ignore[arg-type]
    with pytest.raises(Unauthenticated):
        call(store)
    known = {agent.name for agent in work.list_agents(store)}
    assert ("ada first" in known, "ada second" in known) == (True, False)
