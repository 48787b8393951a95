"""One trace follows a message from the sender to the agent that wakes, to the person who answers, and back, across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import work
from postroom.core.tracing import is_traceparent
from tests.cli.mailbox_process import LINE, Mailbox
from tests.cli.process import Inbox, eventually
from tests.server.running_server import RunningServer

MakeServer = Callable[..., RunningServer]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
AGENT = str(Path(__file__).with_name("traced_agent.py"))


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path)
    made.found()
    return made


def start_agent(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, AGENT, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def spans(agent: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, errors = agent.communicate(timeout=60)
    assert agent.returncode == 0, errors
    return [json.loads(line) for line in out.splitlines()]


def traces(inbox: Inbox, thread: str) -> list[str | None]:
    return [message.get("traceparent") for message in inbox.ok("show", "--thread", thread)["messages"]]


def test_a_command_passes_the_trace_of_its_environment_on(inbox: Inbox) -> None:
    sent = inbox.ok("send", "--from", "lead", "--to", "builder", "--subject", "Traced", TRACEPARENT=PARENT)
    assert sent["message"]["traceparent"] == PARENT
    worker = 'inbox update --summary "$TRACEPARENT" > /dev/null'
    assert inbox.run("work", "--agent", "builder", "--until-empty", "--command", worker).code == 0
    thread = sent["thread"]["thread_id"]
    assert traces(inbox, thread)[:2] == [PARENT, PARENT]  # the update that the command made
    assert inbox.ok("show", "--thread", thread)["messages"][1]["summary"] == PARENT


def test_the_command_of_a_message_belongs_to_the_trace_of_its_mail(inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    mailbox.ok("enqueue", "--from", "lead", "--to", "builder", "--payload", "Build it", TRACEPARENT=PARENT)
    passing_on = f'{LINE} enqueue --from builder --to lead --payload "$TRACEPARENT" > /dev/null'
    assert mailbox.run("deliver", "--session", "builder", "--until-empty", "--command", passing_on).code == 0
    got = mailbox.ok("dequeue", "--session", "lead")["message"]
    assert (got["payload"], got["traceparent"]) == (PARENT, PARENT)


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff-{TRACE}-00f067aa0ba902b7-01", "ü" * 55])
def test_a_context_that_is_none_is_ignored(inbox: Inbox, given: str) -> None:
    sent = inbox.ok("send", "--from", "lead", "--to", "builder", "--subject", "Untraced", TRACEPARENT=given)
    assert "traceparent" not in sent["message"]


@pytest.mark.parametrize("wire", ["http", "ws"])
def test_a_server_stores_the_trace_of_the_call_and_not_its_own(found: MakeServer, monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    server = found("--log-format", "json", "--log-level", "info")
    server.inbox.served["TRACEPARENT"] = f"00-{'a' * 32}-{'b' * 16}-01"  # of the process that started the server
    server.open()
    with postroom.connect(server.url.replace("http", wire), token=server.ready["token"]) as store:
        untraced = work.send(store, sender="user", to="bo", subject="Untraced")
        monkeypatch.setenv("TRACEPARENT", PARENT)
        traced = work.send(store, sender="user", to="bo", subject="Traced")
    assert (untraced.message.traceparent, traced.message.traceparent) == (None, PARENT)
    if wire == "http":
        server.close()
        assert f'"trace_id":"{TRACE}"' in server.log.read_text()


def test_one_trace_goes_from_send_to_wake_to_answer_across_processes(found: MakeServer) -> None:
    server = found().open()
    worker = start_agent("work", server.place)
    leader = start_agent("send", server.url, server.ready["token"])
    planned, sent = sorted(spans(leader), key=lambda span: span["name"], reverse=True)[:2]
    assert (planned["name"], sent["name"], sent["parent"]) == ("the leader plans", "postroom work.send", planned["span"])
    eventually(lambda: bool(server.get("/api/inbox/questions")["entries"]))
    [question] = server.get("/api/inbox/questions")["entries"]
    server.reply(question["id"], "Blue")
    received = spans(worker)
    thread = server.get("/api/threads")["threads"][0]["thread_id"]
    stored = traces(server.inbox, thread)
    assert all(one is not None and is_traceparent(one) for one in stored), stored
    assert {str(one).split("-")[1] for one in stored} == {planned["trace"]}
    arrivals = [span for span in received if span["name"] == "postroom receive"]
    assert [(span["kind"], span["trace"]) for span in arrivals] == [("CONSUMER", planned["trace"])] * len(arrivals)
    assert len(arrivals) >= 2  # the thread, and the answer
    assert {span["trace"] for span in received if span["name"] == "postroom work.done"} == {planned["trace"]}
