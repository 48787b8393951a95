"""`inbox work`: any command line becomes a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom.core.limits import MAX_PAGE_MESSAGES
from postroom.work import reply as reply_in
from tests.cli.process import Inbox, Waiter, eventually, is_alive

BIN = str(Path(sys.executable).parent)
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def inbox(inbox: Inbox, settled: Callable[[Inbox], None]) -> Inbox:
    settled(inbox)
    return inbox


def work(inbox: Inbox, command: str, *flags: str) -> dict[str, int]:
    """Work until there is nothing left, and what came of it. The exit code is 1 if a thread failed."""
    finished = inbox.run("work", "--json", "--agent", "builder", "--until-empty", "--command", command, *flags, PATH="/usr/bin:/bin")
    assert finished.code == (1 if finished.json["failed"] else 0)
    return {
        key: finished.json[key] for key in ("done", "failed", "released", "parked", "retried") if key != "retried" or finished.json[key]
    }


def result(inbox: Inbox, thread: str) -> tuple[str, str, str]:
    shown = inbox.ok("show", "--thread", thread)
    return shown["thread"]["status"], shown["messages"][-1]["summary"], shown["messages"][-1]["body"]


def test_a_command_that_succeeds_finishes_its_thread_with_its_output(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "echo first; echo second")["done"] == 1
    assert result(inbox, thread) == ("done", "second", "first\nsecond")


def test_what_a_command_that_succeeds_wrote_to_stderr_is_kept_beside_its_result(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "echo careful >&2; echo built")["done"] == 1
    assert result(inbox, thread) == ("done", "built", "")
    assert inbox.ok("show", "--thread", thread)["messages"][-1]["payload"] == {"stderr": "careful"}
    assert "careful" in inbox.run("show", "--thread", thread).stdout
    long = inbox.send()
    assert work(inbox, "seq 100000 >&2")["done"] == 1
    kept = inbox.ok("show", "--thread", long)["messages"][-1]["payload"]["stderr"]
    assert (len(kept), kept.endswith("99999\n100000")) == (4096, True)


def test_a_command_that_fails_fails_its_thread_with_what_it_said(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "echo no such table >&2; exit 3")["failed"] == 1
    assert result(inbox, thread) == ("failed", "exit status 3: no such table", "no such table")
    both = inbox.send()
    assert work(inbox, "echo so far; echo no such table >&2; exit 3")["failed"] == 1
    assert result(inbox, both) == ("failed", "exit status 3: no such table", "so far\nno such table")


def test_a_command_killed_by_a_signal_fails_its_thread(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "kill -s KILL $$")["failed"] == 1
    assert result(inbox, thread)[1] == "killed by signal 9"


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "./not-executable", "./no-interpreter"])
def test_a_command_that_cannot_be_run_gives_its_thread_back_and_ends_the_worker(inbox: Inbox, command: str) -> None:
    (inbox.folder / "not-executable").write_text("#!/bin/sh\n")
    (inbox.folder / "no-interpreter").write_text("#!/no/such/interpreter\n")
    (inbox.folder / "no-interpreter").chmod(0o755)
    threads = [inbox.send(), inbox.send()]
    finished = inbox.run("work", "--json", "--agent", "builder", "--command", command)
    assert finished.error[:2] == (30, "invalid_input")
    assert [result(inbox, thread)[0] for thread in threads] == ["pending", "pending"]
    assert "the command cannot be run" in result(inbox, threads[0])[1]


def test_a_command_that_fails_is_run_again_as_often_as_allowed(inbox: Inbox) -> None:
    thread = inbox.send()
    command = "echo x >> attempts; [ $(wc -l < attempts) -eq 3 ] && echo well || { echo not yet >&2; exit 3; }"
    assert work(inbox, command, "--retries", "2", "--backoff-seconds", "0.01") == {
        "done": 1,
        "failed": 0,
        "released": 0,
        "parked": 0,
        "retried": 2,
    }
    shown = inbox.ok("show", "--thread", thread)["messages"]
    assert [message["kind"] for message in shown] == ["task", "progress", "progress", "result"]
    assert "Attempt 1 failed (exit status 3: not yet)" in shown[1]["summary"]


def test_a_command_that_fails_once_too_often_fails_its_thread(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "exit 3", "--retries", "1", "--backoff-seconds", "0")["failed"] == 1
    assert result(inbox, thread)[:2] == ("failed", "exit status 3")


def test_a_command_that_takes_too_long_is_stopped_with_all_its_processes(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "sleep 60 & echo $! > pid; echo begun; wait", "--timeout-seconds", "0.3")["failed"] == 1
    assert result(inbox, thread)[:2] == ("failed", "stopped after 0.3 s: begun")
    eventually(lambda: not is_alive(int((inbox.folder / "pid").read_text())))


def test_a_worker_told_to_stop_gives_back_what_it_would_have_tried_again(inbox: Inbox) -> None:
    thread = inbox.send()
    worker = inbox.start("work", "--agent", "builder", "--retries", "1", "--backoff-seconds", "60", "--command", "exit 3", "--json")
    inbox.ok("watch", "--status", "in_progress", "--after-event", "0", "--timeout-seconds", "30")
    worker.process.terminate()
    finished = worker.finish()
    assert (finished.code, finished.json["released"]) == (0, 1)
    assert result(inbox, thread)[0] == "pending"


def test_threads_are_taken_one_after_another_by_priority(inbox: Inbox) -> None:
    for priority in ("low", "high", "normal"):
        inbox.send(priority, "--priority", priority)
    assert work(inbox, 'grep -o \'"subject": "[a-z]*"\' >> order')["done"] == 3
    assert [line.split('"')[3] for line in (inbox.folder / "order").read_text().splitlines()] == ["high", "normal", "low"]


def test_the_command_is_given_the_thread_as_json_and_its_ids_in_the_environment(inbox: Inbox) -> None:
    thread = inbox.send("Say it", "--body", "in full")
    work(inbox, "cat > told; env | grep ^INBOX_ > environment")
    told = __import__("json").loads((inbox.folder / "told").read_text())
    environment = dict(line.split("=", 1) for line in (inbox.folder / "environment").read_text().splitlines())
    assert (told["thread"]["thread_id"], told["messages"][0]["body"]) == (thread, "in full")
    assert environment["INBOX_THREAD"] == thread
    assert environment["INBOX_AGENT"] == "builder"
    assert environment["INBOX_DB"] == inbox.served.get("INBOX_DB", str(inbox.db))
    assert environment["INBOX_LEASE_TOKEN"] == told["lease"]["lease_token"]


def talk_on(inbox: Inbox, thread: str, count: int) -> None:
    with closing(postroom.open(str(inbox.db))) as store:
        for number in range(count):
            reply_in(store, thread, sender="leader", summary=str(number))


def test_the_command_is_given_its_task_however_long_the_thread_is(inbox: Inbox) -> None:
    thread = inbox.send("Say it", "--body", "in full")
    talk_on(inbox, thread, MAX_PAGE_MESSAGES + 1)
    work(inbox, "cat > told")
    told = __import__("json").loads((inbox.folder / "told").read_text())
    summaries = [message["summary"] for message in told["messages"]]
    assert (told["messages"][0]["body"], summaries[1], summaries[-1]) == ("in full", "1", str(MAX_PAGE_MESSAGES))
    assert (told["more"], told["first_message"]) == (True, None)


ASKING = """
import os, postroom
from postroom import work
store, agent, thread = postroom.open(os.environ["INBOX_DB"]), "builder", os.environ["INBOX_THREAD"]
work.update(store, thread, agent=agent, status="blocked", summary="Which?")
for number in range(int(os.environ["MESSAGES"])):
    work.send(store, sender=agent, thread_id=thread, kind="event", summary=str(number))
