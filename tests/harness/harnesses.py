"""How each harness is pointed at the fake model and at Postroom: its files, its environment, its command line.

Every harness is told of the MCP server in its own way, over HTTP ("http": the server of the stage) or over its pipes ("stdio": it starts
`inbox mcp` itself). Versions that this was run with are in README.md.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.codex_rpc import AppServer, trust_hooks
from tests.harness.stage import HarnessStage

Json = dict[str, Any]
KEY = "made-up-key"  # no harness starts without one; the fake model never looks
CONNECTED = "connected"  # the transport that `inbox harness connect` configures: stdio, with hooks


class Harness:
    """One harness on a stage. `argv` runs one prompt without a terminal; `env` is what it needs beside the stage's environment."""

    name = ""
    protocol = ""
    is_still_at_rest = True  # its screen; Gemini shows that its turn goes on, while the hook holds it

    def __init__(self, stage: HarnessStage, transport: str = "http") -> None:
        self.stage = stage
        self.transport = transport
        self.set_up()

    def set_up(self) -> None:
        """Write the files."""

    def connect(self, *flags: str) -> None:
        """Connect the harness with the product's own command, on top of settings that know nothing of Postroom."""
        self.transport = CONNECTED
        self.set_up()
        self.stage.inbox("harness", "connect", self.name, *flags)

    @property
    def env(self) -> dict[str, str]:
        return {"INBOX_TOKEN": self.stage.token}

    def argv(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def terminal(self) -> tuple[list[str], str]:
        """The command line for a person's terminal, and what is on the screen when it is ready."""
        raise NotImplementedError

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        """How a first turn is run, how its session is read out of what it prints, and a shell line that goes on with it."""
        raise NotImplementedError

    def call(self, tool: str, **arguments: Any) -> Json:
        """A rule of the fake model's script: call this tool of Postroom."""
        return {"call": {"tool": "*" + tool, "arguments": arguments}}

    def shell(self, command: str) -> Json:
        """A rule: run this in the harness's own shell tool."""
        raise NotImplementedError

    def run(self, prompt: str, seconds: float = 120, **env: str) -> Any:
        return self.stage.run(self.argv(prompt), {**self.env, **env}, seconds)

    @property
    def stdio(self) -> list[str]:
        return ["inbox", "--db", str(self.stage.work / ".agents/coord.db"), "mcp", "--workspace", self.stage.workspace_id]

    def write(self, path: Path, content: str | Json) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path


class Claude(Harness):
    """Claude Code. Without `alwaysLoad` its MCP tools are only names until the model searches for them."""

    name, protocol = "claude", "anthropic"
    always_load = True

    def set_up(self) -> None:
        if self.transport == "http":
            server = dict(self.stage.mcp_json["mcpServers"]["inbox"])
        else:
            server = {"command": self.stdio[0], "args": self.stdio[1:]}
        if self.always_load:
            server["alwaysLoad"] = True
        servers = {} if self.transport == CONNECTED else {"inbox": server}
        self.write(self.stage.work / ".mcp.json", {"mcpServers": servers})
        self.write(
            self.stage.work / ".claude/settings.json",
            {"permissions": {"allow": ["Bash"] if self.transport == CONNECTED else ["mcp__inbox", "Bash"]}},
        )
        trusted = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["inbox"], "hasCompletedProjectOnboarding": True}
        known = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}}
        self.write(self.folder / ".claude.json", {**known, "projects": {str(self.stage.work): trusted}})

    def terminal(self) -> tuple[list[str], str]:
        return ["claude", "--permission-mode", "dontAsk"], "don.t ask"

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        first = ["claude", "-p", "FIRST-TURN", "--output-format", "json"]
        return first, _found(r'"session_id": ?"([^"]+)'), 'claude -p --resume {} --allowedTools mcp__inbox -- "$(cat)"'

    @property
    def folder(self) -> Path:
        return self.stage.home / ".claude"

    @property
    def env(self) -> dict[str, str]:
        quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        model = {"ANTHROPIC_BASE_URL": self.stage.model_url, "ANTHROPIC_API_KEY": KEY}
        return {**super().env, **model, "CLAUDE_CONFIG_DIR": str(self.folder), **quiet}

    def argv(self, prompt: str) -> list[str]:
        return ["claude", "-p", prompt]

    def shell(self, command: str) -> Json:
        return {"call": {"tool": "Bash", "arguments": {"command": command, "description": "as the test says"}}}


