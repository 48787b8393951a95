"""The short form of `make torture`: a few seconds on each engine. The verdict depends on no timing: see `register`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.children import ROOT

SECONDS = 4


@pytest.mark.timeout(400)  # a busy machine may need long to end what is open; nothing is asserted about it
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_promises_hold_while_everything_is_disturbed(engine: str) -> None:
    argv = [sys.executable, "-m", "tests.torture", "--seconds", str(SECONDS), "--engine", engine]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
