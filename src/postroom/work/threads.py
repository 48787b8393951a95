"""Threads: open them, post in them and read them."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.work import Conversation, Message, PostedMessage, Thread
from postroom.core.states import KINDS, PENDING, PRIORITIES, REPLY_KINDS, TERMINAL_STATUSES
from postroom.core.verbs import ANY_AGENT, READ, THREAD_SEEN, THREAD_SPEAK, WRITE, verb
from postroom.store import removed
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention
from postroom.work import leases, messages, receivers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.core.records.work import Attachment, HeldThread, Lease
    from postroom.store.interface import Store, Transaction
    from postroom.work.messages import Content


SHORTENED = "Pruning removed the beginning of this thread, which ended long ago, and will remove the rest."
ANSWER_KINDS_JSON = jsontext.dumps(["answer", "control"])


@verb(caller="sender", access=THREAD_SPEAK, mode=WRITE)
@retry_on_contention
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
    payload: dict[str, Any] | None = None,
    priority: str | None = None,
    artifacts: Sequence[Attachment] = (),
    key: str | None = None,
    strict: bool = False,
) -> PostedMessage:
    """Open a thread for `to`, or post in the thread `thread_id`. If that thread does not exist, it is opened with this id.

    An empty subject defaults to the summary, and an empty summary to the subject. In an existing thread, `to` defaults
    to the other side, `priority` changes the thread's priority, and an answer settles a question as that of `reply` does. `key`
    makes retries safe: a second send with the same key returns the first one and posts nothing. Refuses with `InvalidState` a
    key of another message, or once the thread has ended.
    The note says if nobody called `to` was ever seen, which `strict` refuses with `NotFound`.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, KINDS)
    if priority is not None:
        checks.choice("priority", priority, PRIORITIES)
    checks.line("subject", subject)
    content = messages.check_content(summary or subject, body, payload_json, artifacts, payload)
    message_id = None if key is None else message_id_for_send(sender, key)
    with store.write() as tx:
        before = find_repeated_send(tx, message_id, content, thread_id=thread_id, to=to, kind=kind)
        if before is not None:
            return before
        check = receivers.ReceiverCheck(tx, strict=strict)
        known = None if thread_id is None else _lock_if_exists(tx, thread_id)
        if known is None:
            opened = _create_thread(tx, thread_id, sender, to, subject, content, run_id, task_id, priority)
            return _post_first(tx, opened, content, kind, message_id, check)
        _check_unchanged("run", run_id, known.thread.run_id)
        _check_unchanged("task", task_id, known.thread.task_id)
        thread = _set_priority(tx, known.thread, priority)
        question = _question_for(tx, thread, kind=kind, sender=sender, to=to, question_id=None)
        place: dict[str, Any] = {"event_type": "thread.message", "message_id": message_id, "question": question}
        posted = post_in_thread(tx, thread, known.lease, content, sender=sender, to=to, kind=kind, **place)
        return posted.replace(note=receivers.assignment_note(thread, to, sender) or ("" if to is None else check.note_for(to)))


def _set_priority(tx: Transaction, thread: Thread, priority: str | None) -> Thread:
    if priority in (None, thread.priority):
        return thread
    tx.execute(tx.sql.thread_prioritise, thread_id=thread.thread_id, priority=priority)
    tx.execute(tx.sql.lease_prioritise, thread_id=thread.thread_id, priority=priority)
    return thread.replace(priority=priority)


def open_noted_thread(
    tx: Transaction,
    check: receivers.ReceiverCheck,
    content: Content,
    *,
    sender: str,
    to: str | None,
    subject: str,
    kind: str,
    priority: str | None,
    thread_id: str,
    run_id: str | None,
    task_id: str | None,
    message_id: str | None = None,
) -> PostedMessage:
    """Open a thread with this new id in this transaction, with a note about its receiver. The caller has checked the content."""
    opened = _create_thread(tx, thread_id, sender, to, subject, content, run_id, task_id, priority)
    return _post_first(tx, opened, content, kind, message_id, check)