class Codex(Harness):
    """Codex. It asks before each tool that does not say of itself that it is harmless, and headless that is a no: hence `approve`."""

    name, protocol = "codex", "responses"
    approve = True
    more = ""

    def set_up(self) -> None:
        if self.transport == "http":
            server = f'url = "{self.stage.mcp_url}"\nbearer_token_env_var = "INBOX_TOKEN"\n'
        else:
            server = f'command = "{self.stdio[0]}"\nargs = {json.dumps(self.stdio[1:])}\n'
        if self.approve:
            server += 'default_tools_approval_mode = "approve"\n'
        provider = f'name = "fake"\nbase_url = "{self.stage.model_url}/v1"\nwire_api = "responses"\nenv_key = "FAKE_KEY"\n'
        text = 'model = "fake-model"\nmodel_provider = "fake"\napproval_policy = "never"\nsandbox_mode = "workspace-write"\n'
        text += f"{self.more}\n[model_providers.fake]\n{provider}\n"
        text += "" if self.transport == CONNECTED else f"[mcp_servers.inbox]\n{server}\n"
        text += f'[projects."{self.stage.work}"]\ntrust_level = "trusted"\n'
        self.write(self.folder / "config.toml", text)

    def connect(self, *flags: str) -> None:
        """Hooks that nobody trusted are passed over, so they are trusted as a person does on the screen /hooks."""
        super().connect(*flags)
        child = self.stage.start(["codex", "app-server"], self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        trust_hooks(AppServer(child), str(self.stage.work))
        self.stage.end(child)

    def terminal(self) -> tuple[list[str], str]:
        return ["codex"], "Ask Codex"

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        first = ["codex", "exec", "--json", "FIRST-TURN"]
        return first, _found(r'"thread_id": ?"([^"]+)'), 'codex exec resume {} "$(cat)"'

    @property
    def folder(self) -> Path:
        return self.stage.home / ".codex"

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "FAKE_KEY": KEY, "CODEX_HOME": str(self.folder)}

    def argv(self, prompt: str) -> list[str]:
        return ["codex", "exec", "--skip-git-repo-check", prompt]

    def shell(self, command: str) -> Json:
        return {"call": {"tool": "exec_command", "arguments": {"cmd": command, "login": False}}}


class OpenCode(Harness):
    """opencode, over chat completions."""

    name, protocol = "opencode", "chat"
    more: Json = {}

    def set_up(self) -> None:
        if self.transport == "http":
            headers = {"Authorization": "Bearer {env:INBOX_TOKEN}"}
            server: Json = {"type": "remote", "url": self.stage.mcp_url, "headers": headers, "enabled": True, "oauth": False}
        else:
            server = {"type": "local", "command": self.stdio, "enabled": True}
        options = {"baseURL": self.stage.model_url + "/v1", "apiKey": KEY}
        model = {"name": "Fake", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options, "models": {"fake-model": model}}
        settings = {"model": "fake/fake-model", "small_model": "fake/fake-model", "share": "disabled", "autoupdate": False}
        whole = {
            "$schema": "https://opencode.ai/config.json",
            **settings,
            "provider": {"fake": provider},
            "mcp": {} if self.transport == CONNECTED else {"inbox": server},
            **self.more,
        }
        self.write(self.stage.work / "opencode.json", whole)

    def terminal(self) -> tuple[list[str], str]:
        return ["opencode"], "commands"

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        first = ["opencode", "run", "--format", "json", "FIRST-TURN"]
        return first, _found(r"(ses_\w+)"), 'opencode run -s {} "$(cat)"'

    @property
    def env(self) -> dict[str, str]:
        quiet = ("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_SHARE")
        return {**super().env, **dict.fromkeys(quiet, "1")}

    def argv(self, prompt: str) -> list[str]:
        return ["opencode", "run", prompt]

    def shell(self, command: str) -> Json:
        return {"call": {"tool": "bash", "arguments": {"command": command, "description": "as the test says"}}}


