"""A small client of `codex app-server`: JSON-RPC, one message a line, over its pipes or over the socket of the program that runs."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import Any

Json = dict[str, Any]


class AppServer:
    """`codex app-server` as a child. `child` is a Popen with text pipes for stdin and stdout."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.notes: list[Json] = []  # every notification, as it came
        self._answers: dict[int, Json] = {}
        self._rang = threading.Condition()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.call("initialize", clientInfo={"name": "kit", "title": "Kit", "version": "0"}, capabilities={"experimentalApi": True})
        self._send({"method": "initialized"})

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            message = json.loads(line)
            with self._rang:
                if "id" in message and "method" not in message:
                    self._answers[message["id"]] = message
                else:
                    self.notes.append(message)
                    if "id" in message:  # it asks us something: approvals, in a test, are no
                        self._send({"id": message["id"], "result": {"decision": "decline"}})
                self._rang.notify_all()

    def _send(self, message: Json) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()

    def call(self, method: str, seconds: float = 30, /, **params: Any) -> Any:
        with self._rang:
            self._number += 1
            number = self._number
        self._send({"id": number, "method": method, "params": params})
        until = time.monotonic() + seconds
        with self._rang:
            while number not in self._answers:
                if not self._rang.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    raise TimeoutError(method)
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


def trust_hooks(server: AppServer, folder: str) -> list[str]:
    """Mark every hook that Codex finds for a folder as trusted, as its `/hooks` screen does. For scratch homes of tests only."""
    found = [hook for place in server.call("hooks/list", cwds=[folder])["data"] for hook in place["hooks"]]
    state = {hook["key"]: {"trusted_hash": hook["currentHash"], "enabled": True} for hook in found}
    server.call("config/batchWrite", edits=[{"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}])
    return list(state)
