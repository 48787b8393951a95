"""Serve the MCP tools of one workspace over standard input and output, without a running server. Called by the CLI."""

from __future__ import annotations

import asyncio

from mcp.server.stdio import stdio_server

from postroom.people import workspaces
from postroom.server.mcp.server import build_server
from postroom.server.runtime.store_access import StoreAccess
from postroom.store import open_store


def serve_stdio(place: str, workspace_id: str) -> None:
    """Serve until standard input ends."""
    store = open_store(place, door="mcp")
    workspace = workspaces.show_workspace(store, workspace_id)
    store.close()

    async def serve_until_end() -> None:
        store_access = StoreAccess(place)
        try:
            server = build_server(store_access, lambda context: (workspace, None))
            async with stdio_server() as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        finally:
            await store_access.close()

    asyncio.run(serve_until_end())