class Gemini(Harness):
    """Gemini CLI."""

    name, protocol = "gemini", "gemini"
    is_still_at_rest = False
    folder = ".gemini"
    more: Json = {}
    trust = True

    def connect(self, *flags: str) -> None:
        """At rest, it is woken only by a hook that holds the turn open."""
        super().connect("--hold", *flags)

    def terminal(self) -> tuple[list[str], str]:
        return ["gemini", "-m", "gemini-2.5-flash"], "Type your message"

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        first = ["gemini", "-m", "gemini-2.5-flash", "-p", "FIRST-TURN"]
        return first, lambda text: "latest", 'gemini -m gemini-2.5-flash -r {} -p "$(cat)"'

    @property
    def servers(self) -> Json:
        return {} if self.transport == CONNECTED else {"inbox": self.server()}

    def server(self) -> Json:
        if self.transport == "http":
            return {"httpUrl": self.stage.mcp_url, "headers": {"Authorization": "Bearer ${INBOX_TOKEN}"}, "trust": self.trust}
        return {"command": self.stdio[0], "args": self.stdio[1:], "trust": self.trust}

    def set_up(self) -> None:
        auth = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
        quiet = {
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        model = {"model": {"name": "gemini-2.5-flash"}}  # else another model is asked first which model to take
        self.write(self.stage.home / self.folder / "settings.json", {"security": auth, **quiet, **model})
        self.write(self.stage.work / self.folder / "settings.json", {"mcpServers": self.servers, **self.more})

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": self.stage.model_url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def argv(self, prompt: str) -> list[str]:
        return ["gemini", "-m", "gemini-2.5-flash", "-p", prompt]

    def shell(self, command: str) -> Json:
        return {"call": {"tool": "run_shell_command", "arguments": {"command": command}}}


class Qwen(Gemini):
    """Qwen Code, a descendant of Gemini CLI, over chat completions."""

    name, protocol = "qwen", "chat"
    is_still_at_rest = True
    folder = ".qwen"

    def call(self, tool: str, **arguments: Any) -> Json:
        """Its MCP tools are never offered: they are searched, and called through a tool of its own."""
        return {"call": {"tool": "tool_call", "arguments": {"name": "mcp__inbox__" + tool, "arguments": arguments}}}

    def set_up(self) -> None:
        """For the user: servers of a project wait for `qwen mcp approve`."""
        auth = {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}}
        quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}, "telemetry": {"enabled": False}}
        whole = {"security": auth, **quiet, "mcpServers": self.servers, **self.more}
        self.write(self.stage.home / self.folder / "settings.json", whole)

    def connect(self, *flags: str) -> None:
        Harness.connect(self, *flags)
        self.write(self._input, "")

    def terminal(self) -> tuple[list[str], str]:
        return ["qwen", "--input-file", str(self._input)], "Type your message"

    def resume(self) -> tuple[list[str], Callable[[str], str], str]:
        return ["qwen", "-p", "FIRST-TURN", "-o", "json"], _found(r'"session_id": ?"([^"]+)'), 'qwen --resume {} -p "$(cat)"'

    @property
    def _input(self) -> Path:
        return self.stage.folder / "input.jsonl"

    @property
    def env(self) -> dict[str, str]:
        base = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": self.stage.model_url + "/v1", "OPENAI_MODEL": "fake-model"}
        mine = {"INBOX_TOKEN": self.stage.token}
        return {**mine, **base}

    def argv(self, prompt: str) -> list[str]:
        return ["qwen", "-p", prompt]


def _found(pattern: str) -> Callable[[str], str]:
    def find(text: str) -> str:
        match = re.search(pattern, text)
        return match[1] if match else ""

    return find


HARNESSES: dict[str, Callable[..., Harness]] = {one.name: one for one in (Claude, Codex, OpenCode, Gemini, Qwen)}
