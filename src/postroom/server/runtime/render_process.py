"""Rendering of documents in a child process, which is killed when a document takes too long.

Crafted input can make a regular expression of a lexer run for ever, and that blocks the whole interpreter.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

RENDER_TIMEOUT_SECONDS = 3.0
MAX_CACHED_ITEMS = 64
MAX_CACHED_BYTES = 256 * 1024
_LENGTH_BYTES = 8  # of the number before each part on the pipes


class RenderProcess:
    """One child process, which renders one thing at a time. It ends with the server, because its standard input is closed."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._cache: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    async def render_document(self, path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
        """Return the kind of a document and its HTML. It is plain text if rendering failed or took too long."""
        document = await self._render_cached({"what": "document", "path": path, "whole": whole}, data)
        return _plain_document(data) if document is None else document

    async def render_texts(self, texts: Sequence[str]) -> list[str]:
        """Return the HTML of Markdown texts. They are plain text if rendering failed or took too long."""
        rendered = await self._render_cached({"what": "texts"}, json.dumps(texts).encode()) if texts else []
        return [_escape_text(text) for text in texts] if rendered is None else rendered

    async def render_diff(self, before: str, now: str) -> list[dict[str, str]] | None:
        """Return the differences of two texts by line, or None if that failed or took too long."""
        return await self._render_cached({"what": "diff"}, json.dumps([before, now]).encode())  # type: ignore[no-any-return]

    async def _render_cached(self, head: dict[str, Any], data: bytes) -> Any:
        """Return the answer of the child or a cached one. None if the child failed or took too long."""
        key = (json.dumps(head), sha256(data).digest())
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        async with self._lock:
            try:
                async with asyncio.timeout(RENDER_TIMEOUT_SECONDS):
                    answer = await self._request_answer(head, data)
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
                await self.close()
                answer = None
        if len(data) <= MAX_CACHED_BYTES:
            self._cache[key] = answer
            while len(self._cache) > MAX_CACHED_ITEMS:
                self._cache.popitem(last=False)
        return answer

    async def _request_answer(self, head: dict[str, Any], data: bytes) -> Any:
        """Send a job to the child, and return its answer. Starts the child if there is none."""
        if self._child is None:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdin=pipe, stdout=pipe)
        writing, reading = self._child.stdin, self._child.stdout
        assert writing is not None
        assert reading is not None
        for part in (json.dumps(head).encode(), data):
            writing.write(len(part).to_bytes(_LENGTH_BYTES, "big") + part)
        await writing.drain()
        length = int.from_bytes(await reading.readexactly(_LENGTH_BYTES), "big")
        return json.loads(await reading.readexactly(length))

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            try:
                child.kill()
            except ProcessLookupError:
                pass
            await child.wait()


def _plain_document(data: bytes) -> dict[str, Any]:
    if b"\0" in data:
        return {"kind": "binary", "html": None}
    text = data.decode(errors="replace")
    return {"kind": "text", "html": _escape_text(text), "text": text}


def _escape_text(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{escaped}</pre>"


def _run_child() -> None:
    """Run the child: read jobs from standard input and write answers to standard output, until the input is closed."""
    from postroom.server.api import rendering

    def render_job(head: dict[str, Any], data: bytes) -> Any:
        if head["what"] == "document":
            return rendering.render_document(head["path"], data, whole=head["whole"])
        texts = json.loads(data)
        return [rendering.render_markdown(text) for text in texts] if head["what"] == "texts" else rendering.diff_lines(*texts)

    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while length := reading.read(_LENGTH_BYTES):
        head = json.loads(reading.read(int.from_bytes(length, "big")))
        data = reading.read(int.from_bytes(reading.read(_LENGTH_BYTES), "big"))
        answer = json.dumps(render_job(head, data)).encode()
        writing.write(len(answer).to_bytes(_LENGTH_BYTES, "big") + answer)
        writing.flush()


if __name__ == "__main__":
    _run_child()
