"""The programs in examples/ run by one command, as their user runs them, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import LIMIT, SCRIPTS, eventually

FOLDER = Path(__file__).parents[2] / "examples"
PRINTED = {
    "agent_asks.py": ["asked, state: open", "answered: quarterly"],
    "approval_gate.sh": ["no", "v1: not deployed (exit 20)", "deploy", "v2: deployed"],
    "cron_and_handler.sh": ["reporter: The disk was checked"],
    "leader_and_workers.py": [
        *("6 of 6 chapters are done", "Energy in German", "Housing in German", "Labour in German"),
        *("Outlook in French", "Rates in German", "Trade in German", "translator asks: Which language?"),
    ],
    "two_mailboxes.py": ["reviewer: login.patch looks good", "reviewer: logout.patch looks good"],
}
IN_ANY_ORDER = {"leader_and_workers.py"}  # three workers end their chapters in the order in which they get the processor


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_does_what_its_table_says_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "LANG": "C.UTF-8",
    }
    for folder in ("home", "tmp"):
        (tmp_path / folder).mkdir()
    command = [sys.executable if name.endswith(".py") else "sh", str(FOLDER / name)]
    finished = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    printed = finished.stdout.splitlines()
    assert (finished.returncode, sorted(printed) if name in IN_ANY_ORDER else printed) == (0, PRINTED[name]), finished.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


def test_an_interrupted_example_leaves_no_timer_behind(tmp_path: Path) -> None:
    # No event ever reaches the handler: the runner's folder is there, and the example waits.
    script = (FOLDER / "cron_and_handler.sh").read_text().replace("'* * * * * *'", "@yearly")
    environment = {"PATH": f"{SCRIPTS}:{os.environ['PATH']}", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp"), "LANG": "C.UTF-8"}
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(["sh", "-c", script], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as running:
        eventually(lambda: list(tmp_path.glob("tmp/*/notifier/*")) != [])
        running.terminate()
        assert running.wait(LIMIT) == 130
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_table_names_every_example() -> None:
    table = (FOLDER / "README.md").read_text()
    programs = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh")}
    assert programs == set(PRINTED)
    assert [name for name in programs if f"`{'python' if name.endswith('.py') else 'sh'} examples/{name}`" not in table] == []
