"""`inbox harness connect` adds its entries, leaves every other byte alone, can be repeated, checked, and undone exactly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import people
from postroom.cli.inbox.harness.json_edits import find_value, insert_entry, parse_with_spans, remove_entry
from tests.cli.process import LIMIT, SCRIPT, Finished, Inbox, eventually

PROGRAMS = ("claude", "codex", "opencode", "gemini", "qwen")
SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "opencode": "opencode.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
}
JSONC = """{
  // mine
  "theme": "dark", /* keep */
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]},
  "permissions": {
    "allow": [],
  },
}
"""
TOML = """# mine
model = "o9" # best

[sandbox_workspace_write]
network_access = false # no
"""


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path)
    made.ok("init")
    return made


def _settings(inbox: Inbox, program: str) -> Path:
    """The settings of a program, with entries and comments of its user."""
    path = inbox.folder / SETTINGS[program]
    path.parent.mkdir(exist_ok=True)
    path.write_text(TOML if path.suffix == ".toml" else JSONC)
    return path


def _files(folder: Path) -> dict[str, bytes]:
    own = [path for path in folder.rglob("*") if path.is_file() and not {".agents", ".local"} & set(path.relative_to(folder).parts[:1])]
    return {str(path.relative_to(folder)): path.read_bytes() for path in own}


def _connect(inbox: Inbox, program: str, *flags: str) -> dict[str, Any]:
    answer: dict[str, Any] = inbox.ok("harness", "connect", program, *flags)
    return answer


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_connection_is_planned_written_once_and_undone_to_the_byte(inbox: Inbox, program: str) -> None:
    settings = _settings(inbox, program)
    before = _files(inbox.folder)
    planned = _connect(inbox, program, "--plan", "--agent", "ada")
    assert {step["action"] for step in planned["steps"]} == {"add"}
    assert _files(inbox.folder) == before
    _connect(inbox, program, "--agent", "ada")
    connected = _files(inbox.folder)
    assert set(before) < set(connected)
    _keeps_everything(settings, before[SETTINGS[program]].decode())
    assert {step["action"] for step in _connect(inbox, program)["steps"]} == {"present"}
    assert _files(inbox.folder) == connected
    assert "prw_" not in "".join(map(str, connected.values()))
    _connect(inbox, program, "--undo")
    assert _files(inbox.folder) == before
    assert _connect(inbox, program, "--undo")["files"] == []


def _keeps_everything(path: Path, before: str) -> None:
    """Every line of the user is still there, in its order, and every value as it was."""
    lines = iter(path.read_text())
    assert all(character in lines for character in before)
    if path.suffix == ".toml":
        now, old = tomllib.loads(path.read_text()), tomllib.loads(before)
        assert (now["model"], now["sandbox_workspace_write"]["network_access"]) == (old["model"], False)
    else:
        now = parse_with_spans(path.read_text()).value
        assert now["theme"] == "dark"
        assert "// mine" in path.read_text()
        assert now["hooks"]["Stop"][0] == {"hooks": [{"type": "command", "command": "beep"}]}


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_what_the_user_changed_meanwhile_survives_the_undo(inbox: Inbox, program: str) -> None:
    settings = _settings(inbox, program)
    _connect(inbox, program)
    text = settings.read_text()
    settings.write_text(text.replace('"o9"', '"o10"').replace('"dark"', '"light"'))
    _connect(inbox, program, "--undo")
    assert settings.read_text() == (TOML if program == "codex" else JSONC).replace('"o9"', '"o10"').replace('"dark"', '"light"')


@pytest.mark.parametrize("program", ["claude", "gemini", "qwen"])
@pytest.mark.parametrize(
    "text", ['{"theme": "dark", "hooks": {"Stop": []}}', '{"mcpServers": {"other": {}}, "permissions": {"allow": ["Bash"]}}', None]
)
def test_entries_are_found_in_settings_that_the_program_has_written_anew(inbox: Inbox, program: str, text: str | None) -> None:
    settings = inbox.folder / SETTINGS[program]
    settings.parent.mkdir(exist_ok=True)
    if text is not None:
        settings.write_text(text)
    _connect(inbox, program, "--agent", "ada")
    written = {**json.loads(settings.read_text()), "startups": 1}
    settings.write_text(json.dumps(written, indent="\t"))
    _connect(inbox, program, "--undo")
    assert json.loads(settings.read_text()) == {**json.loads(text or "{}"), "startups": 1}


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": 1,}', '{\n\t"a": {"b": [1, 2,],}, // x\n}', '\ufeff{"a": [] /* "b": 1 */}'])
def test_a_removal_takes_back_an_insertion(text: str) -> None:
    value = parse_with_spans(text).value
    made = insert_entry(insert_entry(text, ("new",), {"x": [1]}), ("list",), 1, append=True)
    made = remove_entry(made, ("new",), {"x": [1]}) or ""
    assert parse_with_spans(made).value == {**value, "list": [1]}
    assert parse_with_spans(remove_entry(made, ("list",), 1, append=True) or "").value == {**value, "list": []}
    assert remove_entry(made, ("list",), 2, append=True) is None
    assert remove_entry(made, ("nowhere", "new"), 2) is None


def test_an_entry_that_was_changed_by_hand_is_reported_and_left_alone(inbox: Inbox) -> None:
    settings = _settings(inbox, "claude")
    _connect(inbox, "claude")
    settings.write_text(settings.read_text().replace("hook tool", "hook tool --verbose"))
    undone = inbox.run("harness", "connect", "claude", "--undo", "--json")
    assert (undone.code, {file["action"] for file in undone.json["files"] if file["file"] == str(settings)}) == (20, {"changed since"})
    assert "--verbose" in settings.read_text()


def test_nothing_is_written_through_a_folder_that_leads_out_of_the_project(inbox: Inbox, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cloned repository may hold such a link, to the settings of the user or to any folder that the user can write."""
    outside = tmp_path_factory.mktemp("outside")
    (inbox.folder / "own").mkdir()
    (inbox.folder / ".claude").symlink_to(outside)
    (inbox.folder / ".gemini").symlink_to("own")
    left = inbox.run("harness", "connect", "claude", "--json")
    assert left.code == 20
    actions = {(step["file"].removeprefix(str(inbox.folder)), step["action"], step.get("reason")) for step in left.json["steps"]}
    assert ("/.claude/settings.json", "left alone", "a folder above it is a link that leads out of the project") in actions
    assert ("/.claude/skills/inbox/SKILL.md", "left alone", "a folder above it is a link that leads out of the project") in actions
    assert list(outside.iterdir()) == []
    inbox.ok("harness", "connect", "gemini")
    assert (inbox.folder / "own" / "settings.json").exists()


