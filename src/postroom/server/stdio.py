"""MCP over standard input and output: the same tools, for one workspace, without a server."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from postroom.people import workspaces
from postroom.server.desk import Desk
from postroom.server.mcp import build
from postroom.store import open_store


def run(place: str, workspace_id: str) -> None:
    """Serve until standard input ends."""
    store = open_store(place, door="mcp")
    workspace = workspaces.show_workspace(store, workspace_id)
    store.close()

    async def serve() -> None:
        desk = Desk(place)
        try:
            server = build(desk, lambda context: workspace)
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await desk.close()

    anyio.run(serve)