@verb(caller="sender", access=THREAD_SPEAK, mode=WRITE)
@retry_on_contention
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
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
    key: str | None = None,
    question: str | None = None,
) -> PostedMessage:
    """Post an answer in a thread. A blocked thread stays blocked until its worker, which this wakes, updates it.

    An answer settles one open question, and wakes only its asker. `question` is its id. Without it, the answer settles the only
    open question that the sender may settle: a person any question, an agent those that were put to it. If there is none, the
    answer is a remark, and `note` says by whom the latest question was answered. Refuses with `AmbiguousQuestion` if there are
    several, with `QuestionClosed`, or with `Forbidden`.

    `key` makes retries safe: a second reply with the same key returns the first one and posts nothing. Refuses with
    `InvalidInput` an empty reply, and with `InvalidState` a key of another reply, or once the thread has ended.
    """
    _check_reply(sender, to, kind, question)
    content = messages.check_content(summary, body, payload_json, artifacts, payload)
    if not (content.summary.strip() or content.body.strip() or content.payload_json != "{}" or content.artifacts):
        raise InvalidInput("the reply is empty", field="summary", hint="Say something with --summary, --body or --body-file.")
    with store.write() as tx:
        thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
        message_id = None if key is None else _message_id_for_key(thread_id, sender, checks.name("key", key))
        before = _find_keyed_message(tx, message_id)
        if before is not None:
            return _repeated_reply(thread, messages.load_artifacts(tx, before), content, question)
        settled = _question_for(tx, thread, kind=kind, sender=sender, to=to, question_id=question)
        note = _note_on_remark(tx, thread_id, sender=sender, to=to) if kind == "answer" and settled is None else ""
        sides: dict[str, Any] = {"sender": sender, "to": to, "message_id": message_id, "question": settled}
        posted = post_in_thread(tx, thread, lease, content, kind=kind, event_type="thread.replied", **sides)
        return posted.replace(note=note) if note else posted


def _note_on_remark(tx: Transaction, thread_id: str, *, sender: str, to: str | None) -> str:
    """Say that an answer settles nothing if the latest question, which its sender may have meant, was answered before."""
    asked = tx.fetch_one(tx.sql.question_latest, thread_id=thread_id, agent=to or "")
    answer = None if asked is None else tx.fetch_one(tx.sql.message_in_reply_to, message_id=asked.message_id)
    if asked is None or answer is None or asked.from_agent == sender:
        return ""
    return (
        f"{asked.message_id} was already answered by {answer.from_agent} ({answer.message_id});"
        " this was stored as a remark, which settles nothing"
    )


def _check_reply(sender: str, to: str | None, kind: str, question: str | None) -> None:
    """Refuse with `InvalidInput` a reply that fits no thread."""
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, REPLY_KINDS)
    if to is not None:
        checks.name("to", to)
    if question is not None and kind != "answer":
        raise InvalidInput("only an answer settles a question", field="question", hint="Leave out the kind, or the question.")


def _question_for(tx: Transaction, thread: Thread, *, kind: str, sender: str, to: str | None, question_id: str | None) -> Message | None:
    """Return the question that a message settles. Only answers settle one, and only in a thread that goes on."""
    if kind != "answer" or thread.status in TERMINAL_STATUSES:
        return None
    from postroom.work import questions  # `send` seldom needs it

    return questions.find_question_to_settle(tx, thread.thread_id, sender=sender, to=to, question_id=question_id)


def message_id_for_send(sender: str, key: str) -> str:
    """Return the id of the message that a sender sends with a key. Refuses with `InvalidInput` a key that is no name."""
    return _message_id_for_key("send", sender, checks.name("key", key))


def _message_id_for_key(*parts: str) -> str:
    """Derive a message id from an idempotency key, so that a retry gets the same id."""
    from hashlib import sha256

    return f"msg_{sha256(jsontext.dumps(parts).encode()).hexdigest()[:32]}"


def _find_keyed_message(tx: Transaction, message_id: str | None) -> Message | None:
    """Return the message that was posted with the same key, or None. Refuses with `InvalidState` if it has been removed."""
    before = None if message_id is None else tx.fetch_one(tx.sql.message_find, message_id=message_id)
    if before is None:
        removed.check_new(tx, removed.MESSAGE, message_id)
    return before


def find_repeated_send(
    tx: Transaction, message_id: str | None, content: Content, *, thread_id: str | None = None, to: str | None, kind: str
) -> PostedMessage | None:
    """Return what was sent with the same key, or None. Refuses with `InvalidState` if its thread, receiver, kind or content differs."""
    message = _find_keyed_message(tx, message_id)
    if message is None:
        return None
    given = (thread_id or message.thread_id, to or message.to_agent, kind)
    if given != (message.thread_id, message.to_agent, message.kind):
        raise InvalidState("that key was used for another message", hint="A key stands for one message: choose a new one.")
    thread, _ = messages.get_thread(tx, message.thread_id)
    return _repeated_reply(thread, messages.load_artifacts(tx, message), content)


