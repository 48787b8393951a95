"""An agent asks a person over MCP, sleeps until the answer is there, and goes on with it.

The agent is plain Python. A framework that speaks MCP starts `inbox mcp` in the same way and offers `inbox_ask` to its model.

Run it: python examples/agent_asks.py
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

import postroom
from postroom import people


async def call_tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    return result.structured_content or {}


def answer_as_person(place: str) -> None:
    """Choose an answer. A real person does it on the page of `inbox serve`, or with `inbox entry reply`."""
    with postroom.open(place) as store:
        [entry] = people.open_questions(store).entries
        people.reply(store, entry.id, person="user", body="quarterly")


async def run_agent(place: str, workspace_id: str) -> None:
    server = StdioServerParameters(command="inbox", args=["mcp", "--db", place, "--workspace", workspace_id])
    async with Client(stdio_client(server)) as client:
        asked = await call_tool(client, "inbox_ask", question="How often shall I report?", choices=["monthly", "quarterly"], waitSeconds=0)
        print("asked, state:", asked["state"])
        waiting = asyncio.create_task(call_tool(client, "inbox_ask", entryId=asked["entryId"]))
        await asyncio.to_thread(answer_as_person, place)
        answer = await waiting
        print("answered:", answer["answer"])


def main() -> None:
    with TemporaryDirectory() as folder:
        place, workspace = f"{folder}/coord.db", Path(folder, "report")
        workspace.mkdir()
        postroom.init(place)
        with postroom.open(place) as store:
            registered = people.add_workspace(store, str(workspace), label="Report")
        asyncio.run(run_agent(place, registered.workspace.workspace_id))


if __name__ == "__main__":
    main()
