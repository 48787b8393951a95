"""A scripted agent behind the Agent Client Protocol, for tests of `inbox agent run`: python acp_agent.py FOLDER.

FOLDER keeps its sessions (one file of prompts each) and a log. What a prompt contains decides what it does:
"ASK" asks a question in the thread, unless an answer is in the prompt; "HANG" waits until the file `go` is there; "READ" or news of
messages reads the inbox with the tools of the MCP server that the client gave, unless the file `deaf` is there; "BREAK" fails the turn;
"TAKE" calls inbox_read, leaves the answer in the pipe, and hangs. Turns of different sessions run side by side.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any

FOLDER = Path(sys.argv[1])
Json = dict[str, Any]
servers: dict[str, Json] = {}


writing = Lock()


def send(message: Json) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(line: str) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(line + "\n")


def start_call(session: str, tool: str, **arguments: Any) -> subprocess.Popen[str]:
    """Call a tool of the client's MCP server. The answer is in its pipe."""
    server = servers[session]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    pipe = subprocess.PIPE
    named = {variable["name"]: variable["value"] for variable in server["env"]}
    environment = {**{name: os.environ[name] for name in ("HOME", "PATH")}, **named}  # programs pass few of their own variables on
    running = subprocess.Popen([server["command"], *server["args"]], stdin=pipe, stdout=pipe, text=True, env=environment)
    assert running.stdin is not None
    running.stdin.write(json.dumps(call) + "\n")
    running.stdin.flush()
    kept.append(running)  # its end would give back what it handed over
    return running


def call_tool(session: str, tool: str, **arguments: Any) -> str:
    """Call a tool. Returns the text of its answer."""
    running = start_call(session, tool, **arguments)
    assert running.stdout is not None
    answer = json.loads(running.stdout.readline())
    text: str = answer["result"]["content"][0]["text"]
    return text


kept: list[subprocess.Popen[str]] = []


def play(session: str, prompt: str) -> str:
    """Do what a prompt says, and return the last words of the turn."""
    thread = re.search(r'thread "([^"]+)"', prompt)
    if "BREAK" in prompt:
        raise ValueError("broken on purpose")
    if "TAKE" in prompt:
        start_call(session, "inbox_read")
    if "HANG" in prompt or "TAKE" in prompt:
        note(f"hanging {session}")
        while not (FOLDER / "go").exists():
            time.sleep(0.02)
    if "ASK" in prompt and thread is not None and '"kind": "answer"' not in prompt.replace('":"', '": "'):
        call_tool(session, "work_update", threadId=thread[1], status="blocked", summary="Which colour?")
        return "I asked."
    if (FOLDER / "deaf").exists():
        return "I heard nothing."
    if "Postroom inbox" in prompt or "Waiting for you" in prompt:
        for message in json.loads(call_tool(session, "inbox_read"))["messages"]:
            note(f"read {message['body']}")
        return "I read it."
    return f"turn {len((FOLDER / session).read_text().splitlines())} of {session} is done"


def answer(method: str, params: Json) -> Json:
    if method == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    if method == "session/new":
        session = f"s{len(list(FOLDER.glob('s*')))}"
        (FOLDER / session).write_text("")
        servers[session] = params["mcpServers"][0]
        note(f"new {session}")
        return {"sessionId": session}
    session = params["sessionId"]
    if method == "session/load":
        if not (FOLDER / session).exists():
            raise ValueError("no such session")
        servers[session] = params["mcpServers"][0]
        note(f"load {session}")
        return {}
    prompt = params["prompt"][0]["text"]
    with (FOLDER / session).open("a") as file:
        file.write(json.dumps(prompt) + "\n")
    note(f"prompt {session} {'interrupted' if 'was interrupted' in prompt else ''}".strip())
    return {"session": session, "prompt": prompt}


def play_turn(request_id: Any, session: str, prompt: str) -> None:
    try:
        said = play(session, prompt)
    except ValueError as error:
        send({"id": request_id, "error": {"code": -32000, "message": str(error)}})
        return
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
    send({"method": "session/update", "params": {"sessionId": session, "update": chunk}})
    send({"id": request_id, "result": {"stopReason": "end_turn"}})


note(f"begin {os.getpid()}")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    try:
        result = answer(request["method"], request["params"])
        if request["method"] == "session/prompt":
            Thread(target=play_turn, args=(request["id"], result["session"], result["prompt"]), daemon=True).start()
        else:
            send({"id": request["id"], "result": result})
    except ValueError as error:
        send({"id": request["id"], "error": {"code": -32000, "message": str(error)}})
