"""The commands in README and guides are run, and must print what the comments below them say."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.house.console_session import ID, SHORT, ConsoleSession, read_blocks, write_files
from tests.house.tree import ROOT

RECORDED = {"programs.md"}  # `python -m tests.harness.guide` writes its blocks from runs of the real programs
GUIDES = [page for page in sorted((ROOT / "docs" / "guides").glob("*.md")) if page.name not in RECORDED]
PAGES = [ROOT / "README.md", ROOT / "docs" / "harnesses.md", *GUIDES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    steps = [step for block in read_blocks(page.read_text()) for step in block]
    assert steps
    assert "```console" not in page.read_text(), "a block for bash can be pasted as a whole"
    assert not [step for step in steps if re.search("<(tmp|ago|time)>", step.shown)], "it shows what a person sees, not a placeholder"
    folder = tmp_path / "folder"
    folder.mkdir()
    write_files(page.read_text(), folder)
    with closing(ConsoleSession(folder)) as session:
        for step in steps:
            printed = session.run_step(step)
            assert session.normalize(printed) == session.normalize(step.shown), step.command
            session.learn_ids(step.shown, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_can_be_pasted_as_a_whole(page: Path) -> None:
    """A reader's ids are others: a command with one begins a block of its own, below the words that say which id it is."""
    for block in read_blocks(page.read_text()):
        for number, step in enumerate(block):
            printed = {identity[:SHORT] for before in block[:number] for identity in ID.findall(before.shown)}
            assert not printed & {identity[:SHORT] for identity in ID.findall(step.command)}, step.command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_commands_as_a_person_types_them(page: Path) -> None:
    """The output is whole, and nothing waits for the test."""
    commands = [step.command for block in read_blocks(page.read_text()) for step in block]
    assert [command for command in commands if re.search(r"^(until|while) |\| *(grep|cut|sed|head|tr)\b|> */dev/null", command)] == []
