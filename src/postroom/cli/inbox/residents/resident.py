"""A resident agent: the worker of `inbox work` with turns of a program in the place of commands, and a turn for mail that arrives.

Each thread has a session of the program, recorded before the program is prompted. If the resident is killed, its program is killed with
it. The next one of the same agent goes on: it takes over the leases of the one before and continues its sessions. Mail is announced and
not taken: the agent reads it with its tools, so that what a killed turn had not read waits for the next one.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.cli.inbox.harness.wording import announce_items, introduce_agent
from postroom.cli.inbox.residents.adopting import AdoptingWorker
from postroom.cli.inbox.residents.prompts import continue_thread, introduce_thread
from postroom.cli.inbox.residents.session_plan import SessionPlan
from postroom.cli.inbox.residents.turns import Turn, TurnFailed
from postroom.core.states import TERMINAL_STATUSES
from postroom.people.agents import conversations, handed_items, handovers, route_order, wake_routes
from postroom.people.agents.clients import is_client_of
from postroom.people.agents.waiting import list_all_waiting
from postroom.processes.child_process import GRACE_SECONDS
from postroom.store.event_log import inbox_topic
from postroom.work import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from postroom.core.records.agent_sessions import AgentConversation
    from postroom.core.records.handovers import WaitingItem
    from postroom.core.records.work import Claim, Conversation
    from postroom.processes.wake_pipe import WakePipe
    from postroom.store.interface import Store
    from postroom.work.worker.held_claims import Run, ThreadCommand

    ReportMail = Callable[[str, str], None]

    class Program(Protocol):
        @property
        def name(self) -> str: ...

        def start_turn(self, plan: SessionPlan, wake: WakePipe) -> Turn: ...

        def close(self) -> None: ...


class ResidentWorker(AdoptingWorker):
    """Runs an agent in a program. `max_turns` bounds the turns about one thread. After as many, the mail begins a new session.

    `open_store` opens the store once more, for the threads in which turns run.
    """

    def __init__(
        self,
        store: Store,
        program: Program,
        *,
        agent: str,
        max_turns: int,
        open_store: Callable[[], Store],
        report_mail: ReportMail | None = None,
        **options: Any,
    ) -> None:
        super().__init__(store, agent=agent, command=program.name, **options)
        self._program = program
        self._max_turns = max_turns
        self._open_store = open_store
        self._report_mail = report_mail or (lambda step, text: None)
        self._mail = _MailState()
        self._route = {"agent": agent, "route": route_order.RESIDENT, "session": "resident"}
        self._is_registered = False

    @property
    def topics(self) -> tuple[str, ...]:
        return (*super().topics, inbox_topic(self._agent))

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._mail.turn is None

    def _run_once(self) -> float | None:
        if not self._is_registered:
            wake_routes.register_route(self._store, **self._route, program=self._program.name, host=os.uname().nodename, pid=os.getpid())
            self._is_registered = True
        due = super()._run_once()
        waits = [seconds for seconds in (due, self._serve_mail()) if seconds is not None]
        return min(waits, default=None)

    # Threads

    def start_run(self, claim: Claim, conversation: Conversation, environment: dict[str, str], task: str) -> Run:
        known = self._find_conversation(claim.thread.thread_id)
        turns = 0 if known is None else known.turns
        if turns >= self._max_turns:
            return _FailedTurn(f"the limit of {self._max_turns} turns is reached", self._wake)
        first = introduce_thread(self._agent, conversation)
        return self._program.start_turn(
            SessionPlan(
                "" if known is None else known.session,
                first_prompt=first,
                next_prompt=first if known is None else self._continue(known, conversation),
                keep_session=self._make_keeper(claim.thread.thread_id, turns + 1, conversation.next_event_id),
            ),
            self._wake,
        )

    def _find_conversation(self, thread_id: str) -> AgentConversation | None:
        """Return the conversation about a thread, unless another program has it."""
        known = conversations.find_conversation(self._store, thread_id, agent=self._agent)
        return known if known is not None and known.program == self._program.name else None

    def _continue(self, known: AgentConversation, conversation: Conversation) -> str:
        own = [message for message in conversation.messages if message.from_agent == self._agent]
        was_interrupted = not any(message.event_id > known.prompted_event_id for message in own if message.kind == "question")
        return continue_thread(self._agent, conversation, known.prompted_event_id, was_interrupted=was_interrupted)

    def _make_keeper(self, thread_id: str, turns: int, event_id: int) -> Callable[[str], None]:
        def keep_session(session: str) -> None:
            store = self._open_store()  # this runs in the thread of the turn
            try:
                known = {"program": self._program.name, "session": session, "turns": turns, "prompted_event_id": event_id}
                conversations.keep_conversation(store, thread_id, agent=self._agent, **known)  # type: ignore[arg-type]
            finally:
                store.close()

        return keep_session

    def _finish_thread(self, run: ThreadCommand) -> None:
        """End or park the thread of a turn, record that the agent has read it, and forget a session that is not needed any more."""
        thread_id = run.claim.thread.thread_id
        if run.child.status == 0:
            self._confirm_turn(run.child)
        super()._finish_thread(run)
        known = self._find_conversation(thread_id)
        if known is None:
            return
        has_ended = threads.show(self._store, thread_id, limit=1).thread.status in TERMINAL_STATUSES
        if has_ended or run.child.status == 0:
            threads.mark_read(self._store, thread_id, agent=self._agent, event_id=known.prompted_event_id)
        if has_ended:
            conversations.end_conversation(self._store, thread_id, agent=self._agent)

    def _confirm_turn(self, turn: Run) -> None:
        """Record that the agent has seen what the tools handed to the session of a turn. Other sessions confirm for themselves."""
        with self._store.read() as tx:
            clients = handed_items.list_clients(tx, agent=self._agent)
        session = turn.mcp_session if isinstance(turn, Turn) else ""
        for client in clients:
            if is_client_of(client, owner="", session=session):
                handovers.confirm_handover(self._store, agent=self._agent, client=client)

    # Mail

    def _serve_mail(self) -> float | None:
        """End the turn for mail, or begin one for what is new. Returns the seconds until this is due again, or None."""
        mail = self._mail
        if mail.turn is not None:
            if not mail.turn.has_ended:
                return self._limit_mail_turn(mail.turn)
            self._end_mail_turn(mail.turn)
        if self._stopping:
            return None
        waiting = [item for item in self._list_mail() if item.event_id not in mail.announced]
        if waiting:
            permit = wake_routes.begin_ring(self._store, tuple(item.id for item in waiting), **self._route)
            if not permit.item_ids:
                return permit.seconds or None
            self._begin_mail_turn([item for item in waiting if item.id in permit.item_ids])
        return mail.seconds_left(self._timeout_seconds)

    def _list_mail(self) -> list[WaitingItem]:
        """Return what waits beside the work: threads that the worker takes or holds are told of by their own turns."""
        held = {held.claim.thread.thread_id for held in (*self._running, *self._parked, *self._pausing)}
        waiting = list_all_waiting(self._store, agent=self._agent)
        return [item for item in waiting if item.kind != "thread" and item.thread_id not in held]

    def _begin_mail_turn(self, items: list[WaitingItem]) -> None:
        known = self._find_conversation(conversations.MAIL_THREAD)
        is_fresh = known is None or known.turns >= self._max_turns
        news = announce_items(items)
        plan = SessionPlan(
            "" if known is None or is_fresh else known.session,
            first_prompt=introduce_agent(self._agent, items),
            next_prompt=news,
            keep_session=self._make_keeper(conversations.MAIL_THREAD, 1 if known is None or is_fresh else known.turns + 1, 0),
        )
        self._mail.begin(self._program.start_turn(plan, self._wake), items)
        self._report_mail("rang", news)

    def _end_mail_turn(self, turn: Turn) -> None:
        mail = self._mail
        mail.turn = None
        turn.close()
        if turn.status == 0:
            self._confirm_turn(turn)
            mail.failures = 0
            wake_routes.note_injected(self._store, tuple(mail.rung_ids), **self._route)
            wake_routes.end_ring(self._store, **self._route)
            self._report_mail("ended", turn.read_output())
            return
        mail.failures += 1
        wake_routes.end_ring(self._store, **self._route, failure=turn.read_errors()[:300])
        mail.announced.difference_update(mail.rung)
        is_off = mail.failures >= wake_routes.MAX_FAILURES
        self._report_mail("off" if is_off else "failed", f"{turn.read_errors()}" + (f" ({mail.failures} times in a row)" if is_off else ""))

    def _limit_mail_turn(self, turn: Turn) -> float | None:
        left = self._mail.seconds_left(self._timeout_seconds)
        if turn.kill_at is not None:
            if monotonic() >= turn.kill_at:
                turn.send_signal(SIGKILL)
            return max(turn.kill_at - monotonic(), 0)
        if left is not None and left <= 0:
            turn.send_signal(SIGTERM)
            return GRACE_SECONDS
        return left

    def _release_all(self) -> None:
        """End the turns, give their threads back, and end the program."""
        turn = self._mail.turn
        if turn is not None:
            turn.send_signal(SIGTERM)
        for run in self._running:
            run.child.send_signal(SIGTERM)
        if turn is not None and not turn.wait(GRACE_SECONDS):
            turn.send_signal(SIGKILL)
            turn.wait(GRACE_SECONDS)
        super()._release_all()
        self._program.close()
        wake_routes.remove_route(self._store, **self._route)


class _MailState:
    """The turn for mail that runs, what was announced, and the failures in a row."""

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self.began_at = 0.0
        self.announced: set[int] = set()
        self.rung: set[int] = set()
        self.rung_ids: list[str] = []
        self.failures = 0

    def begin(self, turn: Turn, items: list[WaitingItem]) -> None:
        self.turn, self.began_at = turn, monotonic()
        self.rung = {item.event_id for item in items}
        self.rung_ids = [item.id for item in items]
        self.announced |= self.rung

    def seconds_left(self, timeout_seconds: float) -> float | None:
        """Return how long the turn may still run, or None without a turn or a limit."""
        return self.began_at + timeout_seconds - monotonic() if self.turn is not None and timeout_seconds else None


class _FailedTurn(Turn):
    """A turn that is not begun."""

    def __init__(self, reason: str, wake: WakePipe) -> None:
        def play(turn: Turn) -> str:
            raise TurnFailed(reason)

        super().__init__(play, wake, interrupt=lambda: None, kill=lambda: None)
