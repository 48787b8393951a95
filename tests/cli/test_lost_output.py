"""Standard output that is full, closed or non-blocking: what a command does, its exit code and the life of a worker do not depend on it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import LIMIT, SCRIPT, Inbox

FULL, CLOSED = "> /dev/full", ">&-"
DONE = "The command did its work, but its answer could not be printed: "
REASONS = {FULL: "No space left on device.", CLOSED: "Bad file descriptor."}


@pytest.mark.parametrize("stdout", [FULL, CLOSED])
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_command_whose_answer_is_lost_has_its_own_exit_code_and_says_so(inbox: Inbox, stdout: str, form: str) -> None:
    finished = inbox.shell(f'"$0" send --from leader --to builder --thread one --summary x {form} {stdout}')
    assert (finished.code, finished.stderr) == (0, f"{DONE}{REASONS[stdout]}\n")
    assert [thread["thread_id"] for thread in inbox.ok("list")["threads"]] == ["one"]


def test_a_task_whose_answer_is_lost_was_given(inbox: Inbox) -> None:
    inbox.ok("agent", "register", "forge")
    inbox.ok("agent", "register", "canyon")
    finished = inbox.shell(f'"$0" task submit --from forge --to canyon --description "Review X" {FULL}')
    assert (finished.code, finished.stderr) == (0, f"{DONE}{REASONS[FULL]}\n")
    assert len(inbox.ok("task", "list")["tasks"]) == 1


@pytest.mark.parametrize("stdout", [FULL, CLOSED])
def test_a_lost_lease_token_can_be_had_again(inbox: Inbox, stdout: str) -> None:
    thread = inbox.send()
    finished = inbox.shell(f'"$0" take --agent builder --json {stdout}')
    recovery = f"inbox claim --takeover --agent builder --thread {thread}"
    assert (finished.code, finished.stderr) == (0, f"{DONE}{REASONS[stdout]} Claim the thread again with `{recovery}`.\n")
    assert inbox.ok(*recovery.split()[1:])["lease_token"]


def test_a_lost_delivery_says_that_it_comes_again(inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    mailbox.ok("enqueue", "--from", "ann", "--to", "box", "--payload", "x", "--msg-id", "m1")
    finished = inbox.shell(f'"${{0%inbox}}mailbox" dequeue --session box {FULL}')
    assert (finished.code, finished.stderr) == (
        0,
        f"{DONE}{REASONS[FULL]} Message m1 is delivered again when its in-flight time is over; `mailbox peek` shows when.\n",
    )


@pytest.mark.parametrize("stdout", [FULL, CLOSED])
def test_a_refusal_that_cannot_be_printed_as_json_is_told_on_standard_error(inbox: Inbox, stdout: str) -> None:
    finished = inbox.shell(f'"$0" show --thread none --json {stdout}')
    assert finished.code == 40
    assert "there is no thread none" in finished.stderr


@pytest.mark.parametrize(("program", "code"), [("inbox", 50), ("mailbox", 50), ("notifier", 50), ("thread", 1)])
def test_help_that_cannot_be_printed_is_trouble(bare: Inbox, program: str, code: int) -> None:
    for argv in ("--help", "help"):
        finished = bare.shell(f'"${{0%inbox}}{program}" {argv} {FULL}')
        assert (finished.code, finished.stderr) == (code, f"The answer could not be printed: {REASONS[FULL]}\n")


def test_a_thread_that_could_not_be_shown_is_not_marked_as_read(inbox: Inbox) -> None:
    thread = inbox.send()
    assert inbox.shell(f'"$0" show --thread {thread} --agent builder --mark-read {FULL}').code == 50
    assert [found["thread_id"] for found in inbox.ok("fetch", "--agent", "builder", "--unread")["threads"]] == [thread]


def test_what_wrote_without_a_verb_keeps_its_exit_code_too(bare: Inbox) -> None:
    for argv in ("init", "copy --from .agents/coord.db --to other.db", "skill --install here", "doctor --fix"):
        finished = bare.shell(f'"$0" {argv} {FULL}')
        assert finished.code == 0, (argv, finished)
        assert finished.stderr.endswith(f"{DONE}{REASONS[FULL]}\n"), (argv, finished)
    assert (bare.folder / "here" / "inbox" / "SKILL.md").exists()


@pytest.mark.parametrize("stdout", [FULL, CLOSED])
def test_a_worker_goes_on_without_its_output(inbox: Inbox, stdout: str) -> None:
    threads = {inbox.send("One"), inbox.send("Two")}
    assert inbox.shell(f'"$0" work --agent builder --until-empty --command true {stdout}').code == 0
    assert {thread["thread_id"] for thread in inbox.ok("list", "--status", "done")["threads"]} == threads


@pytest.mark.parametrize("stdout", [FULL, CLOSED])
def test_a_delivery_engine_goes_on_without_its_output(inbox: Inbox, stdout: str) -> None:
    mailbox = Mailbox(inbox.folder)
    for payload in ("one", "two"):
        mailbox.ok("enqueue", "--from", "ann", "--to", "box", "--payload", payload)
    assert inbox.shell(f'"${{0%inbox}}mailbox" deliver --session box --until-empty --command true {stdout}').code == 0
    assert mailbox.ok("peek", "--session", "box")["messages"] == []


def test_a_queue_takes_an_event_whose_id_cannot_be_printed(inbox: Inbox) -> None:
    script = '"${0%inbox}thread"'
    assert inbox.shell(f"{script} init q && {script} push --thread q --type record --content '{{}}' --source self {FULL}").code == 0
    assert inbox.shell(f"{script} peek --thread q --last-event-id 0").stdout.count("\n") == 1


def test_a_long_answer_goes_whole_through_a_non_blocking_pipe(inbox: Inbox) -> None:
    body = "x" * 300_000
    thread = inbox.send("Long", "--body", body[:100_000])
    for _ in range(2):
        inbox.ok("reply", "--from", "leader", "--thread", thread, "--body", body[:100_000])
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    line = [SCRIPT, "show", "--thread", thread, "--json"]
    with subprocess.Popen(line, stdout=writing, cwd=inbox.folder, env=inbox.environment()) as process:
        os.close(writing)
        with open(reading, "rb") as answer:
            text = answer.read()
        assert process.wait(LIMIT) == 0
    assert len(json.loads(text)["messages"]) == 3
