"""One browser for each process that tests; a fresh context for each test; one server for all that do not need their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from postroom.core import clock
from tests.browser import chromium
from tests.browser.browser_page import PATIENCE, BrowserTabs, SampleServer
from tests.browser.sample_data import furnish
from tests.server.conftest import MANY, found
from tests.server.running_server import RunningServer, WorkspaceClient

__all__ = ["found"]  # a fixture of the server's tests, which is ours too

expect.set_options(timeout=PATIENCE)
FAILED = pytest.StashKey[bool]()


def needed(look: Callable[[], Path]) -> Path:
    """The browser that `make test` fetches. Without it a test is skipped, or fails where CI is set."""
    try:
        return look()
    except chromium.BrowserMissing as missing:
        if os.environ.get("CI", "").lower() in {"", "0", "false"}:
            pytest.skip(str(missing))
        raise


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    needed(chromium.found)
    # It ends with this folder's tests: while it is there, no other loop can run in this thread.
    with chromium.started() as started:
        yield started


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    shared = RunningServer(tmp_path_factory.mktemp("office"), "--rate", MANY).open()
    yield shared
    assert shared.close() == 0


@pytest.fixture(scope="package")
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    shared = RunningServer(tmp_path_factory.mktemp("alone"), "--rate", MANY).open()
    yield shared
    assert shared.close() == 0


@pytest.fixture
def emptied(_alone: RunningServer) -> RunningServer:
    """A server without any entry but this test's, which it must leave running."""
    for section in ("inbox", "notices"):
        for entry in _alone.get("/api/inbox/history", limit="500", section=section)["entries"]:
            _alone.person.delete(f"/api/inbox/{entry['id']}")
    return _alone


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """A server over a house in full use."""
    folder = tmp_path_factory.mktemp("house")
    server = RunningServer(folder, "--rate", MANY)
    scene = furnish(folder, clock.now(), server.place)
    server.open()
    yield SampleServer(server, scene)
    assert server.close() == 0


@pytest.fixture
def own(found: Callable[..., RunningServer]) -> RunningServer:
    """A server of this test's own, in which nothing ever was."""
    return found("--rate", MANY).open()


@pytest.fixture
def workspace(server: RunningServer) -> WorkspaceClient:
    """A workspace of its own."""
    return server.add_workspace()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed  # type: ignore[attr-defined]
    return report


@pytest.fixture
def visit(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrowserTabs]:
    visits = BrowserTabs(browser, tmp_path)
    yield visits
    if request.node.stash.get(FAILED, False):
        visits.photograph()
    visits.leave()
