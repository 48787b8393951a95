"""Names of the clients to which the MCP server over stdio hands messages.

A name tells which program started the server and which session of the program made the call, so that the end of a turn confirms what
that session was handed, and nothing that another session of the same agent was handed.
"""

from __future__ import annotations

import os

from postroom.core import ids
from postroom.processes.owning_program import describe_owner, find_owner

SESSION_VARIABLE = "INBOX_MCP_SESSION"  # set by `inbox agent run` for the server of one session
_PROGRAM_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "QWEN_CODE_SESSION_ID")
_OF_PROGRAM, _OF_SESSION = "program", "session"  # whose calls they are: of all sessions of the program, or of one


class StdioClients:
    """The clients of one server over stdio."""

    def __init__(self) -> None:
        self._server = f"stdio:{ids.new_uuid4()}"
        self.owner_pid = find_owner()
        self._owner = describe_owner(self.owner_pid)

    def name_client(self, thread_id: str | None) -> str:
        """Return the name of the client that makes a call. `thread_id` is the session that the call names, if any."""
        if exact := os.environ.get(SESSION_VARIABLE) or thread_id:
            return f"{self._server} {self._owner} {_OF_SESSION} {exact}"
        known = next((os.environ[name] for name in _PROGRAM_VARIABLES if os.environ.get(name)), "")
        return f"{self._server} {self._owner} {_OF_PROGRAM} {known}"


def is_client_of(client: str, *, owner: str, session: str) -> bool:
    """Return whether a client is the session of a program. `owner` is the program, as `describe_owner` returns it.

    A program serves one session after another in a process, and its server keeps the id of the first. So the process counts too, unless
    the calls name their session.
    """
    words = client.split(" ", 3)
    if len(words) != 4:
        return False
    _, its_owner, kind, its_session = words
    is_session = its_session != "" and its_session == session
    return is_session or (kind == _OF_PROGRAM and its_owner == owner)
