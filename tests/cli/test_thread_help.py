"""Help and usage of `thread`, however they are asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.queue_process import QuietOffice

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
def office(tmp_path: Path) -> QuietOffice:
    """In a folder without a queue: help needs none."""
    return QuietOffice(tmp_path)


def _says(office: QuietOffice, *argv: str) -> str:
    """What is printed for people, on standard output and nowhere else; nothing is made."""
    finished = office.thread(*argv)
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.stdout.endswith("\n")
    assert office.files() == {}
    return finished.stdout


def _flags(page: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page))


def _examples(page: str, name: str) -> list[str]:
    return [line for line in page.splitlines() if re.search(rf"\bthread {name}\b (?!help)\S", line)]


def test_the_overview_names_every_command_and_exit_code(office: QuietOffice) -> None:
    overview = _says(office, "--help")
    listed = set(re.findall(r"^ +(?:thread )?([a-z-]+)\b", overview, re.MULTILINE))
    assert listed >= set(COMMANDS)
    assert set(GLOBAL) <= _flags(overview)
    codes = next(line for line in overview.splitlines() if line.lower().startswith("exit codes"))
    assert {"0", "1", "2"} <= set(re.findall(r"\d+", overview[overview.index(codes) :]))
    assert not re.search(r"\b(inbox|mailbox) COMMAND", overview)


@pytest.mark.parametrize("argv", [["-h"], ["help"], ["--json", "--help"], ["help", "--help"]])
def test_the_overview_is_the_same_however_it_is_asked_for(office: QuietOffice, argv: list[str]) -> None:
    assert _says(office, *argv) == _says(office, "--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_names_every_flag(office: QuietOffice, name: str) -> None:
    page = _says(office, name, "--help")
    assert _flags(page) >= set(COMMANDS[name])
    assert f"thread {name}" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_the_same_however_it_is_asked_for(office: QuietOffice, name: str) -> None:
    page = _says(office, name, "--help")
    assert [_says(office, name, "-h"), _says(office, "--help", name), _says(office, "help", name)] == [page] * 3


@pytest.mark.parametrize("name", COMMANDS)
def test_the_verbose_page_has_all_of_the_short_one_and_examples(office: QuietOffice, name: str) -> None:
    short, verbose = _says(office, name, "--help"), _says(office, name, "--help", "--verbose")
    assert len(verbose) > len(short)
    assert _flags(verbose) >= _flags(short)
    examples = _examples(verbose, name)
    assert examples
    for example in examples:
        assert _flags(example) <= {*COMMANDS[name], *GLOBAL, "--verbose", *_flags(short)}, example
    assert verbose == _says(office, name, "--verbose", "--help")


def test_the_verbose_overview_has_examples_and_the_short_one_is_shorter(office: QuietOffice) -> None:
    short, verbose = _says(office, "--help"), _says(office, "--help", "--verbose")
    assert len(verbose) > len(short)
    assert all(name in verbose for name in COMMANDS)
    for name in ("init", "push", "subscribe"):
        assert _examples(verbose, name), name


def test_the_pages_teach_what_the_values_may_be(office: QuietOffice) -> None:
    page = _says(office, "push", "--help", "--verbose")
    assert all(word in page for word in ("message", "record", "external:", "internal:", "self"))
    assert "type = 'message'" in _says(office, "subscribe", "--help", "--verbose")


def test_pages_fit_a_terminal(office: QuietOffice) -> None:
    pages = [_says(office, "--help"), *(_says(office, name, "--help", "--verbose") for name in COMMANDS)]
    assert max(len(line) for page in pages for line in page.splitlines()) <= 130


def test_help_wins_over_everything_else_on_the_line(office: QuietOffice) -> None:
    assert _says(office, "push", "--type", "nonsense", "--help", "surplus") == _says(office, "push", "--help")


def test_the_version_is_that_of_the_house(office: QuietOffice) -> None:
    from postroom import __version__

    assert __version__ in _says(office, "--version")


def test_no_command_is_refused_with_a_hint(office: QuietOffice) -> None:
    assert "thread" in office.refuses(2, "thread")["suggestion"]


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
def test_a_command_that_is_none_is_refused_and_the_nearest_one_named(office: QuietOffice, word: str, nearest: str) -> None:
    error = office.refuses(2, "thread", word, "--thread", "queue")
    assert word in error["error"]
    assert re.search(rf"\b{nearest}\b", error["suggestion"])


@pytest.mark.parametrize("word", ["zzz", "", "\x1b[31mred", "two\nlines", "x" * 10_000], ids=range(5))
def test_a_command_like_no_other_is_refused_without_harm(office: QuietOffice, word: str) -> None:
    error = office.refuses(2, "thread", word)
    assert "thread" in error["suggestion"]
    assert (error["error"] + error["suggestion"]).isprintable()


def test_a_command_that_is_no_text_is_refused(office: QuietOffice) -> None:
    office.refuses(2, "thread", b"caf\xe9")


def test_help_about_no_command_is_refused(office: QuietOffice) -> None:
    office.refuses(2, "thread", "help", "nothing")
    assert "push" in office.refuses(2, "thread", "help", "psuh")["suggestion"]


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
def test_a_flag_that_is_none_is_refused_and_the_nearest_one_named(office: QuietOffice, argv: tuple[str, ...], nearest: str) -> None:
    error = office.refuses(2, "thread", *argv)
    assert argv[1] in error["error"]
    assert nearest in error["suggestion"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_usage_error_exits_2_and_nothing_is_made(office: QuietOffice, name: str) -> None:
    office.refuses(2, "thread", name, "--no-such-flag")
    office.refuses(2, "thread", name, "a", "b", "c", "d")
    for flag in COMMANDS[name]:
        error = office.refuses(2, "thread", name, "--batch=yes" if flag == "--batch" else flag)
        assert flag in error["error"] + error["suggestion"]
    assert office.files() == {}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_every_command(office: QuietOffice, shell: str) -> None:
    script = _says(office, "completion", shell)
    assert all(name in script for name in COMMANDS)
