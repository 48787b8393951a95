"""The official MCP client, as an agent of a workspace uses it: over HTTP and over stdio, in both protocol versions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import httpx
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, Tool

from tests.cli.process import LIMIT, SCRIPT, eventually
from tests.server.running_server import WorkspaceClient

LEGACY, MODERN = "legacy", "auto"
VERSIONS = {LEGACY: "2025-11-25", MODERN: "2026-07-28"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class McpAgent:
    """A session of the official client. It keeps all that the server said to it."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal = portal
        self.client = client
        self.heard: list[str] = [client.instructions or "", str(client.server_info)]

    def tools(self) -> list[Tool]:
        found = self.portal.call(self.client.list_tools).tools
        self.heard += [tool.model_dump_json() for tool in found]
        return found

    def begin(self, tool: str, **arguments: Any) -> Future[CallToolResult]:
        """A call that goes on while the test does something else."""
        return self.portal.start_task_soon(partial(self.client.call_tool, tool, arguments))

    def waiting(self, tool: str) -> Future[CallToolResult]:
        """A call that is known to wait, where only one may: it is the reason why another is refused."""
        call = self.begin(tool, waitSeconds=50)
        eventually(lambda: call.done() or self.call(tool, waitSeconds=0.01).is_error)
        if not call.done():
            return call
        assert call.result().is_error, call.result()  # the other came first
        return self.waiting(tool)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        result = self.begin(tool, **arguments).result(LIMIT)
        self.heard.append(result.model_dump_json())
        return result

    def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, which must not refuse, and return its answer."""
        return answered(self.call(tool, **arguments))

    def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """How a tool refuses: as a result, in words and as data."""
        result = self.call(tool, **arguments)
        assert result.is_error is True, result
        said: dict[str, Any] = result.structured_content
        assert said["ok"] is False
        error: dict[str, Any] = said["error"]
        assert {"code", "message", "hint"} <= set(error)
        assert error["message"] in words(result) or json.loads(words(result)) == said
        return error


def answered(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error is False, result
    found: dict[str, Any] = result.structured_content
    assert found["ok"] is True
    return found


def words(result: CallToolResult) -> str:
    """The text of a result, for clients that read no data."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@asynccontextmanager
async def _http(workspace: WorkspaceClient, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {workspace.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT, trust_env=False) as http,
        Client(streamable_http_client(workspace.mcp_url, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def _stdio(workspace: WorkspaceClient, mode: str) -> AsyncIterator[Client]:
    server = workspace.server
    parameters = StdioServerParameters(
        command=SCRIPT,
        args=["mcp", "--workspace", workspace.workspace_id],
        env=server.inbox.environment(),
        cwd=server.folder,
    )
    with (server.folder / f"stdio-{workspace.agent}.log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
            yield client


DOORS = {"http": _http, "stdio": _stdio}


@contextmanager
def at(workspace: WorkspaceClient, door: str = "http", mode: str = MODERN) -> Iterator[McpAgent]:
    """The agent of a workspace, in a session."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(DOORS[door](workspace, mode)) as client:
        yield McpAgent(portal, client)


def knock(workspace: WorkspaceClient, token: str, *, url: str = "", message: Any = INITIALIZE, **headers: str) -> httpx.Response:
    """One raw request to a workspace's endpoint."""
    accepted = {"Accept": "application/json, text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return workspace.server.client(token).post(url or workspace.mcp_url, json=message, headers=accepted)
