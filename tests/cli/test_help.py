"""Help, however it is asked for. What it says is in transcripts/help.txt."""

from __future__ import annotations

import json

import pytest

from postroom.cli.inbox.spec import INBOX
from tests.cli.process import Inbox

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


def test_help_wins_over_everything_else_on_the_line(bare: Inbox) -> None:
    assert bare.says("renew", "--thread", "thr_1", "--help", "surplus") == bare.says("renew", "--help")


def test_a_page_names_every_flag_with_its_value_and_fits_a_terminal(bare: Inbox) -> None:
    pages = _pages(bare, [[*name.split(), "--help"] for name in COMMANDS])
    for name in sorted(set(COMMANDS) - {"help"}):
        for flag in (*COMMANDS[name].flags, *GLOBAL):
            assert f"  {flag.name} {flag.metavar}".rstrip() in pages[name]
            assert flag.help in pages[name]
    assert max(len(line) for page in (bare.says("help"), *pages.values()) for line in page.splitlines()) <= 130
