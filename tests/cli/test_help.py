"""Help, however it is asked for. What it says is in transcripts/help.txt."""

from __future__ import annotations

import pytest

from postroom.cli.inbox.spec import INBOX
from tests.cli.process import Inbox

COMMANDS, GLOBAL = INBOX.commands, INBOX.flags


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help", "--help"], ["help", "help"], ["--json", "--help"]])
def test_the_overview_is_the_same_however_it_is_asked_for(bare: Inbox, argv: list[str]) -> None:
    assert bare.says(*argv) == bare.says("help")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_the_same_however_it_is_asked_for_and_needs_no_store(bare: Inbox, name: str) -> None:
    words = name.split()
    page = bare.says(*words, "--help")
    assert [bare.says(*words, "-h"), bare.says("--help", *words), bare.says("help", *words)] == [page, page, page]
    assert bare.ok("help", *words)["text"] == page


def test_help_wins_over_everything_else_on_the_line(bare: Inbox) -> None:
    assert bare.says("renew", "--thread", "thr_1", "--help", "surplus") == bare.says("renew", "--help")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"help"}))
def test_a_page_names_every_flag_with_its_value(bare: Inbox, name: str) -> None:
    page = bare.says(*name.split(), "--help")
    for flag in (*COMMANDS[name].flags, *GLOBAL):
        assert f"  {flag.name} {flag.metavar}".rstrip() in page
        assert flag.help in page


def test_pages_fit_a_terminal(bare: Inbox) -> None:
    pages = [bare.says("help"), *(bare.says(*name.split(), "--help") for name in COMMANDS)]
    assert max(len(line) for page in pages for line in page.splitlines()) <= 130
