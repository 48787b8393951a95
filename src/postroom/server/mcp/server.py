"""Build the MCP server from the tools, and its HTTP endpoint, which is stateless and serves every workspace."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from math import isfinite
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from postroom import __version__
from postroom.core import checks, limits
from postroom.core.errors import Forbidden, InvalidInput, Refusal
from postroom.core.hidden_characters import escape_in_json
from postroom.core.records.people import Workspace
from postroom.people import workspaces
from postroom.server.http.auth import Caller
from postroom.server.http.responses import refusal_response
from postroom.server.http.state import AppState
from postroom.server.mcp.handlers import ToolHandlers
from postroom.server.mcp.schemas import INSTRUCTIONS, SCHEMAS, TOOLS
from postroom.server.runtime.store_access import StoreAccess

Context = ServerRequestContext[Any, Any]
_VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
_log = logging.getLogger("postroom.mcp")
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the SDK logs each client that disconnects as an error


def build_server(store_access: StoreAccess, workspace_of: Callable[[Context], tuple[Workspace, str | None]]) -> Server[Any]:
    """Return the SDK's server. It validates neither arguments nor tool names, so these handlers do.

    `workspace_of` returns the workspace of a request and its token, or None if it needs none.
    """

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = [types.Tool(name=name, description=TOOLS[name][0], input_schema=SCHEMAS[name]) for name in TOOLS]
        return types.ListToolsResult(tools=tools, ttl_ms=60_000, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        validator = _VALIDATORS.get(params.name)
        if validator is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}.")
        arguments = params.arguments or {}
        _convert_whole_numbers(arguments, SCHEMAS[params.name]["properties"])
        wrong = min(validator.iter_errors(arguments), key=lambda error: list(map(str, error.path)), default=None)
        if wrong is not None:
            field = "/".join(map(str, wrong.path)) or "the arguments"
            message = f"{field}: {wrong.message[:300]}"
            error = {"code": "invalid_input", "message": message, "hint": "See the tool's schema.", "field": field}
            return _tool_result({"ok": False, "error": error}, refusal=True)
        try:
            answer, refusal = await ToolHandlers(store_access, *workspace_of(context)).call_tool(params.name, arguments)
        except Exception:
            _log.exception("a tool failed")  # the client gets no details
            raise MCPError(types.INTERNAL_ERROR, "The server failed. What was accepted before is safe.") from None
        return _tool_result(answer, refusal=refusal)

    return Server(
        "postroom",
        version=__version__,
        title="Postroom",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=SCHEMAS.get,  # without this the SDK lists the tools before each call
    )


def _convert_whole_numbers(arguments: dict[str, Any], properties: dict[str, Any]) -> None:
    """Convert floats such as 3.0 to int where the schema wants an integer. JSON Schema accepts them, Python code does not."""
    for name, value in arguments.items():
        if isinstance(value, float) and value.is_integer() and properties.get(name, {}).get("type") == "integer":
            arguments[name] = int(value)


def _tool_result(answer: dict[str, Any], *, refusal: bool) -> types.CallToolResult:
    """Return the result of a tool. A value that cannot be sent is replaced: the agent must not lose an answer whose effect is stored."""
    try:
        text = checks.json_value("answer", answer, max_bytes=limits.MAX_EVENT_BYTES)
    except InvalidInput:
        text = json.dumps(_make_sendable(answer), ensure_ascii=False)
    text = escape_in_json(text)  # agents read it: invisible characters could hide an instruction
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text), is_error=refusal)


def _make_sendable(value: Any, levels: int = limits.MAX_JSON_LEVELS) -> Any:
    """Return a value without lone surrogates, infinite numbers, unknown types and too many levels. Text stands in their place."""
    if isinstance(value, dict) and levels:
        return {_make_sendable(str(key)): _make_sendable(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple) and levels:
        return [_make_sendable(inner, levels - 1) for inner in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, dict | list | tuple):
        return "[nested too deeply]"
    return str(value).encode(errors="replace").decode()


def make_session_manager(server: Server[Any]) -> StreamableHTTPSessionManager:
    """Return a stateless session manager: no session could be carried from one workspace to another.

    The SDK's own host and origin checks are off, because the server's security middleware does them.
    """
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(
        server, stateless=True, json_response=False, max_request_body_size=limits.MAX_REQUEST_BYTES, security_settings=unchecked
    )


def get_workspace(context: Context) -> tuple[Workspace, str | None]:
    """Return the workspace that `WorkspaceEndpoint` stored for this request, and its token."""
    assert context.request is not None
    scope = context.request.scope
    return scope["postroom.workspace"], scope["postroom.token"]


class WorkspaceEndpoint:
    """The MCP endpoint of a workspace. Only callers with that workspace's token are let in."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        state: AppState = scope["app"].state.app_state
        try:
            caller = await state.authenticate(request)
            scope["postroom.workspace"] = await _find_workspace(state, caller, unquote(request.path_params["workspace_id"]))
            scope["postroom.token"] = caller.token if caller.agent else None
            receive = await _read_whole_body(receive)
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send)
            return
        await self._sessions.handle_request(scope, receive, send)


async def _read_whole_body(receive: Receive) -> Receive:
    """Read the body before the SDK does, so that a too large one is refused in our format. Return a `receive` that replays it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    first: Message | None = message if message["type"] != "http.request" else {"type": "http.request", "body": b"".join(parts)}

    async def receive_again() -> Message:
        nonlocal first
        message, first = first, None
        return await receive() if message is None else message

    return receive_again


async def _find_workspace(state: AppState, caller: Caller, workspace_id: str) -> Workspace:
    if not caller.agent and state.dev:
        return await state.store_access.read(lambda tx: workspaces.get_workspace(tx, workspace_id))
    if caller.workspace is None or caller.workspace.workspace_id != workspace_id:
        raise Forbidden("this token belongs to another workspace", hint="Use the token that `inbox workspace add` printed for it.")
    return caller.workspace
