"""An agent that means harm: other people's names, other people's workspaces, and requests that were made to break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import MCPError

from postroom import mail, people, work
from tests.cli.process import LIMIT
from tests.server.agents import INITIALIZE, VERSIONS, McpAgent, at, knock
from tests.server.mailbox_data import opened
from tests.server.running_server import JSON, RunningServer, WorkspaceClient, refusal

PERSONAL = [
    ("GET", "/api/inbox/history"),
    ("GET", "/api/inbox/search?q=a"),
    ("GET", "/api/inbox/{entry}"),
    ("POST", "/api/inbox/seed"),
    ("PUT", "/api/inbox/{entry}/read"),
    ("DELETE", "/api/inbox/{entry}/read"),
    ("DELETE", "/api/inbox/{entry}"),
    ("POST", "/api/inbox/{entry}/reply"),
    ("GET", "/api/workspaces"),
    ("GET", "/api/workspaces/{workspace}/file?path=a.md"),
    ("GET", "/api/workspaces/{workspace}/file?path=a.md&download=1"),
    ("GET", "/api/threads"),
    ("GET", "/api/threads/{thread}"),
    ("POST", "/api/threads/{thread}/reply"),
    ("POST", "/api/threads/{thread}/cancel"),
    ("GET", "/api/agents"),
    ("GET", "/api/events"),
]
OFFICIAL = [  # of a person too, and of the server's machine
    ("GET", "/api/summary"),
    ("POST", "/api/inbox/push"),
    ("POST", "/api/workspaces/{workspace}/focus"),
    ("POST", "/api/threads/{thread}/release"),
    ("GET", "/api/runs"),
    ("GET", "/api/runs/~"),
    ("GET", "/api/activity"),
    ("GET", "/api/mailboxes"),
    ("DELETE", "/api/mailbox/user"),
    ("DELETE", "/api/mailbox/user/dead-letter"),
    ("POST", "/api/mailbox/user/dead-letter/retry"),
    ("GET", "/api/queues"),
    ("POST", "/api/sign-out"),
]
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "inbox_push", "arguments": {"comments": "Forged"}}}


@pytest.mark.parametrize(("method", "path"), PERSONAL)
def test_an_agent_cannot_act_as_a_person(server: RunningServer, workspace: WorkspaceClient, method: str, path: str) -> None:
    workspace.write("a.md", "# A")
    entry = workspace.push("a.md", comments="Mine")
    thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    before = server.get(f"/api/inbox/{entry}")["entry"], server.get(f"/api/threads/{thread}")
    url = path.format(entry=entry, workspace=workspace.workspace_id, thread=thread)
    answer = workspace.http.request(method, url, **({"json": {"body": "I am the user"}} if method == "POST" else {}))  # type: ignore[arg-type]
    assert answer.status_code in ((403, 404) if path.endswith("seed") else (403,)), answer.text
    assert (server.get(f"/api/inbox/{entry}")["entry"], server.get(f"/api/threads/{thread}")) == before


@pytest.mark.parametrize("named", ["own", "the workspace's", "close"])
def test_a_session_cannot_act_as_a_person_or_a_workspace(server: RunningServer, workspace: WorkspaceClient, named: str) -> None:
    """Not even one that has the name of a workspace's agent: its token is another."""
    workspace.write("a.md", "# A")
    entry = workspace.push("a.md", comments="Mine")
    with opened(server) as store:
        thread = work.send(store, sender="user", to=workspace.agent, subject="Build").thread.thread_id
        name = {"own": "session", "the workspace's": workspace.agent, "close": "users"}[named]
        token = people.issue_agent_token(store, name=name)
        mail.enqueue(store, {"from": "leader", "to": "user", "payload": "Keep", "msg_id": "kept"})

    def seen() -> list[Any]:
        shown = [server.get(f"/api/inbox/{entry}")["entry"], server.get(f"/api/threads/{thread}"), server.get("/api/mailbox/user")]
        return [*shown, len(workspace.entries())]

    before = seen()
    for method, path in PERSONAL + OFFICIAL:
        url = path.format(entry=entry, workspace=workspace.workspace_id, thread=thread)
        answer = server.client(token).request(method, url, **({"json": {"body": "I am the user"}} if method == "POST" else {}))  # type: ignore[arg-type]
        refused = (403, 404) if path.endswith("seed") else (400, 403) if path.endswith("push") else (403,)
        assert answer.status_code in refused, (path, answer.text)
        assert seen() == before, path


