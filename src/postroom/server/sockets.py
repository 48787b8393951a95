"""The mailbox as a WebSocket: deliveries are pushed as they fall due, and what a client says is confirmed, frame by frame, in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive

from postroom.core.errors import InvalidInput, Refusal, Unauthenticated
from postroom.core.letters import Delivery
from postroom.server import frames, post
from postroom.server.callers import Caller, token_of
from postroom.server.carriers import AWAY, NOT_ALLOWED, Carrier
from postroom.server.frames import MOST_WRONG, Asked
from postroom.server.upgrading import FAILED, LAST_WORDS, NOT_TEXT, Upgraded

MOST_OWED = 1024 * 1024  # bytes of confirmations that a client may leave unread
ENOUGH = 64 * 1024  # bytes of deliveries that wait to be sent: no more are taken until they are
WINDOW, WINDOW_BYTES = 64, 512 * 1024  # frames that are carried out together
_log = logging.getLogger("postroom.server")


def check(upgraded: Upgraded) -> None:
    post.may_take(upgraded.caller, upgraded.parameters["session"])


async def talk(upgraded: Upgraded, receive: Receive) -> None:
    await Socket(upgraded).run(receive)


class Socket:
    """One connection. Its frames are read, carried out and answered by three tasks; whoever ends it says how."""

    def __init__(self, upgraded: Upgraded) -> None:
        caller = upgraded.caller
        self.session, self.receiver, self.door = upgraded.parameters["session"], caller.name, caller.door
        self.brought = token_of(upgraded.headers)
        self._office, self._carriers, self._caller = upgraded.office, upgraded.carriers, caller
        self._send = upgraded.send
        self._credit = self._wrong = 0
        self._asked: deque[str] = deque()
        self._asked_bytes = 0
        self._came, self._taken = asyncio.Event(), asyncio.Event()
        self._due: deque[tuple[str, bool]] = deque()  # frames, and whether each is a delivery
        self._deliveries = self._owed = 0  # bytes in it, of each kind
        self._goes, self._last = asyncio.Event(), False
        self._gone = False  # whether the client has left: what it said before is still carried out
        self._over: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()
        self._carrier: Carrier = self._carriers.join(self)

    async def run(self, receive: Receive) -> None:
        reading, answering, writing = (
            asyncio.create_task(self._kept(work)) for work in (self._read(receive), self._answer(), self._write())
        )
        code: int | None = None
        reason = ""
        try:
            code, reason = await self._over
            self._carriers.part(self)
            reading.cancel()
            if code is not None:  # what is in hand is finished first, and heard of
                await asyncio.wait([answering], timeout=LAST_WORDS)
                if code == AWAY:
                    self._owe(frames.GOODBYE)
                self._last = True
                self._goes.set()
                await asyncio.wait([writing], timeout=LAST_WORDS)
        finally:
            self._carriers.part(self)
            for task in (reading, answering, writing):
                task.cancel()
        if code is not None:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def end(self, code: int | None, reason: str = "") -> None:
        if not self._over.done():
            self._over.set_result((code, reason))
            for event in (self._came, self._taken, self._goes):
                event.set()

    async def _kept(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError:
            pass  # it went away, as `_read` is told, after the last of what it said
        except Exception:
            _log.exception("a socket failed")
            self.end(FAILED, "the server failed")

    # What comes

    async def _read(self, receive: Receive) -> None:
        while not self._over.done():
            message = await receive()
            if message["type"] != "websocket.receive":
                self._gone = True
                self._carriers.part(self)
                self._came.set()
                return
            text = message.get("text")
            if text is None:
                self.end(NOT_TEXT, "frames are text")
                return
            self._asked.append(text)
            self._asked_bytes += len(text)
            self._came.set()
            while (len(self._asked) >= WINDOW or self._asked_bytes > WINDOW_BYTES) and not self._over.done():
                self._taken.clear()
                await self._taken.wait()

    async def _answer(self) -> None:
        while not self._over.done():
            if not self._asked and self._gone:
                self.end(None)
                return
            if not self._asked:
                self._came.clear()
                await self._came.wait()
                continue
            batch = [frames.read(text) for text in self._asked]
            self._asked.clear()
            self._asked_bytes = 0
            self._taken.set()
            wrong = [number for number, asked in enumerate(batch) if asked.wrong is not None]
            if len(wrong) + self._wrong >= MOST_WRONG:  # nothing after the last of them is carried out
                del batch[wrong[MOST_WRONG - self._wrong - 1] + 1 :]
            for answer in await self._answers(batch):
                self._owe(answer)
            if self._wrong >= MOST_WRONG:
                self.end(NOT_ALLOWED, f"{MOST_WRONG} frames made no sense")

    async def _answers(self, batch: list[Asked]) -> list[str]:
        """In the order in which they came, and started in that order: so many share one commit."""
        try:
            caller = await self._office.again(self._caller, self.brought, len(batch))
        except Unauthenticated:
            self.end(NOT_ALLOWED, "the token is not valid any more")
            return []
        except Refusal as refusal:
            return [frames.refused(asked.id, refusal) for asked in batch]
        started: list[asyncio.Task[str]] = []
        for asked in batch:
            alone = asked.op == "enqueue" and asked.fields["message"].get("from") not in (
                None,
                caller.name,
            )  # who that is, is looked up first
            if alone and started:
                await asyncio.wait(started)
            started.append(asyncio.create_task(self._one(caller, asked)))
            if alone:
                await asyncio.wait(started)
        return [await one for one in started]

    async def _one(self, caller: Caller, asked: Asked) -> str:
        try:
            if asked.wrong is not None:
                raise asked.wrong
            return frames.ok(asked.id, await self._carry_out(caller, asked))
        except InvalidInput as refusal:
            self._wrong += 1
            return frames.refused(asked.id, refusal)
        except Refusal as refusal:
            return frames.refused(asked.id, refusal)

    async def _carry_out(self, caller: Caller, asked: Asked) -> dict[str, Any]:
        desk, given = self._office.desk, asked.fields
        if asked.op == "enqueue":
            return await post.enqueue(desk, caller, given["message"])
        if asked.op == "ack":
            return await post.ack(desk, caller, self.session, **given)
        if asked.op == "nack":
            return await post.nack(desk, caller, self.session, **given)
        if asked.op == "extend":
            return await post.extend(desk, caller, self.session, **given)
        return self._more(given["n"]) if asked.op == "credit" else {}

    def _more(self, n: int) -> dict[str, Any]:
        if not 1 <= n <= frames.MOST_CREDIT - self._credit:
            most = frames.MOST_CREDIT
            raise InvalidInput(f"n must be from 1 on, and at most {most} may be outstanding: {self._credit} are", field="n")
        self._credit += n
        self._carrier.ring()
        return {"credit": self._credit}

    # What goes out

    def room(self) -> int:
        return self._credit if self._deliveries < ENOUGH and not self._over.done() else 0

    def deliver(self, taken: Delivery) -> None:
        self._credit -= 1
        frame = frames.delivery(taken)
        self._deliveries += len(frame)
        self._due.append((frame, True))
        self._goes.set()

    def _owe(self, answer: str) -> None:
        if self._gone:
            return
        self._owed += len(answer)
        self._due.append((answer, False))
        self._goes.set()
        if self._owed > MOST_OWED:
            self.end(NOT_ALLOWED, f"more than {MOST_OWED // 1024} KiB were not read")

    async def _write(self) -> None:
        while self._due or not self._last:
            if not self._due:
                self._goes.clear()
                await self._goes.wait()
                continue
            frame, is_delivery = self._due[0]
            await self._send({"type": "websocket.send", "text": frame})
            self._due.popleft()
            if is_delivery:
                full = self._deliveries >= ENOUGH
                self._deliveries -= len(frame)
                if full and self._deliveries < ENOUGH:
                    self._carrier.ring()
            else:
                self._owed -= len(frame)
