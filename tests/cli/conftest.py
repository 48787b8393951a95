"""Fixtures for tests of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox
from tests.cli.remote import served

FAR = ("test_work", "test_mailbox_deliver")  # what the transcripts, which are all played over a server, do not show
# Of those, `make test` runs over a server what waits, renews, is woken or ends there. The others differ in what a command does.
OVER_A_SERVER = {
    "test_a_command_that_succeeds_finishes_its_thread_with_its_output",
    "test_inside_the_command_inbox_needs_no_flags",
    "test_a_command_that_asks_is_run_again_when_the_answer_comes",
    "test_a_stopped_worker_leaves_its_question_to_a_worker_of_the_same_name_that_runs",
    "test_a_lease_is_renewed_while_the_command_runs",
    "test_a_cancelled_thread_stops_its_command",
    "test_a_worker_told_to_stop_gives_its_thread_back",
    "test_a_killed_workers_command_dies_and_its_thread_is_taken_by_another",
    "test_inside_a_command_the_environment_names_the_store_and_the_delivery",
    "test_anything_else_nacks_and_says_why",
    "test_once_delivers_one_message_of_each_session",
    "test_a_resident_one_is_woken_by_a_message",
    "test_a_resident_one_is_woken_when_a_retry_falls_due",
    "test_a_delivery_is_extended_while_its_command_runs",
    "test_sigkill_ends_its_command_too_and_the_message_comes_again",
    "test_a_delivery_that_is_lost_ends_its_command_and_nothing_else",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that works with a file also runs with a server, unless its marker gives the reason why not."""
    if "settled" in metafunc.fixturenames:
        here = metafunc.definition.get_closest_marker("needs_the_store")
        far = metafunc.module.__name__.rpartition(".")[2] in FAR and here is None
        unix = pytest.param("unix", marks=() if metafunc.function.__name__ in OVER_A_SERVER else pytest.mark.full)
        metafunc.parametrize("settled", ("file", unix) if far else ("file",), indirect=True)


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


@pytest.fixture
def mailbox(tmp_path: Path, settled: Callable[[Inbox], None]) -> Iterator[Mailbox]:
    """The command `mailbox`, in a folder with a fresh store."""
    with Mailbox(tmp_path) as made:
        made.found()
        settled(made)
        yield made
