"""The running tool calls of a server: what each was handed, and how a call is cancelled.

What a call hands to its agent is confirmed by the next call of the same client, and returned if the call is cancelled or its answer does
not arrive. A cancellation may come after the answer: a client that gave up has dropped it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any

from postroom.people.agents import handovers
from postroom.server.runtime.store_access import StoreAccess

DOOR = "mcp"
MAX_ANSWERED_CALLS = 1000  # that a late cancellation still finds
CallKey = tuple[str, str, Any]  # the agent, the client, and the id of the request


class OpenCalls:
    """The calls of all clients of a server."""

    def __init__(self, store_access: StoreAccess) -> None:
        self.store_access = store_access
        self._running: dict[CallKey, list[ToolCall]] = {}
        self._answered: OrderedDict[CallKey, list[str]] = OrderedDict()
        self.unsent: set[str] = set()  # the handovers whose answer is not sent yet

    def begin_call(self, agent: str, client: str, request_id: Any) -> ToolCall:
        call = ToolCall(self, agent, client, request_id)
        self._running.setdefault(call.key, []).append(call)
        return call

    async def cancel_call(self, agent: str, client: str, request_id: Any, *, keeps_answered: bool) -> None:
        """Cancel the calls with this id, and return what an answered one was handed, unless `keeps_answered`.

        Two sessions of one program may share an id.
        """
        key = (agent, client, request_id)
        for call in self._running.get(key, ()):
            if not (keeps_answered and call.is_answered):  # the client may have the answer before this server knows that it was sent
                call.cancel()
        for handover_id in () if keeps_answered else self._answered.pop(key, ()):
            await self.return_handover(agent, handover_id)

    async def end_call(self, call: ToolCall, *, is_sent: bool) -> None:
        """Forget a call. What it handed over is returned if its answer was not sent."""
        others = self._running.get(call.key, [])
        if call in others:
            others.remove(call)
        if not others:
            self._running.pop(call.key, None)
        call.is_ended = True
        self.unsent.difference_update(call.handover_ids)
        if not is_sent or call.is_cancelled:
            for handover_id in call.handover_ids:
                await self.return_handover(call.agent, handover_id)
        elif call.handover_ids:
            self._answered[call.key] = call.handover_ids
            if len(self._answered) > MAX_ANSWERED_CALLS:
                self._answered.popitem(last=False)

    async def return_handover(self, agent: str, handover_id: str) -> None:
        verb = partial(handovers.return_handover, handover_id=handover_id, agent=agent)
        await asyncio.shield(asyncio.ensure_future(self.store_access.write(verb, DOOR)))

    async def end_client(self, agent: str, client: str) -> None:
        """Make what a client was handed and did not confirm available again: the client is gone."""
        await self.store_access.write(partial(handovers.end_handovers, agent=agent, client=client), DOOR)


class ToolCall:
    """One call of a tool."""

    def __init__(self, calls: OpenCalls, agent: str, client: str, request_id: Any) -> None:
        self._calls = calls
        self.agent = agent
        self.client = client
        self.key: CallKey = (agent, client, request_id)
        self.handover_ids: list[str] = []
        self.is_cancelled = False
        self.is_ended = False
        self._task: asyncio.Task[Any] | None = None

    async def run(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """Confirm what the client was handed before, run the tool, and return its answer. Raises `CancelledError` once cancelled."""
        self._task = asyncio.ensure_future(answer)
        if self.is_cancelled:
            self._task.cancel()
        return await self._task

    @property
    def is_answered(self) -> bool:
        """Whether the tool has returned. Its answer may still be on the way."""
        return self._task is not None and self._task.done()

    def cancel(self) -> None:
        self.is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def confirm_earlier(self) -> None:
        """Confirm what this client was handed by earlier calls: it makes another call, so it has their answers."""
        access = self._calls.store_access
        known: dict[str, Any] = {"agent": self.agent, "client": self.client, "excluded": tuple(self._calls.unsent)}
        if await access.read(partial(handovers.has_unconfirmed, **known)):
            await access.write(partial(handovers.confirm_handover, **known), DOOR)

    async def hand_over(self, writing: Awaitable[Any]) -> Any:
        """Wait for a write that hands something over, and keep its id. If the call is cancelled meanwhile, return it once it is written."""
        task = asyncio.ensure_future(writing)
        try:
            handed = await asyncio.shield(task)
        except asyncio.CancelledError:
            self._keep(await task)
            raise
        self._keep(handed)
        if self.is_ended:  # the client went away without a cancellation
            await self._calls.end_call(self, is_sent=False)
        return handed

    def _keep(self, handed: Any) -> None:
        handover_id = handed if isinstance(handed, str) else handed.handover_id
        self.handover_ids.append(handover_id)
        self._calls.unsent.add(handover_id)
