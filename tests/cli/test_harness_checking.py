"""`inbox harness connect --check` and `inbox harness check` run what was connected and report what is missing."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import people
from tests.cli.harness_connection import PROGRAMS, connect, files_of, workspaces_of
from tests.cli.process import SCRIPT, Inbox, eventually

# What `PROGRAM mcp list` printed in a trusted folder, and in one where its user has to do something first (versions of docs/harnesses.md).
LISTED = {
    "claude": (
        "inbox: inbox mcp --workspace ws_1 - ✔ Connected",
        "inbox: inbox mcp --workspace ws_1 - ⏸ Pending approval (run `claude` to approve)",
    ),
    "codex": (
        "Name   Command  Args  Env  Cwd  Status   Auth\ninbox  inbox    mcp   -    -    enabled  Unsupported",
        "Name   Command  Args  Env  Cwd  Status    Auth\ninbox  inbox    mcp   -    -    disabled  Unsupported",
    ),
    "opencode": (
        "│\n●  ✓ inbox \x1b[90mconnected\n│      \x1b[90minbox mcp --workspace ws_1",
        "│\n●  ✗ inbox \x1b[90mfailed\n│      \x1b[90minbox mcp --workspace ws_1",
    ),
    "gemini": ("✓ inbox: inbox mcp --workspace ws_1 (stdio) - Connected", "○ inbox: inbox mcp --workspace ws_1 (stdio) - Disabled"),
    "qwen": ("\x1b[32m✓\x1b[0m inbox: inbox mcp (stdio) - Connected", "\x1b[33m●\x1b[0m inbox: inbox mcp (stdio) - Pending approval"),
}


def _program(inbox: Inbox, name: str, listed: str | None = None) -> Path:
    """A folder with a program of that name, which lists its MCP servers."""
    folder = inbox.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.listed").write_text(listed or LISTED[name][0])
    (folder / name).write_text(f'#!/bin/sh\n[ "$1" != mcp ] || cat {folder}/{name}.listed\n')
    (folder / name).chmod(0o755)
    return folder


def _check(inbox: Inbox, program: str, folder: Path, name: str) -> tuple[bool, str]:
    checked = inbox.execute(["harness", "connect", program, "--check", "--json"], {"PATH": f"{folder}:/usr/bin:/bin"})
    [found] = [check for check in checked.json["checks"] if check["check"] == name]
    assert checked.code == (0 if all(check["ok"] for check in checked.json["checks"]) else 20)
    return found["ok"], found["detail"]


def test_a_check_runs_the_server_and_the_hook_and_names_what_is_missing(inbox: Inbox) -> None:
    environment = {"PATH": f"{_program(inbox, 'claude')}:/usr/bin:/bin"}
    missing = inbox.execute(["harness", "connect", "claude", "--check", "--json"], environment)
    assert (missing.code, {check["check"] for check in missing.json["checks"] if not check["ok"]} >= {"mcpServers.inbox"}) == (20, True)
    inbox.execute(["harness", "connect", "claude"], environment)
    checked = inbox.execute(["harness", "connect", "claude", "--check", "--json"], environment)
    assert [check for check in checked.json["checks"] if not check["ok"]] == []
    assert {"server", "hook", "program"} <= {check["check"] for check in checked.json["checks"]}
    inbox.execute(["harness", "connect", "claude", "--undo"], environment)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_check_asks_the_program_whether_it_starts_the_server(inbox: Inbox, program: str) -> None:
    connect(inbox, program, "--agent", "ada")
    assert _check(inbox, program, _program(inbox, program), "tools")[0]
    is_ok, detail = _check(inbox, program, _program(inbox, program, LISTED[program][1]), "tools")
    assert not is_ok
    assert detail.startswith(f"{program} says: ")


def test_a_check_reports_that_a_program_does_not_show_the_server(inbox: Inbox) -> None:
    connect(inbox, "claude", "--agent", "ada")
    is_ok, detail = _check(inbox, "claude", _program(inbox, "claude", "No MCP servers configured."), "tools")
    assert (is_ok, "does not show the server" in detail) == (False, True)


def test_a_check_says_how_a_pending_server_is_approved(inbox: Inbox) -> None:
    connect(inbox, "qwen", "--agent", "ada")
    assert "qwen mcp approve inbox" in _check(inbox, "qwen", _program(inbox, "qwen", LISTED["qwen"][1]), "tools")[1]


@pytest.mark.parametrize(
    ("program", "file", "text", "reason"),
    [
        ("claude", ".claude/settings.local.json", '{"disableAllHooks": true}', "disableAllHooks is true"),
        ("qwen", ".qwen/settings.json", '{"disableAllHooks": true}', "disableAllHooks is true"),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "hooksConfig.enabled is false"),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"disabled": ["postroom"]}}', "hooksConfig.disabled has postroom"),
    ],
)
def test_a_check_finds_hooks_that_are_switched_off(inbox: Inbox, program: str, file: str, text: str, reason: str) -> None:
    path = inbox.folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    connect(inbox, program, "--agent", "ada")
    assert _check(inbox, program, _program(inbox, program), "hooks are on") == (False, f"{path}: {reason}")
    path.write_text(
        path.read_text().replace("true", "false", 1).replace('"enabled": false', '"enabled": true').replace('"postroom"]', '"other"]')
    )
    assert _check(inbox, program, _program(inbox, program), "hooks are on")[0]


def test_a_check_writes_nothing(inbox: Inbox) -> None:
    before = files_of(inbox.folder)
    for program in (*PROGRAMS, "generic"):
        assert inbox.run("harness", "connect", program, "--check").code == 20
    assert (files_of(inbox.folder), workspaces_of(inbox)) == (before, [])


def test_a_check_of_a_program_that_is_not_known_runs_the_server_and_the_hook(inbox: Inbox) -> None:
    connect(inbox, "generic", "--agent", "ada")
    checks = connect(inbox, "generic", "--check")["checks"]
    assert [(check["check"], check["ok"], check["detail"]) for check in checks] == [("server", True, "8 tools"), ("hook", True, "exit 0")]


@pytest.mark.parametrize(("program", "flag"), [("gemini", "--hold"), ("codex", "--project"), ("claude", "--user")])
def test_a_check_looks_at_what_was_connected(inbox: Inbox, program: str, flag: str) -> None:
    inbox.ok("harness", "connect", program, flag)
    for argv in (("harness", "connect", program, "--check"), ("harness", "check", program)):
        checks = inbox.run(*argv, "--json").json["checks"]
        assert {check["check"] for check in checks if not check["ok"]} <= {"program", "trust"}


def test_a_round_trip_shows_which_session_was_told_and_when_the_agent_had_read(inbox: Inbox) -> None:
    connect(inbox, "claude", "--agent", "ada")
    assert inbox.run("harness", "check", "codex", "--roundtrip", "--timeout-seconds", "0.1", "--json").json["roundtrip"]["ok"] is False
    inbox.execute(["purge", "--session", "ada"], {}, program="mailbox")
    event = json.dumps({"session_id": "s-1", "cwd": str(inbox.folder), "hook_event_name": "SessionStart"})
    environment = inbox.environment(INBOX_AGENT="ada")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [SCRIPT, "hook", "wait", "--harness", "claude"], cwd=inbox.folder, env=environment, stdin=pipe, stderr=pipe
    ) as waiter:
        assert waiter.stdin is not None
        waiter.stdin.write(event.encode())
        waiter.stdin.close()
        eventually(lambda: [route["probe"] for route in inbox.ok("agent", "show", "ada")["routes"]] == ["waiting now"])
        check = [SCRIPT, "harness", "check", "--roundtrip", "--json", "--timeout-seconds", "30"]
        with subprocess.Popen(check, cwd=inbox.folder, env=environment, stdout=pipe, text=True) as checking:
            assert waiter.wait() == 2
            tool = inbox.run("hook", "tool", "--harness", "claude", stdin=event.encode(), INBOX_AGENT="ada")
            assert (tool.code, tool.stdout) == (0, "")
            with closing(postroom.open(str(inbox.db))) as store:
                assert len(people.read_messages(store, agent="ada")) == 1
            answer = json.loads(checking.communicate()[0])
    trip = answer["roundtrip"]
    assert (trip["ok"], trip["waiting"]) == (True, 1)
    steps = [(step["step"], step["route"], step["session"]) for step in trip["receipts"]]
    assert steps[:3] == [("stored", "", ""), ("offered", "hook", "s-1"), ("injected", "hook", "s-1")]
    assert steps[-1][0] == "seen"
