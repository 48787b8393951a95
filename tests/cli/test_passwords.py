"""No command prints the password of a database: neither when it works, nor when it refuses, in text or JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import SCRIPT, Finished, Inbox, eventually
from tests.postgres_server import Postgres
from tests.server.running_server import RunningServer

PASSWORD = "s3cret-pw"
PROGRAMS = ("claude", "codex", "opencode", "gemini", "qwen", "generic")
ACP_AGENT = Path(__file__).parent / "acp_agent.py"
BARE = "postgresql://boss:{}@127.0.0.1:1/none"


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A schema of its own, by a URL with a password in both places. The test server asks for none."""
    with postgres.schema() as plain:
        scheme, _, rest = plain.partition("://")
        user, at, address = rest.partition("@")
        yield f"{scheme}://{user.partition(':')[0] if at else 'postgres'}:{PASSWORD}@{address if at else rest}&password={PASSWORD}"


def said(finished: Finished) -> str:
    return finished.stdout + finished.stderr


def test_init_says_the_url_without_its_password_and_not_a_path(bare: Inbox, url: str) -> None:
    shown = url.replace(f":{PASSWORD}@", "@").removesuffix(f"&password={PASSWORD}")
    assert bare.ok("init", "--db", url)["db"] == shown
    assert bare.says("init", "--db", url) == f"Already there: {shown}\n"


def test_commands_that_work_print_no_password(bare: Inbox, url: str) -> None:
    bare.ok("init", "--db", url)
    bare.ok("init")
    commands = [("doctor", "--db", url), ("sign-in", "--db", url), ("copy", "--from", str(bare.db), "--to", url), ("version", "--db", url)]
    commands += [("workspace", "add", ".", "--label", "x", "--db", url), ("demo", "--db", url), ("mcp", "--workspace", "ws_x", "--db", url)]
    for command in commands:
        for form in ((), ("--json",)):
            assert PASSWORD not in said(bare.run(*command, *form)), command


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_serve_prints_no_password(bare: Inbox, url: str, words: tuple[str, ...]) -> None:
    bare.ok("init", "--db", url)
    server = RunningServer(bare.folder, "--db", url).open(words=words)
    assert server.close() == 0
    assert PASSWORD not in server.out.read_text() + server.log.read_text()


@pytest.mark.parametrize(
    "location",
    [
        *(BARE.format("s3cret"), BARE.format("s3cret%zz"), BARE.format("s3?cret"), BARE.format("s3[cret"), BARE.format("s3/cret")),
        *(f"{BARE.format('x')}?password=s3cret&nonsense=1", f"{BARE.format('x')}?sslpassword=s3cret&connect_timeout=1"),
        *("postgresql:/boss:s3cret@h/db", "http://boss:s3cret@127.0.0.1:1", "ws://boss:s3cret@h", "mysql://boss:s3cret@h/db"),
        *("postgresql://boss:s3cret@127.0.0.1:1/none?schema=NOT", "postgres//boss:s3cret@h/db", "team.db?password=s3cret"),
    ],
)
def test_commands_that_refuse_print_no_password(bare: Inbox, location: str) -> None:
    for command in (("init",), ("list",), ("serve", "--port", "0"), ("copy", "--from", location, "--to", "x.db")):
        finished = bare.run(*command, "--db", location, "--json")
        assert finished.code in (30, 50), finished
        assert finished.json["error"]["hint"]
        assert not [part for part in ("s3", "cret") if part in said(finished)], finished
    assert list(bare.folder.iterdir()) == []


@pytest.mark.parametrize("location", [BARE.format("s3cret"), BARE.format("s3/cret" * 9), f"{BARE.format('x')}?sslpassword=s3cret"])
@pytest.mark.parametrize("words", [(), ("list",), ("show",), ("list", "--status"), ("serve", "--port"), ("workspace", "add")])
def test_a_url_in_a_wrong_place_is_repeated_without_its_password(inbox: Inbox, words: tuple[str, ...], location: str) -> None:
    for form in ((), ("--json",)):
        finished = inbox.run(*words, location, *form)
        assert finished.code in (30, 40), finished
        assert "boss" in said(finished)
        assert "cret" not in said(finished)


