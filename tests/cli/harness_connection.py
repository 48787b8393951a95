"""Connections of agent programs for tests: settings with entries of their user, and the commands that connect them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.process import Inbox

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


def write_settings(inbox: Inbox, program: str) -> Path:
    """The settings of a program, with entries and comments of its user."""
    path = inbox.folder / SETTINGS[program]
    path.parent.mkdir(exist_ok=True)
    path.write_text(TOML if path.suffix == ".toml" else JSONC)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    own = [path for path in folder.rglob("*") if path.is_file() and not {".agents", ".local"} & set(path.relative_to(folder).parts[:1])]
    return {str(path.relative_to(folder)): path.read_bytes() for path in own}


def connect(inbox: Inbox, program: str, *flags: str) -> dict[str, Any]:
    answer: dict[str, Any] = inbox.ok("harness", "connect", program, *flags)
    return answer


def workspaces_of(inbox: Inbox) -> list[str]:
    return [workspace["agent"] for workspace in inbox.ok("workspace", "list")["workspaces"]]
