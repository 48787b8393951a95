"""The console blocks of README and guides are run, and must say what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    steps = [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]
    assert steps
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, program in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page.read_text(), re.DOTALL):
        (folder / name).write_text(program)
    for (command, expected), printed in zip(steps, _run_in_one_shell([command for command, _ in steps], folder), strict=True):
        assert _normal(printed, folder) == _normal(expected, folder), command


def _run_in_one_shell(commands: list[str], folder: Path) -> list[str]:
    """Run the commands as a person types them: in one shell, which keeps their variables."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    for number, command in enumerate(commands):
        folder.with_name(f"{number}.sh").write_text(command)
    session = "".join(f". ../{number}.sh > ../{number}.out 2>&1 < /dev/null\n" for number in range(len(commands)))
    subprocess.run(["bash", "-c", session], cwd=folder, env=environment, check=False)
    return [folder.with_name(f"{number}.out").read_text() for number in range(len(commands))]


def _normal(text: str, folder: Path) -> str:
    """Ids, times and folders stand for any."""
    text = text.replace(str(folder), "<tmp>")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "<time>", text)
    text = re.sub(r"\b(msg|lse|thr|art|ws|ch|prw|prl|pra)_\w+", r"\1_1", text)
    text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>", text)
    return re.sub(r"<ago>|just now|in \d+ (?:min|s)|\d+ s ago", "<ago>", text)
