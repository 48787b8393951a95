"""Help, however it is asked for. What it says is in transcripts/help.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from postroom.cli.framework.help import help_page
from postroom.cli.framework.spec import CommandTable
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.cli.notifier.spec import NOTIFIER
from postroom.cli.thread.spec import THREAD
from tests.cli.process import Inbox

ROOT = Path(__file__).parents[2]
COMMANDS, GLOBAL = INBOX.commands, INBOX.flags


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help", "--help"], ["help", "help"], ["--json", "--help"]])
def test_the_overview_is_the_same_however_it_is_asked_for(bare: Inbox, argv: list[str]) -> None:
    assert bare.says(*argv) == bare.says("help")


def _pages(inbox: Inbox, lines: list[list[str]]) -> dict[str, str]:
    """What each command prints for a command line that is made of its words."""
    ended = inbox.run_each(*lines)
    assert {(one.code, one.stderr) for one in ended} == {(0, "")}
    return {name: one.stdout for name, one in zip(COMMANDS, ended, strict=True)}


def test_a_page_is_the_same_however_it_is_asked_for_and_needs_no_store(bare: Inbox) -> None:
    words = [name.split() for name in COMMANDS]
    pages = _pages(bare, [[*name, "--help"] for name in words])
    assert _pages(bare, [[*name, "-h"] for name in words]) == pages
    assert _pages(bare, [["--help", *name] for name in words]) == pages
    assert _pages(bare, [["help", *name] for name in words]) == pages
    written = _pages(bare, [["help", *name, "--json"] for name in words])
    assert {name: json.loads(answer)["text"] for name, answer in written.items()} == pages


@pytest.mark.parametrize("program", [INBOX, MAILBOX, THREAD, NOTIFIER], ids=lambda program: program.name)
def test_a_command_that_a_page_names_is_on_one_line(program: CommandTable) -> None:
    for name, command in program.commands.items():
        named = re.findall(r"`[^`]*`|\S*\w-\w\S*", command.details)
        page = help_page(program, name, [])
        assert [words for words in named if words not in page] == []


def test_the_list_of_all_commands_ends_with_the_rows_of_the_page_about_rooms(bare: Inbox) -> None:
    told = bare.says("help").partition("Which one?")[2]
    rows = re.findall(
        r"^\| (.*?) \| (.*?) \|", (ROOT / "docs" / "choose.md").read_text().partition("|---")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert len(rows) == 8
    for _, use in rows:
        first = re.findall("`(.*?)`", use)[0]
        assert first in told


def test_help_wins_over_everything_else_on_the_line(bare: Inbox) -> None:
    assert bare.says("renew", "--thread", "thr_1", "--help", "surplus") == bare.says("renew", "--help")


def test_a_page_names_every_flag_with_its_value_and_fits_a_terminal(bare: Inbox) -> None:
    pages = _pages(bare, [[*name.split(), "--help"] for name in COMMANDS])
    for name in sorted(set(COMMANDS) - {"help"}):
        for flag in (*COMMANDS[name].flags, *GLOBAL):
            assert f"  {flag.name} {flag.metavar}".rstrip() in pages[name]
            assert flag.help in pages[name]
    assert max(len(line) for page in (bare.says("help"), *pages.values()) for line in page.splitlines()) <= 130
