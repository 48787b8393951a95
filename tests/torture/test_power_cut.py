"""Power cuts on SQLite: what a verb acknowledged is there after a cut at any moment, whatever became of the writes that were not synced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.children import ROOT
from tests.torture.write_recorder import load_library


def lost_by_cuts(folder: Path, synchronous: str = "") -> list[str]:
    """Cut the power of a program at 60 moments, in a process of its own: its VFS cannot be taken out again."""
    try:
        load_library()
    except OSError:
        assert not os.environ.get("CI"), "under CI, the SQLite library of the interpreter must be reachable"
        pytest.skip("the SQLite library of this interpreter is linked in such a way that it cannot be reached")
    argv = [sys.executable, "-m", "tests.torture.power_cut", str(folder), synchronous]
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    lost: list[str] = json.loads(done.stdout)
    return lost


def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    assert lost_by_cuts(tmp_path / "disk") == []


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_store_that_syncs_less_is_seen_to_lose_what_it_acknowledged(tmp_path: Path, synchronous: str) -> None:
    assert any("lost" in problem for problem in lost_by_cuts(tmp_path / "disk", synchronous))
