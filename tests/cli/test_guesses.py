"""Guesses of new users: the bare program, guessed names, ids as plain words, and the beginning of an id."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox
from tests.cli.queue_process import QuietQueueCommands


@pytest.mark.parametrize("program", ["inbox", "mailbox", "thread", "notifier", "postroom"])
def test_the_bare_program_shows_a_short_page(program: str) -> None:
    ran = subprocess.run([Path(sys.executable).with_name(program)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{program}: ")
    assert len(ran.stdout.splitlines()) < 40


def test_the_page_of_the_inbox_names_the_first_commands_then_the_groups(inbox: Inbox) -> None:
    said = inbox.says()
    assert said.index("inbox send ") < said.index("inbox ask ") < said.index("Groups") < said.index("task  ") < said.index("docs/choose.md")


def test_the_list_of_all_commands_leads_to_the_page_about_rooms(inbox: Inbox) -> None:
    assert "docs/choose.md" in inbox.says("help")


@pytest.mark.parametrize("words", [("task",), ("help", "task"), ("task", "--help"), ("task", "-h")])
def test_a_group_shows_its_commands(inbox: Inbox, words: tuple[str, ...]) -> None:
    said = inbox.says(*words)
    assert "task submit" in said
    assert "workspace" not in said


def test_guessed_names_are_understood(inbox: Inbox) -> None:
    sent = inbox.ok("add", "--from", "leader", "--to", "ada", "--thread", "login", "--subject", "Login")
    assert sent["command"] == "send"
    assert [thread["thread_id"] for thread in inbox.ok("ls")["threads"]] == ["login"]
    assert inbox.ok("get", "login")["thread"]["subject"] == "Login"
    assert inbox.says("help", "ls") == inbox.says("help", "list")
    mailbox = Mailbox(inbox.folder)
    mailbox.ok("send", "--from", "a", "--to", "b", "--msg-id", "m1", "--payload", "x")
    assert mailbox.ok("receive", "b")["message"]["msg_id"] == "m1"
    assert mailbox.run("ack", "m1", "--session", "b").code == 0


@pytest.mark.parametrize("plural", ["agents", "channels", "jobs", "passes", "queues", "runs", "tasks", "workspaces"])
def test_the_plural_of_a_group_lists_what_is_in_it(inbox: Inbox, plural: str) -> None:
    inbox.ok("agent", "add", "ada")
    group = {"passes": "pass"}.get(plural, plural.removesuffix("s"))
    assert inbox.ok(plural)["command"] == f"{group} list"
    assert inbox.says("help", plural) == inbox.says("help", group, "list")


@pytest.mark.parametrize("word", ["create", "ps", "question", "start", "whoami"])
def test_a_word_that_resembles_no_command_leads_to_the_list(inbox: Inbox, word: str) -> None:
    refused = inbox.run(word, "--json")
    assert refused.error[:2] == (30, "invalid_input")
    assert refused.json["error"]["hint"] == "See `inbox help`."


def test_other_programs_understand_the_words_of_their_kind(tmp_path: Path, inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    assert mailbox.says("status") == mailbox.says("sessions")
    with QuietQueueCommands(tmp_path) as queues:
        assert queues.thread("new", str(tmp_path / "q")).stdout == f"{tmp_path / 'q'}\n"
        assert queues.thread("read", str(tmp_path / "q"), "--last-event-id", "0").code == 0


@pytest.mark.parametrize("flag", ["-V", "-v"])
def test_the_version_has_short_flags(inbox: Inbox, flag: str) -> None:
    assert inbox.says(flag) == inbox.says("--version")


def test_a_command_without_its_subject_shows_where_it_is_written(inbox: Inbox) -> None:
    assert inbox.run("show", "--json").json["error"]["hint"] == "For example: inbox show thr_123. `inbox list` shows the ids."
    refused = Mailbox(inbox.folder).run("show", "--json")
    assert refused.json["error"]["hint"].startswith("For example: mailbox show lead:")


def test_a_refusal_names_a_flag_as_help_does(inbox: Inbox, tmp_path: Path) -> None:
    with QuietQueueCommands(tmp_path) as queues:
        assert queues.notifier("task", "add").stderr.startswith("Error: --agent is missing - ")
    refused = Mailbox(inbox.folder).run("policy", "ana", "--retries", "x")
    assert refused.stderr == "error: retries must be a whole number, not 'x'\n"


def test_a_word_too_many_is_answered_with_an_example(inbox: Inbox) -> None:
    refused = inbox.run("send", "ada", "hello", "--json")
    assert refused.json["error"]["hint"] == 'For example: inbox send --from leader --to builder --subject "Add the login page"'


def test_a_status_that_ends_a_thread_leads_to_the_commands_that_do(inbox: Inbox) -> None:
    for status in ("done", "failed"):
        refused = inbox.run("update", "--agent", "ada", "--thread", inbox.send(), "--status", status, "--json")
        assert refused.json["error"]["hint"] == "Choose one of: in_progress, blocked. A thread is ended by `inbox done` or `inbox fail`."


def test_a_file_that_is_not_there_is_named_without_numbers_of_the_system(inbox: Inbox) -> None:
    assert inbox.run("store", "import", "x.jsonl").stderr.startswith("error: x.jsonl cannot be read: No such file or directory\n")


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_the_front_door_shows_its_own_page(words: list[str]) -> None:
    door = Path(sys.executable).with_name("postroom")
    bare, asked = (subprocess.run([door, *argv], capture_output=True, text=True, check=True).stdout for argv in ([], words))
    assert asked == bare


def test_the_front_door_shows_the_help_of_each_program(inbox: Inbox) -> None:
    door = Path(sys.executable).with_name("postroom")
    for words, same in (
        (["mailbox"], ["mailbox", "help"]),
        (["thread", "push"], ["thread", "help", "push"]),
        (["take"], ["inbox", "help", "take"]),
    ):
        asked, shown = (
            subprocess.run([door, *argv], env=inbox.environment(), capture_output=True, text=True, check=True).stdout
            for argv in (["help", *words], same)
        )
        assert asked == shown


@pytest.mark.parametrize("start", [["-m", "postroom"], ["-m", "postroom", "inbox"]])
def test_the_package_is_the_front_door(inbox: Inbox, start: list[str]) -> None:
    argv = [sys.executable, *start, "list"]
    ran = subprocess.run(argv, cwd=inbox.folder, env=inbox.environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, inbox.says("list"))


def test_the_front_door_leads_to_each_program(inbox: Inbox) -> None:
    for program in ("inbox", "mailbox", "thread", "notifier"):
        argv = [Path(sys.executable).with_name("postroom"), program, "help"]
        ran = subprocess.run(argv, env=inbox.environment(), capture_output=True, text=True, check=False)
        assert ran.stdout.startswith(f"{program}: ")


# ids


def test_the_beginning_of_an_id_is_enough(inbox: Inbox) -> None:
    for thread in ("login-page", "logout-page", "search"):
        inbox.ok("send", "--from", "leader", "--to", "ada", "--thread", thread, "--subject", thread)
    assert inbox.ok("show", "logi")["thread"]["thread_id"] == "login-page"
    assert inbox.ok("cancel", "--thread", "s", "--agent", "leader")["thread"]["thread_id"] == "search"
    identity = inbox.ok("ask", "--from", "ada", "--question", "Ship it?", "--no-wait")["answer"]["entry_id"]
    assert inbox.ok("entry", "reply", identity[:8], "--body", "yes")["entry"]["id"] == identity
    assert inbox.ok("ask", "--entry", identity[:8])["answer"]["answer"] == "yes"
    assert identity[:8] in inbox.says("entries")


def test_the_end_of_an_id_that_we_made_is_enough_because_those_of_a_batch_begin_alike(inbox: Inbox) -> None:
    (inbox.folder / "jobs").write_text('{"to": "w", "subject": "a"}\n{"to": "w", "subject": "b"}\n')
    first, second = (one["thread_id"] for one in inbox.ok("send", "--from", "l", "--batch", "jobs")["threads"])
    assert inbox.ok("show", second[-4:])["thread"]["thread_id"] == second
    several = inbox.run("show", first[:-8], "--json")
    assert several.json["error"]["hint"].startswith("Write more of it, or its last 4 characters: ")
    assert inbox.run("show", second[-3:], "--json").error[:2] == (40, "not_found")
    inbox.ok("send", "--from", "l", "--to", "w", "--thread", "login-page", "--subject", "x")
    assert inbox.run("show", "page", "--json").error[:2] == (40, "not_found")


def test_the_ids_of_runs_jobs_and_channels_may_be_shortened_too(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "leader", "--to", "ada", "--run", "nightly-7", "--subject", "x")
    assert inbox.ok("run", "show", "night")["run"]["run_id"] == "nightly-7"
    for agent in ("canyon", "forge"):
        inbox.ok("agent", "register", agent, "--skill", "review")
    job = inbox.ok("job", "start", "--agent", "canyon")["job"]["job_id"]
    assert inbox.ok("job", "show", job[:8])["job"]["job_id"] == job
    task = inbox.ok("task", "submit", "--from", "forge", "--to", "canyon", "--description", "Whole")["task"]["task_id"]
    part = inbox.ok("task", "submit", "--from", "canyon", "--to", "forge", "--description", "Part", "--parent", task[:8], "--job", job[:8])
    assert part["task"]["parent"] == task
    channel = inbox.ok("channel", "add", "command", "cat")["channel"]["channel_id"]
    assert inbox.ok("channel", "show", channel[:-2])["channel"]["channel_id"] == channel


def test_the_ids_of_mail_that_we_made_may_be_shortened(inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    first, second = (mailbox.ok("send", "--from", "lead", "--to", "ana", "--payload", "x")["msg_id"] for _ in range(2))
    assert mailbox.ok("receive", "ana")["message"]["msg_id"] == first
    several = mailbox.run("ack", "lead:1", "--session", "ana", "--json")
    assert several.error[:2] == (30, "invalid_input")
    assert f"{first}, {second}" in several.json["error"]["hint"]
    assert mailbox.run("show", "lead:", "--json").error[:2] == (40, "not_found")
    assert mailbox.ok("extend", first[:-1], "--session", "ana")["msg_id"] == first
    assert mailbox.ok("ack", first[:-1], "--session", "ana")["state"] == "acked"
    assert mailbox.ok("show", first[:-1])["state"] == "acked"
    mailbox.ok("policy", "ana", "--retries", "0")
    mailbox.ok("receive", "ana")
    assert mailbox.ok("nack", second[:-1], "--session", "ana")["state"] == "dead_letter"
    assert mailbox.ok("retry-dead-letter", "--session", "ana", "--msg-id", second[:-1])["retried"] == 1
    assert inbox.run("store", "erase", "--msg-id", second[:-1], "--json").code == 0


def test_an_id_of_mail_that_its_sender_chose_is_written_whole(inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    mailbox.ok("send", "--from", "lead", "--to", "ana", "--msg-id", "order-10", "--payload", "x")
    mailbox.ok("receive", "ana")
    assert mailbox.run("ack", "order-1", "--session", "ana", "--json").error[:2] == (40, "not_found")
    assert mailbox.ok("show", "order-10")["state"] == "in_flight"


def test_the_ids_of_messages_entries_and_workspaces_may_be_shortened(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "leader", "--to", "ada", "--thread", "login", "--subject", "Login")
    inbox.ok("take", "--agent", "ada")
    asked = inbox.ok("update", "login", "--agent", "ada", "--status", "blocked", "--summary", "A or B?")["message"]["message_id"]
    assert inbox.ok("reply", "login", "--from", "leader", "--question", asked[:-1], "--summary", "A")["message"]["in_reply_to"] == asked
    assert inbox.ok("wait-reply", "login", "--agent", "ada", "--question", asked[:-1])["message"]["summary"] == "A"
    (inbox.folder / "thesis").mkdir()
    workspace = inbox.ok("workspace", "add", "thesis")["workspace"]["workspace_id"]
    older, newer = (inbox.ok("push", "--agent", "thesis", "--comments", text)["entry"]["id"] for text in ("one", "two"))
    assert len(inbox.ok("entries", "--workspace", workspace[:-1])["entries"]) == 2
    assert [entry["id"] for entry in inbox.ok("entries", "--before", newer[:8])["entries"]] == [older]
    assert inbox.ok("store", "erase", "--entry", older[:8])


def test_a_run_that_is_a_filter_is_named_whole_and_others_are_pointed_out(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "leader", "--to", "ada", "--run", "nightly-7", "--subject", "x")
    assert inbox.says("list", "--run", "night") == "No threads.\n  note: runs that begin so: nightly-7\n"
    assert "note" not in inbox.ok("list", "--run", "other")


def test_the_beginning_of_several_ids_is_refused_with_them_and_changes_nothing(inbox: Inbox) -> None:
    for thread in ("login-page", "logout-page"):
        inbox.ok("send", "--from", "leader", "--to", "ada", "--thread", thread, "--subject", thread)
    refused = inbox.run("cancel", "log", "--agent", "leader", "--json")
    assert refused.error[:2] == (30, "invalid_input")
    assert all(thread in refused.json["error"]["hint"] for thread in ("login-page", "logout-page"))
    assert {thread["status"] for thread in inbox.ok("list")["threads"]} == {"pending"}


def test_a_whole_id_is_never_the_beginning_of_another(inbox: Inbox) -> None:
    for thread in ("a", "ab"):
        inbox.ok("send", "--from", "leader", "--to", "ada", "--thread", thread, "--subject", thread)
    assert inbox.ok("show", "a")["thread"]["thread_id"] == "a"
    assert inbox.run("show", "b", "--json").error[:2] == (40, "not_found")


def test_a_task_is_named_by_a_word(inbox: Inbox) -> None:
    for agent in ("canyon", "forge"):
        inbox.ok("agent", "register", agent, "--skill", "review")
    task = inbox.ok("task", "submit", "--from", "forge", "--to", "canyon", "--description", "Review")["task"]["task_id"]
    assert inbox.ok("task", "show", task[:8])["task"]["task_id"] == task
    assert inbox.ok("task", "accept", task, "--agent", "canyon")["task"]["task_id"] == task
    assert inbox.ok("task", "complete", task[:8], "--agent", "canyon")["task"]["status"] == "completed"
    twice = inbox.run("task", "show", task, "--task", "another", "--json")
    assert twice.error[:2] == (30, "invalid_input")


def test_a_timer_is_named_by_a_word(tmp_path: Path) -> None:
    with QuietQueueCommands(tmp_path) as queues:
        queues.notifier("timer", "add", "--agent", "ada", "--timer-id", "hourly", "--cron", "0 * * * *", "--command", "true")
        assert queues.notifier("timer", "remove", "hourly").stdout == "hourly removed\n"


def test_a_queue_is_named_by_a_word(tmp_path: Path) -> None:
    with QuietQueueCommands(tmp_path) as queues:
        queues.init()
        pushed = queues.thread("push", str(queues.queue), "--source", "self", "--type", "record", "--content", "x")
        assert (pushed.code, pushed.stdout) == (0, "1\n")
        assert queues.thread("info", str(queues.queue)).code == 0


@pytest.mark.parametrize("length", [8, 36])
def test_the_id_of_an_entry_where_a_thread_belongs_leads_to_the_commands_of_entries(inbox: Inbox, length: int) -> None:
    entry = inbox.ok("ask", "--from", "ada", "--question", "Ship it?", "--no-wait")["answer"]["entry_id"][:length]
    for words in (["show", entry], ["answer", entry, "--from", "user", "--summary", "yes"], ["reply", entry, "--summary", "yes"]):
        refused = inbox.run(*words)
        assert refused.code == (30 if words[0] == "reply" else 40)
        assert "`inbox entry reply" in refused.stderr
    assert f"`inbox entry show {entry}`" in inbox.run("show", entry).stderr


def test_an_id_that_belongs_to_nothing_leads_to_the_list(inbox: Inbox) -> None:
    inbox.ok("ask", "--from", "ada", "--question", "Ship it?", "--no-wait")
    assert "`inbox list`" in inbox.run("show", "00000000").stderr


def test_a_file_that_is_no_database_leads_to_the_commands_that_help(inbox: Inbox) -> None:
    inbox.db.write_bytes(b"not a database" * 1000)
    refused = inbox.run("list")
    assert refused.code == 50
    assert "`inbox doctor`" in refused.stderr
    assert "`inbox store restore" in refused.stderr


def test_a_python_program_without_a_store_is_told_what_to_do(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import postroom; postroom.open('nowhere.db')"]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1].startswith("Hint: ")
    assert "inbox init" in ran.stderr.splitlines()[-1]


def test_make_run_passes_a_port_on() -> None:
    root = Path(__file__).parents[2]
    ran = subprocess.run(["make", "-n", "run", "PORT=9000"], cwd=root, capture_output=True, text=True, check=False)
    assert "inbox serve --demo --port 9000" in ran.stdout
    ran = subprocess.run(["make", "-n", "run"], cwd=root, capture_output=True, text=True, check=False)
    assert "--port" not in ran.stdout
