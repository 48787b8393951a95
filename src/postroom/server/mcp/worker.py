"""Run the tool calls of the stdio server in a thread with an event loop. It is loaded after the handshake, because that takes a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from threading import Thread
from typing import Any

from postroom.core.records.people import Workspace
from postroom.people.agents.clients import StdioClients
from postroom.people.agents.ringer_process import start_ringer
from postroom.server.mcp import protocol
from postroom.server.mcp.handlers import ToolHandlers
from postroom.server.mcp.open_calls import OpenCalls
from postroom.server.mcp.results import check_arguments, encode_result
from postroom.server.mcp.tool_table import TOOLS
from postroom.server.runtime.store_access import StoreAccess

JsonObject = dict[str, Any]
_log = logging.getLogger("postroom.mcp")


class StdioWorker:
    """The tools of one workspace. `write_message` sends an answer, and returns False if nobody reads it any more."""

    def __init__(self, place: str, workspace: Workspace, clients: StdioClients, write_message: Callable[[JsonObject], bool]) -> None:
        self._place = place
        self._workspace = workspace
        self._clients = clients
        self._client_names: set[str] = set()  # that made calls
        self._write_message = write_message
        self._loop = asyncio.new_event_loop()
        self._calls: OpenCalls | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rung_sessions: set[str] = set()  # for which a process waits
        self._thread = Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._thread.start()
        self._run(self._open())

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self) -> None:
        self._calls = OpenCalls(StoreAccess(self._place))

    def start_call(self, request_id: Any, params: JsonObject) -> None:
        """Run a call. Calls run side by side, and each answers by itself."""
        self._loop.call_soon_threadsafe(self._begin, request_id, params)

    def _begin(self, request_id: Any, params: JsonObject) -> None:
        task = self._loop.create_task(self._answer(request_id, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request_id: Any, params: JsonObject) -> None:
        assert self._calls is not None
        thread_id = protocol.find_thread_id(params)
        self._leave_ringer(thread_id)
        client = self._clients.name_client(thread_id)
        self._client_names.add(client)
        call = self._calls.begin_call(self._workspace.agent, client, request_id)
        is_sent = False
        try:
            handlers = ToolHandlers(self._calls.store_access, self._workspace, call)
            answer = await call.run(_run_tool(handlers, params))
            is_sent = not call.is_cancelled and self._write_message({"jsonrpc": "2.0", "id": request_id, **answer})
        except asyncio.CancelledError:
            pass  # the client drops the answer of a cancelled call
        except Exception:
            _log.exception("a tool failed")  # the client gets no details
            error = {"code": protocol.INTERNAL_ERROR, "message": "The server failed. What was accepted before is safe."}
            self._write_message({"jsonrpc": "2.0", "id": request_id, "error": error})
        finally:
            await self._calls.end_call(call, is_sent=is_sent)

    def _leave_ringer(self, session: str | None) -> None:
        """Leave a process that wakes a session of Codex, once it has named itself. No hook is needed for that."""
        if session is None or session in self._rung_sessions:
            return
        self._rung_sessions.add(session)
        try:
            start_ringer(self._place, harness="codex", agent=self._workspace.agent, session=session, owner_pid=self._clients.owner_pid)
        except OSError:
            _log.exception("no process could be started that wakes the session")

    def cancel_call(self, request_id: Any, *, keeps_answered: bool) -> None:
        self._run(self._cancel(request_id, keeps_answered))

    async def _cancel(self, request_id: Any, keeps_answered: bool) -> None:
        """Cancel a call. The client does not name its session, but all its requests have different ids."""
        assert self._calls is not None
        for client in tuple(self._client_names):
            await self._calls.cancel_call(self._workspace.agent, client, request_id, keeps_answered=keeps_answered)

    def close(self) -> None:
        """Cancel what runs, make what was not confirmed available again, and close the store."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _close(self) -> None:
        assert self._calls is not None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            for client in self._client_names:
                await self._calls.end_client(self._workspace.agent, client)
        finally:
            await self._calls.store_access.close()


async def _run_tool(handlers: ToolHandlers, params: JsonObject) -> JsonObject:
    """Return the result of a tool call, or its error."""
    name, given = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or name not in TOOLS or not isinstance(given, dict):
        return {"error": {"code": protocol.INVALID_PARAMS, "message": f"There is no tool {name}."}}
    arguments, refusal = check_arguments(name, given)
    answer, is_refusal = (refusal, True) if refusal is not None else await handlers.call_tool(name, arguments)
    text, data = encode_result(answer)
    result = {"content": [{"type": "text", "text": text}], "structuredContent": data, "isError": is_refusal}
    return {"result": protocol.complete_result(result, params)}
