"""Programs that speak the Agent Client Protocol: Gemini CLI, Qwen Code, opencode, and others by `--with acp:'COMMAND'`.

One process serves all sessions, so that a turn begins within milliseconds. A session that the process does not know any more, because it
was restarted, is loaded again.
"""

from __future__ import annotations

import re
from threading import Lock

from postroom.cli.inbox.residents.json_rpc import JsonRpcProcess, Rejected
from postroom.cli.inbox.residents.turns import Turn, TurnFailed
from postroom.core.ids import new_uuid4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.inbox.residents.session_plan import ServerCommand, SessionPlan
    from postroom.processes.wake_pipe import WakePipe

PROTOCOL_VERSION = 1
START_SECONDS = 120.0
# The titles of our tools, as programs write them: inbox_read, mcp__inbox__inbox_read, inbox_inbox_read, inbox_read (inbox MCP Server).
_OWN_TOOL_TITLE = re.compile(
    r"(mcp__inbox__|inbox[_.:/])?(inbox_(push|read|ask)|work_(fetch|claim|update|done|send))( \(inbox MCP Server\))?"
)
_KINDS_OF_OTHERS = ("execute", "edit", "delete", "move", "fetch")


class AcpProgram:
    """A program behind the protocol. `server` is the MCP server that each session gets."""

    def __init__(self, name: str, command: str, environment: dict[str, str], folder: str, server: ServerCommand, *, approve: bool) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._folder = folder
        self._server = server
        self._approve = approve
        self._lock = Lock()  # one process, also if two turns begin at once
        self._process: JsonRpcProcess | None = None
        self._mcp_sessions: dict[str, str] = {}  # of the sessions that this process knows: the name of the MCP server of each
        self._turns: dict[str, Turn] = {}  # the running turn of each session
        self._can_load = False

    def start_turn(self, plan: SessionPlan, wake: WakePipe) -> Turn:
        """Begin a turn. It ends with the text that the agent said."""

        def play(turn: Turn) -> str:
            return self._play(plan, turn)

        return Turn(play, wake, interrupt=lambda: self._cancel(plan.session), kill=self.close)

    def _play(self, plan: SessionPlan, turn: Turn) -> str:
        with self._lock:
            process = self._connect()
            session = self._open_session(process, plan)
        plan.keep(session)
        turn.mcp_session = self._mcp_sessions[session]
        self._turns[session] = turn
        try:
            prompt = [{"type": "text", "text": plan.prompt}]
            ended = process.request("session/prompt", {"sessionId": session, "prompt": prompt})
        except Rejected as error:
            raise TurnFailed(str(error)) from None
        finally:
            self._turns.pop(session, None)
        reason = ended.get("stopReason")
        if reason != "end_turn":
            raise TurnFailed(f"the turn ended with {reason}")
        return turn.text

    def _connect(self) -> JsonRpcProcess:
        if self._process is not None and not self._process.is_over:
            return self._process
        self._mcp_sessions.clear()
        self._process = JsonRpcProcess(self._command, self._environment, self)
        files = {"fs": {"readTextFile": False, "writeTextFile": False}}
        known = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": files}
        try:
            found = self._process.request("initialize", known, START_SECONDS)
        except Rejected as error:
            raise TurnFailed(str(error)) from None
        self._can_load = bool((found.get("agentCapabilities") or {}).get("loadSession"))
        return self._process

    def _open_session(self, process: JsonRpcProcess, plan: SessionPlan) -> str:
        """Return the session of a conversation: the known one, loaded again if need be, else a new one."""
        mcp_session = new_uuid4()
        place = {"cwd": self._folder, "mcpServers": [self._describe_server(mcp_session)]}
        if plan.session and plan.session not in self._mcp_sessions and self._can_load:
            try:
                process.request("session/load", {"sessionId": plan.session, **place}, START_SECONDS)
                self._mcp_sessions[plan.session] = mcp_session
            except Rejected:
                pass  # the program has lost it: a new one gets the whole thread
        if plan.session in self._mcp_sessions:
            return plan.session
        plan.begin_anew()
        try:
            session = process.request("session/new", place, START_SECONDS).get("sessionId")
        except Rejected as error:
            raise TurnFailed(f"no session could be opened: {error}") from None
        if not isinstance(session, str) or not session:
            raise TurnFailed("the program opened no session")
        self._mcp_sessions[session] = mcp_session
        return session

    def _describe_server(self, mcp_session: str) -> dict[str, Any]:
        variables = [{"name": name, "value": value} for name, value in self._server.environment_of(mcp_session).items()]
        return {"name": "inbox", "command": self._server.command, "args": self._server.arguments, "env": variables}

    def _cancel(self, session: str) -> None:
        process = self._process
        if process is not None and session in self._turns:
            process.notify("session/cancel", {"sessionId": session})
        else:
            self.close()  # it has not even begun

    # Messages from the program

    def handle_notification(self, method: str, params: dict[str, Any]) -> None:
        """Collect what the agent says. What is said while a session is loaded belongs to no turn."""
        update = params.get("update")
        turn = self._turns.get(str(params.get("sessionId")))
        if method != "session/update" or turn is None or not isinstance(update, dict):
            return
        if update.get("sessionUpdate") == "tool_call":
            turn.text = ""  # what was said before a tool is no result
        content = update.get("content")
        if update.get("sessionUpdate") == "agent_message_chunk" and isinstance(content, dict):
            turn.text += str(content.get("text") or "")

    def answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a request for permission: our own tools are allowed, everything else only if the owner said so.

        What is allowed always goes into the settings of the project, so it is allowed once, each time.
        """
        options = params.get("options")
        if method != "session/request_permission" or not isinstance(options, list):
            return None
        wanted = (
            ("allow_once", "allow_always") if self._approve or _is_own_tool(params.get("toolCall")) else ("reject_once", "reject_always")
        )
        for kind in wanted:
            for option in options:
                if isinstance(option, dict) and option.get("kind") == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()


def _is_own_tool(call: object) -> bool:
    """Return whether a call is one of our tools. Its title must be nothing but the tool's name: a command line could contain that name.

    The title of Qwen Code is the arguments. It names the tool beside it.
    """
    if not isinstance(call, dict) or call.get("kind") in _KINDS_OF_OTHERS:
        return False
    meta = call.get("_meta")
    name = meta.get("toolName") if isinstance(meta, dict) else None
    return _OWN_TOOL_TITLE.fullmatch(str(name or call.get("title", ""))) is not None