@pytest.mark.parametrize(
    ("program", "variable", "files"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", {".claude.json", "settings.json"}),
        ("codex", "CODEX_HOME", {"config.toml", "hooks.json"}),
        ("opencode", "XDG_CONFIG_HOME", {"opencode/opencode.json", "opencode/plugin/postroom.js"}),
    ],
)
def test_settings_of_the_user_are_written_where_the_program_is_told_to_read_them(
    inbox: Inbox, tmp_path_factory: pytest.TempPathFactory, program: str, variable: str, files: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("settings")
    environment = {variable: str(folder)}
    assert inbox.execute(["harness", "connect", program, "--user", "--agent", "ada", "--json"], environment).code == 0
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == files
    assert inbox.execute(["harness", "connect", program, "--undo", "--json"], environment).code == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("fault", ["broken", "read-only", "link", "folder", "another entry", *(["foreign"] if os.getuid() == 0 else [])])
def test_a_file_that_is_not_ours_to_change_is_reported_and_left_alone(inbox: Inbox, fault: str) -> None:
    path = inbox.folder / ".mcp.json"
    path.write_text({"broken": "{", "another entry": '{"mcpServers": {"inbox": {"url": "x"}}}'}.get(fault, "{}"))
    if fault == "read-only":
        path.chmod(0o444)
    elif fault == "link":
        path.rename(inbox.folder / "other.json")
        path.symlink_to(inbox.folder / "other.json")
    elif fault == "foreign":
        os.chown(path, 65534, -1)
    elif fault == "folder":
        path.unlink()
        path.mkdir()
    before = path.read_text() if path.is_file() else ""
    finished = inbox.run("harness", "connect", "claude", "--json")
    [step] = [step for step in finished.json["steps"] if step["file"] == str(path)]
    assert (finished.code, step["action"], bool(step["reason"])) == (20, "left alone", True)
    assert (path.read_text() if path.is_file() else "") == before


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "qwen"])
def test_a_file_in_a_read_only_folder_is_reported_and_left_alone(inbox: Inbox, program: str) -> None:
    settings = _settings(inbox, program)
    inbox.ok("workspace", "add", ".", "--label", "Here", "--agent", "ada")
    before = _files(inbox.folder)
    settings.parent.chmod(0o555)
    refused = inbox.run("harness", "connect", program, "--json", unprivileged=True)
    settings.parent.chmod(0o755)
    assert {step["action"] for step in refused.json["steps"] if step["file"] == str(settings)} == {"left alone"}
    assert (refused.code, settings.read_bytes()) == (20, before[SETTINGS[program]])
    _connect(inbox, program, "--undo")
    assert _files(inbox.folder) == before


