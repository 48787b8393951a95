"""Claude Code without a terminal: one process for each turn, which goes on with the session that we named."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

from postroom._fastpath import json_text as jsontext
from postroom.cli.inbox.residents.turns import CANNOT_RUN, Turn, TurnFailed
from postroom.core.ids import new_uuid4
from postroom.core.text import shell_quote
from postroom.processes.child_process import CANNOT_RUN_STATUSES, ChildProcess, last_line
from postroom.processes.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.inbox.residents.session_plan import ServerCommand, SessionPlan

_LOST_SESSION = "No conversation found"  # what it says if a turn was killed before the session was written


class ClaudeProgram:
    """Claude Code. The session's id is chosen and recorded before its first turn, so that a killed turn is continued."""

    name = "claude"

    def __init__(self, environment: dict[str, str], folder: str, server: ServerCommand, *, approve: bool) -> None:
        # Its servers inherit its variables. Written here, they would be in its command line, which other users can read.
        servers = {"mcpServers": {"inbox": {"command": server.command, "args": server.arguments, "alwaysLoad": True}}}
        permission = ["--permission-mode", "bypassPermissions"] if approve else []
        self._words = ["claude", "-p", "--output-format", "json", "--mcp-config", jsontext.dumps(servers)]
        self._words += ["--allowedTools", "mcp__inbox", *permission]
        self._environment = environment
        self._server = server
        self._folder = folder

    def start_turn(self, plan: SessionPlan, wake: WakePipe) -> Turn:
        children: list[ChildProcess] = []

        def send(signal: int) -> None:
            for child in children[-1:]:
                child.send_signal(signal)

        def play(turn: Turn) -> str:
            try:
                turn.mcp_session = new_uuid4()
                return self._play(plan, turn.mcp_session, children)
            finally:
                for child in children:
                    child.close()

        return Turn(play, wake, interrupt=lambda: send(SIGTERM), kill=lambda: send(SIGKILL))

    def _play(self, plan: SessionPlan, mcp_session: str, children: list[ChildProcess]) -> str:
        if plan.session:
            plan.keep(plan.session)
            child = self._run("--resume", plan, mcp_session, children)
            if child.status == 0 or _LOST_SESSION not in child.read_errors() + child.read_output():
                return _read_result(child)
        plan.begin_anew()
        plan.keep(new_uuid4())
        return _read_result(self._run("--session-id", plan, mcp_session, children))

    def _run(self, flag: str, plan: SessionPlan, mcp_session: str, children: list[ChildProcess]) -> ChildProcess:
        line = " ".join(map(shell_quote, [*self._words, flag, plan.session]))
        wake = WakePipe()
        environment = {**self._environment, **self._server.environment_of(mcp_session)}
        child = ChildProcess(f"cd {shell_quote(self._folder)} && exec {line}", environment, plan.prompt, wake)
        children.append(child)
        child.wait(None)
        wake.close()
        return child

    def close(self) -> None:
        """Do nothing: each process ends with its turn."""


def _read_result(child: ChildProcess) -> str:
    """Return the result of a turn. Raises `TurnFailed` with what the program said."""
    output = child.read_output()
    try:
        answer = jsontext.loads(output)
    except ValueError:
        answer = None
    if isinstance(answer, list) and answer:  # all messages of the turn: the result is the last
        answer = answer[-1]
    found = answer if isinstance(answer, dict) else {}
    if child.status == 0 and not found.get("is_error"):
        return str(found.get("result") or "")
    said = str(found.get("result") or "") or child.read_errors() or output
    status = CANNOT_RUN if child.status in CANNOT_RUN_STATUSES else 1
    raise TurnFailed(f"{child.exit_description}: {last_line(said)}", status)
