"""A write that waits for the store is dropped if its client leaves, or loses its token, before the write begins. At every door."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, SHUT_RDWR, socket
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from postroom import people
from postroom.core import clock
from postroom.core.records.people import WorkspaceRegistration
from postroom.core.rpc.wire import CONTENT_TYPE, VERB_PROTOCOL
from postroom.people.access import tokens
from postroom.server.runtime.writer import _QueuedWrite
from postroom.server.ws.frames import PROTOCOL
from postroom.store import open_store
from tests.cli.process import eventually
from tests.conftest import fresh_file
from tests.server_in_thread import ServerInThread

MARK = "must not be kept"
SEND = {"named": {"sender": "atlas", "to": "builder", "subject": MARK}}
MAIL = {"from": "atlas", "to": "builder", "payload": MARK}
PUSH = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inbox_push", "arguments": {"title": MARK, "comments": MARK}}}
JSON_TYPE = "application/json"
Leave = Callable[[], None]


class BusyServer:
    """A server over a store of its own, with a workspace, whose writes are noted when they are queued."""

    def __init__(
        self, relay: ServerInThread, place: str, workspace: WorkspaceRegistration, queued: list[_QueuedWrite], sockets: ExitStack
    ) -> None:
        self.relay, self.place, self.queued, self._sockets = relay, place, queued, sockets
        self.workspace_id, self.token = workspace.workspace.workspace_id, workspace.token

    def post(self, wire: str, path: str, kind: str, content: object) -> Leave:
        """Send a request, and return how its client leaves without the answer."""
        if wire == "unix":
            client = socket(AF_UNIX)
            client.connect(self.relay.url("unix").removeprefix("unix:"))
        else:
            client = socket()
            client.connect(("127.0.0.1", urlsplit(self.relay.url("http")).port or 0))
        body = json.dumps(content).encode()
        lines = (
            f"POST {path.format(workspace=self.workspace_id)} HTTP/1.1",
            f"Host: {'localhost' if wire == 'unix' else urlsplit(self.relay.url('http')).netloc}",
            f"Authorization: Bearer {self.token}",
            f"Content-Type: {kind}",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
        )
        client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return client.close

    def say(self, path: str, protocol: str, frame: object) -> Leave:
        """Send a frame, and return how its client leaves without an orderly end."""
        header = {"Authorization": f"Bearer {self.token}"}
        address = self.relay.url("ws") + path
        opened = self._sockets.enter_context(
            connect(address, subprotocols=[Subprotocol(protocol)], additional_headers=header, close_timeout=0.1)
        )
        opened.send(json.dumps(frame))

        def leave() -> None:
            with suppress(OSError):  # the server has ended the connection itself
                opened.socket.shutdown(SHUT_RDWR)

        return leave

    def kept(self) -> str:
        """The texts of everything that agents wrote."""
        with closing(sqlite3.connect(self.place)) as connection:
            rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("threads", "deliveries", "entries", "messages")]
        return repr(rows)


DOORS: dict[str, Callable[[BusyServer], Leave]] = {
    "a verb": lambda served: served.post("http", "/api/verbs/work.send", CONTENT_TYPE, SEND),
    "a verb over the Unix socket": lambda served: served.post("unix", "/api/verbs/work.send", CONTENT_TYPE, SEND),
    "a mail": lambda served: served.post("http", "/api/mailbox", JSON_TYPE, MAIL),
    "a push": lambda served: served.post("http", "/api/inbox/push", JSON_TYPE, {"comments": MARK}),
    "a tool": lambda served: served.post("http", "/mcp/{workspace}", JSON_TYPE, PUSH),
    "a verb over a WebSocket": lambda served: served.say("/api/verbs", VERB_PROTOCOL, {"op": "call", "id": 1, "verb": "work.send", **SEND}),
    "a mail over a WebSocket": lambda served: served.say(
        "/api/mailbox/atlas/socket", PROTOCOL, {"op": "enqueue", "id": 1, "message": MAIL}
    ),
}


@pytest.fixture
def served(relay: ServerInThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    place = fresh_file(tmp_path)
    with closing(open_store(place)) as store:
        workspace = people.add_workspace(store, str(tmp_path), label="Atlas", agent="atlas")
    with relay.serving(place, clock.now), ExitStack() as sockets:
        queued: list[_QueuedWrite] = []
        queue = relay.app_state.store_access._writer._queue
        put = queue.put

        def note(caller: str, write: _QueuedWrite) -> None:
            if caller:
                queued.append(write)
            put(caller, write)

        monkeypatch.setattr(queue, "put", note)
        yield BusyServer(relay, place, workspace, queued, sockets)


@contextmanager
def held(place: str) -> Iterator[sqlite3.Connection]:
    """Hold the store's only place for writers, as another process does. What it wrote is committed at the end."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def finish(served: BusyServer) -> None:
    """Return when everything that was queued before has been run or dropped."""
    eventually(lambda: all(write.future.done() for write in served.queued))


@pytest.mark.parametrize("door", DOORS)
def test_the_write_of_a_client_that_stays_is_done(served: BusyServer, door: str) -> None:
    """Else the tests below would prove nothing."""
    with held(served.place):
        leave = DOORS[door](served)
        eventually(lambda: bool(served.queued))
    finish(served)
    assert MARK in served.kept()
    leave()


@pytest.mark.parametrize("door", DOORS)
def test_the_write_of_a_client_that_leaves_is_dropped(served: BusyServer, door: str) -> None:
    with held(served.place):
        leave = DOORS[door](served)
        eventually(lambda: bool(served.queued))
        leave()
        eventually(served.queued[0].request.has_left)
    finish(served)
    assert MARK not in served.kept()


@pytest.mark.parametrize("door", DOORS)
def test_the_write_of_a_caller_whose_token_is_revoked_is_dropped(served: BusyServer, door: str) -> None:
    with held(served.place) as other_process:
        leave = DOORS[door](served)
        eventually(lambda: bool(served.queued))
        other_process.execute("UPDATE workspaces SET token_hash = ?", (tokens.hash_token("another"),))
    finish(served)
    assert MARK not in served.kept()
    leave()
