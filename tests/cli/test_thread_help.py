"""Help and usage of `thread`, however they are asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.queue_process import QuietQueueCommands

# Every command with its flags, as its document lists them.
COMMANDS: dict[str, tuple[str, ...]] = {
    "init": (),
    "push": ("--thread", "--source", "--type", "--subtype", "--content", "--content-file", "--batch"),
    "pop": ("--thread", "--consumer", "--last-event-id", "--limit"),
    "ack": ("--thread", "--consumer", "--last-event-id"),
    "peek": ("--thread", "--last-event-id", "--limit", "--filter"),
    "follow": ("--thread", "--last-event-id", "--filter", "--limit", "--timeout-seconds"),
    "subscribe": ("--thread", "--consumer", "--handler", "--filter", "--last-event-id"),
    "unsubscribe": ("--thread", "--consumer"),
    "dispatch": ("--thread",),
    "info": ("--thread",),
}
GLOBAL = ("--json", "--help")


@pytest.fixture
def commands(tmp_path: Path) -> QuietQueueCommands:
    """In a folder without a queue: help needs none."""
    return QuietQueueCommands(tmp_path)


def _says(commands: QuietQueueCommands, *argv: str) -> str:
    """Check that help goes to standard output and nowhere else, and return it. No file is made."""
    finished = commands.thread(*argv)
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.stdout.endswith("\n")
    assert commands.files() == {}
    return finished.stdout


def _flags(page: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page))


def _examples(page: str, name: str) -> list[str]:
    return [line for line in page.splitlines() if re.search(rf"\bthread {name}\b (?!help)\S", line)]


def test_the_overview_names_every_command_and_exit_code(commands: QuietQueueCommands) -> None:
    overview = _says(commands, "--help")
    listed = set(re.findall(r"^ +(?:thread )?([a-z-]+)\b", overview, re.MULTILINE))
    assert listed >= set(COMMANDS)
    assert set(GLOBAL) <= _flags(overview)
    codes = next(line for line in overview.splitlines() if line.lower().startswith("exit codes"))
    assert {"0", "1", "2"} <= set(re.findall(r"\d+", overview[overview.index(codes) :]))
    assert not re.search(r"\b(inbox|mailbox) COMMAND", overview)


@pytest.mark.parametrize("argv", [["-h"], ["help"], ["--json", "--help"], ["help", "--help"]])
def test_the_overview_is_the_same_however_it_is_asked_for(commands: QuietQueueCommands, argv: list[str]) -> None:
    assert _says(commands, *argv) == _says(commands, "--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_names_every_flag(commands: QuietQueueCommands, name: str) -> None:
    page = _says(commands, name, "--help")
    assert _flags(page) >= set(COMMANDS[name])
    assert f"thread {name}" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_the_same_however_it_is_asked_for(commands: QuietQueueCommands, name: str) -> None:
    page = _says(commands, name, "--help")
    assert [_says(commands, name, "-h"), _says(commands, "--help", name), _says(commands, "help", name)] == [page] * 3


@pytest.mark.parametrize("name", COMMANDS)
def test_the_verbose_page_has_all_of_the_short_one_and_examples(commands: QuietQueueCommands, name: str) -> None:
    short, verbose = _says(commands, name, "--help"), _says(commands, name, "--help", "--verbose")
    assert len(verbose) > len(short)
    assert _flags(verbose) >= _flags(short)
    examples = _examples(verbose, name)
    assert examples
    for example in examples:
        assert _flags(example) <= {*COMMANDS[name], *GLOBAL, "--verbose", *_flags(short)}, example
    assert verbose == _says(commands, name, "--verbose", "--help")


def test_the_verbose_overview_has_examples_and_the_short_one_is_shorter(commands: QuietQueueCommands) -> None:
    short, verbose = _says(commands, "--help"), _says(commands, "--help", "--verbose")
    assert len(verbose) > len(short)
    assert all(name in verbose for name in COMMANDS)
    for name in ("init", "push", "subscribe"):
        assert _examples(verbose, name), name


def test_the_pages_teach_what_the_values_may_be(commands: QuietQueueCommands) -> None:
    page = _says(commands, "push", "--help", "--verbose")
    assert all(word in page for word in ("message", "record", "external:", "internal:", "self"))
    assert "type = 'message'" in _says(commands, "subscribe", "--help", "--verbose")


def test_pages_fit_a_terminal(commands: QuietQueueCommands) -> None:
    pages = [_says(commands, "--help"), *(_says(commands, name, "--help", "--verbose") for name in COMMANDS)]
    assert max(len(line) for page in pages for line in page.splitlines()) <= 130


def test_help_wins_over_everything_else_on_the_line(commands: QuietQueueCommands) -> None:
    assert _says(commands, "push", "--type", "nonsense", "--help", "surplus") == _says(commands, "push", "--help")


def test_the_version_is_that_of_the_house(commands: QuietQueueCommands) -> None:
    from postroom import __version__

    assert __version__ in _says(commands, "--version")


def test_no_command_is_refused_with_a_hint(commands: QuietQueueCommands) -> None:
    assert "thread" in commands.refuses(2, "thread", "--verbose")["suggestion"]


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("psuh", "push"),
        ("pusch", "push"),
        ("subscrib", "subscribe"),
        ("unsubscibe", "unsubscribe"),
        ("dispach", "dispatch"),
        ("folow", "follow"),
    ],
)
def test_a_command_that_is_none_is_refused_and_the_nearest_one_named(commands: QuietQueueCommands, word: str, nearest: str) -> None:
    error = commands.refuses(2, "thread", word, "--thread", "queue")
    assert word in error["error"]
    assert re.search(rf"\b{nearest}\b", error["suggestion"])


@pytest.mark.parametrize("word", ["zzz", "", "\x1b[31mred", "two\nlines", "x" * 10_000], ids=range(5))
def test_a_command_like_no_other_is_refused_without_harm(commands: QuietQueueCommands, word: str) -> None:
    error = commands.refuses(2, "thread", word)
    assert "thread" in error["suggestion"]
    assert (error["error"] + error["suggestion"]).isprintable()


def test_a_command_that_is_no_text_is_refused(commands: QuietQueueCommands) -> None:
    commands.refuses(2, "thread", b"caf\xe9")


def test_help_about_no_command_is_refused(commands: QuietQueueCommands) -> None:
    commands.refuses(2, "thread", "help", "nothing")
    assert "push" in commands.refuses(2, "thread", "help", "psuh")["suggestion"]


@pytest.mark.parametrize(
    ("argv", "nearest"),
    [
        (("push", "--contnet", "x"), "--content"),
        (("pop", "--consumr", "x"), "--consumer"),
        (("peek", "--last-event", "0"), "--last-event-id"),
        (("subscribe", "--handlr", "true"), "--handler"),
        (("info", "--thred", "queue"), "--thread"),
    ],
)
def test_a_flag_that_is_none_is_refused_and_the_nearest_one_named(
    commands: QuietQueueCommands, argv: tuple[str, ...], nearest: str
) -> None:
    error = commands.refuses(2, "thread", *argv)
    assert argv[1] in error["error"]
    assert nearest in error["suggestion"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_usage_error_exits_2_and_nothing_is_made(commands: QuietQueueCommands, name: str) -> None:
    commands.refuses(2, "thread", name, "--no-such-flag")
    commands.refuses(2, "thread", name, "a", "b", "c", "d")
    for flag in COMMANDS[name]:
        error = commands.refuses(2, "thread", name, "--batch=yes" if flag == "--batch" else flag)
        assert flag in error["error"] + error["suggestion"]
    assert commands.files() == {}
