"""Handlers of `hook` and `prime`: tell an agent in another program what waits for it.

A hook only announces. What waits stays until the agent reads it with a tool, so that nothing is lost with a session, and an answer reaches
the agent as the answer of a tool. It announces each message once in a session. Events of subagents are skipped. Whatever goes wrong, the
program is left alone: exit 0. Only `wait` exits with another code, to wake the agent.
"""

from __future__ import annotations

import os

from postroom._fastpath import json_text as jsontext
from postroom._fastpath.imports import import_in_order
from postroom.cli import HOOK_MODULES
from postroom.cli.framework.output import OK, Outcome, write_all
from postroom.cli.inbox import inputs
from postroom.cli.inbox.harness.sessions import HookSession
from postroom.core import limits
from postroom.core.errors import InvalidInput, Missing, Refusal
from postroom.store import is_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.handovers import WaitingItem
    from postroom.store.interface import Store

    Event = dict[str, Any]
    ChooseItems = Callable[[list[WaitingItem]], list[WaitingItem]]

DEFAULT_WAKE_STATUS = 2  # with which a background hook wakes an agent at rest in Claude Code
HARNESSES = ("claude", "codex", "gemini", "qwen", "opencode")
EVENTS = ("start", "prompt", "tool", "stop", "wait", "ring", "end")
_READ_BYTES = 64 * limits.KIB
_EVENT_NAMES = {  # as each program names the event, if its own event does not say
    "start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "tool": "PostToolUse",
    "stop": "Stop",
}


def handle_hook(args: Arguments) -> Outcome:
    """Serve one event. Every failure is reported to the agent at the start of a session, and ignored later."""
    try:
        return Outcome(None, exit_code=Hook(args).serve())
    except Exception as error:  # a hook must never break the program that runs it
        if os.environ.get("POSTROOM_DEBUG"):
            raise
        if args.words and args.words[0] == "start":
            _report_failure(args, error)
        return Outcome(None, exit_code=OK)


def handle_prime(args: Arguments) -> Outcome:
    from postroom.cli.inbox.harness.wording import introduce_agent
    from postroom.people.agents.waiting import list_waiting

    agent = inputs.require_agent(args)
    waiting = list_waiting(inputs.open_store_for(args), agent=agent)
    return Outcome({"agent": agent, "text": f"{introduce_agent(agent, waiting.waiting)}\n"}, view="text")


def _report_failure(args: Arguments, error: Exception) -> None:
    from postroom.cli.inbox.harness.wording import report_unreachable

    reason = str(error) if isinstance(error, Refusal) else type(error).__name__
    _print_context({"hook_event_name": "SessionStart"}, "start", report_unreachable(reason))


def _print_context(event: Event, name: str, text: str) -> None:
    """Print the answer of a hook that adds a text to the agent's context."""
    shown = event.get("hook_event_name") or _EVENT_NAMES.get(name, "")
    write_all(1, jsontext.dumps({"hookSpecificOutput": {"hookEventName": shown, "additionalContext": text}}) + "\n")


