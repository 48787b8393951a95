"""Painting: documents are rendered by a process of its own, which is ended when one takes too long.

A regular expression of a lexer can be made to run for ever, and holds the whole interpreter while it does: so not this one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Sequence
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
        self._kept: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    async def rendered(self, path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
        """What kind of document it is, and its HTML; as plain text if it could not be painted in time."""
        found = await self._painted({"what": "document", "path": path, "whole": whole}, data)
        return _plain(data) if found is None else found

    async def texts(self, texts: Sequence[str]) -> list[str]:
        """Markdown that agents and people wrote, each as HTML; as plain text if it could not be painted in time."""
        found = await self._painted({"what": "texts"}, json.dumps(texts).encode()) if texts else []
        return [_escaped(text) for text in texts] if found is None else found

    async def diff(self, before: str, now: str) -> list[dict[str, str]] | None:
        """What parts two texts, line by line; None if that took too long to find."""
        return await self._painted({"what": "diff"}, json.dumps([before, now]).encode())  # type: ignore[no-any-return]

    async def _painted(self, head: dict[str, Any], data: bytes) -> Any:
        """What the child answers; None if it did not, in time."""
        key = (json.dumps(head), sha256(data).digest())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        async with self._one:
            try:
                async with asyncio.timeout(PATIENCE):
                    found = await self._ask(head, data)
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
                await self.close()
                found = None
        if len(data) <= KEPT_BYTES:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    async def _ask(self, head: dict[str, Any], data: bytes) -> Any:
        if self._child is None:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdin=pipe, stdout=pipe)
        writing, reading = self._child.stdin, self._child.stdout
        assert writing is not None
        assert reading is not None
        for part in (json.dumps(head).encode(), data):
            writing.write(len(part).to_bytes(_LENGTH, "big") + part)
        await writing.drain()
        length = int.from_bytes(await reading.readexactly(_LENGTH), "big")
        return json.loads(await reading.readexactly(length))

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
    return {"kind": "text", "html": _escaped(text), "text": text}


def _escaped(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{plain}</pre>"


def _paint() -> None:
    """The child: read, render, answer, until nobody asks any more."""
    from postroom.server import rendering

    def answer(head: dict[str, Any], data: bytes) -> Any:
        if head["what"] == "document":
            return rendering.rendered(head["path"], data, whole=head["whole"])
        given = json.loads(data)
        return [rendering.markdown(text) for text in given] if head["what"] == "texts" else rendering.difference(*given)

    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while length := reading.read(_LENGTH):
        head = json.loads(reading.read(int.from_bytes(length, "big")))
        data = reading.read(int.from_bytes(reading.read(_LENGTH), "big"))
        painted = json.dumps(answer(head, data)).encode()
        writing.write(len(painted).to_bytes(_LENGTH, "big") + painted)
        writing.flush()


if __name__ == "__main__":
    _paint()
