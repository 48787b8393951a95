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
from tests.cli.process import SCRIPTS
from tests.server.office import Desk, Office
from tests.server.rooms import dead_letter, opened

ROUTES = {
    "/api/summary": {"get"},
    "/api/inbox/history": {"get"},
    "/api/inbox/search": {"get"},
    "/api/inbox/seed": {"post"},
    "/api/inbox/push": {"post"},
    "/api/verbs/{id}": {"post"},
    "/api/inbox/{id}": {"get", "delete"},
    "/api/inbox/{id}/read": {"put", "delete"},
    "/api/inbox/{id}/reply": {"post"},
    "/api/workspaces": {"get"},
    "/api/workspaces/{id}/file": {"get"},
    "/api/workspaces/{id}/focus": {"post"},
    "/api/threads": {"get"},
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
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Office, Desk]]:
    """A server with something of everything in it."""
    office = Office(tmp_path_factory.mktemp("described"), "--rate", "1000000").open()
    desk = office.desk()
    desk.write("a.md", "# A\n")
    office.reply(desk.push("a.md", comments="Look"), "Seen")
    office.inbox.ok("ask", "--from", desk.agent, "--question", "Ship?", "--choice", "yes", "--choice", "no", "--no-wait")
    office.inbox.ok("send", "--from", "user", "--to", desk.agent, "--subject", "Build", "--run", "r1")
    office.inbox.ok("take", "--agent", desk.agent)
    with opened(office) as store:
        dead_letter(store, "analyst", extra={"more": 1})
        mail.enqueue(store, {"from": "leader", "to": "analyst", "payload": "Hello"})
        people.add_queue(store, queues.init_queue(str(office.folder / "events")))
    yield office, desk
    assert office.close() == 0


def _file(office: Office) -> dict[str, Any]:
    found: dict[str, Any] = office.get("/api/openapi.json")
    return found


def _same(path: str) -> str:
    """A path, whatever its parameters are called."""
    return "/".join("{id}" if part.startswith("{") else part for part in path.split("/"))


def test_the_file_is_openapi_3_1(office: Office) -> None:
    assert _file(office)["openapi"].startswith("3.1")


def test_every_route_is_in_the_file(office: Office) -> None:
    paths = {_same(path): {method for method in item if method in METHODS} for path, item in _file(office)["paths"].items()}
    assert {path: methods for path, methods in paths.items() if path.startswith("/api/")} == ROUTES


def test_every_operation_says_how_it_refuses(office: Office) -> None:
    for path, item in _file(office)["paths"].items():
        for method in METHODS & set(item):
            statuses = set(item[method]["responses"])
            assert statuses, (path, method)
            if path.startswith("/api/") and path not in ("/api/openapi.json", "/api/asyncapi.json"):
                assert {"401", "403"} <= statuses, (path, method, statuses)


def _run(office: Office, token: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    schema, file = folder / "openapi.json", _file(office)
    waits = file["paths"]["/api/mailbox/{session}/dequeue"]["post"]["parameters"][-1]["schema"]
    waits["maximum"] = 0.01  # where nothing comes, nobody waits for long
    schema.write_text(json.dumps(file))
    argv = [str(SCRIPTS / "schemathesis"), "run", str(schema), "--url", office.url, "--header", f"Authorization:Bearer {token}"]
    bounded = ["--seed", "20261116", "--generation-deterministic", "--no-color", "--request-timeout", "30", "--continue-on-failure"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run([*argv, *bounded, *flags], capture_output=True, text=True, cwd=folder, env=environment, timeout=110, check=False)


def test_no_answer_to_a_person_is_without_its_description(described: tuple[Office, Desk], tmp_path: Path) -> None:
    office, _ = described
    excluded = [
        "--exclude-path",
        "/api/events",
        "--exclude-path",
        "/api/bell",
        "--exclude-path",
        "/api/sign-out",
        "--exclude-path",
        "/api/inbox/push",
    ]
    flags = ["--checks", f"{CHECKS},{UNTOLD}", "--phases", "examples,coverage,fuzzing", "--max-examples", "10"]
    done = _run(office, office.ready["token"], tmp_path, *excluded, *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_answer_to_an_agent_is_without_its_description(described: tuple[Office, Desk], tmp_path: Path) -> None:
    office, desk = described
    flags = ["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "30"]
    done = _run(office, desk.token, tmp_path, "--include-path", "/api/inbox/push", "--include-path-regex", "^/api/mailbox($|/)", *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_file_is_served_to_who_may_use_it(office: Office) -> None:
    answer = office.person.get("/api/openapi.json")
    assert answer.headers["content-type"].startswith("application/json")
    assert office.ready["token"] not in answer.text


def _validate(file: dict[str, Any], path: str, found: object, method: str = "get", status: str = "200") -> None:
    answer = file["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    Draft202012Validator({**answer, "components": file["components"]}).validate(found)


def test_what_is_there_is_as_described(described: tuple[Office, Desk]) -> None:
    """The names that a fuzzer makes up are of nothing."""
    office, _ = described
    with opened(office) as store:
        dead_letter(store, "sorter", extra={"more": 1})
        mail.enqueue(store, {"from": "leader", "to": "sorter", "payload": "Hello"})
    thread = office.get("/api/runs/r1")["threads"][0]["thread_id"]
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
        _validate(_file(office), path, office.get(place))
    _validate(_file(office), "/api/threads/{id}", office.get(f"/api/threads/{thread}", html="true"))
    assert office.get("/api/mailbox/sorter/dead-letter")["entries"]


def test_what_becomes_of_a_message_is_as_described(described: tuple[Office, Desk]) -> None:
    office, desk = described
    file, place = _file(office), f"/api/mailbox/{desk.agent}"
    with opened(office) as store:
        mail.purge(store, desk.agent)
    message = {"to": desk.agent, "payload": "Hello", "msg_id": "a/b", "extra": [1]}
    for status in (201, 200):
        sent = desk.http.post("/api/mailbox", json=message)
        assert sent.status_code == status
        _validate(file, "/api/mailbox", sent.json(), "post", str(status))
    _validate(file, "/api/mailbox/{session}/dequeue", desk.http.post(f"{place}/dequeue").json(), "post")
    for step in ("extend", "nack"):
        _validate(file, f"/api/mailbox/{{session}}/{{msg_id}}/{step}", desk.http.post(f"{place}/a%2Fb/{step}", json={}).json(), "post")
    desk.http.post("/api/mailbox", json={**message, "from": None, "msg_id": "c"})
    _validate(file, "/api/mailbox/{session}", office.person.delete(place).json(), "delete")
    desk.http.post("/api/mailbox", json={**message, "msg_id": "d"})
    assert desk.http.post(f"{place}/dequeue").json()["message"]["msg_id"] == "d"
    _validate(file, "/api/mailbox/{session}/{msg_id}/ack", desk.http.post(f"{place}/d/ack", json={}).json(), "post")
