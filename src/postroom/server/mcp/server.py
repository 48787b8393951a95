"""Build the MCP server from the tools, and its HTTP endpoint, which is stateless and serves every workspace."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from postroom import __version__
from postroom.core import limits
from postroom.core.errors import Forbidden, Refusal
from postroom.core.ids import new_uuid4
from postroom.core.records.people import Workspace
from postroom.core.text import sha1_hex
from postroom.people.access import workspaces
from postroom.server.http.auth import Caller
from postroom.server.http.responses import refusal_response
from postroom.server.http.state import AppState
from postroom.server.mcp import protocol
from postroom.server.mcp.handlers import ToolHandlers
from postroom.server.mcp.open_calls import OpenCalls, ToolCall
from postroom.server.mcp.protocol import describe_tool
from postroom.server.mcp.results import check_arguments, encode_result
from postroom.server.mcp.tool_table import INSTRUCTIONS, TOOLS
from postroom.server.runtime.store_access import StoreAccess

Context = ServerRequestContext[Any, Any]
_SESSION_HEADER = "mcp-session-id"
_KEEPS_ANSWERED = "keeps-answered-"  # how the names of sessions begin whose cancellations take back nothing that was answered
_log = logging.getLogger("postroom.mcp")
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the SDK logs each client that disconnects as an error


def build_server(calls: OpenCalls, call_of: Callable[[Context], tuple[Workspace, str | None, ToolCall]]) -> Server[Any]:
    """Return the SDK's server. It validates neither arguments nor tool names, so these handlers do.

    `call_of` returns the workspace of a request, its token, or None if it needs none, and the call.
    """

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = [types.Tool.model_validate(describe_tool(name)) for name in TOOLS]
        return types.ListToolsResult(tools=tools, ttl_ms=60_000, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}.")
        arguments, refusal = check_arguments(params.name, params.arguments or {})
        if refusal is not None:
            return _tool_result(refusal, refusal=True)
        workspace, token, call = call_of(context)
        try:
            answer, is_refusal = await call.run(ToolHandlers(calls.store_access, workspace, call, token).call_tool(params.name, arguments))
        except asyncio.CancelledError:
            if not call.is_cancelled:
                raise
            raise MCPError(types.INTERNAL_ERROR, "The call was cancelled.") from None  # the client drops it
        except Exception:
            _log.exception("a tool failed")  # the client gets no details
            raise MCPError(types.INTERNAL_ERROR, "The server failed. What was accepted before is safe.") from None
        return _tool_result(answer, refusal=is_refusal)

    return Server(
        "postroom",
        version=__version__,
        title="Postroom",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: TOOLS[name].schema if name in TOOLS else None,  # else the SDK lists the tools before each call
    )


def _tool_result(answer: dict[str, Any], *, refusal: bool) -> types.CallToolResult:
    text, data = encode_result(answer)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=data, is_error=refusal)


def make_session_manager(server: Server[Any]) -> StreamableHTTPSessionManager:
    """Return a stateless session manager: no session could be carried from one workspace to another.

    The SDK's own host and origin checks are off, because the server's security middleware does them.
    """
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(
        server, stateless=True, json_response=False, max_request_body_size=limits.MAX_REQUEST_BYTES, security_settings=unchecked
    )


def get_call(context: Context) -> tuple[Workspace, str | None, ToolCall]:
    """Return the workspace that `WorkspaceEndpoint` stored for this request, its token, and the call."""
    assert context.request is not None
    scope = context.request.scope
    return scope["postroom.workspace"], scope["postroom.token"], scope["postroom.call"]


class WorkspaceEndpoint:
    """The MCP endpoint of a workspace. Only callers with that workspace's token are let in.

    The SDK is stateless here and does not connect a cancellation with the request that it cancels, so this endpoint does.
    """

    def __init__(self, sessions: StreamableHTTPSessionManager, calls: OpenCalls) -> None:
        self._sessions = sessions
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        state: AppState = scope["app"].state.app_state
        try:
            caller = await state.authenticate(request)
            workspace = await _find_workspace(state, caller, unquote(request.path_params["workspace_id"]))
            body, receive = await _read_whole_body(receive)
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send)
            return
        scope["postroom.workspace"] = workspace
        scope["postroom.token"] = caller.token if caller.agent else None
        message = _parse_message(body)
        await self._handle_message(message, workspace.agent, _client_of(request, message), (scope, receive, send))

    async def _handle_message(self, message: dict[str, Any], agent: str, client: str, request: tuple[Scope, Receive, Send]) -> None:
        if message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), dict):
            keeps_answered = Request(request[0]).headers.get(_SESSION_HEADER, "").startswith(_KEEPS_ANSWERED)
            await self._calls.cancel_call(agent, client, message["params"].get("requestId"), keeps_answered=keeps_answered)
        scope, receive, send = request
        exchange = _Exchange(receive, send, session=_name_session(message))
        call = scope["postroom.call"] = self._calls.begin_call(agent, client, message.get("id"))
        try:
            await self._sessions.handle_request(scope, exchange.receive, exchange.send)
        finally:
            await self._calls.end_call(call, is_sent=exchange.is_sent)


class _Exchange:
    """One request and its response. `is_sent` is true if the whole response was sent before the client went away.

    The response that begins a `session` names it. The SDK keeps no session: the name only tells the calls of two sessions apart.
    """

    def __init__(self, receive: Receive, send: Send, *, session: str | None) -> None:
        self._receive = receive
        self._send = send
        self._session = session
        self._is_gone = False
        self.is_sent = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self.is_sent:
            self._is_gone = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._session is not None and message["status"] == HTTPStatus.OK:
            name = (_SESSION_HEADER.encode(), self._session.encode())
            message = {**message, "headers": [*(pair for pair in message["headers"] if pair[0].lower() != name[0]), name]}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body") and not self._is_gone:
            self.is_sent = True


def _name_session(message: dict[str, Any]) -> str | None:
    """Return a name for the session that a message begins, if it does. The name says what its cancellations mean."""
    if message.get("method") != "initialize":
        return None
    return f"{_KEEPS_ANSWERED if protocol.cancels_answered_calls(message.get('params')) else ''}{new_uuid4()}"


def _parse_message(body: bytes) -> dict[str, Any]:
    """Return the JSON-RPC message in a body, or an empty one if the SDK will refuse it."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(message, dict) or isinstance(message.get("id"), dict | list):
        return {}
    return message


