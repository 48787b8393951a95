"""Rendering of documents in child processes, which are killed when a document takes too long.

Crafted input can make a regular expression of a lexer run for ever, and that blocks the whole interpreter. There are several processes, so
that one document does not delay the others. They run isolated and with limits of memory and CPU time: what they parse is not trusted.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from postroom.processes.interpreter import NEUTRAL_FOLDER, isolated_command, short_environment

RENDER_PROCESSES = 2
LONG_PROCESSES = 2  # more, for the pieces of long documents: they yield to whatever else wants to run
LONG_NICENESS = 5
RENDER_TIMEOUT_SECONDS = 15.0  # on a busy machine. The limit of CPU time below ends a document without end much earlier
QUEUE_TIMEOUT_SECONDS = 15.0  # for a process to be free; then the document is shown as plain text
MAX_CACHED_BYTES = 16 * 1024 * 1024  # of answers and their keys
MAX_ANSWER_BYTES = 24 * 1024 * 1024  # a larger one is a defect of the child: the longest text has 1 MiB
MAX_MEMORY_BYTES = 512 * 1024 * 1024  # of one child
MAX_CPU_SECONDS = 3  # of one job
_LENGTH_BYTES = 8  # of the number before each part on the pipes


class RenderPool:
    """Child processes that each render one thing at a time, and a cache of what they rendered."""

    def __init__(self) -> None:
        self._processes = [_RenderProcess() for _ in range(RENDER_PROCESSES)]
        self._long_processes = [_RenderProcess(LONG_NICENESS) for _ in range(LONG_PROCESSES)]
        self._idle = _queue_processes(self._processes)
        self._long_idle = _queue_processes(self._long_processes)
        self._cache: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._cached_bytes = 0
        self._running: dict[tuple[str, bytes], asyncio.Future[bytes]] = {}

    async def render_document(self, path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
        """Return the kind of a document and its HTML. It is plain text if rendering failed, took too long or became too large."""
        document = await self.run_job({"what": "document", "path": path, "whole": whole}, data)
        return {**_plain_document(data), "fallback": True} if document is None else document

    async def render_texts(self, texts: Sequence[str]) -> list[str]:
        """Return the HTML of Markdown texts. They are plain text if rendering failed, took too long or became too large."""
        rendered = await self.run_job({"what": "texts"}, json.dumps(texts).encode()) if texts else []
        return [escape_text(text) for text in texts] if rendered is None else rendered

    async def render_diff(self, before: str, now: str) -> list[dict[str, Any]] | None:
        """Return the differences of two texts by line, or None if that failed, took too long or became too large."""
        return await self.run_job({"what": "diff"}, json.dumps([before, now]).encode())  # type: ignore[no-any-return]

    async def run_job(self, head: dict[str, Any], data: bytes, *, long: bool = False) -> Any:
        """Return the answer of a child or a cached one. None if the child failed, took too long, or none was free.

        A `long` job is one of several for the same document. Those wait for each other, and not for the processes of the others.
        """
        key = (json.dumps(head), sha256(data).digest())
        answer = self._cache.get(key)
        if answer is not None:
            self._cache.move_to_end(key)
            return json.loads(answer)
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.ensure_future(self._render_new(key, data, self._long_idle if long else self._idle))
            running.add_done_callback(lambda _: self._running.pop(key, None))
        # Shielded: a caller that leaves must not end the rendering for which others wait.
        return json.loads(await asyncio.shield(running))

    async def _render_new(self, key: tuple[str, bytes], data: bytes, idle: asyncio.LifoQueue[_RenderProcess]) -> bytes:
        """Render in the next child that is free, and keep the answer. Return `null` if none is free in time."""
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_SECONDS):
                process = await idle.get()
        except TimeoutError:
            return b"null"  # not cached: it may be rendered the next time
        try:
            answer = await process.request_answer(key[0].encode(), data)
        finally:
            idle.put_nowait(process)
        self._keep_answer(key, answer)
        return answer

    def _keep_answer(self, key: tuple[str, bytes], answer: bytes) -> None:
        """Keep an answer, and drop the oldest ones over the limit. An answer over half of the limit is not kept."""
        size = len(answer) + len(key[0])
        if key in self._cache or size > MAX_CACHED_BYTES // 2:
            return
        self._cache[key] = answer
        self._cached_bytes += size
        while self._cached_bytes > MAX_CACHED_BYTES:
            dropped, dropped_answer = self._cache.popitem(last=False)
            self._cached_bytes -= len(dropped_answer) + len(dropped[0])

    async def close(self) -> None:
        for running in list(self._running.values()):
            running.cancel()
        for process in (*self._processes, *self._long_processes):
            await process.close()


class _RenderProcess:
    """One child process, started by its first job. It ends with the server, because its standard input is closed."""

    def __init__(self, niceness: int = 0) -> None:
        self._niceness = niceness
        self._child: asyncio.subprocess.Process | None = None

    async def request_answer(self, head: bytes, data: bytes) -> bytes:
        """Return the answer to a job as JSON: `null` if the child failed or took too long. Such a child is replaced for the next job."""
        try:
            async with asyncio.timeout(RENDER_TIMEOUT_SECONDS):
                return await self._exchange(head, data)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            await self.close()
            return b"null"
        except BaseException:  # cancelled: the answer would be taken for that of the next job
            await self.close()
            raise

    async def _exchange(self, head: bytes, data: bytes) -> bytes:
        if self._child is None:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(
                *isolated_command(__name__, str(self._niceness), long_lived=True),
                stdin=pipe,
                stdout=pipe,
                cwd=NEUTRAL_FOLDER,
                env=short_environment(),
            )
        writing, reading = self._child.stdin, self._child.stdout
        assert writing is not None
        assert reading is not None
        for part in (head, data):
            writing.write(len(part).to_bytes(_LENGTH_BYTES, "big") + part)
        await writing.drain()
        length = int.from_bytes(await reading.readexactly(_LENGTH_BYTES), "big")
        if length > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        return await reading.readexactly(length)

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            try:
                child.kill()
            except ProcessLookupError:
                pass
            await child.wait()


def _queue_processes(processes: list[_RenderProcess]) -> asyncio.LifoQueue[_RenderProcess]:
    """Return the queue of idle processes, in which the last used one comes first: it is running already."""
    idle: asyncio.LifoQueue[_RenderProcess] = asyncio.LifoQueue()
    for process in processes:
        idle.put_nowait(process)
    return idle


def _plain_document(data: bytes) -> dict[str, Any]:
    if b"\0" in data:
        return {"kind": "binary", "html": None}
    text = data.decode(errors="replace")
    return {"kind": "text", "html": escape_text(text), "text": text}


def escape_text(text: str) -> str:
    """Return a text as HTML that shows it as it is."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{escaped}</pre>"


