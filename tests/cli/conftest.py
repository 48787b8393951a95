"""Fixtures for tests of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.process import Inbox
from tests.cli.remote import served

FAR = ("test_work", "test_mailbox_deliver")  # what the transcripts, which are all played over a server, do not show


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that works with a file also runs with a server, unless its marker gives the reason why not."""
    if "settled" in metafunc.fixturenames:
        here = metafunc.definition.get_closest_marker("needs_the_store")
        far = metafunc.module.__name__.rpartition(".")[2] in FAR and here is None
        metafunc.parametrize("settled", ("file", "unix") if far else ("file",), indirect=True)


@pytest.fixture
def settled(request: pytest.FixtureRequest) -> Iterator[Callable[[Inbox], None]]:
    """Decides where a command finds the store that was made in its folder: there, or behind a server."""
    with ExitStack() as ending:

        def settle(command: Inbox) -> None:
            if request.param != "file":
                command.served = ending.enter_context(served(request.getfixturevalue("relay"), request.param, command.db))

        yield settle


@pytest.fixture
def bare(tmp_path: Path) -> Inbox:
    """The command, in a folder without a store."""
    return Inbox(tmp_path)


@pytest.fixture
def inbox(bare: Inbox) -> Inbox:
    """The command, in a folder with a fresh store."""
    bare.found()
    return bare
