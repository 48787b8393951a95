"""Workers of `inbox agent run` that go on with the threads of the one before: if that was killed, its leases are taken over at once.

Which threads a resident holds is recorded as its conversations. One resident of an agent runs at a time, so what another one recorded
and still holds is held by one that is gone.
"""

from __future__ import annotations

from postroom.core.errors import NotFound
from postroom.core.states import TERMINAL_STATUSES
from postroom.core.text import sha1_hex
from postroom.people.agents import conversations
from postroom.work import threads
from postroom.work.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.agent_sessions import AgentConversation
    from postroom.core.records.work import Claim, Conversation, Lease
    from postroom.store.interface import Store
    from postroom.work.worker.held_claims import Run, ThreadCommand

PLAIN_COMMAND = "command"  # in the place of a program, in the record of a thread


class AdoptingWorker(Worker):
    """A worker that goes on with what a resident of this agent held when it was killed.

    With `adopt`, no other resident of this agent can run. Without, one on another machine may hold the threads: their leases run out.
    """

    def __init__(self, store: Store, *, adopt: bool, **options: Any) -> None:
        super().__init__(store, **options)
        self._must_adopt = adopt

    def _run_once(self) -> float | None:
        if self._must_adopt:
            self._adopt_threads()
            self._must_adopt = False
        return super()._run_once()

    def _list_conversations(self) -> list[AgentConversation]:
        page = conversations.list_conversations(self._store, agent=self._agent)
        found = list(page.conversations)
        while page.more:
            page = conversations.list_conversations(self._store, agent=self._agent, after=page.after)
            found += page.conversations
        return found

    def _adopt_threads(self) -> None:
        for known in self._list_conversations():
            if known.thread_id == conversations.MAIL_THREAD:
                continue
            try:
                conversation = threads.show(self._store, known.thread_id)
            except NotFound:
                continue
            lease = conversation.lease
            if conversation.thread.status in TERMINAL_STATUSES:
                conversations.end_conversation(self._store, known.thread_id, agent=self._agent)
            elif lease is not None and lease.is_held and lease.agent_id == self._agent and _is_same_lease(known, lease):
                self.adopt_thread(conversation)


class CommandWorker(AdoptingWorker):
    """Runs a plain command for each thread, and records with which lease, so that the next one knows its own from `inbox work`."""

    def start_run(self, claim: Claim, conversation: Conversation, environment: dict[str, str], task: str) -> Run:
        thread_id, mark = claim.thread.thread_id, _mark_of(claim.lease)
        conversations.keep_conversation(self._store, thread_id, agent=self._agent, program=PLAIN_COMMAND, session=mark, turns=0)
        return super().start_run(claim, conversation, environment, task)

    def _finish_thread(self, run: ThreadCommand) -> None:
        super()._finish_thread(run)
        thread_id = run.claim.thread.thread_id
        if threads.show(self._store, thread_id, limit=1).thread.status in TERMINAL_STATUSES:
            conversations.end_conversation(self._store, thread_id, agent=self._agent)


def _is_same_lease(known: AgentConversation, lease: Lease) -> bool:
    return known.program != PLAIN_COMMAND or known.session == _mark_of(lease)


def _mark_of(lease: Lease) -> str:
    """Return what tells one lease of a thread from the next, and is no token."""
    return sha1_hex(lease.lease_token)
