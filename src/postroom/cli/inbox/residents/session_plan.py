"""The session of a turn: which one goes on, what it is told, and how it is recorded before the program is prompted."""

from __future__ import annotations

from postroom.people.agents.clients import SESSION_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class SessionPlan:
    """A turn that is about to begin. `session` is the known session of its conversation, or empty.

    `prompt` continues the conversation. A program that has no session, or has lost it, calls `begin_anew`, and is told everything.
    `keep_session` records the session, before the program is prompted.
    """

    def __init__(self, session: str, *, first_prompt: str, next_prompt: str, keep_session: Callable[[str], None]) -> None:
        self.session = session
        self.prompt = next_prompt if session else first_prompt
        self._first_prompt = first_prompt
        self._keep_session = keep_session

    def begin_anew(self) -> None:
        self.prompt = self._first_prompt

    def keep(self, session: str) -> None:
        self.session = session
        self._keep_session(session)


class ServerCommand:
    """The MCP server that each session of a program gets: its command, its arguments, and the variables that name the store.

    The store is not among the arguments: other users of the machine can read them, and its URL may have a password.
    """

    def __init__(self, command: str, arguments: list[str], environment: dict[str, str]) -> None:
        self.command = command
        self.arguments = arguments
        self._environment = environment

    def environment_of(self, mcp_session: str) -> dict[str, str]:
        """Return the variables of the server of one session. By its name, the end of a turn confirms what this server handed over."""
        return {**self._environment, SESSION_VARIABLE: mcp_session}