def test_an_undo_in_a_read_only_folder_is_reported_and_can_be_repeated(inbox: Inbox) -> None:
    settings = _settings(inbox, "claude")
    before = _files(inbox.folder)
    _connect(inbox, "claude", "--agent", "ada")
    settings.parent.chmod(0o555)
    undone = inbox.run("harness", "connect", "claude", "--undo", "--json", unprivileged=True)
    settings.parent.chmod(0o755)
    actions = {file["file"]: (file["action"], file.get("reason")) for file in undone.json["files"]}
    assert (undone.code, actions[str(settings)]) == (20, ("left alone", f"{settings.parent} cannot be written"))
    _connect(inbox, "claude", "--undo")
    assert _files(inbox.folder) == before


def test_an_undo_after_a_kill_between_the_record_and_the_file_has_nothing_to_restore(inbox: Inbox) -> None:
    settings = _settings(inbox, "claude")
    before = _files(inbox.folder)
    _connect(inbox, "claude", "--agent", "ada")
    settings.write_bytes(before[SETTINGS["claude"]])
    _connect(inbox, "claude", "--undo")
    assert _files(inbox.folder) == before


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("codex", 'mcp_servers = {docs = {command = "docs"}}\n'),
        ("codex", 'mcp_servers.docs = {command = "docs"}\nmcp_servers.inbox.command = "mine"\n'),
        ("codex", "sandbox_workspace_write = {network_access = true}\n"),
        ("gemini", '{"mcpServers": [], "hooks": {"AfterTool": {}}}'),
    ],
)
def test_an_entry_that_would_break_the_file_is_reported_and_left_out(inbox: Inbox, program: str, text: str) -> None:
    settings = _settings(inbox, program)
    settings.write_text(text)
    finished = inbox.run("harness", "connect", program, "--json")
    left = [step for step in finished.json["steps"] if step["action"] == "left alone"]
    assert (finished.code, {step["file"] for step in left}) == (20, {str(settings)})
    now = settings.read_text()
    parsed = tomllib.loads(now) if program == "codex" else parse_with_spans(now).value
    assert parsed.items() >= (tomllib.loads(text) if program == "codex" else {"mcpServers": []}).items()
    assert "--undo" in finished.json["next"]


class _InboxElsewhere(Inbox):
    script = Path(SCRIPT)

    def execute(self, argv: Sequence[str | bytes], environment: dict[str, str], **options: Any) -> Finished:
        assert options.pop("program", "inbox") == "inbox"
        done = subprocess.run(
            [str(self.script), *argv], capture_output=True, cwd=self.folder, env=self.environment(**environment), timeout=LIMIT, check=False
        )
        return Finished(done.returncode, done.stdout, done.stderr)


def _inbox_elsewhere(inbox: Inbox, name: str) -> _InboxElsewhere:
    """The same program at another path, as after an upgrade or a move."""
    made = _InboxElsewhere(inbox.folder)
    made.script = inbox.folder.parent / f"{inbox.folder.name}-{name}" / "inbox"
    made.script.parent.mkdir()
    made.script.write_bytes(Path(SCRIPT).read_bytes())
    made.script.chmod(0o755)
    return made


