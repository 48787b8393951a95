"""Make the program of a resident agent from the name that `--with` gives."""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput
from postroom.core.text import shell_quote
from postroom.processes.interpreter import store_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.inbox.residents.resident import Program
    from postroom.cli.inbox.residents.session_plan import ServerCommand

ACP_PREFIX = "acp:"
# Qwen Code would ask its model whether a tool may be used, instead of us.
_ACP_COMMANDS = {"gemini": "gemini --acp", "qwen": "qwen --acp --approval-mode default", "opencode": "opencode acp"}
NAMES = ("claude", "codex", *_ACP_COMMANDS)


def has_sessions(name: str) -> bool:
    """Return whether `--with` names a program with sessions. Everything else is a shell command."""
    return name in NAMES or name.startswith(ACP_PREFIX)


def make_program(name: str, *, environment: dict[str, str], folder: str, server: ServerCommand, approve: bool) -> Program:
    """Return the program with sessions that `--with` names."""
    place = f"cd {shell_quote(folder)} && exec "
    if name == "claude":
        from postroom.cli.inbox.residents.claude import ClaudeProgram

        return ClaudeProgram(environment, folder, server, approve=approve)
    if name == "codex":
        from postroom.cli.inbox.residents.codex import CodexProgram

        return CodexProgram(environment, folder, server, f"{place}codex app-server", approve=approve)
    command = _ACP_COMMANDS.get(name) or name.removeprefix(ACP_PREFIX).strip()
    if not command:
        raise InvalidInput("the command after acp: is empty", field="with", hint="For example: --with acp:'gemini --acp'")
    from postroom.cli.inbox.residents.acp import AcpProgram

    acp_name = name if name in _ACP_COMMANDS else "acp"
    return AcpProgram(acp_name, place + command, environment, folder, server, approve=approve)


def make_environment(location: str, agent: str) -> dict[str, str]:
    """Return the environment of the program: the commands of Postroom need no flags there."""
    return {**os.environ, **store_environment(location), "INBOX_AGENT": agent}
