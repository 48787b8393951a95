"""`--log-format json` of workers: each step is a JSON object on standard error that names things and quotes no text."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Finished, Inbox

AGENT, BOX = ("--agent", "builder", "--until-empty"), ("--session", "box", "--until-empty")


def steps(finished: Finished, *names: str) -> list[tuple[str, ...]]:
    logged = [json.loads(line) for line in finished.stderr.splitlines()]
    assert all(line["time"] for line in logged)
    return [tuple(line[name] for name in ("event", "level", "step", *names)) for line in logged]


def test_work_logs_each_step_with_its_thread(inbox: Inbox) -> None:
    thread = inbox.send("Count the swordfish")
    finished = inbox.run("work", *AGENT, "--log-format", "json", "--command", "echo swordfish; exit 3")
    assert steps(finished, "thread_id", "agent") == [
        ("work", "info", "took", thread, "builder"),
        ("work", "warning", "failed", thread, "builder"),
    ]
    assert "swordfish" not in finished.stderr


def test_deliver_logs_each_step_with_its_message(tmp_path: Path) -> None:
    with Mailbox(tmp_path) as mailbox:
        mailbox.found()
        mailbox.run("enqueue", "--from", "lead", "--to", "box", "--msg-id", "m1", "--payload", "swordfish")
        finished = mailbox.run("deliver", *BOX, "--log-format", "json", "--command", "cat")
    assert steps(finished, "msg_id", "session") == [("deliver", "info", "took", "m1", "box"), ("deliver", "info", "acked", "m1", "box")]
    assert "swordfish" not in finished.stderr


def test_an_unknown_format_is_refused_before_anything_is_taken(inbox: Inbox) -> None:
    thread = inbox.send()
    finished = inbox.run("work", *AGENT, "--log-format", "xml", "--command", "true")
    assert finished.code == 30
    assert inbox.ok("show", "--thread", thread)["thread"]["status"] == "pending"
