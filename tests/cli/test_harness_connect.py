"""`inbox harness connect` adds its entries, leaves every other byte alone, can be repeated, and undone exactly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from postroom.cli.inbox.harness.json_edits import parse_with_spans
from tests.cli.harness_connection import JSONC, PROGRAMS, SETTINGS, TOML, connect, files_of, workspaces_of, write_settings
from tests.cli.process import LIMIT, SCRIPT, Finished, Inbox


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_connection_is_planned_written_once_and_undone_to_the_byte(inbox: Inbox, program: str) -> None:
    settings = write_settings(inbox, program)
    before = files_of(inbox.folder)
    planned = connect(inbox, program, "--plan", "--agent", "ada")
    assert {step["action"] for step in planned["steps"]} == {"add"}
    assert files_of(inbox.folder) == before
    connect(inbox, program, "--agent", "ada")
    connected = files_of(inbox.folder)
    assert set(before) < set(connected)
    _keeps_everything(settings, before[SETTINGS[program]].decode())
    assert {step["action"] for step in connect(inbox, program)["steps"]} == {"present"}
    assert files_of(inbox.folder) == connected
    assert "prw_" not in "".join(map(str, connected.values()))
    connect(inbox, program, "--undo")
    assert files_of(inbox.folder) == before
    assert connect(inbox, program, "--undo")["files"] == []


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
    settings = write_settings(inbox, program)
    connect(inbox, program)
    text = settings.read_text()
    settings.write_text(text.replace('"o9"', '"o10"').replace('"dark"', '"light"'))
    connect(inbox, program, "--undo")
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
    connect(inbox, program, "--agent", "ada")
    written = {**json.loads(settings.read_text()), "startups": 1}
    settings.write_text(json.dumps(written, indent="\t"))
    connect(inbox, program, "--undo")
    assert json.loads(settings.read_text()) == {**json.loads(text or "{}"), "startups": 1}


def test_an_entry_that_was_changed_by_hand_is_reported_and_left_alone(inbox: Inbox) -> None:
    settings = write_settings(inbox, "claude")
    connect(inbox, "claude")
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
    settings = write_settings(inbox, program)
    inbox.ok("workspace", "add", ".", "--label", "Here", "--agent", "ada")
    before = files_of(inbox.folder)
    settings.parent.chmod(0o555)
    refused = inbox.run("harness", "connect", program, "--json", unprivileged=True)
    settings.parent.chmod(0o755)
    assert {step["action"] for step in refused.json["steps"] if step["file"] == str(settings)} == {"left alone"}
    assert (refused.code, settings.read_bytes()) == (20, before[SETTINGS[program]])
    connect(inbox, program, "--undo")
    assert files_of(inbox.folder) == before


def test_an_undo_in_a_read_only_folder_is_reported_and_can_be_repeated(inbox: Inbox) -> None:
    settings = write_settings(inbox, "claude")
    before = files_of(inbox.folder)
    connect(inbox, "claude", "--agent", "ada")
    settings.parent.chmod(0o555)
    undone = inbox.run("harness", "connect", "claude", "--undo", "--json", unprivileged=True)
    settings.parent.chmod(0o755)
    actions = {file["file"]: (file["action"], file.get("reason")) for file in undone.json["files"]}
    assert (undone.code, actions[str(settings)]) == (20, ("left alone", f"{settings.parent} cannot be written"))
    connect(inbox, "claude", "--undo")
    assert files_of(inbox.folder) == before


def test_an_undo_after_a_kill_between_the_record_and_the_file_has_nothing_to_restore(inbox: Inbox) -> None:
    settings = write_settings(inbox, "claude")
    before = files_of(inbox.folder)
    connect(inbox, "claude", "--agent", "ada")
    settings.write_bytes(before[SETTINGS["claude"]])
    connect(inbox, "claude", "--undo")
    assert files_of(inbox.folder) == before


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
    settings = write_settings(inbox, program)
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
    texts = [text.decode() for name, text in files_of(inbox.folder).items() if name.endswith((".json", ".toml", ".js"))]
    found = [line for text in texts for line in text.splitlines() if "/inbox" in line]
    return [line.strip() for line in found]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("between", ["untouched", "edited"])
def test_a_connection_from_another_path_replaces_the_first(inbox: Inbox, program: str, between: str) -> None:
    settings = write_settings(inbox, program)
    before = files_of(inbox.folder)
    connect(inbox, program, "--agent", "ada")
    first = [line for line in _commands(inbox) if SCRIPT in line]
    if between == "edited":
        settings.write_text(settings.read_text().replace('"o9"', '"o10"').replace('"dark"', '"light"'))
        before[SETTINGS[program]] = before[SETTINGS[program]].replace(b'"o9"', b'"o10"').replace(b'"dark"', b'"light"')
    moved = _inbox_elsewhere(inbox, "moved")
    planned = connect(moved, program, "--plan")
    assert "replace" in {step["action"] for step in planned["steps"]}
    connect(moved, program)
    second = [line for line in _commands(inbox) if str(moved.script) in line]
    assert (len(second), [line for line in _commands(inbox) if SCRIPT in line]) == (len(first), [])
    assert {step["action"] for step in connect(moved, program)["steps"]} == {"present"}
    connect(inbox, program, "--undo")
    assert files_of(inbox.folder) == before


def test_a_connection_from_another_path_replaces_that_of_another_folder(inbox: Inbox) -> None:
    settings = write_settings(inbox, "codex")
    (inbox.folder / "other").mkdir()
    other = Inbox(inbox.folder / "other")
    other.ok("init")
    connect(inbox, "codex", "--agent", "ada")
    moved = _inbox_elsewhere(other, "moved")
    moved.served["HOME"] = str(inbox.folder)
    connect(moved, "codex", "--agent", "bo")
    assert SCRIPT not in settings.read_text() + (settings.parent / "hooks.json").read_text()
    connect(inbox, "codex", "--undo")
    assert str(moved.script) in settings.read_text()
    connect(moved, "codex", "--undo")
    assert settings.read_text() == TOML


def test_hooks_of_a_connection_that_is_not_recorded_here_are_not_doubled(inbox: Inbox) -> None:
    connect(inbox, "claude", "--agent", "ada")
    shutil.rmtree(inbox.folder / ".local" / "state" / "postroom" / "connections")
    before = files_of(inbox.folder)
    finished = _inbox_elsewhere(inbox, "moved").run("harness", "connect", "claude", "--json")
    assert finished.code == 20
    assert {step["action"] for step in finished.json["steps"]} == {"left alone", "present"}
    assert files_of(inbox.folder) == before


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "qwen"])
def test_a_missing_or_foreign_command_stops_no_turn_and_wakes_nobody(inbox: Inbox, program: str) -> None:
    connect(inbox, program, *(["--hold"] if program == "gemini" else []))
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
    settings = write_settings(inbox, "codex")
    connect(inbox, "codex")
    assert set(tomllib.loads(settings.read_text())["mcp_servers"]["inbox"]) == {"command", "args"}


@pytest.mark.parametrize(
    "flags", [("nobody",), ("claude", "--plan", "--check"), ("claude", "--user", "--project"), ("claude", "--agent", "other")]
)
def test_bad_input_is_refused_and_changes_nothing(inbox: Inbox, flags: tuple[str, ...]) -> None:
    inbox.ok("workspace", "add", ".", "--label", "Here", "--agent", "ada")
    before = files_of(inbox.folder)
    assert inbox.run("harness", "connect", *flags).code == 30
    assert files_of(inbox.folder) == before


def test_a_program_that_is_not_known_gets_instructions(inbox: Inbox) -> None:
    text = connect(inbox, "generic")["text"]
    assert "inbox wait --agent" in text
    assert " mcp --workspace ws_" in text


@pytest.mark.parametrize("order", [("codex", "gemini"), ("gemini", "codex")])
def test_what_two_programs_share_stays_until_the_second_is_undone(inbox: Inbox, order: tuple[str, str]) -> None:
    before = files_of(inbox.folder)
    for program in ("codex", "gemini"):
        connect(inbox, program, *(["--agent", "ada"] if program == "codex" else []))
    skill = inbox.folder / ".agents/skills/inbox/SKILL.md"
    undone = connect(inbox, order[0], "--undo")
    expected = "kept" if order[0] == "codex" else None  # Gemini found the skill of Codex
    assert {file["file"]: file["action"] for file in undone["files"]}.get(str(skill)) == expected
    assert {step["action"] for step in connect(inbox, order[1], "--plan")["steps"]} == {"present"}
    connect(inbox, order[1], "--undo")
    assert not skill.exists()
    assert files_of(inbox.folder) == before


def test_settings_of_the_user_stay_for_the_other_folders(inbox: Inbox) -> None:
    settings = write_settings(inbox, "codex")
    (inbox.folder / "other").mkdir()
    other = Inbox(inbox.folder / "other")
    other.served["HOME"] = str(inbox.folder)
    other.ok("init")
    for place in (inbox, other):
        connect(place, "codex", "--agent", place.folder.name)
    connect(inbox, "codex", "--undo")
    assert {step["action"] for step in connect(other, "codex", "--plan")["steps"]} == {"present"}
    connect(other, "codex", "--undo")
    assert settings.read_text() == TOML


def test_an_undo_removes_the_workspace_that_the_connection_added(inbox: Inbox) -> None:
    connect(inbox, "claude", "--agent", "ada")
    connect(inbox, "gemini")
    undone = connect(inbox, "claude", "--undo")
    assert (undone["workspace"]["action"], workspaces_of(inbox)) == ("kept", ["ada"])
    undone = connect(inbox, "gemini", "--undo")
    assert (undone["workspace"]["action"], workspaces_of(inbox)) == ("removed", [])


def test_a_workspace_that_is_used_or_was_there_before_survives_the_undo(inbox: Inbox) -> None:
    connect(inbox, "claude", "--agent", "ada")
    inbox.ok("push", "--agent", "ada", "--comments", "Look")
    undone = connect(inbox, "claude", "--undo")
    assert (undone["workspace"]["action"], undone["workspace"]["reason"]) == ("kept", "it has entries")
    assert workspaces_of(inbox) == ["ada"]
    connect(inbox, "claude")
    undone = connect(inbox, "claude", "--undo")
    assert ("workspace" in undone, workspaces_of(inbox)) == (False, ["ada"])


def test_an_undo_without_its_store_restores_the_files_and_says_that_the_workspace_stays(inbox: Inbox) -> None:
    before = files_of(inbox.folder)
    connect(inbox, "claude", "--agent", "ada")
    inbox.db.write_bytes(b"no database")
    undone = inbox.run("harness", "connect", "claude", "--undo")
    assert (undone.code, " of this folder stays: " in undone.stdout) == (0, True)
    assert files_of(inbox.folder) == before
