"""`inbox status` on one screen, and `inbox top` in a real terminal, where a key answers a question."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox, eventually
from tests.cli.queue_process import UNSCHEDULED, QueueCommands
from tests.cli.terminal_session import TerminalSession

CHOICES = ("--choice", "yes", "--choice", "no")


@pytest.fixture
def team(inbox: Inbox) -> Inbox:
    """A leader whose worker holds one thread, and a thread for a name that was never seen."""
    inbox.ok("send", "--from", "leader", "--to", "ada", "--thread", "login", "--subject", "Add the login page")
    inbox.ok("take", "--agent", "ada")
    inbox.ok("send", "--from", "leader", "--to", "adda", "--thread", "typo", "--subject", "Misdirected")
    return inbox


def ask(inbox: Inbox, *flags: str) -> str:
    identity: str = inbox.ok("ask", "--from", "ada", "--question", "Ship it?", *flags, "--no-wait")["answer"]["entry_id"]
    return identity


def question(inbox: Inbox, identity: str) -> dict[str, Any]:
    found: dict[str, Any] = inbox.ok("entry", "show", identity)["entry"]["question"]
    return found


def test_status_beside_a_queue_without_a_store_names_the_command_for_queues(bare: Inbox) -> None:
    missing = "error: there is no store here or in any folder above\n"
    assert bare.run("status").stderr == f"{missing}hint: Create one with `inbox init`, or name one with --db or INBOX_DB.\n"
    assert QueueCommands(bare.folder).thread("init", "disk events").code == 0
    for command in (("status",), ("status", "--json")):
        refused = bare.run(*command)
        assert refused.code == 40
        hint = "A queue has no store: `thread info 'disk events'` shows it. `inbox init` makes a store for work, mail and people."
        assert hint in (refused.json["error"]["hint"] if "--json" in command else refused.stderr)


def test_one_screen_says_what_waits_for_whom(team: Inbox) -> None:
    identity = ask(team, *CHOICES)
    status = team.ok("status")
    assert status["waiting"]["agents"] == [
        {"agent": "adda", "threads": 1, "oldest_at": status["waiting"]["agents"][0]["oldest_at"], "seen": False}
    ]
    [held] = status["held"]["threads"]
    assert (held["thread_id"], held["held_by"], held["lapsed"], bool(held["claimed_at"])) == ("login", "ada", False, True)
    [asked] = status["questions"]["entries"]
    assert (asked["entry_id"], asked["from"], asked["to"], asked["choices"]) == (identity, "ada", "user", ["yes", "no"])
    assert status["server"] == {"url": None, "answers": False, "trouble": None}
    said = team.says("status")
    for text in ("adda", "never seen", "login", "Ship it?", identity[:8], "No server runs"):
        assert text in said


def test_a_question_inside_an_entry_is_answered_by_the_id_that_is_printed(team: Inbox) -> None:
    first = ask(team)
    team.ok("entry", "reply", first, "--body", "Yes, ship it")
    added = team.ok("ask", "--from", "ada", "--question", "Publish it?", "--add-to", first, *CHOICES, "--no-wait")["answer"]["entry_id"]
    said = team.says("status")
    assert "Publish it?" in said
    assert added[:8] in said
    team.ok("entry", "reply", added[:8], "--body", "yes")
    [part] = team.ok("entry", "show", added)["parts"]
    assert (part["id"], part["question"]["answer"]) == (added, "yes")


def test_a_question_to_an_agent_is_shown_with_the_command_that_answers_it(team: Inbox) -> None:
    team.ok("update", "--agent", "ada", "--thread", "login", "--status", "blocked", "--summary", "Email or SSO?")
    status = team.ok("status")
    [asked] = status["thread_questions"]["questions"]
    assert (asked["thread_id"], asked["from"], asked["to"], asked["text"]) == ("login", "ada", "leader", "Email or SSO?")
    assert status["questions"]["entries"] == []
    said = team.says("status")
    assert "Email or SSO?" in said
    assert asked["answer_with"] in said
    reply = [word.replace("TEXT", "SSO") for word in shlex.split(asked["answer_with"])]
    assert team.ok(*reply[1:])["message"]["in_reply_to"] == asked["question_id"]
    assert team.ok("status")["thread_questions"]["questions"] == []


def test_each_of_several_questions_of_a_thread_is_answered_by_its_own_command(team: Inbox) -> None:
    for text in ("Email or SSO?", "Which colour?"):
        team.ok("update", "--agent", "ada", "--thread", "login", "--status", "blocked", "--summary", text)
    asked = team.ok("status")["thread_questions"]["questions"]
    assert [row["text"] for row in asked] == ["Email or SSO?", "Which colour?"]
    for row in asked:
        assert team.ok(*shlex.split(row["answer_with"])[1:])["message"]["in_reply_to"] == row["question_id"]


def test_a_question_to_a_person_is_not_shown_twice(team: Inbox) -> None:
    team.ok("update", "--agent", "ada", "--thread", "login", "--status", "blocked", "--to", "user", "--summary", "Email or SSO?")
    status = team.ok("status")
    assert [row["text"] for row in status["questions"]["entries"]] == ["Email or SSO?"]
    assert status["thread_questions"]["questions"] == []


def test_a_mailbox_with_dead_letters_needs_care(team: Inbox) -> None:
    mailbox = Mailbox(team.folder)
    mailbox.dead(session="b")
    mailbox.enqueue(to="b")
    assert team.ok("status")["mailboxes"]["sessions"] == [{"session": "b", "waiting": 1, "in_flight": 0, "dead": 1}]
    assert re.search(r"SESSION +WAITING +IN FLIGHT +DEAD\nb +1 +0 +1\n", team.says("status"))


def test_a_queue_whose_consumer_lags_needs_care(team: Inbox) -> None:
    with QueueCommands(team.folder) as queues:
        queues.init()
        team.ok("queue", "add", str(queues.queue))
        queues.subscribe("cleaner")
        assert team.ok("status")["queues"] == []
        queues.push(**UNSCHEDULED)  # nothing starts the handler
        [late] = team.ok("status")["queues"]
        assert (late["consumer"], late["lag"], late["queue"]) == ("cleaner", 1, str(queues.queue))
        assert re.search(r"Queues that lag\nCONSUMER +LAG +QUEUE.*\ncleaner +1 ", team.says("status"))


def test_an_empty_store_has_nothing_to_do(inbox: Inbox) -> None:
    assert inbox.says("status").splitlines() == [
        *("No work waits.", "", "Nobody holds work.", "", "No question waits for a person.", "", "No server runs; commands need none.")
    ]


def test_a_live_screen_needs_a_terminal(inbox: Inbox) -> None:
    assert inbox.run("top").code == 30
    assert inbox.run("status", "--watch", "--json").code == 30


def top(inbox: Inbox, *words: str) -> TerminalSession:
    command = str(Path(sys.executable).with_name("inbox"))
    return TerminalSession([command, *(words or ("top",))], folder=inbox.folder, environment=inbox.environment())


def test_a_question_is_answered_with_a_key(team: Inbox) -> None:
    identity = ask(team, *CHOICES)
    with top(team) as screen:
        screen.wait_for("1 yes")
        screen.press("2")
        screen.wait_for("Answered ada")
        assert question(team, identity)["choice"] == "no"
        later = ask(team, *CHOICES, "--dangerous", "yes")
        screen.wait_for("1 yes")  # it came while the screen was open
        screen.press("1")
        screen.wait_for("press 1 again")
        assert question(team, later)["state"] == "open"
        screen.press("1")
        eventually(lambda: question(team, later)["choice"] == "yes")
        screen.press("q")
        assert screen.finish() == 0


def ask_two(inbox: Inbox) -> tuple[str, str]:
    """Two questions, of which the first is chosen when the screen opens."""
    first = ["--question", "Fix the typo?", "--deadline-seconds", "600"]
    found = [inbox.ok("ask", "--from", "ada", *flags, *CHOICES, "--no-wait") for flags in (first, ["--question", "Drop all tables?"])]
    return found[0]["answer"]["entry_id"], found[1]["answer"]["entry_id"]


def test_a_key_does_not_answer_a_question_that_took_the_place_of_another(team: Inbox) -> None:
    """An agent could let a harmless question end at the moment at which its person presses a key."""
    harmless, other = ask_two(team)
    with top(team) as screen:
        screen.wait_for("Fix the typo?")
        screen.wait_for("1 yes")
        team.ok("entry", "reply", harmless, "--body", "no")
        screen.wait_for(": Drop all tables?")
        screen.press("1")
        screen.wait_for("another question")
        assert question(team, other)["state"] == "open"
        screen.press("1")
        eventually(lambda: question(team, other)["choice"] == "yes")
        screen.press("q")
        assert screen.finish() == 0


def test_words_go_to_the_question_for_which_they_were_begun(team: Inbox) -> None:
    harmless, other = ask_two(team)
    with top(team) as screen:
        screen.wait_for("1 yes")
        screen.press("a")
        screen.wait_for("Enter sends it")
        screen.press("yes")
        team.ok("entry", "reply", harmless, "--body", "no")
        screen.wait_for(": Drop all tables?")
        screen.press("\r")
        screen.wait_for("Answered ada")
        assert question(team, other)["state"] == "open"
        assert [reply["body"] for reply in team.ok("entry", "show", harmless)["replies"]] == ["no", "yes"]
        screen.press("q")
        assert screen.finish() == 0


def test_a_question_is_answered_in_words(team: Inbox) -> None:
    identity = ask(team, *CHOICES)
    with top(team, "status", "--watch") as screen:
        screen.wait_for("1 yes")
        screen.press("a")
        screen.wait_for("Enter sends it")
        screen.press("Only on Tuesday\r")
        eventually(lambda: question(team, identity)["answer"] == "Only on Tuesday")
        assert question(team, identity)["choice"] is None
        screen.press("q")
        assert screen.finish() == 0
