"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import Inbox


@pytest.fixture
def bare(tmp_path: Path) -> Inbox:
    """The command, in a folder without a store."""
    return Inbox(tmp_path)


@pytest.fixture
def inbox(bare: Inbox) -> Inbox:
    """The command, in a folder with a fresh store."""
    bare.ok("init")
    return bare