def _run_child() -> None:
    """Run the child: read jobs from standard input and write answers to standard output, until the input is closed."""
    from postroom.server.api import markdown, markdown_pieces, rendering

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(int(sys.argv[1]))

    def render_job(head: dict[str, Any], data: bytes) -> Any:
        if head["what"] == "document":
            return rendering.render_document(head["path"], data, whole=head["whole"])
        if head["what"] == "beginning":
            return markdown_pieces.render_beginning(data.decode(), head["folder"])
        if head["what"] == "outline":
            return markdown_pieces.outline_text(data.decode())
        if head["what"] == "piece":
            return markdown.render_markdown(data.decode(), head["folder"], head["references"])
        texts = json.loads(data)
        return [markdown.render_markdown(text) for text in texts] if head["what"] == "texts" else rendering.diff_lines(*texts)

    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while length := reading.read(_LENGTH_BYTES):
        head = json.loads(reading.read(int.from_bytes(length, "big")))
        data = reading.read(int.from_bytes(reading.read(_LENGTH_BYTES), "big"))
        _allow_cpu_time(MAX_CPU_SECONDS)
        try:
            answer = json.dumps(render_job(head, data)).encode()
        except MemoryError:
            answer = b"null"
        writing.write(len(answer).to_bytes(_LENGTH_BYTES, "big") + answer)
        writing.flush()


def _allow_cpu_time(seconds: int) -> None:
    """Have the system end this process once it has used so much more CPU time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + seconds, hard))


if __name__ == "__main__":
    _run_child()
