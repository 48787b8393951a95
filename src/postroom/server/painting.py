"""Painting: documents are rendered by a process of its own, which is ended when one takes too long.

A regular expression of a lexer can be made to run for ever, and holds the whole interpreter while it does: so not this one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from hashlib import sha256
from typing import Any

PATIENCE = 3.0
KEPT = 64
KEPT_BYTES = 256 * 1024
_LENGTH = 8


class Painter:
    """One child, asked one thing after another. It ends with us: its standard input does."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._one = asyncio.Lock()
        self._kept: OrderedDict[tuple[str, bytes, bool], dict[str, Any]] = OrderedDict()

    async def rendered(self, path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
        """What kind of document it is, and its HTML; as plain text if it could not be painted in time."""
        key = (path, sha256(data).digest(), whole)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        async with self._one:
            try:
                async with asyncio.timeout(PATIENCE):
                    found = await self._ask(path, data, whole)
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
                await self.close()
                found = _plain(data)
        if len(data) <= KEPT_BYTES:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    async def _ask(self, path: str, data: bytes, whole: bool) -> dict[str, Any]:
        if self._child is None:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdin=pipe, stdout=pipe)
        writing, reading = self._child.stdin, self._child.stdout
        assert writing is not None
        assert reading is not None
        head = json.dumps({"path": path, "whole": whole}).encode()
        for part in (head, data):
            writing.write(len(part).to_bytes(_LENGTH, "big") + part)
        await writing.drain()
        length = int.from_bytes(await reading.readexactly(_LENGTH), "big")
        found: dict[str, Any] = json.loads(await reading.readexactly(length))
        return found

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            try:
                child.kill()
            except ProcessLookupError:
                pass
            await child.wait()


def _plain(data: bytes) -> dict[str, Any]:
    if b"\0" in data:
        return {"kind": "binary", "html": None}
    text = data.decode(errors="replace")
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"kind": "text", "html": f"<pre>{escaped}</pre>", "text": text}


def _paint() -> None:
    """The child: read, render, answer, until nobody asks any more."""
    from postroom.server.rendering import rendered

    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while length := reading.read(_LENGTH):
        asked = json.loads(reading.read(int.from_bytes(length, "big")))
        data = reading.read(int.from_bytes(reading.read(_LENGTH), "big"))
        answer = json.dumps(rendered(asked["path"], data, whole=asked["whole"])).encode()
        writing.write(len(answer).to_bytes(_LENGTH, "big") + answer)
        writing.flush()


if __name__ == "__main__":
    _paint()