def _commands(inbox: Inbox) -> list[str]:
    """The lines of all settings that run a hook, a server, or the plugin."""
    texts = [text.decode() for name, text in _files(inbox.folder).items() if name.endswith((".json", ".toml", ".js"))]
    found = [line for text in texts for line in text.splitlines() if "/inbox" in line]
    return [line.strip() for line in found]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("between", ["untouched", "edited"])
def test_a_connection_from_another_path_replaces_the_first(inbox: Inbox, program: str, between: str) -> None:
    settings = _settings(inbox, program)
    before = _files(inbox.folder)
    _connect(inbox, program, "--agent", "ada")
    first = [line for line in _commands(inbox) if SCRIPT in line]
    if between == "edited":
        settings.write_text(settings.read_text().replace('"o9"', '"o10"').replace('"dark"', '"light"'))
        before[SETTINGS[program]] = before[SETTINGS[program]].replace(b'"o9"', b'"o10"').replace(b'"dark"', b'"light"')
    moved = _inbox_elsewhere(inbox, "moved")
    planned = _connect(moved, program, "--plan")
    assert "replace" in {step["action"] for step in planned["steps"]}
    _connect(moved, program)
    second = [line for line in _commands(inbox) if str(moved.script) in line]
    assert (len(second), [line for line in _commands(inbox) if SCRIPT in line]) == (len(first), [])
    assert {step["action"] for step in _connect(moved, program)["steps"]} == {"present"}
    _connect(inbox, program, "--undo")
    assert _files(inbox.folder) == before


def test_a_connection_from_another_path_replaces_that_of_another_folder(inbox: Inbox) -> None:
    settings = _settings(inbox, "codex")
    (inbox.folder / "other").mkdir()
    other = Inbox(inbox.folder / "other")
    other.ok("init")
    _connect(inbox, "codex", "--agent", "ada")
    moved = _inbox_elsewhere(other, "moved")
    moved.served["HOME"] = str(inbox.folder)
    _connect(moved, "codex", "--agent", "bo")
    assert SCRIPT not in settings.read_text() + (settings.parent / "hooks.json").read_text()
    _connect(inbox, "codex", "--undo")
    assert str(moved.script) in settings.read_text()
    _connect(moved, "codex", "--undo")
    assert settings.read_text() == TOML


def test_hooks_of_a_connection_that_is_not_recorded_here_are_not_doubled(inbox: Inbox) -> None:
    _connect(inbox, "claude", "--agent", "ada")
    shutil.rmtree(inbox.folder / ".local" / "state" / "postroom" / "connections")
    before = _files(inbox.folder)
    finished = _inbox_elsewhere(inbox, "moved").run("harness", "connect", "claude", "--json")
    assert finished.code == 20
    assert {step["action"] for step in finished.json["steps"]} == {"left alone", "present"}
    assert _files(inbox.folder) == before


def test_a_check_runs_the_server_and_the_hook_and_names_what_is_missing(inbox: Inbox) -> None:
    environment = {"PATH": f"{_program(inbox, 'claude')}:/usr/bin:/bin"}
    missing = inbox.execute(["harness", "connect", "claude", "--check", "--json"], environment)
    assert (missing.code, {check["check"] for check in missing.json["checks"] if not check["ok"]} >= {"mcpServers.inbox"}) == (20, True)
    inbox.execute(["harness", "connect", "claude"], environment)
    checked = inbox.execute(["harness", "connect", "claude", "--check", "--json"], environment)
    assert [check for check in checked.json["checks"] if not check["ok"]] == []
    assert {"server", "hook", "program"} <= {check["check"] for check in checked.json["checks"]}
    inbox.execute(["harness", "connect", "claude", "--undo"], environment)


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


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_check_asks_the_program_whether_it_starts_the_server(inbox: Inbox, program: str) -> None:
    _connect(inbox, program, "--agent", "ada")
    assert _check(inbox, program, _program(inbox, program), "tools")[0]
    is_ok, detail = _check(inbox, program, _program(inbox, program, LISTED[program][1]), "tools")
    assert not is_ok
    assert detail.startswith(f"{program} says: ")
    is_ok, detail = _check(inbox, program, _program(inbox, program, "No MCP servers configured."), "tools")
    assert (is_ok, "does not show the server" in detail) == (False, True)


