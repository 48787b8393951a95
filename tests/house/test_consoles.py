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
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert _normal(ran.stdout + ran.stderr, tmp_path) == _normal(expected, tmp_path), command


def _normal(text: str, folder: Path) -> str:
    """Ids, times and folders stand for any."""
    text = text.replace(str(folder), "<tmp>")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "<time>", text)
    text = re.sub(r"\b(msg|lse|thr|art|ws|prw|prl|pra)_\w+", r"\1_1", text)
    text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>", text)
    return re.sub(r"<ago>|just now|in \d+ (?:min|s)|\d+ s ago", "<ago>", text)
