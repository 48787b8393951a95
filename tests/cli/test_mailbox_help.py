"""Help, usage and completion of `mailbox`, however they are asked for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Mailbox

# Every command with its main flags.
COMMANDS: dict[str, tuple[str, ...]] = {
    "enqueue": ("--from", "--to", "--payload", "--payload-file", "--msg-id", "--created-at", "--message-file"),
    "dequeue": ("--session", "--agent"),
    "wait": ("--session", "--agent", "--timeout-seconds"),
    "ack": ("--session", "--msg-id", "--delivery-token"),
    "nack": ("--session", "--msg-id", "--delivery-token", "--reason"),
    "extend": ("--session", "--msg-id", "--delivery-token", "--for-seconds"),
    "peek": ("--session", "--limit"),
    "purge": ("--session",),
    "peek-dead-letter": ("--session", "--limit"),
    "purge-dead-letter": ("--session", "--msg-id"),
    "retry-dead-letter": ("--session", "--msg-id"),
    "show": ("--msg-id",),
    "sessions": ("--limit",),
    "policy": ("--session", "--base-backoff-seconds", "--retries", "--inflight-timeout-seconds", "--ttl-seconds"),
    "alias": ("--remove",),
    "sweep": ("--keep-days",),
    "deliver": ("--session", "--command", "--once", "--until-empty", "--agent"),
    "init": (),
    "completion": (),
    "version": (),
    "help": (),
}
GLOBAL = ("--db", "--json", "--help")


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """In a folder without a store: help needs none."""
    with Mailbox(tmp_path) as made:
        yield made


def _flags(page: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z-]+)", page, re.MULTILINE))


def test_the_overview_names_every_command_flag_and_exit_code(mailbox: Mailbox) -> None:
    overview = mailbox.says("help")
    listed = set(re.findall(r"^  ([a-z-]+) {2,}\S", overview, re.MULTILINE))
    assert listed >= set(COMMANDS)
    assert _flags(overview) == set(GLOBAL)
    codes = next(line for line in overview.splitlines() if line.startswith("Exit codes"))
    assert set(re.findall(r"\d+", codes)) == {"0", "10", "20", "30", "40", "50"}
    assert "inbox COMMAND" not in overview


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help", "--help"], ["help", "help"], ["--json", "--help"]])
def test_the_overview_is_the_same_however_it_is_asked_for(mailbox: Mailbox, argv: list[str]) -> None:
    assert mailbox.says(*argv) == mailbox.says("help")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"help"}))
def test_a_page_names_every_flag_and_has_an_example(mailbox: Mailbox, name: str) -> None:
    page = mailbox.says(name, "--help")
    assert page.startswith(f"mailbox {name}: ")
    assert _flags(page) >= {*COMMANDS[name], *GLOBAL}
    example = page.split("Example:\n")[1].splitlines()[0]
    assert "mailbox " in example
    assert name in example
    assert set(re.findall(r"(?<= )--[a-z-]+", example)) <= {*_flags(page), "--version"}
    assert not re.search(r"\binbox\b(?!_)", page.replace("$INBOX_DB", "")), "it speaks of the other command"


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"help"}))
def test_a_page_is_the_same_however_it_is_asked_for_and_needs_no_store(mailbox: Mailbox, name: str) -> None:
    page = mailbox.says(name, "--help")
    assert [mailbox.says(name, "-h"), mailbox.says("--help", name), mailbox.says("help", name)] == [page, page, page]
    assert mailbox.ok("help", name)["text"] == page


def test_help_wins_over_everything_else_on_the_line(mailbox: Mailbox) -> None:
    assert mailbox.says("ack", "--msg-id", "m1", "--help", "surplus") == mailbox.says("ack", "--help")


def test_pages_fit_a_terminal(mailbox: Mailbox) -> None:
    pages = [mailbox.says("help"), *(mailbox.says(name, "--help") for name in COMMANDS)]
    assert max(len(line) for page in pages for line in page.splitlines()) <= 130


def test_no_command_is_refused_with_a_hint(mailbox: Mailbox) -> None:
    refused = mailbox.refusal("--db", "x.db")
    assert (refused["exit"], refused["code"], refused["message"]) == (30, "invalid_input", "no command was given")
    assert "mailbox help" in refused["hint"]


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("enqeue", "enqueue"), ("dequeu", "dequeue"), ("peek-dead-leter", "peek-dead-letter"), ("session", "sessions"), ("delivr", "deliver")],
)
def test_a_command_that_is_none_is_refused_and_the_nearest_one_named(mailbox: Mailbox, word: str, nearest: str) -> None:
    refused = mailbox.refusal(word, "--session", "analyst")
    assert (refused["exit"], refused["message"], refused["hint"]) == (30, f"'{word}' is not a command", f"Did you mean {nearest}?")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["enqueue", "--form", "x"], "Did you mean --from?"),
        (["ack", "--msgid", "x"], "Did you mean --msg-id?"),
        (["deliver", "--comand", "x"], "Did you mean --command?"),
        (["sessions", "--zzz"], "See `mailbox sessions --help`."),
        (["version", "surplus"], "For example: mailbox --version"),
        (["help", "nothing"], "See `mailbox help`."),
        (["--session", "x", "ack"], "Flags of a command stand after it."),
    ],
)
def test_a_wrong_flag_or_word_is_refused_with_a_hint(mailbox: Mailbox, argv: list[str], hint: str) -> None:
    refused = mailbox.refusal(*argv)
    assert (refused["exit"], refused["code"], refused["hint"]) == (30, "invalid_input", hint)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_usage_error_exits_30_and_never_2(mailbox: Mailbox, name: str) -> None:
    assert mailbox.refusal(name, "--no-such-flag")["exit"] == 30
    assert mailbox.refusal(name, "-x")["exit"] == 30
    assert mailbox.refusal(name, "a", "b", "c", "d")["exit"] == 30


@pytest.mark.parametrize(("name", "flag"), [(name, flag) for name, flags in COMMANDS.items() for flag in flags])
def test_every_flag_refuses_to_go_without_its_value_or_with_one_too_many(mailbox: Mailbox, name: str, flag: str) -> None:
    switch = flag in ("--once", "--until-empty", "--remove")
    argv, message = ((f"{flag}=yes",), f"{flag} takes no value") if switch else ((flag,), f"{flag} needs a value")
    refused = mailbox.refusal(name, *argv)
    assert (refused["exit"], refused["message"]) == (30, message)


def test_the_mailbox_has_no_flag_for_an_agent(mailbox: Mailbox) -> None:
    assert mailbox.refusal("sessions", "--agent", "builder")["exit"] == 30


def test_the_version_is_that_of_the_house(mailbox: Mailbox) -> None:
    from postroom import __version__

    assert mailbox.says("version") == mailbox.says("--version") == f"postroom {__version__}\n"
    assert mailbox.answers("version")["version"] == __version__


def test_the_completion_of_one_command_leaves_that_of_the_other_alone(mailbox: Mailbox) -> None:
    from tests.cli.process import Inbox

    both = Inbox(mailbox.folder).says("completion", "bash") + mailbox.says("completion", "bash") + "complete -p inbox mailbox"
    done = subprocess.run(["bash", "-euc", both], capture_output=True, text=True, check=True)
    functions = re.findall(r"-F (\S+) (\S+)", done.stdout)
    assert [command for _, command in functions] == ["inbox", "mailbox"]
    assert len({function for function, _ in functions}) == 2