def test_a_check_says_how_a_pending_server_is_approved(inbox: Inbox) -> None:
    _connect(inbox, "qwen", "--agent", "ada")
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
    _connect(inbox, program, "--agent", "ada")
    assert _check(inbox, program, _program(inbox, program), "hooks are on") == (False, f"{path}: {reason}")
    path.write_text(
        path.read_text().replace("true", "false", 1).replace('"enabled": false', '"enabled": true').replace('"postroom"]', '"other"]')
    )
    assert _check(inbox, program, _program(inbox, program), "hooks are on")[0]


def test_a_check_writes_nothing(inbox: Inbox) -> None:
    before = _files(inbox.folder)
    for program in (*PROGRAMS, "generic"):
        assert inbox.run("harness", "connect", program, "--check").code == 20
    assert (_files(inbox.folder), _workspaces(inbox)) == (before, [])


def test_a_check_of_a_program_that_is_not_known_runs_the_server_and_the_hook(inbox: Inbox) -> None:
    _connect(inbox, "generic", "--agent", "ada")
    checks = _connect(inbox, "generic", "--check")["checks"]
    assert [(check["check"], check["ok"], check["detail"]) for check in checks] == [("server", True, "8 tools"), ("hook", True, "exit 0")]


@pytest.mark.parametrize(("program", "flag"), [("gemini", "--hold"), ("codex", "--project"), ("claude", "--user")])
def test_a_check_looks_at_what_was_connected(inbox: Inbox, program: str, flag: str) -> None:
    inbox.ok("harness", "connect", program, flag)
    for argv in (("harness", "connect", program, "--check"), ("harness", "check", program)):
        checks = inbox.run(*argv, "--json").json["checks"]
        assert {check["check"] for check in checks if not check["ok"]} <= {"program", "trust"}


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "qwen"])
def test_a_missing_or_foreign_command_stops_no_turn_and_wakes_nobody(inbox: Inbox, program: str) -> None:
    _connect(inbox, program, *(["--hold"] if program == "gemini" else []))
    foreign = inbox.folder / "foreign"  # argparse, and an interpreter that misses its script, exit with 2
    foreign.write_text("#!/bin/sh\nexit 2\n")
    foreign.chmod(0o755)
    lines = [line for line in map(_hook_line, _commands(inbox)) if line]
    assert len(lines) >= 4
    for line in lines:
        for command in ("/nowhere/inbox", str(foreign)):
            moved = line.replace(line.split()[0], command)
            assert subprocess.run(["sh", "-c", moved], capture_output=True, check=False).returncode == 0


def _hook_line(text: str) -> str:
    """The command of a line of settings, if that is a hook."""
    return str(json.loads("{" + text.rstrip(",") + "}")["command"]) if " hook " in text else ""


def test_codex_starts_without_the_server(inbox: Inbox) -> None:
    settings = _settings(inbox, "codex")
    _connect(inbox, "codex")
    assert set(tomllib.loads(settings.read_text())["mcp_servers"]["inbox"]) == {"command", "args"}


@pytest.mark.parametrize(
    "flags", [("nobody",), ("claude", "--plan", "--check"), ("claude", "--user", "--project"), ("claude", "--agent", "other")]
)
def test_bad_input_is_refused_and_changes_nothing(inbox: Inbox, flags: tuple[str, ...]) -> None:
    inbox.ok("workspace", "add", ".", "--label", "Here", "--agent", "ada")
    before = _files(inbox.folder)
    assert inbox.run("harness", "connect", *flags).code == 30
    assert _files(inbox.folder) == before