def _repeated_reply(thread: Thread, message: Message, content: Content, question_id: str | None = None) -> PostedMessage:
    """Return the reply that was posted with the same key. Refuses with `InvalidState` if its content or its question differs."""
    is_other = (message.summary, message.body, message.payload_json) != (content.summary, content.body, content.payload_json)
    if is_other or question_id not in (None, message.in_reply_to):
        raise InvalidState("that key was used for another message", hint="A key stands for one message: choose a new one.")
    return PostedMessage(thread, message, message.event_id)


@verb(caller=ANY_AGENT, access=THREAD_SEEN, mode=READ)
def show(
    store: Store,
    thread_id: str,
    *,
    limit: int = limits.MAX_PAGE_MESSAGES,
    before_event: int | None = None,
    after_event: int | None = None,
    max_characters: int = limits.MAX_PAGE_CHARS,
) -> Conversation:
    """Read a thread, its lease, and one page of its messages.

    Without a cursor, returns the newest page and the message that opened the thread. `before_event` reads the page before an
    event, `after_event` the page after one. A page ends at `limit` messages or at `max_characters`. A longer message is a page
    by itself. Refuses with `NotFound`.
    """
    checks.limit("limit", limit)
    _check_cursors(before_event, after_event)
    if not isinstance(max_characters, int) or not 1 <= max_characters <= limits.MAX_PAGE_CHARS:
        raise InvalidInput(f"max-characters must be from 1 to {limits.MAX_PAGE_CHARS}", field="max-characters")
    with store.read() as tx:
        thread, lease = messages.get_thread(tx, checks.name("thread", thread_id))
        page = messages.read_page(
            tx, thread_id, limit=limit, max_characters=max_characters, before_event=before_event, after_event=after_event
        )
        latest = tx.fetch_one(tx.sql.event_latest)
        is_shortened = thread.status in TERMINAL_STATUSES and removed.is_removed(tx, removed.THREAD, thread_id)
        conversation = Conversation(thread, lease, page.messages, latest or 0, note=SHORTENED if is_shortened else "")
        if not page.messages:
            return conversation
        if after_event is not None:
            last = page.messages[-1]
            later = last.message_id != thread.latest_message_id
            return conversation.replace(more=later, next_after_event=last.event_id if later else None)
        first = page.messages[0].event_id
        if first == page.first_event_id:
            return conversation
        opening = messages.read_message_at(tx, thread_id, page.first_event_id) if before_event is None else None
        return conversation.replace(more=True, next_before_event=first, first_message=opening)


def _check_cursors(before_event: int | None, after_event: int | None) -> None:
    for field, cursor in (("before-event", before_event), ("after-event", after_event)):
        if cursor is not None:
            checks.event_id(field, cursor)
    if before_event is not None and after_event is not None:
        raise InvalidInput("before-event and after-event exclude each other", field="before-event", hint="Leave one of them out.")


@verb(caller=ANY_AGENT, access=THREAD_SEEN, mode=READ)
def is_answered(store: Store, thread_id: str, *, after_event: int) -> bool:
    """Return whether a thread has an answer or a control message after an event.

    If the event is that of a question, only its answer counts, and a control message to its asker.
    """
    from postroom.work import questions

    checks.event_id("after-event", after_event)
    with store.read() as tx:
        messages.get_thread(tx, checks.name("thread", thread_id))
        span: dict[str, Any] = {"agent": None, "after": after_event}
        question = questions.find_waited_question(tx, thread_id, **span)
        return questions.find_reply(tx, thread_id, kinds_json=ANSWER_KINDS_JSON, question=question, **span) is not None


@verb(caller="agent", access=THREAD_SEEN, mode=WRITE)
@retry_on_contention
def mark_read(store: Store, thread_id: str, *, agent: str, event_id: int) -> None:
    """Record that an agent has read a thread up to an event. An earlier event than the recorded one changes nothing."""
    checks.name("agent", agent)
    checks.event_id("event", event_id)
    with store.write() as tx:
        messages.get_thread(tx, checks.name("thread", thread_id))
        if event_id > (tx.fetch_one(tx.sql.event_newest) or 0):
            raise InvalidInput(f"event {event_id} has not happened yet", field="event", hint="Nobody can have read it.")
        write_read_mark(tx, thread_id, agent=agent, event_id=event_id)


