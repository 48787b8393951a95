"""`inbox agent run`: one session for each thread, continued when an answer comes and after kill -9, and mail that is read once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import SCRIPT, Inbox, eventually, is_alive

AGENT = "ada"
PROGRAM = Path(__file__).parent / "acp_agent.py"


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path)
    made.ok("init")
    (tmp_path / "sessions").mkdir()
    return made


def _with_acp(inbox: Inbox) -> str:
    return f"acp:{sys.executable} {PROGRAM} {inbox.folder / 'sessions'}"


def _send(inbox: Inbox, text: str) -> str:
    thread: str = inbox.ok("send", "--from", "leader", "--to", AGENT, "--subject", text)["thread"]["thread_id"]
    return thread


def _mail(inbox: Inbox, text: str, sender: str = "colleague") -> None:
    assert inbox.execute(["enqueue", "--from", sender, "--to", AGENT, "--payload", text], {}, program="mailbox").code == 0


def _status(inbox: Inbox, thread: str) -> tuple[str, str]:
    shown = inbox.ok("show", "--thread", thread)
    return shown["thread"]["status"], shown["messages"][-1]["summary"]


def _log(inbox: Inbox) -> list[str]:
    path = inbox.folder / "sessions" / "log"
    return [line for line in path.read_text().splitlines() if not line.startswith("begin")] if path.exists() else []


@contextmanager
def _running(inbox: Inbox, program: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [SCRIPT, "agent", "run", AGENT, "--with", program, *flags]
    none = subprocess.DEVNULL
    with subprocess.Popen(argv, cwd=inbox.folder, env=inbox.environment(), stdin=none, stdout=none, stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.terminate()


def test_a_thread_has_one_session_which_goes_on_with_the_answer(inbox: Inbox) -> None:
    thread, other = _send(inbox, "ASK about it"), _send(inbox, "just do it")
    with _running(inbox, _with_acp(inbox)):
        eventually(lambda: _status(inbox, other)[0] == "done")
        assert _status(inbox, thread) == ("blocked", "Which colour?")
        inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "Blue")
        eventually(lambda: _status(inbox, thread)[0] == "done")
    assert _status(inbox, thread)[1] == "turn 2 of s0 is done"
    assert _log(inbox) == ["new s0", "prompt s0", "new s1", "prompt s1", "prompt s0"]
    assert inbox.run("read", "--agent", AGENT).code == 10


@pytest.mark.parametrize("moment", ["in a turn", "while a question waits"])
def test_a_killed_agent_goes_on_in_the_same_session(inbox: Inbox, moment: str) -> None:
    thread = _send(inbox, "HANG" if moment == "in a turn" else "ASK")
    with _running(inbox, _with_acp(inbox)) as first:
        eventually(lambda: "hanging s0" in _log(inbox) or _status(inbox, thread)[0] == "blocked")
        first.kill()
        first.wait()
    program = int((inbox.folder / "sessions" / "log").read_text().split()[1])
    eventually(lambda: not is_alive(program))
    (inbox.folder / "sessions" / "go").touch()
    with _running(inbox, _with_acp(inbox)):
        if moment != "in a turn":
            inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "Blue")
        eventually(lambda: _status(inbox, thread)[0] == "done")
    assert _status(inbox, thread)[1] == "turn 2 of s0 is done"
    again = ["load s0", "prompt s0 interrupted"] if moment == "in a turn" else ["load s0", "prompt s0"]
    assert _log(inbox)[-2:] == again
    results = [message for message in inbox.ok("show", "--thread", thread)["messages"] if message["kind"] in ("result", "question")]
    assert len(results) == (1 if moment == "in a turn" else 2)


def test_mail_is_announced_in_one_session_and_read_once(inbox: Inbox) -> None:
    _mail(inbox, "one")
    with _running(inbox, _with_acp(inbox)):
        eventually(lambda: "read one" in _log(inbox) and inbox.run("read", "--agent", AGENT).code == 10)
        _mail(inbox, "two")
        eventually(lambda: "read two" in _log(inbox) and inbox.run("read", "--agent", AGENT).code == 10)
    assert _log(inbox) == ["new s0", "prompt s0", "read one", "prompt s0", "read two"]


def test_mail_that_a_killed_turn_had_not_read_is_read_by_the_next_one(inbox: Inbox) -> None:
    _mail(inbox, "a word", sender="HANG")
    with _running(inbox, _with_acp(inbox)) as first:
        eventually(lambda: "hanging s0" in _log(inbox))
        first.kill()
        first.wait()
    (inbox.folder / "sessions" / "go").touch()
    with _running(inbox, _with_acp(inbox)):
        eventually(lambda: "read a word" in _log(inbox) and inbox.run("read", "--agent", AGENT).code == 10)
    assert _log(inbox) == ["new s0", "prompt s0", "hanging s0", "load s0", "prompt s0", "hanging s0", "read a word"]


def test_the_end_of_a_turn_confirms_nothing_that_another_session_was_handed(inbox: Inbox) -> None:
    (inbox.folder / "sessions" / "deaf").touch()
    inbox.ok("workspace", "add", ".", "--label", "Stage", "--agent", AGENT)
    entry_id = inbox.ok("push", "--agent", AGENT, "--comments", "Look")["entry"]["id"]
    inbox.ok("entry", "reply", entry_id, "--body", "Good")
    _send(inbox, "TAKE it")
    with _running(inbox, _with_acp(inbox), "--jobs", "2") as resident:
        eventually(lambda: not [item for item in inbox.run("read", "--agent", AGENT, "--json").json["waiting"] if item["kind"] == "reply"])
        other = _send(inbox, "just do it")
        eventually(lambda: _status(inbox, other)[0] == "done")
        resident.kill()
    assert "reply_seen" not in [step["step"] for step in inbox.ok("entry", "show", entry_id)["receipts"]]


def test_a_thread_fails_after_too_many_turns_and_by_a_turn_that_fails(inbox: Inbox) -> None:
    asking, broken = _send(inbox, "ASK"), _send(inbox, "BREAK")
    with _running(inbox, _with_acp(inbox), "--turns", "1"):
        eventually(lambda: _status(inbox, broken)[0] == "failed" and _status(inbox, asking)[0] == "blocked")
        inbox.ok("reply", "--from", "leader", "--thread", asking, "--summary", "Blue")
        eventually(lambda: _status(inbox, asking)[0] == "failed")
    assert "broken on purpose" in _status(inbox, broken)[1]
    assert "the limit of 1 turns is reached" in _status(inbox, asking)[1]


def test_a_turn_that_takes_too_long_is_stopped(inbox: Inbox) -> None:
    thread = _send(inbox, "HANG")
    finished = inbox.run("agent", "run", AGENT, "--with", "acp:sleep 1000", "--timeout-seconds", "0.3", "--until-empty", "--json")
    assert (finished.code, _status(inbox, thread)[0]) == (1, "failed")


def test_a_plain_command_gets_threads_and_mail(inbox: Inbox) -> None:
    thread = _send(inbox, "build")
    _mail(inbox, "hello")
    command = 'cat >> seen; echo "did ${INBOX_THREAD:-mail}"'
    finished = inbox.run("agent", "run", AGENT, "--with", command, "--until-empty", "--json")
    assert (finished.code, finished.json["done"]) == (0, 1)
    assert _status(inbox, thread) == ("done", f"did {thread}")
    seen = (inbox.folder / "seen").read_text()
    assert seen.count("hello") == 1
    assert inbox.execute(["peek", "--session", AGENT, "--json"], {}, program="mailbox").json["total"] == 0


def test_a_killed_plain_command_is_run_again_at_once_and_reported_once(inbox: Inbox) -> None:
    thread = _send(inbox, "build")
    command = "echo x >> runs; while [ ! -e go ]; do sleep 0.05; done; echo built"
    with _running(inbox, command) as first:  # the lease runs for 15 minutes
        eventually((inbox.folder / "runs").exists)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    (inbox.folder / "go").touch()
    assert inbox.run("agent", "run", AGENT, "--with", command, "--until-empty").code == 0
    assert _status(inbox, thread)[0] == "done"
    assert [message["kind"] for message in inbox.ok("show", "--thread", thread)["messages"]].count("result") == 1
    assert (inbox.folder / "runs").read_text() == "x\nx\n"


def test_a_thread_that_another_worker_of_that_name_took_meanwhile_is_left_to_it(inbox: Inbox) -> None:
    thread = _send(inbox, "build")
    with _running(inbox, "touch runs; exec sleep 1000", "--lease-seconds", "1") as first:
        eventually((inbox.folder / "runs").exists)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    eventually(lambda: inbox.run("claim", "--thread", thread, "--agent", AGENT).code == 0)
    assert inbox.run("agent", "run", AGENT, "--with", "echo mine", "--until-empty").code == 0
    assert inbox.ok("show", "--thread", thread)["thread"]["status"] == "claimed"


@pytest.mark.parametrize(
    ("flags", "field"),
    [(("--with", ""), "with"), ((), "with"), (("--with", "acp:"), "with"), (("--with", "true", "--turns", "0"), "turns")],
)
def test_a_bad_program_or_limit_is_refused(inbox: Inbox, flags: tuple[str, ...], field: str) -> None:
    finished = inbox.run("agent", "run", AGENT, *flags, "--json")
    assert (finished.error[:2], finished.json["error"]["field"]) == ((30, "invalid_input"), field)


def test_a_second_resident_of_one_agent_is_refused(inbox: Inbox) -> None:
    _send(inbox, "build")
    with _running(inbox, "touch begun; sleep 1000"):
        eventually((inbox.folder / "begun").exists)
        assert inbox.run("agent", "run", AGENT, "--with", "true", "--until-empty", "--json").error[:2] == (20, "conflict")


def test_a_program_that_is_not_there_gives_its_thread_back(inbox: Inbox) -> None:
    thread = _send(inbox, "build")
    finished = inbox.run("agent", "run", AGENT, "--with", "acp:no-such-program", "--json")
    assert finished.error[:2] == (30, "invalid_input")
    assert _status(inbox, thread)[0] == "pending"
