"""Serve the MCP tools of one workspace over standard input and output, without a running server. Called by the CLI.

Programs wait only briefly for a server: Codex asks its model without the tools after a second. So the handshake is answered by this module
and `protocol`, which load nothing slow, and the tools are loaded while the program talks to its model. The SDK is not used here.
"""

from __future__ import annotations

import os

from postroom._fastpath import json_text as jsontext
from postroom.core import limits
from postroom.core.errors import NotFound, Refusal
from postroom.people.access import workspaces
from postroom.people.agents.clients import StdioClients
from postroom.server.mcp import protocol
from postroom.store import open_store
from postroom.store.installation import missing_extra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Lock
    from types import FrameType
    from typing import Any

    from postroom.core.records.people import Workspace
    from postroom.server.mcp.worker import StdioWorker

    JsonObject = dict[str, Any]

_READ_BYTES = 65536


def serve_stdio(place: str, workspace_id: str | None) -> None:
    """Serve until standard input ends, or a signal ends the process. Without an id, the workspace is that of the folder, if any."""
    workspace = None
    if place:
        store = open_store(place, door="mcp")
        workspace = (
            workspaces.find_by_folder(store, os.getcwd()) if workspace_id is None else workspaces.show_workspace(store, workspace_id)
        )
        store.close()
    server = _StdioServer(place, workspace)
    try:
        for line in _read_lines():
            server.handle_line(line)
    except SystemExit:
        pass
    finally:
        server.close()


def _raise_exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit


def _read_lines() -> Iterator[bytes]:
    """Yield the lines of standard input. Ends at a line that is too long: what follows it cannot be told apart."""
    rest = b""
    while part := os.read(0, _READ_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if len(rest) > limits.MAX_REQUEST_BYTES:
            return


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


class _StdioServer:
    """The connection to one program."""

    def __init__(self, place: str, workspace: Workspace | None) -> None:
        self._place = place
        self._workspace = workspace
        self._clients = StdioClients()
        self._write_lock: Lock | None = None  # set with the second thread
        self._load_lock: Lock | None = None
        self._worker: StdioWorker | None = None
        self._keeps_answered = False  # whether a cancellation takes back nothing that was answered

    def handle_line(self, line: bytes) -> None:
        """Answer a message, or start the call that answers it."""
        if not line.strip():
            return
        try:
            message = jsontext.loads(line.decode())
        except ValueError:
            self._send_error(None, protocol.PARSE_ERROR, "This is not JSON.")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not isinstance(message, dict) or "method" in message:
                self._send_error(None, protocol.INVALID_REQUEST, "This is not a request.")
            return  # an answer: this server asks nothing
        params = message.get("params")
        self._handle(message["method"], params if isinstance(params, dict) else {}, message.get("id"))

    def _handle(self, method: str, params: JsonObject, request_id: Any) -> None:
        if request_id is None:
            if method == "notifications/cancelled" and self._worker is not None:
                self._worker.cancel_call(params.get("requestId"), keeps_answered=self._keeps_answered)
            return
        if method == "initialize":
            self._keeps_answered = protocol.cancels_answered_calls(params)
        if method == "tools/call":
            self._start_call(request_id, params)
            return
        result = protocol.answer_handshake(method, params)
        if result is None:
            self._send_error(request_id, protocol.METHOD_NOT_FOUND, f"There is no method {method}.")
            return
        self.write_message({"jsonrpc": "2.0", "id": request_id, "result": result})
        if method == "tools/list":
            self._start_threads()

    def _start_threads(self) -> None:
        """Load the tools in a thread, once. Until then no thread and no signal handler is needed, and their modules are slow to load."""
        if self._load_lock is not None:
            return
        import signal
        from threading import Lock, Thread

        self._write_lock, self._load_lock = Lock(), Lock()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, _raise_exit)
        Thread(target=self._load_ahead, name="load", daemon=True).start()

    def _start_call(self, request_id: Any, params: JsonObject) -> None:
        self._start_threads()
        try:
            worker = self._load_worker()
        except Refusal as refusal:
            self._send_error(request_id, protocol.INTERNAL_ERROR, f"{refusal} {refusal.hint}")
            return
        worker.start_call(request_id, params)

    def _load_ahead(self) -> None:
        try:
            self._load_worker()
        except Exception:  # the first call tries again, and reports it
            return

    def _load_worker(self) -> StdioWorker:
        """Load the tools. The first call waits for them if they are not loaded yet."""
        assert self._load_lock is not None
        if self._workspace is None:
            raise NotFound("this folder is no workspace of an agent.", hint="Connect it with `inbox harness connect`.")
        with self._load_lock:
            if self._worker is None:
                try:
                    from postroom.server.mcp.worker import StdioWorker
                except ImportError as error:
                    raise missing_extra(f"the tools need more libraries: {error}", "server") from None

                self._worker = StdioWorker(self._place, self._workspace, self._clients, self.write_message)
            return self._worker

    def write_message(self, message: JsonObject) -> bool:
        """Write a message on one line. Returns False if the program no longer reads."""
        data = (jsontext.dumps(message) + "\n").encode(errors="replace")
        try:
            if self._write_lock is None:
                _write_all(data)
            else:
                with self._write_lock:
                    _write_all(data)
        except OSError:
            return False
        return True

    def _send_error(self, request_id: Any, code: int, text: str) -> None:
        self.write_message({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})

    def close(self) -> None:
        if self._load_lock is not None:
            with self._load_lock:
                if self._worker is not None:
                    self._worker.close()
