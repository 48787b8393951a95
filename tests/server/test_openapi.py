"""The OpenAPI file is true: every route is in it, and no answer is without its description."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from postroom import mail, people, queues
from postroom.core.rpc.wire import CONTENT_TYPE
from postroom.core.verbs import WAIT
from postroom.server.rpc.dispatch import routing_table
from tests.cli.process import SCRIPTS
from tests.server.mailbox_data import dead_letter, opened
from tests.server.running_server import RunningServer, WorkspaceClient
from tests.server.verb_calls import say

ROUTES = {
    "/api/summary": {"get"},
    "/api/inbox/history": {"get"},
    "/api/inbox/questions": {"get"},
    "/api/inbox/read": {"post"},
    "/api/inbox/{id}/state": {"put"},
    "/api/inbox/{id}/pin": {"put", "delete"},
    "/api/workspaces/{id}/mute": {"put", "delete"},
    "/api/tasks": {"get", "post"},
    "/api/tasks/{id}": {"get"},
    "/api/tasks/{id}/cancel": {"post"},
    "/api/inbox/search": {"get"},
    "/api/search": {"get"},
    "/api/notices": {"post"},
    "/api/inbox/seed": {"post"},
    "/api/inbox/push": {"post"},
    **{f"/api/verbs/{verb}": {"post"} for verb in routing_table()},
    "/api/inbox/{id}": {"get", "delete"},
    "/api/inbox/{id}/read": {"put", "delete"},
    "/api/inbox/{id}/reply": {"post"},
    "/api/workspaces": {"get"},
    "/api/workspaces/{id}/file": {"get"},
    "/api/workspaces/{id}/focus": {"post"},
    "/api/threads": {"get", "post"},
    "/api/threads/{id}": {"get"},
    "/api/threads/{id}/reply": {"post"},
    "/api/threads/{id}/cancel": {"post"},
    "/api/threads/{id}/release": {"post"},
    "/api/runs": {"get"},
    "/api/runs/{id}": {"get"},
    "/api/agents": {"get"},
    "/api/activity": {"get"},
    "/api/mailboxes": {"get"},
    "/api/mailbox": {"post"},
    "/api/mailbox/{id}": {"get", "delete"},
    "/api/mailbox/{id}/dequeue": {"post"},
    "/api/mailbox/{id}/{id}/ack": {"post"},
    "/api/mailbox/{id}/{id}/nack": {"post"},
    "/api/mailbox/{id}/{id}/extend": {"post"},
    "/api/mailbox/{id}/dead-letter": {"get", "delete"},
    "/api/mailbox/{id}/dead-letter/retry": {"post"},
    "/api/queues": {"get"},
    "/api/events": {"get"},
    "/api/bell": {"get"},
    "/api/openapi.json": {"get"},
    "/api/asyncapi.json": {"get"},
    "/api/sign-out": {"post"},
}
METHODS = {"get", "put", "post", "delete", "patch", "head", "options", "trace"}
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"
UNTOLD = "unsupported_method"  # a method that is not in the file is not served


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, WorkspaceClient]]:
    """A server with something of everything in it."""
    server = RunningServer(tmp_path_factory.mktemp("described"), "--rate", "1000000").open()
    workspace = server.add_workspace()
    workspace.write("a.md", "# A\n")
    server.reply(workspace.push("a.md", comments="Look"), "Seen")
    server.inbox.ok("ask", "--from", workspace.agent, "--question", "Ship?", "--choice", "yes", "--choice", "no", "--no-wait")
    server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build", "--run", "r1")
    server.inbox.ok("take", "--agent", workspace.agent)
    with opened(server) as store:
        dead_letter(store, "analyst", extra={"more": 1})
        mail.enqueue(store, {"from": "leader", "to": "analyst", "payload": "Hello"})
        people.add_queue(store, queues.init_queue(str(server.folder / "events")))
    yield server, workspace
    assert server.close() == 0


def _file(server: RunningServer) -> dict[str, Any]:
    found: dict[str, Any] = server.get("/api/openapi.json")
    return found


def _same(path: str) -> str:
    """A path, whatever its parameters are called."""
    return "/".join("{id}" if part.startswith("{") else part for part in path.split("/"))


def test_the_file_is_openapi_3_1(server: RunningServer) -> None:
    assert _file(server)["openapi"].startswith("3.1")


def test_every_route_is_in_the_file(server: RunningServer) -> None:
    paths = {_same(path): {method for method in item if method in METHODS} for path, item in _file(server)["paths"].items()}
    assert {path: methods for path, methods in paths.items() if path.startswith("/api/")} == ROUTES


def test_every_operation_says_how_it_refuses(server: RunningServer) -> None:
    for path, item in _file(server)["paths"].items():
        for method in METHODS & set(item):
            statuses = set(item[method]["responses"])
            assert statuses, (path, method)
            if path.startswith("/api/") and path not in ("/api/openapi.json", "/api/asyncapi.json"):
                assert {"401", "403"} <= statuses, (path, method, statuses)


def _arguments(file: dict[str, Any], verb: str) -> dict[str, Any]:
    found: dict[str, Any] = file["paths"][f"/api/verbs/{verb}"]["post"]["requestBody"]["content"][CONTENT_TYPE]["schema"]
    return found


def _run(server: RunningServer, token: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    schema, file = folder / "openapi.json", _file(server)
    waits = file["paths"]["/api/mailbox/{session}/dequeue"]["post"]["parameters"][-1]["schema"]
    waits["maximum"] = 0.01  # where nothing comes, nobody waits for long
    for verb in routing_table().values():
        if verb.mode == WAIT:
            named = _arguments(file, verb.name)["properties"]["named"]
            named["properties"]["timeout_seconds"] = {"type": "number", "exclusiveMinimum": 0, "maximum": 0.01}
            named["required"] = [*named.get("required", []), "timeout_seconds"]
    schema.write_text(json.dumps(file))
    argv = [str(SCRIPTS / "schemathesis"), "run", str(schema), "--url", server.url, "--header", f"Authorization:Bearer {token}"]
    bounded = ["--seed", "20261116", "--generation-deterministic", "--no-color", "--request-timeout", "30", "--continue-on-failure"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run([*argv, *bounded, *flags], capture_output=True, text=True, cwd=folder, env=environment, timeout=110, check=False)


def test_no_answer_to_a_person_is_without_its_description(described: tuple[RunningServer, WorkspaceClient], tmp_path: Path) -> None:
    server, _ = described
    excluded = [
        "--exclude-path",
        "/api/events",
        "--exclude-path",
        "/api/bell",
        "--exclude-path",
        "/api/sign-out",
        "--exclude-path",
        "/api/inbox/push",
        "--exclude-path-regex",
        "^/api/verbs/",
    ]
    flags = ["--checks", f"{CHECKS},{UNTOLD}", "--phases", "examples,coverage,fuzzing", "--max-examples", "4"]
    done = _run(server, server.ready["token"], tmp_path, *excluded, *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_answer_to_an_agent_is_without_its_description(described: tuple[RunningServer, WorkspaceClient], tmp_path: Path) -> None:
    server, workspace = described
    flags = ["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10"]
    done = _run(
        server, workspace.token, tmp_path, "--include-path", "/api/inbox/push", "--include-path-regex", "^/api/mailbox($|/)", *flags
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_answer_to_a_verb_is_without_its_description(own_server: RunningServer, tmp_path: Path) -> None:
    """On a server of its own: the ids that one verb returns are given to others, which may remove what they name."""
    server = own_server
    flags = ["--checks", CHECKS, "--phases", "examples,fuzzing", "--max-examples", "1"]
    done = _run(server, server.ready["token"], tmp_path, "--include-path-regex", "^/api/verbs/", *flags)
    assert done.returncode == 0, done.stdout + done.stderr


RESULTS: list[tuple[str, dict[str, Any]]] = [
    ("work.send", {"sender": "user", "to": "ada", "subject": "S", "artifacts": [{"~": "Attachment", "path": "a.md"}]}),
    ("work.list_threads", {}),
    ("work.list_presences", {}),
    ("work.list_runs", {}),
    ("work.show_run", {"run_id": "r1"}),
    ("work.activity_histogram", {}),
    ("work.take", {"agent": "ada"}),
    ("work.fetch", {"agent": "ada"}),
    ("work.watch", {"agent": "ada", "timeout_seconds": 0.01}),
    ("mail.sessions", {}),
    ("mail.peek_dead_letter", {"session": "analyst"}),
    ("mail.dequeue", {"session": "analyst"}),
    ("mail.policy", {"session": "analyst"}),
    ("people.history", {}),
    ("people.list_queues", {}),
    ("people.list_workspaces", {}),
    ("tasks.register", {"name": "ada", "skills": ["write"]}),
    ("tasks.start_job", {"agent": "ada"}),
    ("tasks.begin_sheet", {}),
    ("tasks.render", {"agent": "ada"}),
]


def test_what_a_verb_returns_is_as_described(described: tuple[RunningServer, WorkspaceClient]) -> None:
    server, _ = described
    file, job = _file(server), ""
    for verb, named in RESULTS:
        given = {**named, "job_id": job} if verb == "tasks.begin_sheet" else named
        _validate_request(file, verb, given)
        answer = say(server.person, verb, **given)
        assert answer.status_code == 200, (verb, answer.text)
        _validate(file, f"/api/verbs/{verb}", answer.json(), "post")
        if verb == "tasks.start_job":
            job = answer.json()["result"]["job_id"]


def _validate_request(file: dict[str, Any], verb: str, named: dict[str, Any]) -> None:
    Draft202012Validator({**_arguments(file, verb), "components": file["components"]}).validate({"named": named})


def test_the_file_is_served_to_who_may_use_it(server: RunningServer) -> None:
    answer = server.person.get("/api/openapi.json")
    assert answer.headers["content-type"].startswith("application/json")
    assert server.ready["token"] not in answer.text


def _validate(file: dict[str, Any], path: str, found: object, method: str = "get", status: str = "200") -> None:
    answer = file["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    Draft202012Validator({**answer, "components": file["components"]}).validate(found)


def test_what_is_there_is_as_described(described: tuple[RunningServer, WorkspaceClient]) -> None:
    """The names that a fuzzer makes up are of nothing."""
    server, _ = described
    with opened(server) as store:
        dead_letter(store, "sorter", extra={"more": 1})
        mail.enqueue(store, {"from": "leader", "to": "sorter", "payload": "Hello"})
    thread = server.get("/api/runs/r1")["threads"][0]["thread_id"]
    places = {
        "/api/runs": "/api/runs",
        "/api/runs/{run}": "/api/runs/r1",
        "/api/agents": "/api/agents",
        "/api/activity": "/api/activity",
        "/api/mailboxes": "/api/mailboxes",
        "/api/mailbox/{session}": "/api/mailbox/sorter",
        "/api/mailbox/{session}/dead-letter": "/api/mailbox/sorter/dead-letter",
        "/api/queues": "/api/queues",
    }
    for path, place in places.items():
        _validate(_file(server), path, server.get(place))
    _validate(_file(server), "/api/threads/{id}", server.get(f"/api/threads/{thread}", html="true"))
    assert server.get("/api/mailbox/sorter/dead-letter")["entries"]


def test_what_becomes_of_a_message_is_as_described(described: tuple[RunningServer, WorkspaceClient]) -> None:
    server, workspace = described
    file, place = _file(server), f"/api/mailbox/{workspace.agent}"
    with opened(server) as store:
        mail.purge(store, workspace.agent)
    message = {"to": workspace.agent, "payload": "Hello", "msg_id": "a/b", "extra": [1]}
    for status in (201, 200):
        sent = workspace.http.post("/api/mailbox", json=message)
        assert sent.status_code == status
        _validate(file, "/api/mailbox", sent.json(), "post", str(status))
    _validate(file, "/api/mailbox/{session}/dequeue", workspace.http.post(f"{place}/dequeue").json(), "post")
    for step in ("extend", "nack"):
        _validate(file, f"/api/mailbox/{{session}}/{{msg_id}}/{step}", workspace.http.post(f"{place}/a%2Fb/{step}", json={}).json(), "post")
    workspace.http.post("/api/mailbox", json={**message, "from": None, "msg_id": "c"})
    _validate(file, "/api/mailbox/{session}", server.person.delete(place).json(), "delete")
    workspace.http.post("/api/mailbox", json={**message, "msg_id": "d"})
    assert workspace.http.post(f"{place}/dequeue").json()["message"]["msg_id"] == "d"
    _validate(file, "/api/mailbox/{session}/{msg_id}/ack", workspace.http.post(f"{place}/d/ack", json={}).json(), "post")