def test_a_program_that_is_not_known_gets_instructions(inbox: Inbox) -> None:
    text = _connect(inbox, "generic")["text"]
    assert "inbox wait --agent" in text
    assert " mcp --workspace ws_" in text


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": 1,}', '{\n\t"a": {"b": [1, 2,],}, // x\n}', '\ufeff{"a": [] /* "b": 1 */}'])
def test_an_insertion_keeps_the_text_before_and_after_it(text: str) -> None:
    made = insert_entry(text, ("new", "inner"), {"x": [1]})
    assert find_value(made, ("new", "inner")) == {"x": [1]}
    start = next((text[:at] for at in range(len(text), -1, -1) if made.startswith(text[:at])), "")
    assert text[len(start) :] == made[len(made) - (len(text) - len(start)) :]
    again = insert_entry(made, ("new", "list"), 1, append=True)
    assert find_value(insert_entry(again, ("new", "list"), 2, append=True), ("new", "list")) == [1, 2]


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', '{"a": 1 "b": 2}', "[1", "/* open", "{} x", '{"a": {]}', "[" * 200])
def test_a_broken_file_is_refused_with_the_position(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_with_spans(text)


@pytest.mark.parametrize("order", [("codex", "gemini"), ("gemini", "codex")])
def test_what_two_programs_share_stays_until_the_second_is_undone(inbox: Inbox, order: tuple[str, str]) -> None:
    before = _files(inbox.folder)
    for program in ("codex", "gemini"):
        _connect(inbox, program, *(["--agent", "ada"] if program == "codex" else []))
    skill = inbox.folder / ".agents/skills/inbox/SKILL.md"
    undone = _connect(inbox, order[0], "--undo")
    expected = "kept" if order[0] == "codex" else None  # Gemini found the skill of Codex
    assert {file["file"]: file["action"] for file in undone["files"]}.get(str(skill)) == expected
    assert {step["action"] for step in _connect(inbox, order[1], "--plan")["steps"]} == {"present"}
    _connect(inbox, order[1], "--undo")
    assert not skill.exists()
    assert _files(inbox.folder) == before


def test_settings_of_the_user_stay_for_the_other_folders(inbox: Inbox) -> None:
    settings = _settings(inbox, "codex")
    (inbox.folder / "other").mkdir()
    other = Inbox(inbox.folder / "other")
    other.served["HOME"] = str(inbox.folder)
    other.ok("init")
    for place in (inbox, other):
        _connect(place, "codex", "--agent", place.folder.name)
    _connect(inbox, "codex", "--undo")
    assert {step["action"] for step in _connect(other, "codex", "--plan")["steps"]} == {"present"}
    _connect(other, "codex", "--undo")
    assert settings.read_text() == TOML


def _workspaces(inbox: Inbox) -> list[str]:
    return [workspace["agent"] for workspace in inbox.ok("workspace", "list")["workspaces"]]


def test_an_undo_removes_the_workspace_that_the_connection_added(inbox: Inbox) -> None:
    _connect(inbox, "claude", "--agent", "ada")
    _connect(inbox, "gemini")
    undone = _connect(inbox, "claude", "--undo")
    assert (undone["workspace"]["action"], _workspaces(inbox)) == ("kept", ["ada"])
    undone = _connect(inbox, "gemini", "--undo")
    assert (undone["workspace"]["action"], _workspaces(inbox)) == ("removed", [])


def test_a_workspace_that_is_used_or_was_there_before_survives_the_undo(inbox: Inbox) -> None:
    _connect(inbox, "claude", "--agent", "ada")
    inbox.ok("push", "--agent", "ada", "--comments", "Look")
    undone = _connect(inbox, "claude", "--undo")
    assert (undone["workspace"]["action"], undone["workspace"]["reason"]) == ("kept", "it has entries")
    assert _workspaces(inbox) == ["ada"]
    _connect(inbox, "claude")
    undone = _connect(inbox, "claude", "--undo")
    assert ("workspace" in undone, _workspaces(inbox)) == (False, ["ada"])


def test_an_undo_without_its_store_restores_the_files_and_says_that_the_workspace_stays(inbox: Inbox) -> None:
    before = _files(inbox.folder)
    _connect(inbox, "claude", "--agent", "ada")
    inbox.db.write_bytes(b"no database")
    undone = inbox.run("harness", "connect", "claude", "--undo")
    assert (undone.code, " of this folder stays: " in undone.stdout) == (0, True)
    assert _files(inbox.folder) == before


def test_a_round_trip_shows_which_session_was_told_and_when_the_agent_had_read(inbox: Inbox) -> None:
    _connect(inbox, "claude", "--agent", "ada")
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
