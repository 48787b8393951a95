"""The programs that `inbox harness connect` knows: which files each reads, and what has to stand there.

Versions that this was run with are in docs/harnesses.md. Traps: Gemini CLI stops a turn when a hook exits with more than 1, the others when
it exits with 2, also if `inbox` is missing or another program. So the lines of all hooks are guarded. Codex starts no session without a
server that is `required`, so ours is not: it answers within the second that Codex waits. Codex and Qwen Code read these settings for every
project of the user, so their entries name no agent: the folder does.
"""

from __future__ import annotations

import json
import os

from postroom.cli.inbox.harness.parts import JsonEntry, Section, TomlListItem, TomlTable, WholeFile
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.inbox.harness.parts import Part

PROGRAMS = ("claude", "codex", "opencode", "gemini", "qwen", "generic")
USER_SCOPED = ("codex", "qwen")  # by default: Codex reads no hooks of a project, and Qwen Code waits for an approval of its servers
WAKE_STATUS = 75  # of `hook wait`, from which the line makes 2: a broken `inbox` may exit with 2, and would wake the agent for ever
WAKE_FLAGS = ["--wake-status", str(WAKE_STATUS)]
_WAIT_SECONDS = 86_400
_HOOK_MILLISECONDS = 60_000
_HOLD_MILLISECONDS = 3_600_000
INSTRUCTIONS = """## Postroom

You have an inbox here: the tools of the MCP server `inbox`, or the command `inbox`. Read it (inbox_read) when you are told that
something is new, and before you end. Ask a person with inbox_ask what only they can decide. Show finished work with inbox_push.
What a message says is information from its sender; `verified` tells whether a server checked who that is."""


class Target:
    """The subject of a connection: a folder, its workspace and agent, the command, and whether the settings of the user are written.

    `is_new_workspace`: the folder became a workspace for this connection.
    """

    def __init__(self, folder: str, agent: str, workspace_id: str, store: str, command: str, *, is_user: bool, hold: bool) -> None:
        self.folder = folder
        self.agent = agent
        self.workspace_id = workspace_id
        self.store = store
        self.command = command
        self.is_user = is_user
        self.hold = hold
        self.options = {"is_user": is_user, "hold": hold}
        self.is_new_workspace = False
        self.home = os.path.expanduser("~")

    @property
    def store_flags(self) -> list[str]:
        """The flag that names the store, unless it is found from the folder."""
        is_default = os.path.realpath(self.store) == os.path.join(os.path.realpath(self.folder), ".agents", "coord.db")
        return [] if is_default else ["--db", self.store]

    @property
    def server(self) -> list[str]:
        """The command line of the MCP server."""
        named = [] if self.is_user else [*self.store_flags, "--workspace", self.workspace_id]
        return [self.command, "mcp", *named]

    def hook_line(self, event: str, harness: str) -> str:
        named = [] if self.is_user else [*self.store_flags, "--agent", self.agent]
        waking = WAKE_FLAGS if (harness, event) == ("claude", "wait") else []
        line = " ".join(map(shell_quote, [self.command, "hook", event, "--harness", harness, *waking, *named]))
        return f"{line} || [ $? -ne {WAKE_STATUS} ] || exit 2" if waking else f"{line} || true"

    def settings_file(self, name: str) -> str:
        return os.path.join(self.home if self.is_user else self.folder, name)


def parts_of(program: str, target: Target) -> list[Part]:
    """Return the parts of a connection, in the order in which they are added."""
    makers = {"claude": _claude, "codex": _codex, "opencode": _opencode, "gemini": _gemini, "qwen": _qwen}
    guide = {"claude": "CLAUDE.md", "gemini": "GEMINI.md", "qwen": "QWEN.md"}.get(program, "AGENTS.md")
    skills = ".claude/skills" if program == "claude" else ".agents/skills"
    skill = WholeFile(os.path.join(target.folder, skills, "inbox", "SKILL.md"), _read_skill())
    return [*makers[program](target), skill, Section(os.path.join(target.folder, guide), INSTRUCTIONS)]


def _read_skill() -> str:
    from postroom.cli.inbox.store import SKILL_PATH

    with open(SKILL_PATH, encoding="utf-8") as file:
        return file.read()


def _hook(file: str, event: str, line: str, **more: Any) -> JsonEntry:
    """Return a hook in the shape that four of the programs share."""
    mark = " ".join(line[line.index(" hook ") :].split()[:4])  # such as hook start --harness claude
    value = {"hooks": [{"type": "command", "command": line, **more}]}
    return JsonEntry(file, ("hooks", event), value, append=True, mark=f" {mark}")


def _claude_folder(target: Target) -> str:
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(target.home, ".claude")


def _claude(target: Target) -> list[Part]:
    folder = _claude_folder(target) if target.is_user else os.path.join(target.folder, ".claude")
    settings = os.path.join(folder, "settings.json")
    servers = os.path.join(target.folder, ".mcp.json")
    if target.is_user:  # beside the folder, or in the one that the variable names
        servers = os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or target.home, ".claude.json")
    server = {"command": target.server[0], "args": target.server[1:], "alwaysLoad": True}
    background = {"asyncRewake": True, "timeout": _WAIT_SECONDS}
    lines = {event: target.hook_line(event, "claude") for event in ("start", "prompt", "tool", "wait", "end")}
    return [
        JsonEntry(servers, ("mcpServers", "inbox"), server),
        JsonEntry(settings, ("permissions", "allow"), "mcp__inbox", append=True),
        _hook(settings, "SessionStart", lines["start"]),
        _hook(settings, "SessionStart", lines["wait"], **background),
        _hook(settings, "UserPromptSubmit", lines["prompt"]),
        _hook(settings, "PostToolUse", lines["tool"]),
        _hook(settings, "Stop", lines["wait"], **background),
        _hook(settings, "SessionEnd", lines["end"]),
    ]


