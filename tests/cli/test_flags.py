"""Flags: where they may stand, how they may be written, and what is said when they are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from postroom.cli.framework.spec import SWITCH
from postroom.cli.inbox.spec import INBOX
from tests.cli.process import Finished, Inbox

COMMANDS = INBOX.commands

SEND = ("send", "--from", "leader", "--to", "builder", "--subject", "Add the login page")


def _invalid(inbox: Inbox, *argv: str) -> Any:
    """The refusal of a wrong command line: the same code, message and exit with and without --json."""
    return _refusal(*inbox.run_each(argv, ["--json", *argv]))


def _refusal(spoken: Finished, written: Finished) -> Any:
    assert written.error[:2] == (30, "invalid_input"), written
    error = written.json["error"]
    hint = f"hint: {error['hint']}\n" if error["hint"] else ""
    assert (spoken.code, spoken.stdout, spoken.stderr) == (30, "", f"error: {error['message']}\n{hint}")
    return error


def test_global_flags_stand_before_or_after_the_command(bare: Inbox) -> None:
    bare.ok("init", "--db", "a.db")
    before = bare.run("--db", "a.db", "--agent", "builder", "--json", "fetch")
    after = bare.run("fetch", "--db", "a.db", "--agent", "builder", "--json")
    between = bare.run("--json", "fetch", "--agent=builder", "--db=a.db")
    nothing = {"ok": True, "schema_version": 1, "command": "fetch", "threads": [], "more": False, "after": None}
    assert before.json == after.json == between.json == nothing
    assert before.code == after.code == between.code == 10


def test_global_flags_stand_around_a_command_of_two_words(inbox: Inbox) -> None:
    assert inbox.run("--json", "agent", "list").json == inbox.run("agent", "list", "--json").json


def test_a_value_may_be_joined_to_its_flag(inbox: Inbox) -> None:
    sent = inbox.ok("send", "--from=leader", "--to=builder", "--subject=a = b", "--body=--not-a-flag", "--summary=")
    assert sent["thread"]["subject"] == "a = b"
    assert sent["message"]["body"] == "--not-a-flag"


def test_a_value_may_begin_with_a_dash(inbox: Inbox) -> None:
    sent = inbox.ok(*SEND, "--body", "- a list\n- of things", "--summary", "-1")
    assert (sent["message"]["summary"], sent["message"]["body"]) == ("-1", "- a list\n- of things")


def test_a_value_that_is_no_flag_may_begin_with_two_dashes(inbox: Inbox) -> None:
    assert inbox.ok(*SEND, "--body", "--- a/file.py")["message"]["body"] == "--- a/file.py"


def test_an_empty_value_is_a_value(inbox: Inbox) -> None:
    assert inbox.ok(*SEND, "--body", "", "--run", "")["message"]["body"] == ""


@pytest.mark.parametrize(
    "argv", [("fetch", "--agent", ""), ("send", "--from", "", "--to", "builder", "--subject", "S")], ids=["agent", "from"]
)
def test_an_empty_name_is_not_taken_for_the_default(inbox: Inbox, argv: tuple[str, ...]) -> None:
    code, kind, message = inbox.run(*argv, "--json", INBOX_AGENT="somebody").error
    assert (code, kind) == (30, "invalid_input")
    assert "missing" in message


def test_an_empty_name_is_refused(inbox: Inbox) -> None:
    error = _invalid(inbox, "send", "--from", "leader", "--to", "", "--subject", "x")
    assert error["field"] == "to"


def test_lists_may_be_separated_by_commas_or_bars(inbox: Inbox) -> None:
    inbox.send()
    listed = [inbox.ok("list", "--status", value)["threads"] for value in ("pending,done", "pending|done", "done, pending")]
    assert [len(threads) for threads in listed] == [1, 1, 1]


def test_artifacts_may_be_repeated(inbox: Inbox) -> None:
    sent = inbox.ok(*SEND, "--artifact", "a.log", "--artifact=b.log", "--artifact", "a.log")
    assert [artifact["path"] for artifact in sent["message"]["artifacts"]] == ["a.log", "b.log", "a.log"]


def test_a_flag_given_twice_with_one_value_is_no_contradiction(inbox: Inbox) -> None:
    assert inbox.run("--agent", "builder", "fetch", "--agent", "builder", "--json", "--json").code == 10


def test_a_flag_given_twice_with_two_values_is_refused(inbox: Inbox) -> None:
    error = _invalid(inbox, "--agent", "builder", "fetch", "--agent", "other")
    assert error["message"] == "--agent was given twice, with different values"


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["claim", "--tread", "x"], "`inbox claim` has no flag --tread", "Did you mean --thread?"),
        (["send", "--sumary", "x"], "`inbox send` has no flag --sumary", "Did you mean --summary?"),
        (["send", "--sumary=x"], "`inbox send` has no flag --sumary", "Did you mean --summary?"),
        (["list", "--zzz"], "`inbox list` has no flag --zzz", "See `inbox list --help`."),
        (["--thread", "x", "claim"], "there is no global flag --thread", "Flags of a command stand after it."),
        (["--agnt", "x", "claim"], "there is no global flag --agnt", "Did you mean --agent?"),
        (["show", "--priority", "x"], "`inbox show` has no flag --priority", "See `inbox show --help`."),
    ],
)
def test_an_unknown_flag_is_named_with_the_nearest_one(bare: Inbox, argv: list[str], message: str, hint: str) -> None:
    error = _invalid(bare, *argv)
    assert (error["message"], error["hint"]) == (message, hint)


def _messages(inbox: Inbox, lines: list[list[str]]) -> list[str]:
    """The message with which each of these wrong command lines is refused."""
    ended = inbox.run_each(*(form for line in lines for form in (line, ["--json", *line])))
    return [_refusal(spoken, written)["message"] for spoken, written in zip(ended[::2], ended[1::2], strict=True)]


def test_every_command_refuses_an_unknown_flag(bare: Inbox) -> None:
    messages = _messages(bare, [[*name.split(), "--no-such-flag"] for name in COMMANDS])
    assert [name for name, message in zip(COMMANDS, messages, strict=True) if "--no-such-flag" not in message] == []


def _valued() -> list[tuple[str, str]]:
    return [(command.name, flag.name) for command in COMMANDS.values() for flag in command.flags if flag.kind != SWITCH]


def _switches() -> list[tuple[str, str]]:
    return [(command.name, flag.name) for command in COMMANDS.values() for flag in command.flags if flag.kind == SWITCH]


def test_every_flag_that_takes_a_value_refuses_to_go_without(bare: Inbox) -> None:
    messages = _messages(bare, [[*name.split(), flag] for name, flag in _valued()])
    assert messages == [f"{flag} needs a value" for _, flag in _valued()]


def test_every_switch_refuses_a_value(bare: Inbox) -> None:
    messages = _messages(bare, [[*name.split(), f"{flag}=yes"] for name, flag in _switches()])
    assert messages == [f"{flag} takes no value" for _, flag in _switches()]


def test_a_flag_is_not_swallowed_as_the_value_of_another(bare: Inbox) -> None:
    assert _invalid(bare, "claim", "--thread", "--agent", "builder")["message"] == "--thread needs a value"


@pytest.mark.parametrize("word", ["surplus", "-x"])
def test_a_word_too_many_is_refused(bare: Inbox, word: str) -> None:
    assert repr(word) in _invalid(bare, "list", word)["message"]


def test_behind_two_dashes_everything_is_a_word(inbox: Inbox) -> None:
    thread = inbox.send()
    assert inbox.says("show", "--", thread) == inbox.says("show", thread)
    assert _invalid(inbox, "send", "--", "--from")["message"] == "'--from' is not expected here"
    assert inbox.run("show", "--json", "--", "-x").error[:2] == (40, "not_found")


def test_json_after_a_wrong_flag_still_answers_in_json(bare: Inbox) -> None:
    refused = bare.run("list", "--zzz", "--json")
    assert refused.error[:2] == (30, "invalid_input")


def test_json_as_the_value_of_a_flag_asks_for_no_json(inbox: Inbox) -> None:
    refused = inbox.run(*SEND, "--body=--json", "--priority", "huge")
    assert (refused.code, refused.stdout) == (30, "")


@pytest.mark.parametrize("argv", [["list", "--limit", "x"], ["list", "--zzz"], ["list", "surplus"], ["agent", "add"]])
def test_a_refused_command_line_names_its_command(bare: Inbox, argv: list[str]) -> None:
    named = "agent add" if argv[0] == "agent" else argv[0]
    assert bare.run(*argv, "--json").json["command"] == named


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (["list", "--limit", "x"], "limit"),
        (["list", "--limit", "0"], "limit"),
        (["watch", "--after-event", "x"], "after-event"),
        (["watch", "--after-event", "-1"], "after-event"),
        (["watch", "--timeout-seconds", "x"], "timeout-seconds"),
        (["watch", "--timeout-seconds", "-1"], "timeout-seconds"),
    ],
)
def test_a_wrong_value_is_named_by_its_field_in_one_way(inbox: Inbox, argv: list[str], field: str) -> None:
    assert _invalid(inbox, *argv)["field"] == field
