"""The log of a server: a line for each request at the level that was asked for, and never a secret or a text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import postroom
from postroom import work
from postroom.server.observability.log_lines import LogWriter
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, serve_refused

MakeServer = Callable[..., RunningServer]


def lines(server: RunningServer) -> list[dict[str, Any]]:
    """The log so far. A line that is not whole yet is left out."""
    return [json.loads(line) for line in server.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def requests(server: RunningServer, path: str) -> list[dict[str, Any]]:
    return [line for line in lines(server) if line["event"] == "request" and line["path"] == path]


def test_each_request_is_one_json_line_with_caller_status_and_time(found: MakeServer) -> None:
    server = found("--log-format", "json", "--log-level", "info").open()
    workspace = server.add_workspace()
    workspace.push(comments="Ready")
    server.person.get("/api/inbox/nothing-here")
    eventually(lambda: bool(requests(server, "/api/inbox/nothing-here")))
    [pushed], [missing] = requests(server, "/api/inbox/push"), requests(server, "/api/inbox/nothing-here")
    assert (pushed["method"], pushed["status"], pushed["caller"], pushed["level"]) == ("POST", 201, workspace.agent, "info")
    assert pushed["milliseconds"] > 0
    assert pushed["bytes"] > 0
    assert (missing["status"], missing["refusal"], missing["route"]) == (404, "not_found", "/api/inbox/{id}")
    server.close()
    assert [line["event"] for line in lines(server) if line["event"] != "request"] == ["start", "stop"]


def test_no_line_has_a_token_a_query_or_a_text(found: MakeServer) -> None:
    server = found("--log-format", "json", "--log-level", "debug").open()
    workspace = server.add_workspace()
    link = server.link()
    server.stranger.get(f"/sign-in?token={link}")
    workspace.push(comments="the secret is swordfish")
    with postroom.open(server.place) as store:
        work.send(store, sender="lead", to=workspace.agent, subject="swordfish", body="swordfish")
    server.person.get("/api/inbox/search", params={"q": "swordfish"})
    eventually(lambda: bool(requests(server, "/api/inbox/search")))
    log = server.log.read_text()
    assert [secret for secret in (link, workspace.token, server.ready["token"], "swordfish") if secret in log] == []


def test_only_trouble_is_logged_by_default(found: MakeServer) -> None:
    server = found().open()
    server.person.get("/api/summary")
    server.person.get("/api/inbox/nothing-here")
    server.close()
    assert server.log.read_text() == ""


def test_a_readable_line_has_the_same_facts(found: MakeServer) -> None:
    server = found("--log-level", "info").open()
    server.person.get("/api/summary")
    server.close()
    [line] = [line for line in server.log.read_text().splitlines() if "/api/summary" in line]
    assert " info    GET /api/summary 200 " in line
    assert line.endswith(" ms user")


def test_monitors_are_logged_at_the_level_debug_only(found: MakeServer) -> None:
    server = found("--log-format", "json", "--log-level", "info").open()
    for path in ("/health", "/ready", "/metrics"):
        assert server.person.get(path).status_code == 200
    server.person.get("/api/summary")
    server.close()
    assert [line["path"] for line in lines(server) if line["event"] == "request"] == ["/api/summary"]


@pytest.mark.parametrize(("flag", "value"), [("--log-format", "xml"), ("--log-level", "loud")])
def test_an_unknown_format_or_level_is_refused(found: MakeServer, flag: str, value: str) -> None:
    refused = serve_refused(found(), "--port", "0", flag, value)
    assert (refused.code, refused.json["error"]["code"]) == (30, "invalid_input")


def test_a_log_that_nobody_reads_is_dropped_and_counted() -> None:
    read_end, write_end = os.pipe()
    log = LogWriter(level="info", log_format="json", descriptor=write_end)
    for number in range(3000):
        log.write("info", "request", "", {"path": f"/{number}", "filler": "x" * 100})
    assert log.dropped_lines > 0
    written = os.read(read_end, 1 << 20).splitlines()
    assert len(written) + log.dropped_lines == 3000
    assert all(json.loads(line)["event"] == "request" for line in written)
    os.close(read_end)
    log.write("info", "request", "", {})  # to a pipe without a reader
    os.close(write_end)


def test_a_line_that_was_cut_ends_before_the_next_one() -> None:
    read_end, write_end = os.pipe()
    log = LogWriter(level="info", log_format="json", descriptor=write_end)
    log.write("info", "long", "", {"filler": "x" * 100_000})  # more than a pipe takes
    cut = os.read(read_end, 1 << 20)
    log.write("info", "next", "", {})
    assert json.loads((cut + os.read(read_end, 1 << 20)).splitlines()[-1])["event"] == "next"
    assert log.dropped_lines == 1


def test_threads_may_log_at_once() -> None:
    read_end, write_end = os.pipe()
    log = LogWriter(level="info", log_format="json", descriptor=write_end)
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(log.write, "info", "request", "", {"number": number}) for number in range(400)]:
            done.result()
    written = os.read(read_end, 1 << 20).splitlines()
    assert sorted(json.loads(line)["number"] for line in written) == list(range(400))
    assert log.dropped_lines == 0
