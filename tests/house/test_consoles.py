"""The commands in README and guides are run, and must print what the comments below them say."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.house.console_session import ConsoleSession, read_steps, write_files
from tests.house.tree import ROOT

RECORDED = {"programs.md"}  # `python -m tests.harness.guide` writes its blocks from runs of the real programs
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs" / "guides").glob("*.md")) if page.name not in RECORDED)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    steps = read_steps(page.read_text())
    assert steps
    assert "```console" not in page.read_text(), "a block for bash can be pasted as a whole"
    assert not [shown for _, shown in steps if re.search("<(tmp|ago|time)>", shown)], "it shows what a person sees, not a placeholder"
    folder = tmp_path / "folder"
    folder.mkdir()
    write_files(page.read_text(), folder)
    with closing(ConsoleSession(folder)) as session:
        for command, shown in steps:
            printed = session.run(command)
            assert session.normalize(printed) == session.normalize(shown), command
            session.learn_ids(shown, printed)
