"""Verbs over a WebSocket: said as frames, many at once if a client likes, and each answered when it is done."""

from __future__ import annotations

import asyncio
import logging
from hashlib import sha256

from starlette.types import Receive

from postroom.core import jsontext
from postroom.core.errors import Refusal, TooMany, Unauthenticated
from postroom.server import frames, verbs
from postroom.server.callers import token_of
from postroom.server.carriers import AWAY, NOT_ALLOWED
from postroom.server.frames import MOST_WRONG, Asked
from postroom.server.upgrading import FAILED, LAST_WORDS, NOT_TEXT, Upgraded

AT_ONCE, MOST_WAITS = 16, 15  # verbs of one socket, and how many of them may wait: the next is read when one was answered, and that is soon
AFTERWARDS = 10.0  # seconds for what is to be done when the client has left
LONGEST = 60.0
_log = logging.getLogger("postroom.server")


async def talk(upgraded: Upgraded, receive: Receive) -> None:
    await _Talk(upgraded).run(receive)


class _Talk:
    """One connection. An answer that is not read holds up the next verbs, and so no more than a few are ever kept."""

    def __init__(self, upgraded: Upgraded) -> None:
        self._office, self._caller = upgraded.office, upgraded.caller
        self._brought = token_of(upgraded.headers)
        self._send = upgraded.send
        self._seats, self._writing = asyncio.Semaphore(AT_ONCE), asyncio.Lock()
        self._said: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._wrong = self._waits = 0
        self._over: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()

    async def run(self, receive: Receive) -> None:
        tasks = [asyncio.create_task(self._read(receive)), asyncio.create_task(self._until_stopped())]
        try:
            code, reason = await self._over
            tasks[0].cancel()
            if code is None:  # it has left: what it said before is still done, and nobody waits for it any more
                self._left.set()
            if self._said:  # what is in hand is finished first, and heard of
                await asyncio.wait(self._said, timeout=LAST_WORDS if code else AFTERWARDS)
            if code is None:
                return
            if code == AWAY:
                await asyncio.wait_for(self._tell(frames.GOODBYE), LAST_WORDS)
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:  # who reads nothing does not read that it is closed either
            await self._send({"type": "websocket.close", "code": AWAY, "reason": "the server stops"})
        finally:
            self._left.set()
            for task in (*tasks, *self._said):
                task.cancel()

    def _end(self, code: int | None, reason: str = "") -> None:
        if not self._over.done():
            self._over.set_result((code, reason))

    async def _until_stopped(self) -> None:
        hub = self._office.desk.hub
        with hub.listen(lambda heard: False) as ear:
            while not hub.stopping:
                await ear.wait(LONGEST)
        self._end(AWAY, "the server stops")

    async def _read(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                self._end(None)
                return
            if message.get("text") is None:
                self._end(NOT_TEXT, "frames are text")
                return
            await self._seats.acquire()
            task = asyncio.create_task(self._one(frames.read(message["text"], frames.VERB_FIELDS)))
            self._said.add(task)
            task.add_done_callback(self._said.discard)

    async def _one(self, asked: Asked) -> None:
        try:
            await self._tell(await self._answer(asked))
        except OSError:
            pass  # it went away, as `_read` is told, after the last of what it said
        except Exception:
            _log.exception("a socket failed")
            self._end(FAILED, "the server failed")
        finally:
            self._seats.release()

    async def _tell(self, frame: str) -> None:
        async with self._writing:
            await self._send({"type": "websocket.send", "text": frame})

    async def _answer(self, asked: Asked) -> str:
        try:
            if asked.wrong is not None:
                self._wrong += 1
                if self._wrong >= MOST_WRONG:
                    self._end(NOT_ALLOWED, f"{MOST_WRONG} frames made no sense")
                raise asked.wrong
            caller = await self._office.again(self._caller, self._brought)
            if asked.op == "ping":
                return frames.said(asked.id, b"null")
            name, key = asked.fields.pop("verb"), asked.fields.pop("key", None)
            digest = sha256(jsontext.dumps(asked.fields).encode(errors="surrogatepass")).digest()
            waits = verbs.waits(name, asked.fields)
            if waits and self._waits >= MOST_WAITS:
                raise TooMany(f"{MOST_WAITS} verbs are waiting here already", hint="Wait on another connection.", retry_after=5)
            saying = verbs.Saying(caller, self._brought, name, asked.fields, key, digest, self._left.wait)
            self._waits += waits
            try:
                return frames.said(asked.id, await verbs.perform(self._office, saying))
            finally:
                self._waits -= waits
        except Unauthenticated as refusal:
            self._end(NOT_ALLOWED, "the token is not valid any more")
            return frames.refused(asked.id, refusal)
        except Refusal as refusal:
            return frames.refused(asked.id, refusal)
