"""Check a connection by running each of its parts: the MCP server, the hook, the files, and the trust that a program asks for.

Each program lists its MCP servers with a state. That shows what it asks its user for: trust in the folder, or an approval of the server.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

from postroom.cli.inbox.harness import json_edits, programs
from postroom.cli.inbox.harness.files import ConnectionRecord
from postroom.cli.inbox.harness.planning import PRESENT, plan_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Check = dict[str, Any]

CHECK_SECONDS = 30
LIST_SECONDS = 90  # opencode fetches what it needs when it starts for the first time
_LISTED = re.compile(r"^\W*inbox\b(?P<rest>.*)$", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_WELL = re.compile(r"(?<!dis)connected|enabled", re.IGNORECASE)


def check_connection(program: str, target: programs.Target) -> list[Check]:
    """Return one check for each part, with what to do about it if it failed."""
    if program == "generic":
        return [_check_server(target), _check_hook("claude", target)]
    steps, _ = plan_parts(programs.parts_of(program, target), ConnectionRecord(target.folder, program))
    checks = [_make_check(step.part.summary, step.action == PRESENT, step.reason or step.part.file) for step in steps]
    checks += [_check_program(program), _check_server(target), _check_hook(program, target), _check_switch(program, target)]
    if checks[len(steps)]["ok"]:
        checks.append(_check_listing(program, target))
    return [*checks, *(_check_codex_trust(target) if program == "codex" else ())]


def _make_check(name: str, is_ok: bool, detail: str) -> Check:
    return {"check": name, "ok": is_ok, "detail": detail}


def _check_program(program: str) -> Check:
    from shutil import which

    found = which(program)
    return _make_check("program", found is not None, found or f"{program} is not in PATH")


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


def _check_listing(program: str, target: programs.Target) -> Check:
    """Ask the program for its MCP servers: whether it starts ours, or waits for its user."""
    ran = _run([program, "mcp", "list"], "", target.folder, seconds=LIST_SECONDS)
    found = _LISTED.search(_ESCAPES.sub("", ran.stdout + ran.stderr))
    if found is None:
        return _make_check("tools", False, f"`{program} mcp list` does not show the server `inbox`: {ran.stderr.strip()[-200:]}")
    state = " ".join(found["rest"].rpartition(" - ")[2].strip(" :").split())
    if _WELL.search(state):
        return _make_check("tools", True, f"{program} says: {state}")
    return _make_check("tools", False, f"{program} says: {state}. {programs.APPROVALS.get(program, '')}".strip())


def _check_switch(program: str, target: programs.Target) -> Check:
    """Look whether the user has switched off the hooks, which the program skips in silence then."""
    for path in reversed(programs.switch_files(program, target)):  # what stands in the last file holds
        try:
            with open(path, encoding="utf-8") as file:
                settings = json_edits.parse_with_spans(file.read()).value
        except (OSError, ValueError):
            continue
        if (reason := programs.find_switched_off(settings)) is not None:
            return _make_check("hooks are on", not reason, f"{path}: {reason}" if reason else path)
    return _make_check("hooks are on", True, "not switched off")


def _run(argv: list[str], text: str, folder: str, *, seconds: float = CHECK_SECONDS) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=seconds, cwd=folder, check=False)
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
