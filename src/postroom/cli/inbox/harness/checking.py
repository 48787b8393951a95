"""Check a connection by running each of its parts: the MCP server, the hook, the files, and the trust that a program asks for."""

from __future__ import annotations

import json
import os
import subprocess

from postroom.cli.inbox.harness import programs
from postroom.cli.inbox.harness.files import ConnectionRecord
from postroom.cli.inbox.harness.planning import PRESENT, plan_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Check = dict[str, Any]

CHECK_SECONDS = 30
_COMMANDS = {"claude": "claude", "codex": "codex", "opencode": "opencode", "gemini": "gemini", "qwen": "qwen"}


def check_connection(program: str, target: programs.Target) -> list[Check]:
    """Return one check for each part, with what to do about it if it failed."""
    steps, _ = plan_parts(programs.parts_of(program, target), ConnectionRecord(target.folder, program))
    checks = [_make_check(step.part.summary, step.action == PRESENT, step.reason or step.part.file) for step in steps]
    checks += [_check_program(program), _check_server(target), _check_hook(program, target)]
    return [*checks, *(_check_codex_trust(target) if program == "codex" else ())]


def _make_check(name: str, is_ok: bool, detail: str) -> Check:
    return {"check": name, "ok": is_ok, "detail": detail}


def _check_program(program: str) -> Check:
    from shutil import which

    found = which(_COMMANDS[program])
    return _make_check("program", found is not None, found or f"{_COMMANDS[program]} is not in PATH")


def _check_server(target: programs.Target) -> Check:
    """Start the MCP server as the program does, and list its tools."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    ran = _run(target.server, json.dumps(request) + "\n", target.folder)
    try:
        number = len(json.loads(ran.stdout.partition("\n")[0])["result"]["tools"])
    except (ValueError, KeyError):
        return _make_check("server", False, ran.stderr.strip()[:300] or "no answer")
    return _make_check("server", True, f"{number} tools")


def _check_hook(program: str, target: programs.Target) -> Check:
    """Run the hook as the program does, with an event of a session that never was."""
    event = {"session_id": f"check-{os.getpid()}", "cwd": target.folder, "hook_event_name": "SessionStart", "agent_id": ""}
    ran = _run(["/bin/sh", "-c", target.hook_line("prompt", program)], json.dumps(event), target.folder)
    _run(["/bin/sh", "-c", target.hook_line("end", program)], json.dumps(event), target.folder)
    is_ok = ran.returncode == 0 and not ran.stderr.strip()
    return _make_check("hook", is_ok, ran.stderr.strip()[:300] or f"exit {ran.returncode}")


def _run(argv: list[str], text: str, folder: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=CHECK_SECONDS, cwd=folder, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))


def _check_codex_trust(target: programs.Target) -> list[Check]:
    """Ask Codex which hooks it trusts: it skips the others in silence."""
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "postroom", "title": "Postroom", "version": "0"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [target.folder]}},
    ]
    try:
        found = _ask_codex(messages)
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return [_make_check("trust", False, f"Codex did not list its hooks: {error}")]
    own = [hook for place in found for hook in place["hooks"] if " hook " in json.dumps(hook) and "--harness codex" in json.dumps(hook)]
    untrusted = [hook for hook in own if hook.get("trustStatus") != "trusted"]
    if own and not untrusted:
        return [_make_check("trust", True, f"{len(own)} hooks are trusted")]
    return [_make_check("trust", False, f"{len(untrusted)} of {len(own)} hooks are skipped: open /hooks in Codex and trust them")]


def _ask_codex(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the places of hooks that `codex app-server` lists."""
    pipe = subprocess.PIPE
    argv = ["codex", "app-server"]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            for message in messages:
                child.stdin.write(json.dumps(message) + "\n")
            child.stdin.flush()
            for line in child.stdout:
                answer = json.loads(line)
                if answer.get("id") == messages[-1]["id"]:
                    data: list[dict[str, Any]] = answer["result"]["data"]
                    return data
        finally:
            child.kill()
    raise ValueError("no answer")
