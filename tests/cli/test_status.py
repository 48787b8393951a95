"""`inbox status` on one screen, and `inbox top` in a real terminal, where a key answers a question."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import Inbox, eventually
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


def test_dead_letters_and_lagging_queues_need_care(team: Inbox) -> None:
    from tests.cli.mailbox_process import Mailbox

    mailbox = Mailbox(team.folder)
    mailbox.ok("enqueue", "--from", "a", "--to", "b", "--msg-id", "m1", "--payload", "x")
    assert team.ok("status")["mailboxes"]["sessions"] == [{"session": "b", "waiting": 1, "in_flight": 0, "dead": 0}]


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