class Hook:
    """One run of a hook."""

    def __init__(self, args: Arguments) -> None:
        self.args = args
        self.name = args.words[0] if args.words else ""
        if self.name not in EVENTS or args.harness not in HARNESSES:
            raise InvalidInput("a hook needs an event and a harness", field="harness", hint=f"Events: {', '.join(EVENTS)}.")
        self.harness: str = args.harness
        self.event = _read_event() if args.session is None else {"session_id": args.session}
        if path := os.environ.get("POSTROOM_HOOK_LOG"):
            _log_event(path, {"harness": self.harness, "hook": self.name, "event": self.event})
        self._store: Store | None = None
        self.ring_seconds = 0.0  # until a ring that has to wait may begin
        folder = self.event.get("cwd")
        if isinstance(folder, str) and os.path.isdir(folder):
            os.chdir(folder)  # the store is looked for from the project upward
        self.agent = args.agent or self._agent_of_folder()
        self.session_id = str(self.event.get("session_id") or "-")
        self.session = HookSession(self.agent, str(self.event.get("session_id") or ""))

    def _agent_of_folder(self) -> str:
        """Return the agent of the workspace in which the program runs, or "" if there is none: the user's settings are for all folders."""
        from postroom.people.access.workspaces import find_by_folder

        try:
            workspace = find_by_folder(self.store, os.getcwd())
        except Missing:
            return ""
        return "" if workspace is None else workspace.agent

    def serve(self) -> int:
        if not self.agent or self.event.get("agent_id"):  # a subagent's event: its messages are the main agent's
            return OK
        if self.name not in ("start", "ring", "end") and (rung := self.session.take_rung()):
            self._note_injected(rung)
        serve = {"start": self._start, "prompt": self._prompt, "tool": self._tool, "stop": self._stop, "wait": self._wait}
        serve |= {"ring": self._ring, "end": self._end}
        return serve[self.name]()

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = inputs.open_store_for(self.args, owns_process=True)
            if is_path(self._store.location):
                import_in_order(*HOOK_MODULES, archive="hook")
        return self._store

    def take_new(self, *, use_wake_file: bool = False, choose: ChooseItems | None = None) -> list[WaitingItem]:
        """Return what was not announced in this session yet, without what `choose` leaves out for now.

        With `use_wake_file`, read the store only if the agent's wake file was written.
        """
        return self.session.take_new(self._wake_file_time() if use_wake_file else None, self._list_waiting, choose)

    @property
    def route(self) -> dict[str, str]:
        """The route by which this session is woken, as the verbs of wake routes take it."""
        kind = {"codex": "queue", "qwen": "input"}.get(self.harness, "hook")
        return {"agent": self.agent, "route": kind, "session": self.session_id}

    def register_route(self) -> None:
        """Record that this process waits for the session."""
        from os import uname

        from postroom.people.agents.wake_routes import register_route

        register_route(self.store, **self.route, program=self.harness, host=uname().nodename, pid=os.getpid())

    def choose_to_ring(self, items: list[WaitingItem]) -> list[WaitingItem]:
        """Return the items for which the session may be rung now. They count as offered then. `ring_seconds` is when to ask again."""
        from postroom.people.agents.wake_routes import begin_ring

        permit = begin_ring(self.store, tuple(item.id for item in items), **self.route)
        self.ring_seconds = permit.seconds
        if permit.item_ids:
            self.session.note_rung(permit.item_ids)
        return [item for item in items if item.id in permit.item_ids]

    def _note_injected(self, ids: Iterable[str]) -> None:
        from postroom.people.agents.wake_routes import note_injected

        note_injected(self.store, tuple(ids), **self.route)

    def _list_waiting(self) -> list[WaitingItem]:
        store = self.store  # it imports what the next line needs, faster
        from postroom.people.agents.waiting import list_all_waiting

        return list_all_waiting(store, agent=self.agent)

    def _wake_file_time(self) -> int | None:
        """Return when the agent's wake file was last written, in nanoseconds, or None if the store has no such file."""
        from postroom.store.location import find_location
        from postroom.store.sqlite.wake_files import inbox_wake_file_path

        location = find_location(self.args.db)
        if "://" in location or location.startswith("unix:"):
            return None
        try:
            return os.stat(inbox_wake_file_path(location, self.agent)).st_mtime_ns
        except FileNotFoundError:
            return None

    def announce(self, items: list[WaitingItem]) -> str:
        from postroom.cli.inbox.harness.wording import announce_items

        return announce_items(items)

    @property
    def owner_pid(self) -> int:
        """The program that runs the hook."""
        from postroom.processes.owning_program import find_owner

        return int(self.args.owner or find_owner())

    def confirm(self) -> None:
        """Record that the agent has seen what the tools handed to this session: its turn has ended.

        What no session of this program was handed stays in flight, and comes again.
        """
        from postroom.people.agents.handed_items import list_clients

        if self.store.is_remote:
            return  # its sessions are those of the server, which confirms with their next call
        with self.store.read() as tx:
            clients = list_clients(tx, agent=self.agent)
        if not clients:
            return
        from postroom.people.agents.clients import is_client_of
        from postroom.people.agents.handovers import confirm_handover
        from postroom.processes.owning_program import describe_owner

        owner = describe_owner(self.owner_pid)
        for client in clients:
            if is_client_of(client, owner=owner, session=self.session_id):
                confirm_handover(self.store, agent=self.agent, client=client)

    # The events

    def _start(self) -> int:
        """A session begins: introduce the agent, and leave a ringer behind where a hook cannot wake."""
        from postroom.cli.inbox.harness.sessions import remove_old_sessions
        from postroom.cli.inbox.harness.wording import introduce_agent
        from postroom.core import clock
        from postroom.store.event_log import inbox_topic

        remove_old_sessions(clock.now())
        self.session.set_busy(False)
        self.session.reset_continuations()
        with self.store.watch(inbox_topic(self.agent)):
            pass  # creates the wake file
        items = self._list_waiting()
        self.session.take_new(None, lambda: items)
        _print_context(self.event, "start", introduce_agent(self.agent, items))
        if self.harness in ("codex", "qwen"):
            self._leave_ringer()
        return OK

    def _prompt(self) -> int:
        self.session.set_busy(True)
        self.session.reset_continuations()
        return self._tell(self.take_new())

    def _tool(self) -> int:
        self.session.set_busy(True)
        return self._tell(self.take_new(use_wake_file=True))

    def _tell(self, items: list[WaitingItem]) -> int:
        if items:
            _print_context(self.event, self.name, self.announce(items))
            self._note_injected(item.id for item in items)
        return OK

    def _stop(self) -> int:
        """A turn has ended: if something new waits, let the agent go on, but not for ever."""
        self.session.set_busy(False)
        self.confirm()
        if items := self.take_new(choose=self._choose_to_continue):
            self.session.set_busy(True)
            write_all(1, jsontext.dumps({"decision": "block", "reason": self.announce(items)}) + "\n")
            self._note_injected(item.id for item in items)
        return OK

    def _choose_to_continue(self, items: list[WaitingItem]) -> list[WaitingItem]:
        """Return the items if the turn may go on for them. If not, they count as not announced, and the next prompt announces them."""
        return items if self.session.may_continue() else []

    def _wait(self) -> int:
        """In the background, between turns: sleep until something new waits, then wake the agent by the exit code."""
        from postroom.cli.inbox.harness.ringing import wait_for_new

        if self.event.get("hook_event_name") == "Stop":
            self.session.set_busy(False)
            self.confirm()
        if os.environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli":  # `claude -p` would not end before this hook does
            items = self.take_new(choose=self._choose_to_continue) if self.event.get("hook_event_name") == "Stop" else []
        elif not self.session.become_waiter():
            return OK
        else:
            self.register_route()
            items = wait_for_new(self, self.owner_pid, at_rest=False)
        if not items:
            return OK
        if self.harness == "gemini":  # any exit code above 1 stops its turn
            write_all(1, jsontext.dumps({"decision": "block", "reason": self.announce(items)}) + "\n")
            return OK
        write_all(2, self.announce(items) + "\n")
        return int(self.args.wake_status or DEFAULT_WAKE_STATUS)

    def _leave_ringer(self) -> None:
        from postroom.people.agents.ringer_process import start_ringer

        known = {"harness": self.harness, "agent": self.agent, "session": str(self.event.get("session_id") or "")}
        start_ringer(self.store.location, **known, owner_pid=self.owner_pid)

    def _ring(self) -> int:
        from postroom.cli.inbox.harness.ringing import ring_until_end

        return ring_until_end(self, self.owner_pid)

    def _end(self) -> int:
        from postroom.people.agents.wake_routes import remove_route

        self.session.remove()
        remove_route(self.store, **self.route)
        return OK


def _log_event(path: str, entry: Event) -> None:
    """Append an event to a file, for the person who looks for a fault, and for the tests that play recorded events."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(descriptor, (jsontext.dumps(entry) + "\n").encode(errors="replace"))
    os.close(descriptor)


def _read_event() -> Event:
    """Return the event on standard input, or an empty one: a person may run the command by hand."""
    if os.isatty(0):
        return {}
    data = bytearray()
    while len(data) < limits.MAX_HOOK_EVENT_BYTES and (part := os.read(0, _READ_BYTES)):
        data += part
    try:
        event = jsontext.loads(data.decode(errors="replace"))
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