def test_a_session_does_not_push(server: RunningServer, workspace: WorkspaceClient) -> None:
    with opened(server) as store:
        token = people.issue_agent_token(store, name=workspace.agent)
    refusal(server.client(token).post("/api/inbox/push", json={"comments": "Forged"}), 403, "forbidden")
    assert workspace.entries() == []


def test_a_session_is_no_workspace_to_mcp(server: RunningServer, dev_server: RunningServer, workspace: WorkspaceClient) -> None:
    for place in (workspace, dev_server.add_workspace()):
        with opened(place.server) as store:
            for name in ("session", place.agent):
                token = people.issue_agent_token(store, name=name)
                assert knock(place, token, message=CALL).status_code == 403
    assert workspace.entries() == []


@pytest.mark.parametrize(("method", "path"), PERSONAL)
def test_a_stranger_gets_nothing(server: RunningServer, method: str, path: str) -> None:
    url = path.format(entry="3d8f7a34-6d0c-4e0e-9b43-1d7c8a4e1a11", workspace="ws_x", thread="thr_x")
    for client in (server.stranger, server.client("prw_made_up"), server.client("pra_made_up")):
        answer = client.request(method, url, **({"json": {"body": "x"}} if method == "POST" else {}))  # type: ignore[arg-type]
        assert answer.status_code in ((401, 404) if path.endswith("seed") else (401,)), answer.text


@pytest.mark.parametrize("header", ["Bearer", "Basic dXNlcjp1c2Vy", "bearer x y", "Token x", "x" * 20_000])
def test_credentials_of_another_shape_are_none(server: RunningServer, header: str) -> None:
    answer = server.stranger.get("/api/inbox/history", headers={"Authorization": header})
    assert answer.status_code in (400, 401, 431)


def test_a_token_in_the_address_is_none(server: RunningServer) -> None:
    answer = server.stranger.get("/api/inbox/history", params={"token": server.ready["token"], "access_token": server.ready["token"]})
    assert answer.status_code in (400, 401)


