"""The conversations of resident agents: which session of a program works on which thread, so that it goes on there after a restart."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.records.agent_sessions import AgentConversation, ConversationPage
from postroom.core.verbs import OWN_NAME, OWN_VIEW, READ, WRITE, verb
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store

MAIL_THREAD = ""  # in the place of a thread's id: the conversation in which an agent reads its mail
_NO_THREAD = " "  # no thread has this id


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def list_conversations(store: Store, *, agent: str, limit: int = 1000, after: str | None = None) -> ConversationPage:
    """List the conversations of an agent, by thread. `after` is the cursor of a page."""
    checks.name("agent", agent)
    checks.limit("limit", limit)
    place = {"start": "", "after": _NO_THREAD} if after is None else dict.fromkeys(("start", "after"), _check_thread(after))
    with store.read() as tx:
        found = tx.fetch_all(tx.sql.conversations_of, agent=agent, **place, limit=limit + 1)
    more = len(found) > limit
    return ConversationPage(tuple(found[:limit]), more, found[limit - 1].thread_id if more else None)


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def find_conversation(store: Store, thread_id: str, *, agent: str) -> AgentConversation | None:
    """Return the conversation of an agent about a thread, or None."""
    checks.name("agent", agent)
    with store.read() as tx:
        return tx.fetch_one(tx.sql.conversation_find, agent=agent, thread_id=_check_thread(thread_id))


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def keep_conversation(
    store: Store, thread_id: str, *, agent: str, program: str, session: str, turns: int, prompted_event_id: int = 0
) -> AgentConversation:
    """Record the session of a program before it is prompted, so that a restart finds it. Replaces what was recorded for the thread."""
    checks.name("agent", agent)
    checks.line("program", program)
    checks.line("session", session)
    checks.event_id("turns", turns)
    checks.event_id("prompted_event_id", prompted_event_id)
    with store.write() as tx:
        now = clock.format_stamp(tx.now())
        kept = AgentConversation(agent, _check_thread(thread_id), program, session, turns, prompted_event_id, now)
        tx.execute(tx.sql.conversation_put, **dict(kept.items()))
        return kept


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def end_conversation(store: Store, thread_id: str, *, agent: str) -> None:
    """Forget the conversation of an agent about a thread. Does nothing if there is none."""
    checks.name("agent", agent)
    with store.write() as tx:
        tx.execute(tx.sql.conversation_delete, agent=agent, thread_id=_check_thread(thread_id))


def _check_thread(thread_id: str) -> str:
    return thread_id if thread_id == MAIL_THREAD else checks.name("thread", thread_id)