@pytest.mark.parametrize("named_by", ["flag", "variable"])
def test_a_program_is_not_connected_by_a_url_with_a_password(bare: Inbox, url: str, named_by: str) -> None:
    bare.ok("init", "--db", url)
    before = sorted(bare.folder.rglob("*"))
    flags, environment = (("--db", url), {}) if named_by == "flag" else ((), {"INBOX_DB": url})
    for program in PROGRAMS:
        for form in ((), ("--json",), ("--project",), ("--plan",), ("--check",)):
            finished = bare.execute(["harness", "connect", program, *flags, *form], environment)
            assert (finished.code, PASSWORD in said(finished), "PGPASSFILE" in said(finished)) == (30, False, True), (program, form)
    assert sorted(bare.folder.rglob("*")) == before
    assert bare.ok("workspace", "list", "--db", url)["workspaces"] == []


def test_a_url_without_a_password_is_written_and_no_folder_is_made_of_it(bare: Inbox, postgres: Postgres) -> None:
    with postgres.schema() as plain:
        bare.ok("init", "--db", plain)
        bare.ok("harness", "connect", "claude", "--db", plain)
        assert json.loads((bare.folder / ".mcp.json").read_text())["mcpServers"]["inbox"]["args"][1:3] == ["--db", plain]
        bare.ok("harness", "connect", "codex", "--db", plain)
        assert "writable_roots" not in (bare.folder / ".codex" / "config.toml").read_text()


def _command_lines(word: str) -> list[str]:
    """The command lines of all processes that contain a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        found += [line] if word in line else []
    return found


@pytest.mark.parametrize("named_by", ["flag", "variable"])
def test_the_process_that_rings_has_no_password_in_its_command_line(bare: Inbox, url: str, named_by: str) -> None:
    hidden = url.replace(PASSWORD, f"hidden-from-{named_by}-of-ringers")
    bare.ok("init", "--db", hidden)
    bare.ok("workspace", "add", ".", "--label", "Stage", "--agent", "ada", "--db", hidden)
    event = json.dumps({"session_id": "s-1", "cwd": str(bare.folder), "hook_event_name": "SessionStart"}).encode()
    flags, environment = (("--db", hidden), {}) if named_by == "flag" else ((), {"INBOX_DB": hidden})
    assert bare.execute(["hook", "start", "--harness", "codex", "--agent", "ada", *flags], environment, stdin=event).code == 0
    eventually(lambda: bool(bare.ok("agent", "show", "ada", "--db", hidden)["routes"]))
    (route,) = bare.ok("agent", "show", "ada", "--db", hidden)["routes"]
    assert "hidden-from" not in Path(f"/proc/{route['pid']}/cmdline").read_text()
    os.kill(route["pid"], signal.SIGKILL)


def test_a_resident_agent_has_no_password_in_any_command_line(bare: Inbox, url: str) -> None:
    hidden = url.replace(PASSWORD, "hidden-from-residents")
    bare.ok("init", "--db", hidden)
    sessions = bare.folder / "sessions"
    sessions.mkdir()
    bare.execute(["enqueue", "--from", "bo", "--to", "ada", "--payload", "hello"], {"INBOX_DB": hidden}, program="mailbox")
    argv = [SCRIPT, "agent", "run", "ada", "--with", f"acp:{sys.executable} {ACP_AGENT} {sessions}"]
    with subprocess.Popen(argv, cwd=bare.folder, env=bare.environment(INBOX_DB=hidden), stdout=subprocess.DEVNULL) as resident:
        eventually(lambda: (sessions / "log").exists() and "read hello" in (sessions / "log").read_text())
        lines = _command_lines("hidden-from-residents")
        resident.terminate()
    assert lines == []


def test_claude_as_a_resident_agent_gets_no_password_in_its_arguments(bare: Inbox, url: str) -> None:
    bare.ok("init", "--db", url)
    program = bare.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {bare.folder}/arguments; env > {bare.folder}/variables; echo "{{}}"\n')
    program.chmod(0o755)
    bare.execute(["enqueue", "--from", "bo", "--to", "ada", "--payload", "hello"], {"INBOX_DB": url}, program="mailbox")
    environment = {"INBOX_DB": url, "PATH": f"{program.parent}:/usr/bin:/bin"}
    bare.execute(["agent", "run", "ada", "--with", "claude", "--until-empty"], environment)
    assert PASSWORD not in (bare.folder / "arguments").read_text()
    assert f"INBOX_DB={url}" in (bare.folder / "variables").read_text()