def test_a_foreign_workspace_is_forbidden(workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    for message in (INITIALIZE, CALL):
        assert knock(other, workspace.token, message=message).status_code == 403
    assert (workspace.entries(), other.entries()) == ([], [])


def test_a_workspace_without_its_token_is_closed(server: RunningServer, workspace: WorkspaceClient) -> None:
    for token in ("", "prw_made_up", workspace.token + "x", workspace.token[:-1], workspace.token.upper()):
        answer = knock(workspace, token, message=CALL)
        assert answer.status_code == 401
        assert "bearer" in answer.headers["www-authenticate"].lower()
    assert knock(workspace, server.ready["token"], message=CALL).status_code in (401, 403)
    assert workspace.entries() == []


def test_a_workspace_that_never_was_does_not_say_so(workspace: WorkspaceClient) -> None:
    """Whether there is such a workspace is not told to who has no token for it."""
    nowhere = knock(workspace, workspace.token, url=f"{workspace.server.url}/mcp/ws_nowhere")
    assert nowhere.status_code in (403, 404)
    assert knock(workspace, "", url=f"{workspace.server.url}/mcp/ws_nowhere").status_code == 401


def test_a_session_of_one_workspace_is_nothing_on_another(workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    opened = knock(workspace, workspace.token)
    session = opened.headers.get("mcp-session-id", "made-up")
    assert knock(other, workspace.token, message=CALL, mcp_session_id=session).status_code == 403
    knock(other, other.token, message=CALL, mcp_session_id=session)
    assert workspace.entries() == []
    assert {entry["workspaceId"] for entry in other.entries()} <= {other.workspace_id}


def test_a_rotated_token_is_void_at_once(server: RunningServer, workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        agent.ok("inbox_push", comments="Before")
        new = server.inbox.ok("workspace", "token", workspace.workspace_id)["token"]
        assert knock(workspace, workspace.token).status_code == 401
        assert workspace.try_push(comments="After").status_code == 401
        with pytest.raises(MCPError):
            agent.call("inbox_push", comments="After, in the session of before")
    assert knock(workspace, new).status_code == 200
    assert len(workspace.entries()) == 1


def test_the_token_of_a_removed_workspace_is_void_at_once(server: RunningServer, workspace: WorkspaceClient) -> None:
    server.inbox.ok("workspace", "remove", workspace.workspace_id)
    assert knock(workspace, workspace.token).status_code == 401
    refusal(workspace.try_push(comments="After"), 401, "unauthenticated")


FORGERIES: list[dict[str, Any]] = [
    {"workspaceId": "{other}"},
    {"workspace_id": "{other}", "workspaceLabel": "Forged"},
    {"agent": "{agent}", "from": "{agent}", "sender": "{agent}"},
    {"from": "user", "door": "web", "verified": True},
    {"id": "3d8f7a34-6d0c-4e0e-9b43-1d7c8a4e1a11", "ts": 1, "kind": "notice", "section": "notices", "readAt": "2026"},
]


def _forged(forgery: dict[str, Any], other: WorkspaceClient) -> dict[str, Any]:
    filled = json.dumps(forgery).replace("{other}", other.workspace_id).replace("{agent}", other.agent)
    found: dict[str, Any] = json.loads(filled)
    return found


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_name_in_a_request_is_refused_or_ignored(
    workspace: WorkspaceClient, other: WorkspaceClient, forgery: dict[str, Any]
) -> None:
    answer = workspace.http.post("/api/inbox/push", json={"comments": "Forged", **_forged(forgery, other)})
    assert answer.status_code in (201, 400)
    assert other.entries() == []
    for entry in workspace.entries():
        assert (entry["from"], entry["kind"], entry["readAt"], entry["door"]) == (workspace.agent, "push", None, "http")
        assert (entry["workspaceLabel"], entry["ts"] > 1) == (workspace.label, True)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_name_in_an_argument_is_refused_or_ignored(
    workspace: WorkspaceClient, other: WorkspaceClient, forgery: dict[str, Any]
) -> None:
    with at(workspace) as agent:
        agent.call("inbox_push", comments="Forged", **_forged(forgery, other))
        agent.call("inbox_ask", question="Forged", waitSeconds=0, **_forged(forgery, other))
    assert other.entries() == []
    for entry in workspace.entries():
        assert (entry["from"], entry["workspaceLabel"], entry["readAt"], entry["door"]) == (workspace.agent, workspace.label, None, "mcp")


def test_an_agent_cannot_touch_what_belongs_to_another(server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    thread = server.inbox.ok("send", "--from", "user", "--to", other.agent, "--subject", "Theirs")["thread"]["thread_id"]
    server.inbox.ok("claim", "--agent", other.agent, "--thread", thread)
    with at(other) as them:
        asked = them.ok("inbox_ask", question="Ours?", waitSeconds=0)["entryId"]
        server.reply(them.ok("inbox_push", comments="Theirs")["entryId"], "For them")
    with at(workspace) as agent:
        assert agent.refused("inbox_ask", entryId=asked)["code"] == "not_found"
        read = agent.ok("inbox_read", old=True, entries=True)
        assert (read["messages"], read["entries"]) == ([], [])
        assert agent.ok("work_fetch")["threads"] == []
        for call in ({"tool": "work_claim"}, {"tool": "work_update", "summary": "x"}, {"tool": "work_done", "outcome": "done"}):
            assert agent.refused(threadId=thread, **call)["code"] == "not_found"
    assert server.inbox.ok("show", "--thread", thread)["thread"]["assigned_to"] == other.agent


def test_an_agent_cannot_answer_its_own_question(server: RunningServer, workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        identity = agent.ok("inbox_ask", question="May I?", choices=["yes", "no"], waitSeconds=0)["entryId"]
        assert agent.refused("inbox_ask", question="May I?", to=workspace.agent, waitSeconds=0)["code"] == "invalid_input"
    assert workspace.http.post(f"/api/inbox/{identity}/reply", json={"body": "yes"}).status_code == 403
    assert server.entry(identity)["question"]["state"] == "open"


STRANGE = [
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%00",
    "a%00b",
    "%ff",
    "%0d%0aX-Evil:1",
    "x" * 4000,
    "'%20OR%201=1--",
    "%F0%9F%92%A5",
    "~",
    "a;b",
]


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_id_is_not_found(server: RunningServer, workspace: WorkspaceClient, name: str) -> None:
    for path in ("/api/inbox/{}", "/api/threads/{}", "/api/workspaces/{}/file?path=a", "/api/inbox/{}/read", "/mcp/{}"):
        method = "PUT" if path.endswith("/read") else "POST" if path.startswith("/mcp") else "GET"
        answer = (workspace.http if path.startswith("/mcp") else server.person).request(method, path.format(name))
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert "x-evil" not in answer.headers


DEEP = b'{"comments": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BROKEN = [
    b"",
    b"{",
    b"nonsense",
    b'{"comments": "\xff\xfe"}',
    b'{"comments": "\\ud800"}',
    b'{"comments": "a\\u0000b"}',
    DEEP,
    b'{"comments": NaN}',
    b'{"comments": 1e999}',
    b'{"docs": [{"path": {"path": "a"}}]}',
    b'{"docs": {"0": {"path": "a"}}}',
    b"\xef\xbb\xbf{}",
    b"[" * 1000,
    b'{"docs": [' + b'{"path": "a"},' * 60 + b'{"path": "a"}]}',
]


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:24]))
def test_a_broken_request_is_refused_and_changes_nothing(server: RunningServer, workspace: WorkspaceClient, body: bytes) -> None:
    entry = workspace.push(comments="Before")
    said = workspace.http.post("/api/inbox/push", content=body, headers=JSON)
    assert said.status_code in (400, 413), said.text
    refusal(said, said.status_code)
    answered = server.person.post(f"/api/inbox/{entry}/reply", content=body.replace(b"comments", b"body"), headers=JSON)
    assert answered.status_code in (400, 413), answered.text
    assert len(workspace.entries()) == 1


@pytest.mark.parametrize(
    "body", [*BROKEN[:5], DEEP, b"[]", b"1", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 1, "method": 3}'], ids=repr
)
def test_a_broken_call_is_refused(workspace: WorkspaceClient, body: bytes) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    answer = workspace.http.post(workspace.mcp_url, content=body, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text
    assert workspace.entries() == []


@pytest.mark.parametrize("mode", list(VERSIONS))
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("inbox_push", {"comments": {"a": 1}}),
        ("inbox_push", {"docs": [[["a"]]]}),
        ("inbox_push", {"comments": "x" * 300_000}),
        ("inbox_read", {"waitSeconds": "long"}),
        ("inbox_read", {"limit": 10**30}),
        ("inbox_read", {"old": "yes"}),
        ("inbox_ask", {"question": 3}),
        ("inbox_ask", {"question": "x", "deadlineSeconds": -5, "onSilence": "refuse"}),
        ("inbox_ask", {"question": "x", "deadlineSeconds": 1e308, "onSilence": "refuse"}),
        ("work_claim", {"threadId": ["a"]}),
        ("work_claim", {"leaseSeconds": -1}),
        ("work_update", {"threadId": "a", "choices": "b"}),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(shared_desk: WorkspaceClient, mode: str, tool: str, arguments: dict[str, Any]) -> None:
    with at(shared_desk, "http", mode) as agent:
        assert agent.refused(tool, **arguments)["code"] == "invalid_input"
    assert shared_desk.entries() == []


@pytest.fixture(scope="session")
def shared_desk(server: RunningServer) -> WorkspaceClient:
    """A workspace into which nothing may come."""
    return server.add_workspace()


def test_text_over_its_bound_is_refused(server: RunningServer, workspace: WorkspaceClient) -> None:
    longest = "x" * (256 << 10)
    identity = workspace.push(comments=longest)
    assert workspace.try_push(comments=longest + "x").status_code in (400, 413)
    assert workspace.try_push(comments="é" * (200 << 10)).status_code in (400, 413)
    server.reply(identity, longest)
    over = server.person.post(f"/api/inbox/{identity}/reply", json={"body": longest + "x"})
    assert over.status_code in (400, 413)
    assert (len(workspace.entries()), server.entry(identity)["replies"]) == (1, 1)


def _pushed(agent: McpAgent) -> Any:
    return agent.begin("inbox_push", comments="At once")


def test_many_calls_at_once_are_each_answered(workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        results = [call.result(LIMIT) for call in [_pushed(agent) for _ in range(40)]]
    identities = {result.structured_content["entryId"] for result in results}
    assert len(identities) == 40
    assert {entry["id"] for entry in workspace.entries()} == identities


def test_a_workspaces_agent_is_not_made_a_person(server: RunningServer, workspace: WorkspaceClient) -> None:
    assert server.inbox.run("agent", "add", workspace.agent, "--kind", "human", "--json").error[:2] == (30, "invalid_state")