def _client_of(request: Request, message: dict[str, Any]) -> str:
    """Return a name for the session that calls. Its next call confirms what it was handed.

    Clients of the protocol before 2026-07-28 send the id that they got with `initialize`. Codex names its thread in each call. Of others,
    only the program is known, and two sessions of one program share a name.
    """
    known = request.headers.get(_SESSION_HEADER) or protocol.find_thread_id(message.get("params"))
    return f"http:{sha1_hex(known or request.headers.get('user-agent', ''))[:16]}"


async def _read_whole_body(receive: Receive) -> tuple[bytes, Receive]:
    """Read the body before the SDK does, so that a too large one is refused in our format. Return it, and a `receive` that replays it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    body = b"".join(parts)
    first: Message | None = message if message["type"] != "http.request" else {"type": "http.request", "body": body}

    async def receive_again() -> Message:
        nonlocal first
        message, first = first, None
        return await receive() if message is None else message

    return body, receive_again


async def _find_workspace(state: AppState, caller: Caller, workspace_id: str) -> Workspace:
    if not caller.agent and state.dev:
        return await state.store_access.read(lambda tx: workspaces.get_workspace(tx, workspace_id))
    if caller.workspace is None or caller.workspace.workspace_id != workspace_id:
        raise Forbidden("this token belongs to another workspace", hint="Use the token that `inbox workspace add` printed for it.")
    return caller.workspace


def make_endpoint(store_access: StoreAccess) -> tuple[StreamableHTTPSessionManager, WorkspaceEndpoint]:
    """Return the endpoint of all workspaces, and the session manager that must run while it serves."""
    calls = OpenCalls(store_access)
    sessions = make_session_manager(build_server(calls, get_call))
    return sessions, WorkspaceEndpoint(sessions, calls)
