"""Threads: opening them, talking in them, reading them."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records import Artifact, Conversation, Listing, Message, Posted, Thread
from postroom.core.states import KINDS, PENDING, PRIORITIES, REPLY_KINDS, STATUSES, TERMINAL
from postroom.core.verbs import verb
from postroom.store.attempts import retried
from postroom.work import leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from postroom.core.records import Attachment, Lease
    from postroom.store.port import Row, Store, Transaction
    from postroom.work.messages import Content


REPLIES = jsontext.dumps(["answer", "control"])


@verb
@retried
def send(
    store: Store,
    *,
    sender: str,
    to: str | None = None,
    subject: str = "",
    summary: str = "",
    thread_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    kind: str = "task",
    body: str = "",
    payload_json: str = "{}",
    priority: str | None = None,
    artifacts: Sequence[Attachment] = (),
) -> Posted:
    """Open a thread for `to`, or say something in the one named by `thread_id`; an unknown id makes that thread.

    Subject and summary each stand in for the other. In a thread that exists, `to` defaults to the other side, and
    `priority` changes the thread's.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, KINDS)
    if priority is not None:
        checks.choice("priority", priority, PRIORITIES)
    checks.text("subject", subject)
    said = messages.content(summary or subject, body, payload_json, artifacts)
    with store.write() as tx:
        row = None if thread_id is None else _named(tx, thread_id)
        if row is None:
            opened = _open(tx, thread_id, sender, to, subject, said, run_id, task_id, priority)
            return messages.post(tx, opened, said, kind=kind, sender=sender, to=opened.assigned_to, event_type="thread.created")
        thread, lease = messages.with_lease(row)
        _same("run", run_id, thread.run_id)
        _same("task", task_id, thread.task_id)
        if priority is not None and priority != thread.priority:
            thread = thread.replace(priority=priority)
            tx.run(tx.sql.thread_prioritise, thread_id=thread.thread_id, priority=priority)
            tx.run(tx.sql.lease_prioritise, thread_id=thread.thread_id, priority=priority)
        return say(tx, thread, lease, said, sender=sender, to=to, kind=kind, event_type="thread.message")


