"""Receivers: tell the sender of a thread that its receiver was never seen, or that the thread stays with another agent."""

from __future__ import annotations

from postroom.core.errors import NotFound
from postroom.core.states import PENDING
from postroom.core.text import shell_quote
from postroom.store.tables import NEWEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.work import Thread
    from postroom.store.interface import Transaction


class ReceiverCheck:
    """Looks up the receivers of one transaction, each name once. `strict` refuses names that were never seen."""

    def __init__(self, tx: Transaction, *, strict: bool = False) -> None:
        self._tx = tx
        self._strict = strict
        self._notes: dict[str, str] = {}

    def note_for(self, name: str, *, opened_threads: int = 0) -> str:
        """Return a note if the name was never seen, else an empty text. Refuses with `NotFound` if the check is strict.

        A name that resembles no other is pointed out only with its first pending thread. `opened_threads` is the number of pending threads
        that the caller has just opened for the name.
        """
        if name not in self._notes:
            self._notes[name] = self._look_up(name, opened_threads)
        return self._notes[name]

    def _look_up(self, name: str, opened_threads: int) -> str:
        if self._tx.fetch_one(self._tx.sql.agent_find, name=name) is not None:
            return ""
        note, similar = f"nobody called {name} has been seen", self._find_similar(name)
        if self._strict:
            hint = f"Did you mean {similar}?" if similar else "See `inbox agent list`; `inbox agent add` makes a name known."
            raise NotFound(note, hint=hint, name=name)
        if similar:
            return f"{note}; did you mean {similar}?"
        is_known_to_wait = self._count_pending(name, limit=opened_threads + 1) > opened_threads
        return "" if is_known_to_wait else f"{note}; the thread waits for that name"

    def _count_pending(self, name: str, *, limit: int) -> int:
        return len(self._tx.fetch_all(self._tx.sql.threads_assigned, status=PENDING, assigned_to=name, limit=limit, **NEWEST))

    def _find_similar(self, name: str) -> str | None:
        from postroom.core.similar_names import MAX_COMPARED_NAMES, find_similar

        return find_similar(name, [agent.name for agent in self._tx.fetch_all(self._tx.sql.agents_all, limit=MAX_COMPARED_NAMES, after="")])


def assignment_note(thread: Thread, to: str | None, sender: str) -> str:
    """Return a note if a message to another agent leaves a pending thread with its assignee, else an empty text."""
    if to in (None, thread.assigned_to, thread.created_by) or thread.status != PENDING:
        return ""
    names = f"--agent {shell_quote(sender)} --thread {shell_quote(thread.thread_id)} --to {shell_quote(str(to))}"
    return f"the thread stays assigned to {thread.assigned_to}; `inbox reassign {names}` gives it to {to}"
