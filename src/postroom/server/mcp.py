"""MCP: the tools by the official SDK, stateless, over HTTP for every workspace and over stdio for one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from postroom import __version__
from postroom.core.entries import Workspace
from postroom.core.errors import Forbidden, Refusal
from postroom.people import workspaces
from postroom.server.answers import refused
from postroom.server.callers import Caller
from postroom.server.desk import Desk
from postroom.server.guard import MOST_BYTES
from postroom.server.requests import Office
from postroom.server.toolbox import INSTRUCTIONS, SCHEMAS, TOOLS
from postroom.server.tools import Tools

Context = ServerRequestContext[Any, Any]
_CHECKS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
_log = logging.getLogger("postroom.mcp")
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # a client that goes away is no failure of ours


def build(desk: Desk, workspace_of: Callable[[Context], Workspace]) -> Server[Any]:
    """The server of the SDK. It checks no arguments and knows no names, so we do."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = [types.Tool(name=name, description=TOOLS[name][0], input_schema=SCHEMAS[name]) for name in TOOLS]
        return types.ListToolsResult(tools=tools, ttl_ms=60_000, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        check = _CHECKS.get(params.name)
        if check is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}.")
        given = params.arguments or {}
        _whole_numbers(given, SCHEMAS[params.name]["properties"])
        wrong = min(check.iter_errors(given), key=lambda error: list(map(str, error.path)), default=None)
        if wrong is not None:
            where = "/".join(map(str, wrong.path)) or "the arguments"
            said = {"code": "invalid_input", "message": f"{where}: {wrong.message[:300]}", "hint": "See the tool's schema.", "field": where}
            return _result({"ok": False, "error": said}, refusal=True)
        try:
            answer, refusal = await Tools(desk, workspace_of(context)).call(params.name, given)
        except Exception:
            _log.exception("a tool failed")  # what went wrong is ours to know, not the client's
            raise MCPError(types.INTERNAL_ERROR, "The server failed. What was accepted before is safe.") from None
        return _result(answer, refusal=refusal)

    server: Server[Any] = Server(
        "postroom",
        version=__version__,
        title="Postroom",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=SCHEMAS.get,  # else the SDK lists the tools before each call
    )
    server.middleware.clear()  # telemetry that nobody listens to
    return server


def _whole_numbers(given: dict[str, Any], properties: dict[str, Any]) -> None:
    """3.0 is a whole number to JSON, and is not to Python."""
    for name, value in given.items():
        if isinstance(value, float) and value.is_integer() and properties.get(name, {}).get("type") == "integer":
            given[name] = int(value)


def _result(answer: dict[str, Any], *, refusal: bool) -> types.CallToolResult:
    text = types.TextContent(type="text", text=json.dumps(answer, ensure_ascii=False, default=str))
    return types.CallToolResult(content=[text], structured_content=json.loads(text.text), is_error=refusal)


def manager(server: Server[Any]) -> StreamableHTTPSessionManager:
    """Stateless: there is no session that one workspace could carry to another. Names and origins are the guard's affair."""
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(
        server, stateless=True, json_response=False, max_request_body_size=MOST_BYTES, security_settings=unchecked
    )


def workspace_of(context: Context) -> Workspace:
    """As the door below found it, for this very request."""
    assert context.request is not None
    workspace: Workspace = context.request.scope["postroom.workspace"]
    return workspace


class Door:
    """Lets in who has the token of the workspace that the address names."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._app = StreamableHTTPASGIApp(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        office: Office = scope["app"].state.office
        try:
            caller = await office.asks(request)
            scope["postroom.workspace"] = await _entered(office, caller, unquote(request.path_params["workspace_id"]))
            receive = await _whole(receive)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _whole(receive: Receive) -> Receive:
    """The body, read before the SDK does, so that one that is too large is refused in our shape."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    first: Message | None = message if message["type"] != "http.request" else {"type": "http.request", "body": b"".join(parts)}

    async def again() -> Message:
        nonlocal first
        given, first = first, None
        return await receive() if given is None else given

    return again


async def _entered(office: Office, caller: Caller, workspace_id: str) -> Workspace:
    if not caller.agent and office.dev:
        return await office.desk.read(lambda tx: workspaces.found(tx, workspace_id))
    if caller.workspace is None or caller.workspace.workspace_id != workspace_id:
        raise Forbidden("this token is not of that workspace", hint="Use the token that `inbox workspace add` printed for it.")
    return caller.workspace
