"""The server that is fuzzed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom import people, work
from postroom.core import clock
from postroom.store import open_store
from tests.conftest import fresh_file
from tests.fuzz.doors import Door
from tests.server_in_thread import ServerInThread


@pytest.fixture
def door(relay: ServerInThread, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Door]:
    """A server with a thread and a workspace, which is well at the end and has logged no error."""
    place = fresh_file(tmp_path)
    with closing(open_store(place)) as store:
        work.send(store, sender="leader", to="builder", subject="Build", thread_id="T1")
        workspace = people.add_workspace(store, str(tmp_path), label="Atlas", agent="atlas").workspace.workspace_id
    with relay.serving(place, clock.now), closing(Door(relay, workspace, place)) as opened:
        yield opened
        assert opened.http.get("/health").json() == {"ok": True}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text
