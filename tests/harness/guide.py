"""Write docs/guides/programs.md and docs/pictures/wake.svg from runs of the kit: python -m tests.harness.guide [HARNESS]...

Each program is connected, started in a terminal, given a first prompt, and left at rest. Then a message is sent through every way. The
commands and their output are as they were, but for the names of folders.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from docs.make_pictures import draw_terminal
from tests.harness.harnesses import HARNESSES
from tests.harness.scenarios import RING, first_turn, open_terminal
from tests.harness.stage import HarnessStage

DOCS = Path(__file__).parents[2] / "docs"
GUIDE, PICTURE = DOCS / "guides" / "programs.md", DOCS / "pictures" / "wake.svg"
PICTURED = "claude"
COLUMNS = "160"


def play(name: str) -> dict[str, str]:
    """Return the output of each command line of the guide, for one program."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, "connected")
        flags = " --hold" if name == "gemini" else ""
        line = f"inbox harness connect {name} --dry-run{flags}"
        shown = {line: _run(stage, line, harness.env)}
        harness.connect()
        read = harness.call("inbox_read")
        stage.script({**read, "if": RING, "times": 0}, {"say": "ok", "times": 0})
        screen = open_terminal(stage, harness)
        try:
            if not first_turn(stage, screen):
                raise RuntimeError(f"{name} never asked its model")
            for line in (f"inbox agent show {stage.agent}", f"inbox harness check {name} --roundtrip"):
                shown[line] = _run(stage, line, harness.env)
        finally:
            screen.end()
        line = f"inbox harness connect {name} --undo"
        shown[line] = _run(stage, line, harness.env)
        return shown


def _run(stage: HarnessStage, line: str, env: dict[str, str]) -> str:
    ran = subprocess.run(
        line, shell=True, cwd=stage.work, env=stage.environment(**env, COLUMNS=COLUMNS), capture_output=True, text=True, check=False
    )
    if not ran.stdout:
        raise RuntimeError(f"{line}: exit {ran.returncode}: {ran.stderr}")
    text = (ran.stdout + ran.stderr).replace(str(stage.work), "~/shop").replace(str(stage.home), "~")
    text = re.sub(r"/\S+/node_modules/.bin/", "~/.local/bin/", text)
    text = re.sub(r"ws_\w+", "ws_1", text)
    return "\n".join(row.rstrip() for row in text.splitlines())


def write(found: dict[str, dict[str, str]]) -> None:
    """Replace the blocks of the programs in the guide, between their markers. Draw the picture."""
    page = GUIDE.read_text()
    for name, shown in found.items():
        blocks = {line: f"```text\n$ {line}\n{output}\n```" for line, output in shown.items()}
        text = "\n\n".join(blocks.values())
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        assert begin in page, name
        page = re.sub(f"{begin}.*{end}", lambda _, text=text, begin=begin, end=end: f"{begin}\n\n{text}\n\n{end}", page, flags=re.DOTALL)  # type: ignore[misc]
    GUIDE.write_text(page)
    if PICTURED in found:
        rows = [row for line, output in list(found[PICTURED].items())[1:3] for row in (f"$ {line}", *output.split("\n"))]
        PICTURE.write_text(draw_terminal(rows, "A session of Claude Code at rest is woken by a message"), encoding="utf-8")


if __name__ == "__main__":
    write({name: play(name) for name in sys.argv[1:] or HARNESSES})