def write_read_mark(tx: Transaction, thread_id: str, *, agent: str, event_id: int) -> None:
    """Record in this transaction that an agent has read a thread up to an event. The transaction's part of `mark_read`."""
    now = clock.format_stamp(tx.now())
    note_seen(tx, "agent", agent)
    tx.execute(tx.sql.read_upto, agent=agent, thread_id=thread_id, event_id=event_id, now=now, door=tx.door)


def _lock_if_exists(tx: Transaction, thread_id: str) -> HeldThread | None:
    """Lock a thread id, and return its thread and lease, or None if there is no such thread. Refuses one that has been removed."""
    tx.lock_thread(checks.name("thread", thread_id))
    found = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
    if found is None:
        removed.check_new(tx, removed.THREAD, thread_id)
    return found


def open_thread(tx: Transaction, content: Content, *, sender: str, to: str, task_id: str, priority: str, door: str) -> PostedMessage:
    """Open a thread of work for a task in this transaction. `door` is that by which the task came, whoever opens the thread."""
    thread = _create_thread(tx, None, sender, to, content.summary, content, None, task_id, priority)
    return messages.post(tx, thread, content, kind="task", event_type="thread.created", sender=sender, to=to, door=door)


def _post_first(
    tx: Transaction,
    thread: Thread,
    content: Content,
    kind: str,
    message_id: str | None = None,
    check: receivers.ReceiverCheck | None = None,
) -> PostedMessage:
    sides = {"sender": thread.created_by, "to": thread.assigned_to}
    note = "" if check is None or thread.assigned_to == thread.created_by else check.note_for(thread.assigned_to, opened_threads=1)
    return messages.post(tx, thread, content, kind=kind, event_type="thread.created", message_id=message_id, **sides).replace(note=note)


def _create_thread(
    tx: Transaction,
    thread_id: str | None,
    sender: str,
    to: str | None,
    subject: str,
    content: Content,
    run_id: str | None,
    task_id: str | None,
    priority: str | None,
) -> Thread:
    checks.name("to", to, hint="A new thread needs --to: who should work on it.")
    if not content.summary.strip():
        raise InvalidInput("a new thread needs a subject or a summary", field="subject", hint="Add --subject TEXT.")
    now = clock.format_stamp(tx.now())
    thread = Thread(
        thread_id or tx.new_id("thr"),
        checks.indexed("run", run_id or ""),
        checks.indexed("task", task_id or ""),
        subject or content.summary,
        sender,
        to or "",
        PENDING,
        priority or "normal",
        "",  # NULL would stand for a thread that another program inserted
        now,
        now,
    )
    tx.execute(tx.sql.thread_insert, **dict(thread.items()))
    return thread


def post_in_thread(
    tx: Transaction,
    thread: Thread,
    lease: Lease | None,
    content: Content,
    *,
    sender: str,
    to: str | None,
    kind: str,
    event_type: str,
    message_id: str | None = None,
    question: Message | None = None,
) -> PostedMessage:
    """Post a message in a thread that the caller has locked. If the sender holds the thread, its lease is extended.

    The message settles `question`, which the caller has checked, and goes to its asker.
    """
    if thread.status in TERMINAL_STATUSES:
        raise leases.thread_ended_error(thread)
    if lease is not None and lease.is_held and lease.agent_id == sender:
        leases.extend_lease(tx, lease)
    other_side = thread.created_by if sender == thread.assigned_to else thread.assigned_to
    addressee = checks.name("to", to) if to is not None else other_side if question is None else question.from_agent
    return messages.post(
        tx,
        thread,
        content,
        kind=kind,
        sender=sender,
        to=addressee,
        event_type=event_type,
        message_id=message_id,
        in_reply_to=None if question is None else question.message_id,
    )


def _check_unchanged(field: str, given: str | None, stored: str) -> None:
    if given is not None and given != stored:
        raise InvalidInput(
            f"the thread belongs to {field} {stored!r}, not {given!r}", field=field, hint=f"Leave --{field} out, or open a new thread."
        )
