"""Codex behind its own server, `codex app-server`: one process serves all sessions, and a turn begins within milliseconds."""

from __future__ import annotations

from threading import Event, Lock

from postroom.cli.inbox.residents.json_rpc import JsonRpcProcess, Rejected
from postroom.cli.inbox.residents.turns import Turn, TurnFailed
from postroom.core.ids import new_uuid4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.inbox.residents.session_plan import ServerCommand, SessionPlan
    from postroom.processes.wake_pipe import WakePipe

START_SECONDS = 120.0
OWNER_CHECK_SECONDS = 1.0


class _RunningTurn:
    """A turn of a session: what the agent said last, and how it ended."""

    def __init__(self) -> None:
        self.turn_id = ""
        self.text = ""
        self.ended = Event()
        self.outcome: dict[str, Any] = {}


class CodexProgram:
    """Codex. Its settings are the user's; the MCP server of Postroom is added to each session."""

    name = "codex"

    def __init__(self, environment: dict[str, str], folder: str, server: ServerCommand, command: str, *, approve: bool) -> None:
        self._command = command
        self._environment = environment
        self._server = server
        self._settings: dict[str, Any] = {"cwd": folder, "approvalPolicy": "never"}
        if approve:
            self._settings["sandbox"] = "danger-full-access"
        self._lock = Lock()
        self._process: JsonRpcProcess | None = None
        self._mcp_sessions: dict[str, str] = {}  # of the sessions that this process knows: the name of the MCP server of each
        self._turns: dict[str, _RunningTurn] = {}

    def start_turn(self, plan: SessionPlan, wake: WakePipe) -> Turn:
        return Turn(lambda turn: self._play(plan, turn), wake, interrupt=lambda: self._interrupt(plan.session), kill=self.close)

    def _play(self, plan: SessionPlan, turn: Turn) -> str:
        with self._lock:
            process = self._connect()
            session = self._open_session(process, plan)
        plan.keep(session)
        turn.mcp_session = self._mcp_sessions[session]
        running = self._turns[session] = _RunningTurn()
        try:
            prompt = [{"type": "text", "text": plan.prompt}]
            started = process.request("turn/start", {"threadId": session, "input": prompt}, START_SECONDS)
            running.turn_id = str((started.get("turn") or {}).get("id") or "")
            while not running.ended.wait(OWNER_CHECK_SECONDS):
                if process.is_over:
                    raise TurnFailed(process.describe_end())
        except Rejected as error:
            raise TurnFailed(str(error)) from None
        finally:
            self._turns.pop(session, None)
        if running.outcome.get("status") != "completed":
            cause = running.outcome.get("error") or {}
            raise TurnFailed(str(cause.get("message") or f"the turn was {running.outcome.get('status')}"))
        return running.text

    def _connect(self) -> JsonRpcProcess:
        if self._process is not None and not self._process.is_over:
            return self._process
        self._mcp_sessions.clear()
        self._process = JsonRpcProcess(self._command, self._environment, self)
        client = {"clientInfo": {"name": "postroom", "title": "Postroom", "version": "0"}}
        try:
            self._process.request("initialize", client, START_SECONDS)
        except Rejected as error:
            raise TurnFailed(str(error)) from None
        self._process.notify("initialized", {})
        return self._process

    def _open_session(self, process: JsonRpcProcess, plan: SessionPlan) -> str:
        if plan.session in self._mcp_sessions:
            return plan.session
        mcp_session = new_uuid4()
        settings = {**self._settings, "config": {"mcp_servers": {"inbox": self._describe_server(mcp_session)}}}
        try:
            if plan.session:
                found = process.request("thread/resume", {"threadId": plan.session, **settings}, START_SECONDS)
                self._mcp_sessions[plan.session] = mcp_session
                return plan.session
        except Rejected:
            pass  # Codex has lost it: a new one gets the whole thread
        plan.begin_anew()
        try:
            found = process.request("thread/start", settings, START_SECONDS)
        except Rejected as error:
            raise TurnFailed(f"no session could be opened: {error}") from None
        session = (found.get("thread") or {}).get("id")
        if not isinstance(session, str) or not session:
            raise TurnFailed("Codex opened no session")
        self._mcp_sessions[session] = mcp_session
        return session

    def _describe_server(self, mcp_session: str) -> dict[str, Any]:
        """Return the settings of the MCP server of one session. Servers of Codex inherit few variables, so they are named."""
        started = {"command": self._server.command, "args": self._server.arguments, "env": self._server.environment_of(mcp_session)}
        return {**started, "required": True, "default_tools_approval_mode": "approve"}

    def _interrupt(self, session: str) -> None:
        running, process = self._turns.get(session), self._process
        if running is not None and process is not None:
            process.notify_request("turn/interrupt", {"threadId": session, "turnId": running.turn_id})
        else:
            self.close()  # it has not even begun

    # Messages from the program

    def handle_notification(self, method: str, params: dict[str, Any]) -> None:
        running = self._turns.get(str(params.get("threadId")))
        if running is None:
            return
        item = params.get("item")
        if method == "item/completed" and isinstance(item, dict) and item.get("type") == "agentMessage":
            running.text = str(item.get("text") or "")
        if method == "turn/completed" and isinstance(params.get("turn"), dict):
            running.outcome = params["turn"]
            running.ended.set()

    def answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a request for approval. Nobody is there to look: what needs one is declined."""
        return {"decision": "decline"} if method.endswith("requestApproval") else None

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
