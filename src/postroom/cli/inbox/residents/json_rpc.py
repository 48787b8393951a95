"""A program that speaks JSON-RPC on its standard input and output, one message a line: `gemini --acp`, `codex app-server` and others.

It runs in a process group with a watchdog, so that it ends with this process, even if this process is killed.
"""

from __future__ import annotations

import os
from signal import SIGKILL
from tempfile import TemporaryFile
from threading import Event, Lock, Thread

from postroom._fastpath import json_text as jsontext
from postroom.cli.inbox.residents.turns import CANNOT_RUN, TurnFailed
from postroom.processes.child_process import CANNOT_RUN_STATUSES, last_line, read_tail
from postroom.processes.command_environment import add_own_programs
from postroom.processes.process_group import release_watchdog, signal_group, spawn_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class MessageHandler(Protocol):
        """Handles what the program sends by itself."""

        def handle_notification(self, method: str, params: dict[str, Any]) -> None: ...

        def answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
            """Return the result of a request of the program, or None if it is not understood."""
            ...


MAX_LINE_BYTES = 64 * 1024 * 1024
METHOD_NOT_FOUND = -32601


class Rejected(Exception):
    """The program answered a request with an error."""


class _Pending:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.done = Event()
        self.answer: dict[str, Any] | None = None


class JsonRpcProcess:
    """A running program. `client` handles its notifications and requests, in the thread that reads."""

    def __init__(self, command: str, environment: dict[str, str], client: MessageHandler) -> None:
        self._client = client
        self._lock = Lock()
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._errors = TemporaryFile()  # noqa: SIM115 - closed with the process
        self.is_over = False
        self._status = 0
        input_end, self._input = os.pipe()
        self._output, output_end = os.pipe()
        try:
            files = (input_end, output_end, self._errors.fileno())
            self._pid, self._watchdog_pipe = spawn_group(command, add_own_programs(environment), files)
        finally:
            os.close(input_end)
            os.close(output_end)
        self._waiter = Thread(target=self._wait_for_exit, daemon=True)
        self._waiter.start()
        Thread(target=self._read_messages, daemon=True).start()

    def _wait_for_exit(self) -> None:
        """Kill what the program left running when it ends: its watchdog at least, which has the pipe of its output open."""
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.kill()

    def request(self, method: str, params: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """Send a request and return its result. Raises `Rejected`, or `TurnFailed` if the program ends or does not answer in time."""
        pending = _Pending()
        with self._lock:
            self._number += 1
            number = self._number
            self._pending[number] = pending
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if self.is_over:
            self._fail_pending()
        if not pending.done.wait(seconds):
            raise TurnFailed(f"the program did not answer {method} within {seconds:g} s")
        if pending.answer is None:
            raise TurnFailed(self.describe_end(), CANNOT_RUN if self._status in CANNOT_RUN_STATUSES else 1)
        if "error" in pending.answer:
            error = pending.answer["error"]
            raise Rejected(str(error.get("message") if isinstance(error, dict) else error)[:2000])
        result = pending.answer.get("result")
        return result if isinstance(result, dict) else {}

    def notify_request(self, method: str, params: dict[str, Any]) -> None:
        """Send a request whose answer is not waited for."""
        with self._lock:
            self._number += 1
            number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def describe_end(self) -> str:
        """Return why the program ended, with the last line that it wrote to standard error."""
        text = last_line(read_tail(self._errors, 4096))
        return f"the program ended with {self._status}" + (f": {text}" if text else "")

    def kill(self) -> None:
        if not self.is_over:
            signal_group(self._pid, SIGKILL)

    def _send(self, message: dict[str, Any]) -> None:
        data = (jsontext.dumps(message) + "\n").encode(errors="replace")
        try:
            with self._lock:
                while data:
                    data = data[os.write(self._input, data) :]
        except OSError:
            return  # it has ended: the reading thread fails the requests

    def _read_messages(self) -> None:
        rest = b""
        while part := os.read(self._output, 65536):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self._handle_line(line)
            if len(rest) > MAX_LINE_BYTES:
                self.kill()
                break
        self._waiter.join()
        self.is_over = True
        self._fail_pending()
        release_watchdog(self._watchdog_pipe)
        with self._lock:
            os.close(self._input)
            self._input = -1
        os.close(self._output)

    def _fail_pending(self) -> None:
        with self._lock:
            waiting, self._pending = self._pending, {}
        for pending in waiting.values():
            pending.done.set()

    def _handle_line(self, line: bytes) -> None:
        try:
            message = jsontext.loads(line.decode())
        except ValueError:
            return  # some programs print other lines
        if not isinstance(message, dict):
            return
        method = message.get("method")
        if not isinstance(method, str):
            self._settle(message)
            return
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        if "id" not in message:
            self._client.handle_notification(method, given)
            return
        result = self._client.answer_request(method, given)
        error = {"code": METHOD_NOT_FOUND, "message": f"There is no method {method}."}
        self._send({"jsonrpc": "2.0", "id": message["id"], **({"error": error} if result is None else {"result": result})})

    def _settle(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        with self._lock:
            pending = self._pending.pop(number, None) if isinstance(number, int) else None
        if pending is not None:
            pending.answer = message
            pending.done.set()
