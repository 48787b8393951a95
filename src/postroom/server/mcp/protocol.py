"""The MCP messages that need no store: the handshake and the list of tools, for the stdio server. Imports nothing that is slow to load.

Protocol 2026-07-28 has `server/discover` and no session. The versions before it begin with `initialize`. The official SDK serves HTTP.
"""

from __future__ import annotations

from postroom import __version__
from postroom.server.mcp.tool_table import INSTRUCTIONS, TOOL_META, TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    JsonObject = dict[str, Any]

STATELESS_VERSION = "2026-07-28"
SESSION_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
MAX_THREAD_ID_CHARS = 200
_META_PREFIX = "io.modelcontextprotocol/"
_SERVER_INFO = {"name": "postroom", "title": "Postroom", "version": __version__}
_CAPABILITIES = {"tools": {"listChanged": False}}


def answer_handshake(method: str, params: JsonObject) -> JsonObject | None:
    """Return the result of a method that needs no store, or None if it is another method."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        version = asked if asked in SESSION_VERSIONS else SESSION_VERSIONS[0]
        return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _SERVER_INFO, "instructions": INSTRUCTIONS}
    if method == "server/discover":
        found = {"supportedVersions": [STATELESS_VERSION], "capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}
        return complete_result({**found, "ttlMs": 0, "cacheScope": "private"}, params)
    if method == "tools/list":
        cached = {"ttlMs": 60_000, "cacheScope": "private"} if is_stateless(params) else {}
        return complete_result({"tools": [describe_tool(name) for name in TOOLS], **cached}, params)
    return {} if method == "ping" and not is_stateless(params) else None


def describe_tool(name: str) -> JsonObject:
    """Return a tool as clients list it."""
    tool = TOOLS[name]
    return {
        "name": name,
        "description": tool.description,
        "inputSchema": tool.schema,
        "annotations": tool.annotations,
        "_meta": TOOL_META,
    }


def is_stateless(params: JsonObject) -> bool:
    """Return whether a request is of the protocol without sessions: each of its requests names its version."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and f"{_META_PREFIX}protocolVersion" in meta


def find_thread_id(params: object) -> str | None:
    """Return the session that a call names in its `_meta`, as Codex does with `threadId`, or None."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    found = meta.get("threadId") if isinstance(meta, dict) else None
    return found if isinstance(found, str) and 0 < len(found) <= MAX_THREAD_ID_CHARS else None


def cancels_answered_calls(params: object) -> bool:
    """Return whether a program that begins a session cancels calls of which it has the answer: opencode does, at the end of each step.

    From such a program, this takes back no message. Else none would ever count as seen.
    """
    info = params.get("clientInfo") if isinstance(params, dict) else None
    return isinstance(info, dict) and info.get("name") == "opencode"


def complete_result(result: JsonObject, params: JsonObject) -> JsonObject:
    """Return a result with the fields that the protocol without sessions requires, if the request is of that protocol."""
    if not is_stateless(params):
        return result
    return {**result, "resultType": "complete", "_meta": {f"{_META_PREFIX}serverInfo": _SERVER_INFO}}