"""


def test_a_question_is_found_behind_more_than_a_page_of_messages(inbox: Inbox) -> None:
    inbox.send()
    (inbox.folder / "asking.py").write_text(ASKING)
    assert work(inbox, f"MESSAGES={MAX_PAGE_MESSAGES} {sys.executable} asking.py")["parked"] == 1


def test_inside_the_command_inbox_needs_no_flags(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "inbox update --summary half && inbox done --summary 'by itself'") == {
        "done": 0,
        "failed": 0,
        "released": 0,
        "parked": 0,
    }
    assert result(inbox, thread)[:2] == ("done", "by itself")


def test_a_command_that_asks_is_run_again_when_the_answer_comes(inbox: Inbox) -> None:
    thread = inbox.send()
    command = 'if grep -q "email and password"; then echo done so; else inbox update --status blocked --summary which?; fi'
    worker = inbox.start("work", "--agent", "builder", "--command", command, PATH=f"{BIN}:/usr/bin:/bin")
    inbox.ok("watch", "--status", "blocked", "--after-event", "0", "--timeout-seconds", "30")
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "email and password")
    inbox.ok("wait-reply", "--thread", thread, "--kinds", "result", "--timeout-seconds", "30")
    worker.process.terminate()
    assert worker.finish().code == 0
    assert result(inbox, thread)[:2] == ("done", "done so")
    kinds = [message["kind"] for message in inbox.ok("show", "--thread", thread)["messages"]]
    assert kinds == ["task", "question", "answer", "progress", "result"]


def test_the_answer_is_in_the_environment_of_the_command(inbox: Inbox) -> None:
    thread = inbox.send()
    command = (
        """case $INBOX_ANSWER in "") inbox update --status blocked --summary Ship? > /dev/null ;; *) echo "told: $INBOX_ANSWER" ;; esac"""
    )
    work = ("work", "--agent", "builder", "--until-empty", "--command", command)
    inbox.ok(*work)
    inbox.ok("send", "--from", "other", "--thread", thread, "--to", "builder", "--kind", "answer", "--summary", "a remark")
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "yes, it's *fine*")
    inbox.ok(*work)
    assert inbox.ok("show", thread)["messages"][-1]["summary"] == "told: yes, it's *fine*"


def test_what_a_worker_has_ended_does_not_wait_for_its_agent(inbox: Inbox) -> None:
    inbox.send()
    inbox.ok("work", "--agent", "builder", "--until-empty", "--command", "true")
    assert inbox.run("read", "--agent", "builder", "--json").json["waiting"] == []
    assert [item["kind"] for item in inbox.run("read", "--agent", "leader", "--json").json["waiting"]] == ["message"]


def test_a_question_nobody_answered_stays_asked_and_is_not_asked_again(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "inbox update --status blocked --summary which?")["parked"] == 1
    assert work(inbox, "inbox update --status blocked --summary which?")["parked"] == 0
    assert result(inbox, thread)[0] == "blocked"
    questions = [message["summary"] for message in inbox.ok("show", "--thread", thread)["messages"] if message["kind"] == "question"]
    assert questions == ["which?"]


ASK_ONCE = 'if grep -q "email and password"; then echo done so; else inbox update --status blocked --summary which?; fi'


def read_until_parked(worker: Waiter) -> None:
    """Return when the worker says that its thread waits for an answer: its command has ended."""
    assert worker.process.stdout is not None
    assert any(line.startswith(b"parked") for line in worker.process.stdout)


@pytest.mark.parametrize("until_empty", [True, False])
def test_a_thread_answered_after_its_worker_ended_is_done_by_the_next_worker_at_once(inbox: Inbox, until_empty: bool) -> None:
    thread = inbox.send()
    assert work(inbox, ASK_ONCE)["parked"] == 1
    assert inbox.run("take", "--agent", "builder").code == 10  # nobody could go on without the answer
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "email and password")
    if until_empty:
        assert work(inbox, ASK_ONCE)["done"] == 1
    else:
        worker = inbox.start("work", "--agent", "builder", "--command", ASK_ONCE, PATH=f"{BIN}:/usr/bin:/bin")
        inbox.ok("wait-reply", "--thread", thread, "--kinds", "result", "--timeout-seconds", "30")
        worker.process.terminate()
        assert worker.finish().code == 0
    assert result(inbox, thread)[:2] == ("done", "done so")


def test_a_stopped_worker_leaves_its_question_to_a_worker_of_the_same_name_that_runs(inbox: Inbox) -> None:
    thread = inbox.send()
    asking = inbox.start("work", "--agent", "builder", "--command", ASK_ONCE, PATH=f"{BIN}:/usr/bin:/bin")
    read_until_parked(asking)
    other = inbox.start("work", "--agent", "builder", "--command", ASK_ONCE, PATH=f"{BIN}:/usr/bin:/bin")
    asking.process.terminate()
    assert asking.finish().code == 0
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "email and password")
    inbox.ok("wait-reply", "--thread", thread, "--kinds", "result", "--timeout-seconds", "30")
    other.process.terminate()
    assert other.finish().code == 0
    assert result(inbox, thread)[:2] == ("done", "done so")


def test_a_worker_that_starts_or_ends_leaves_the_question_of_a_running_worker_of_its_name_alone(inbox: Inbox) -> None:
    thread = inbox.send()
    asking = inbox.start("work", "--agent", "builder", "--command", ASK_ONCE, PATH=f"{BIN}:/usr/bin:/bin")
    read_until_parked(asking)
    lease = inbox.ok("show", "--thread", thread, "--agent", "builder")["lease"]
    assert work(inbox, ASK_ONCE) == {"done": 0, "failed": 0, "released": 0, "parked": 0}
    shown = inbox.ok("show", "--thread", thread, "--agent", "builder")
    assert (shown["thread"]["status"], shown["lease"]["claimed_at"]) == ("blocked", lease["claimed_at"])
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "email and password")
    inbox.ok("wait-reply", "--thread", thread, "--kinds", "result", "--timeout-seconds", "30")
    asking.process.terminate()
    assert asking.finish().code == 0
    kinds = [message["kind"] for message in inbox.ok("show", "--thread", thread)["messages"]]
    assert kinds == ["task", "question", "answer", "progress", "result"]  # no event: it was never given back


def test_any_amount_of_output_is_taken_and_its_end_kept(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end")["done"] == 1
    status, summary, body = result(inbox, thread)
    assert (status, summary) == ("done", "the end")
    assert body.startswith("[")
    assert len(body) < 1_100_000


def test_output_that_is_not_text_does_not_stop_the_worker(inbox: Inbox) -> None:
    thread = inbox.send()
    assert work(inbox, "printf 'a\\0b\\377\\n'")["done"] == 1
    assert result(inbox, thread)[0] == "done"


def test_several_jobs_run_side_by_side(inbox: Inbox) -> None:
    for number in range(3):
        inbox.send(f"job {number}")
    # Each waits until all three are there: with fewer at once none would end.
    command = "touch here.$INBOX_THREAD; while [ $(ls here.* | wc -l) -lt 3 ]; do sleep 0.02; done"
    assert work(inbox, command, "--jobs", "3")["done"] == 3


def test_a_lease_is_renewed_while_the_command_runs(inbox: Inbox) -> None:
    thread = inbox.send()
    # The command ends only when it has seen its own lease renewed: its end has moved.
    command = (
        'end() { inbox show --json | grep -o "expires_at[^,]*"; }; first=$(end);'
        ' while [ "$(end)" = "$first" ]; do sleep 0.05; done; echo renewed'
    )
    assert work(inbox, command, "--lease-seconds", "1.5")["done"] == 1
    assert result(inbox, thread)[:2] == ("done", "renewed")


def test_a_cancelled_thread_stops_its_command(inbox: Inbox) -> None:
    thread = inbox.send()
    worker = inbox.start("work", "--agent", "builder", "--command", "echo $$ > pid; exec sleep 60")
    eventually(lambda: (inbox.folder / "pid").exists() and (inbox.folder / "pid").read_text().strip() != "")
    pid = int((inbox.folder / "pid").read_text())
    inbox.ok("cancel", "--agent", "leader", "--thread", thread, "--reason", "not wanted")
    eventually(lambda: not is_alive(pid))
    worker.process.terminate()
    assert worker.finish().code == 0
    assert result(inbox, thread)[:2] == ("cancelled", "not wanted")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_worker_told_to_stop_gives_its_thread_back(inbox: Inbox, number: signal.Signals) -> None:
    thread = inbox.send()
    worker = inbox.start("work", "--agent", "builder", "--command", "touch started; exec sleep 60", "--json")
    eventually((inbox.folder / "started").exists)
    worker.process.send_signal(number)
    finished = worker.finish()
    assert (finished.code, finished.json["released"]) == (0, 1)
    assert result(inbox, thread)[:2] == ("pending", "the worker was stopped")


def test_a_killed_workers_command_dies_and_its_thread_is_taken_by_another(inbox: Inbox) -> None:
    thread = inbox.send()
    worker = inbox.start("work", "--agent", "builder", "--lease-seconds", "0.5", "--command", "echo $$ > pid; exec sleep 60")
    eventually(lambda: (inbox.folder / "pid").exists() and (inbox.folder / "pid").read_text().strip() != "")
    worker.process.kill()
    worker.finish()
    eventually(lambda: not is_alive(int((inbox.folder / "pid").read_text())))
    taken = inbox.ok("take", "--agent", "other", "--wait", "--timeout-seconds", "30")
    assert (taken["thread"]["thread_id"], taken["thread"]["assigned_to"]) == (thread, "other")


def test_what_a_command_leaves_running_on_purpose_is_left_alone(inbox: Inbox) -> None:
    inbox.send()
    work(inbox, "sleep 60 > /dev/null 2>&1 & echo $! > pid")
    pid = int((inbox.folder / "pid").read_text())
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (("--agent", "b"), "command"),
        (("--agent", "b", "--command", " "), "command"),
        (("--command", "true"), "agent"),
        (("--agent", "b", "--command", "true", "--jobs", "0"), "jobs"),
        (("--agent", "b", "--command", "true", "--retries", "-1"), "retries"),
        (("--agent", "b", "--command", "true", "--backoff-seconds", "-1"), "backoff-seconds"),
        (("--agent", "b", "--command", "true", "--timeout-seconds", "-1"), "timeout-seconds"),
        (("--agent", "b", "--command", "true", "--lease-seconds", "-1"), "lease-seconds"),
    ],
)
def test_what_cannot_work_is_refused(inbox: Inbox, flags: tuple[str, ...], field: str) -> None:
    finished = inbox.run("work", "--json", *flags)
    assert finished.error[:2] == (30, "invalid_input")
    assert finished.json["error"]["field"] == field


def test_the_command_is_given_the_json_that_readme_shows(inbox: Inbox) -> None:
    [shown] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)]
    subject = shown["thread"]["subject"]
    inbox.ok("send", "--from", "leader", "--to", "bo", "--thread", shown["thread"]["thread_id"], "--subject", subject)
    inbox.ok("work", "--agent", "bo", "--until-empty", "--command", "cat > given.json")
    assert_shows(json.loads((inbox.folder / "given.json").read_text()), shown)


def assert_shows(given: Any, shown: Any) -> None:
    """Every field that README shows is there, and has that value, unless it is an id or a time."""
    if isinstance(shown, dict):
        for name in shown:
            if name not in ("lease_token", "expires_at"):
                assert_shows(given[name], shown[name])
            assert type(given[name]) is type(shown[name]), name
    elif isinstance(shown, list):
        for ours, theirs in zip(given, shown, strict=True):
            assert_shows(ours, theirs)
    else:
        assert given == shown