@verb
@retried
def reply(
    store: Store,
    thread_id: str,
    *,
    sender: str,
    to: str | None = None,
    kind: str = "answer",
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
    key: str | None = None,
) -> Posted:
    """Answer inside a thread. A blocked thread stays blocked until its worker, now awake, updates it.

    Who cannot know whether the first try arrived says the same `key` again: the answer that is there is returned.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, REPLY_KINDS)
    said = messages.content(summary, body, payload_json, artifacts)
    if not (said.summary.strip() or said.body.strip() or said.payload_json != "{}" or said.artifacts):
        raise InvalidInput("the reply is empty", field="summary", hint="Say something with --summary, --body or --body-file.")
    with store.write() as tx:
        thread, lease = messages.locked(tx, checks.name("thread", thread_id))
        message_id = None if key is None else _keyed(thread_id, sender, checks.name("key", key))
        before = None if message_id is None else tx.one(tx.sql.message_find, message_id=message_id)
        if before is not None:
            return _said_before(thread, messages.message(tx, before), said)
        return say(tx, thread, lease, said, sender=sender, to=to, kind=kind, event_type="thread.replied", message_id=message_id)


def _keyed(*parts: str) -> str:
    """The id of a message that is said once, however often it is tried."""
    from hashlib import sha256

    return f"msg_{sha256(jsontext.dumps(parts).encode()).hexdigest()[:32]}"


def _said_before(thread: Thread, message: Message, said: Content) -> Posted:
    if (message.summary, message.body, message.payload_json) != (said.summary, said.body, said.payload_json):
        raise InvalidState("that key was used for another reply", hint="A key stands for one reply: choose a new one.")
    return Posted(thread, message, message.event_id)


@verb
def show(store: Store, thread_id: str) -> Conversation:
    """One thread, who holds it, and all that was said."""
    with store.read() as tx:
        thread, lease = messages.found(tx, checks.name("thread", thread_id))
        rows = tx.all(tx.sql.messages_of_thread, thread_id=thread_id)
        artifacts: dict[str, list[Artifact]] = {}
        for row in tx.all(tx.sql.artifacts_of_thread, thread_id=thread_id):
            artifacts.setdefault(row[1], []).append(Artifact(*row))
        latest = tx.one(tx.sql.event_latest)
    said = tuple(Message(*row).replace(artifacts=tuple(artifacts.get(row[0], ()))) for row in rows)
    return Conversation(thread, lease, said, latest[0] if latest else 0)


@verb
def is_answered(store: Store, thread_id: str, *, after_event: int) -> bool:
    """Whether an answer or a word of control came to a thread after an event."""
    checks.event("after-event", after_event)
    with store.read() as tx:
        messages.found(tx, checks.name("thread", thread_id))
        return tx.one(tx.sql.message_after, thread_id=thread_id, after=after_event, kinds=REPLIES) is not None


@verb
@retried
def mark_read(store: Store, thread_id: str, *, agent: str, event_id: int) -> None:
    """Note that an agent has read a thread up to an event. It never goes back."""
    checks.name("agent", agent)
    checks.event("event", event_id)
    with store.write() as tx:
        messages.found(tx, checks.name("thread", thread_id))
        latest = tx.one(tx.sql.event_latest)
        if latest is None or event_id > latest[0]:
            raise InvalidInput(f"event {event_id} has not happened yet", field="event", hint="Nobody can have read it.")
        now = clock.stamp(tx.now())
        tx.run(tx.sql.agent_seen, name=agent, now=now)
        tx.run(tx.sql.read_upto, agent=agent, thread_id=thread_id, event_id=event_id, now=now, door=tx.door)


@verb
def list_threads(
    store: Store,
    *,
    agent: str | None = None,
    statuses: Iterable[str] | None = None,
    created_by: str | None = None,
    assigned_to: str | None = None,
    run_id: str | None = None,
    limit: int = 50,
) -> Listing:
    """Threads, latest activity first. `agent` finds those that it created or that are assigned to it; an empty `run_id`, those without."""
    wanted = STATUSES if statuses is None else checks.choices("status", statuses, STATUSES)
    checks.limit("limit", limit)
    for field, chosen in (("agent", agent), ("run", run_id)):
        if chosen is not None and (created_by is not None or assigned_to is not None):
            raise InvalidInput(f"{field} cannot be combined with created-by or assigned-to", field=field, hint="Leave one of them out.")
    for field, name in (("agent", agent), ("created-by", created_by), ("assigned-to", assigned_to)):
        if name is not None:
            checks.name(field, name)
    if run_id is not None:
        checks.text("run", run_id)
    found: dict[str, Thread] = {}
    with store.read() as tx:
        for status in wanted:
            for row in _of_status(tx, status, agent, created_by, assigned_to, run_id, limit + 1):
                found[row[0]] = Thread(*row)
    newest = sorted(found.values(), key=lambda thread: (thread.updated_at, thread.thread_id), reverse=True)
    return Listing(tuple(newest[:limit]), len(newest) > limit)


def _of_status(
    tx: Transaction, status: str, agent: str | None, created_by: str | None, assigned_to: str | None, run_id: str | None, limit: int
) -> list[Row]:
    """One ordered stream a status, each served by an index: the price does not grow with the table."""
    if run_id is not None:
        return tx.all(tx.sql.threads_of_run_chosen, status=status, run_id=run_id, agent=agent or "", limit=limit)
    if agent is not None:
        return tx.all(tx.sql.threads_created, status=status, created_by=agent, limit=limit) + tx.all(
            tx.sql.threads_assigned, status=status, assigned_to=agent, limit=limit
        )
    if created_by and assigned_to:
        return tx.all(tx.sql.threads_created_assigned, status=status, created_by=created_by, assigned_to=assigned_to, limit=limit)
    if created_by:
        return tx.all(tx.sql.threads_created, status=status, created_by=created_by, limit=limit)
    if assigned_to:
        return tx.all(tx.sql.threads_assigned, status=status, assigned_to=assigned_to, limit=limit)
    return tx.all(tx.sql.threads_any, status=status, limit=limit)


def _named(tx: Transaction, thread_id: str) -> Row | None:
    tx.hold(checks.name("thread", thread_id))
    return tx.one(tx.sql.thread_find, thread_id=thread_id)


def _open(
    tx: Transaction,
    thread_id: str | None,
    sender: str,
    to: str | None,
    subject: str,
    said: Content,
    run_id: str | None,
    task_id: str | None,
    priority: str | None,
) -> Thread:
    checks.name("to", to, hint="A new thread needs --to: who should work on it.")
    if not said.summary.strip():
        raise InvalidInput("a new thread needs a subject or a summary", field="subject", hint="Add --subject TEXT.")
    now = clock.stamp(tx.now())
    thread = Thread(
        thread_id or tx.fresh("thr"),
        checks.text("run", run_id or ""),
        checks.text("task", task_id or ""),
        subject or said.summary,
        sender,
        to or "",
        PENDING,
        priority or "normal",
        None,
        now,
        now,
    )
    tx.run(tx.sql.thread_insert, **dict(thread.items()))
    return thread


def say(
    tx: Transaction,
    thread: Thread,
    lease: Lease | None,
    said: Content,
    *,
    sender: str,
    to: str | None,
    kind: str,
    event_type: str,
    message_id: str | None = None,
) -> Posted:
    """Say something in a thread that is ours to change. Of a holder it is a sign of life."""
    if thread.status in TERMINAL:
        raise leases.ended(thread)
    if lease is not None and lease.held and lease.agent_id == sender:
        leases.extend(tx, lease)
    other = thread.created_by if sender == thread.assigned_to else thread.assigned_to
    addressee = other if to is None else checks.name("to", to)
    return messages.post(tx, thread, said, kind=kind, sender=sender, to=addressee, event_type=event_type, message_id=message_id)


def _same(field: str, given: str | None, stored: str) -> None:
    if given is not None and given != stored:
        raise InvalidInput(
            f"the thread belongs to {field} {stored!r}, not {given!r}", field=field, hint=f"Leave --{field} out, or open a new thread."
        )