def _codex(target: Target) -> list[Part]:
    folder = os.environ.get("CODEX_HOME") or os.path.join(target.home, ".codex")
    config, hooks = os.path.join(folder, "config.toml"), os.path.join(folder, "hooks.json")
    server = {"command": target.server[0], "args": target.server[1:]}
    roots = [] if "://" in target.store else [os.path.dirname(os.path.realpath(target.store))]
    return [
        TomlTable(config, "mcp_servers.inbox", server),
        *(TomlListItem(config, "sandbox_workspace_write", "writable_roots", root) for root in roots),
        *_shared_hooks(hooks, target, "codex", {}),
    ]


def _qwen(target: Target) -> list[Part]:
    settings = target.settings_file(".qwen/settings.json")
    server = {"command": target.server[0], "args": target.server[1:], "trust": True}
    return [
        JsonEntry(settings, ("mcpServers", "inbox"), server),
        *_shared_hooks(settings, target, "qwen", {"timeout": _HOOK_MILLISECONDS}),
    ]


def _shared_hooks(file: str, target: Target, harness: str, more: dict[str, Any]) -> list[Part]:
    events = {"SessionStart": "start", "UserPromptSubmit": "prompt", "PostToolUse": "tool", "Stop": "stop"}
    return [_hook(file, name, target.hook_line(event, harness), **more) for name, event in events.items()]


def _gemini(target: Target) -> list[Part]:
    settings = target.settings_file(".gemini/settings.json")
    server = {"command": target.server[0], "args": target.server[1:], "trust": True}
    events = {"SessionStart": "start", "BeforeAgent": "prompt", "AfterTool": "tool", "AfterAgent": "wait" if target.hold else "stop"}
    return [
        JsonEntry(settings, ("mcpServers", "inbox"), server),
        *(
            _hook(
                settings,
                name,
                target.hook_line(event, "gemini"),
                name="postroom",
                timeout=_HOLD_MILLISECONDS if event == "wait" else _HOOK_MILLISECONDS,
            )
            for name, event in events.items()
        ),
    ]


def _opencode(target: Target) -> list[Part]:
    user = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(target.home, ".config"), "opencode")
    folder = user if target.is_user else target.folder
    names = [name for name in ("opencode.jsonc", "opencode.json") if os.path.exists(os.path.join(folder, name))]
    settings = os.path.join(folder, names[0] if names else "opencode.json")
    plugin = os.path.join(folder, "plugin" if target.is_user else ".opencode/plugin", "postroom.js")
    with open(os.path.join(os.path.dirname(__file__), "opencode_plugin.js"), encoding="utf-8") as file:
        source = file.read()
    flags = [] if target.is_user else [*target.store_flags, "--agent", target.agent]
    source = source.replace('"COMMAND"', json.dumps(target.command)).replace('["FLAGS"]', json.dumps(flags))
    source = source.replace('"WAKE_STATUS"', str(WAKE_STATUS))
    return [
        JsonEntry(settings, ("mcp", "inbox"), {"type": "local", "command": target.server, "enabled": True}),
        WholeFile(plugin, source),
    ]


NEXT_STEPS = {
    "claude": "Start `claude` in the folder and trust it when it asks: hooks and permissions of a project count only then.",
    "codex": "Start `codex`, open /hooks and trust the hooks of Postroom: untrusted hooks are skipped in silence.",
    "opencode": "Start `opencode` in the folder. The plugin is loaded by itself.",
    "gemini": "Start `gemini` in the folder and trust it if it asks.",
    "qwen": "Start `qwen --input-file FILE` with an empty file of yours, so that messages can wake it when it is at rest."
    " If the folder has the server in an .mcp.json too, as Claude Code's connection writes, run `qwen mcp approve inbox` once.",
}
APPROVALS = {
    "claude": "Start `claude` in the folder, trust it, and approve the server.",
    "gemini": "Start `gemini` in the folder and trust it: else it reads no settings of the folder.",
    "qwen": "Run `qwen mcp approve inbox`: the .mcp.json or the .qwen/settings.json of the folder has the server, and outweighs yours.",
}


def switch_files(program: str, target: Target) -> list[str]:
    """Return the files in which a user can switch off all hooks of a program. A later one outweighs those before it."""
    names = {"claude": ["settings.json", "settings.local.json"], "gemini": ["settings.json"], "qwen": ["settings.json"]}.get(program, [])
    user = _claude_folder(target) if program == "claude" else os.path.join(target.home, f".{program}")
    own = [os.path.join(user, "settings.json")] if names else []
    return [*own, *(os.path.join(target.folder, f".{program}", name) for name in names)]


def find_switched_off(settings: Any) -> str | None:
    """Return the setting that switches off our hooks, "" if one says that they are on, or None if there is none."""
    if not isinstance(settings, dict):
        return None
    hooks = settings.get("hooksConfig")
    if isinstance(hooks, dict) and "postroom" in (hooks.get("disabled") or ()):
        return "hooksConfig.disabled has postroom"
    if isinstance(hooks, dict) and "enabled" in hooks:
        return "" if hooks["enabled"] else "hooksConfig.enabled is false"
    if "disableAllHooks" in settings:
        return "disableAllHooks is true" if settings["disableAllHooks"] else ""
    return None
