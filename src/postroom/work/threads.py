"""Threads: open them, post in them, list and read them."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.work import Conversation, Message, PostedMessage, Thread, ThreadHold, ThreadPage
from postroom.core.states import HELD_STATUSES, KINDS, PENDING, PRIORITIES, REPLY_KINDS, STATUSES, TERMINAL_STATUSES
from postroom.core.verbs import ANY_AGENT, READ, THREAD_SEEN, THREAD_SPEAK, THREADS_SEEN, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.work import leases, messages, questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from postroom.core.records.work import Attachment, HeldThread, Lease
    from postroom.store.interface import Store, Transaction
    from postroom.work.messages import Content

    NamePair = tuple[str | None, str | None]  # the creator and the assignee of a thread. None matches any name

_THREAD_OVERHEAD_CHARS = 500  # ids, names, stamps and field names of a thread in an answer
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
    priority: str | None = None,
    artifacts: Sequence[Attachment] = (),
    key: str | None = None,
) -> PostedMessage:
    """Open a thread for `to`, or post in the thread `thread_id`. If that thread does not exist, it is opened with this id.

    An empty subject defaults to the summary, and an empty summary to the subject. In an existing thread, `to` defaults
    to the other side, `priority` changes the thread's priority, and an answer settles a question as that of `reply` does. `key`
    makes retries safe: a second send with the same key returns the first one and posts nothing. Refuses with `InvalidState` a
    key of another message, or once the thread has ended.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, KINDS)
    if priority is not None:
        checks.choice("priority", priority, PRIORITIES)
    checks.line("subject", subject)
    content = messages.check_content(summary or subject, body, payload_json, artifacts)
    message_id = None if key is None else _message_id_for_key("send", sender, checks.name("key", key))
    with store.write() as tx:
        before = None if message_id is None else tx.fetch_one(tx.sql.message_find, message_id=message_id)
        if before is not None:
            return _repeated_send(tx, before, content, thread_id=thread_id, to=to, kind=kind)
        known = None if thread_id is None else _lock_if_exists(tx, thread_id)
        if known is None:
            opened = _create_thread(tx, thread_id, sender, to, subject, content, run_id, task_id, priority)
            return _post_first(tx, opened, content, kind, message_id)
        thread, lease = known.thread, known.lease
        _check_unchanged("run", run_id, thread.run_id)
        _check_unchanged("task", task_id, thread.task_id)
        if priority is not None and priority != thread.priority:
            thread = thread.replace(priority=priority)
            tx.execute(tx.sql.thread_prioritise, thread_id=thread.thread_id, priority=priority)
            tx.execute(tx.sql.lease_prioritise, thread_id=thread.thread_id, priority=priority)
        question = _question_for(tx, thread, kind=kind, sender=sender, to=to, question_id=None)
        place: dict[str, Any] = {"event_type": "thread.message", "message_id": message_id}
        return post_in_thread(tx, thread, lease, content, sender=sender, to=to, kind=kind, question=question, **place)


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
    artifacts: Sequence[Attachment] = (),
    key: str | None = None,
    question: str | None = None,
) -> PostedMessage:
    """Post an answer in a thread. A blocked thread stays blocked until its worker, which this wakes, updates it.

    An answer settles one open question, and wakes only its asker. `question` is its id. Without it, the answer settles the only
    open question that the sender may settle: a person any question, an agent those that were put to it. If there is none, the
    answer is a remark. Refuses with `AmbiguousQuestion` if there are several, with `QuestionClosed`, or with `Forbidden`.

    `key` makes retries safe: a second reply with the same key returns the first one and posts nothing. Refuses with
    `InvalidInput` an empty reply, and with `InvalidState` a key of another reply, or once the thread has ended.
    """
    checks.name("from", sender, hint="Name yourself with --from, --agent or INBOX_AGENT.")
    checks.choice("kind", kind, REPLY_KINDS)
    if question is not None and kind != "answer":
        raise InvalidInput("only an answer settles a question", field="question", hint="Leave out the kind, or the question.")
    content = messages.check_content(summary, body, payload_json, artifacts)
    if not (content.summary.strip() or content.body.strip() or content.payload_json != "{}" or content.artifacts):
        raise InvalidInput("the reply is empty", field="summary", hint="Say something with --summary, --body or --body-file.")
    with store.write() as tx:
        thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
        message_id = None if key is None else _message_id_for_key(thread_id, sender, checks.name("key", key))
        before = None if message_id is None else tx.fetch_one(tx.sql.message_find, message_id=message_id)
        if before is not None:
            return _repeated_reply(thread, messages.load_artifacts(tx, before), content)
        settled = _question_for(tx, thread, kind=kind, sender=sender, to=to, question_id=question)
        return post_in_thread(
            tx,
            thread,
            lease,
            content,
            sender=sender,
            to=to,
            kind=kind,
            event_type="thread.replied",
            message_id=message_id,
            question=settled,
        )


def _question_for(tx: Transaction, thread: Thread, *, kind: str, sender: str, to: str | None, question_id: str | None) -> Message | None:
    """Return the question that a message settles. Only answers settle one, and only in a thread that goes on."""
    if kind != "answer" or thread.status in TERMINAL_STATUSES:
        return None
    return questions.find_question_to_settle(tx, thread.thread_id, sender=sender, to=to, question_id=question_id)


def _message_id_for_key(*parts: str) -> str:
    """Derive a message id from an idempotency key, so that a retry gets the same id."""
    from hashlib import sha256

    return f"msg_{sha256(jsontext.dumps(parts).encode()).hexdigest()[:32]}"


def _repeated_send(
    tx: Transaction, message: Message, content: Content, *, thread_id: str | None, to: str | None, kind: str
) -> PostedMessage:
    """Return what was sent with the same key. Refuses with `InvalidState` if its thread, receiver, kind or content differs."""
    given = (thread_id or message.thread_id, to or message.to_agent, kind)
    if given != (message.thread_id, message.to_agent, message.kind):
        raise InvalidState("that key was used for another message", hint="A key stands for one message: choose a new one.")
    thread, _ = messages.get_thread(tx, message.thread_id)
    return _repeated_reply(thread, messages.load_artifacts(tx, message), content)


def _repeated_reply(thread: Thread, message: Message, content: Content) -> PostedMessage:
    """Return the reply that was posted with the same key. Refuses with `InvalidState` if its content differs."""
    if (message.summary, message.body, message.payload_json) != (content.summary, content.body, content.payload_json):
        raise InvalidState("that key was used for another message", hint="A key stands for one message: choose a new one.")
    return PostedMessage(thread, message, message.event_id)


@verb(caller=ANY_AGENT, access=THREAD_SEEN, mode=READ)
def show(
    store: Store,
    thread_id: str,
    *,
    limit: int = messages.MAX_PAGE_MESSAGES,
    before_event: int | None = None,
    after_event: int | None = None,
    max_characters: int = messages.MAX_PAGE_CHARS,
) -> Conversation:
    """Read a thread, its lease, and one page of its messages.

    Without a cursor, returns the newest page and the message that opened the thread. `before_event` reads the page before an
    event, `after_event` the page after one. A page ends at `limit` messages or at `max_characters`. A longer message is a page
    by itself. Refuses with `NotFound`.
    """
    checks.limit("limit", limit)
    _check_cursors(before_event, after_event)
    if not isinstance(max_characters, int) or not 1 <= max_characters <= messages.MAX_PAGE_CHARS:
        raise InvalidInput(f"max-characters must be from 1 to {messages.MAX_PAGE_CHARS}", field="max-characters")
    with store.read() as tx:
        thread, lease = messages.get_thread(tx, checks.name("thread", thread_id))
        page = messages.read_page(
            tx, thread_id, limit=limit, max_characters=max_characters, before_event=before_event, after_event=after_event
        )
        latest = tx.fetch_one(tx.sql.event_latest)
        conversation = Conversation(thread, lease, page.messages, latest or 0)
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
        latest = tx.fetch_one(tx.sql.event_latest)
        if event_id > (latest or 0):
            raise InvalidInput(f"event {event_id} has not happened yet", field="event", hint="Nobody can have read it.")
        now = clock.format_stamp(tx.now())
        tx.execute(tx.sql.agent_seen, name=agent, now=now)
        tx.execute(tx.sql.read_upto, agent=agent, thread_id=thread_id, event_id=event_id, now=now, door=tx.door)


@verb(caller=ANY_AGENT, access=THREADS_SEEN, mode=READ)
def list_threads(
    store: Store,
    *,
    agent: str | None = None,
    statuses: Iterable[str] | None = None,
    created_by: str | None = None,
    assigned_to: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    limit: int = 50,
    visible_to: str | None = None,
) -> ThreadPage:
    """List threads, latest activity first, with their holders.

    `agent` selects the threads that it created or that are assigned to it. An empty `run_id` selects the threads without a run.
    `visible_to` selects the threads that an agent sees: it takes part in them, or may take them. A server sets it for agents.
    """
    wanted = STATUSES if statuses is None else checks.choices("status", statuses, STATUSES)
    checks.limit("limit", limit)
    for field, chosen in (("agent", agent), ("run", run_id), ("task", task_id)):
        if chosen is not None and (created_by is not None or assigned_to is not None):
            raise InvalidInput(f"{field} cannot be combined with created-by or assigned-to", field=field, hint="Leave one of them out.")
    for field, name in (("agent", agent), ("created-by", created_by), ("assigned-to", assigned_to), ("visible-to", visible_to)):
        if name is not None:
            checks.name(field, name)
    if run_id is not None:
        checks.line("run", run_id)
    if task_id is not None and not checks.line("task", task_id):
        raise InvalidInput("'task' is empty", field="task", hint="Name the task, or leave --task out.")
    pairs: set[NamePair] = {(created_by, assigned_to)} if agent is None else {(agent, None), (None, agent)}
    by_id: dict[str, Thread] = {}
    with store.read() as tx:
        for status in wanted:
            for thread in _list_with_status(tx, status, pairs, run_id, task_id, visible_to, limit + 1):
                by_id[thread.thread_id] = thread
        newest = sorted(by_id.values(), key=lambda thread: (thread.updated_at, thread.thread_id), reverse=True)
        page = _cut_page(newest[:limit])
        return ThreadPage(tuple(page), len(newest) > len(page), _read_holds(tx, page))


def _cut_page(threads: list[Thread]) -> list[Thread]:
    """Return the first threads that fit into an answer, and at least one."""
    size = 0
    for number, thread in enumerate(threads):
        size += len(thread.subject) + len(thread.run_id) + len(thread.task_id) + _THREAD_OVERHEAD_CHARS
        if size > limits.MAX_ANSWER_BYTES and number:
            return threads[:number]
    return threads


def _read_holds(tx: Transaction, listed: list[Thread]) -> tuple[ThreadHold, ...]:
    held = [thread.thread_id for thread in listed if thread.status in HELD_STATUSES]
    if not held:
        return ()
    now = clock.format_stamp(tx.now())
    held_leases = tx.fetch_all(tx.sql.leases_of_threads, thread_ids=jsontext.dumps(held))
    return tuple(ThreadHold(lease.thread_id, lease.agent_id, lease.expires_at, not lease.is_live(now)) for lease in held_leases)


def _list_with_status(
    tx: Transaction, status: str, pairs: set[NamePair], run_id: str | None, task_id: str | None, visible_to: str | None, limit: int
) -> Iterator[Thread]:
    """List the threads of one status that match one of the pairs. An index serves each query, so the cost does not grow with the table."""
    if visible_to is not None:
        for thread in tx.fetch_all(tx.sql.threads_visited, agent=visible_to, status=status):
            if run_id in (None, thread.run_id) and task_id in (None, thread.task_id) and any(_matches_pair(thread, pair) for pair in pairs):
                yield thread
        pairs = _narrow_pairs(pairs, visible_to)
    for created_by, assigned_to in pairs:
        names = {"created_by": created_by, "assigned_to": assigned_to}
        given = {key: name for key, name in names.items() if name is not None}
        every = {key: name or "" for key, name in names.items()}
        if task_id is not None:
            chosen = {"task_id": task_id, "run_id": run_id, **every}
            yield from tx.fetch_all(tx.sql.threads_of_task_chosen, status=status, limit=limit, **chosen)
        elif run_id is not None:
            yield from tx.fetch_all(tx.sql.threads_of_run_chosen, status=status, run_id=run_id, limit=limit, **every)
        else:
            statement = {
                (): tx.sql.threads_any,
                ("created_by",): tx.sql.threads_created,
                ("assigned_to",): tx.sql.threads_assigned,
                ("created_by", "assigned_to"): tx.sql.threads_created_assigned,
            }[tuple(given)]
            yield from tx.fetch_all(statement, status=status, limit=limit, **given)


def _narrow_pairs(pairs: set[NamePair], viewer: str) -> set[NamePair]:
    """Return the pairs of creator and assignee that match only those threads that the viewer created or is assigned to."""
    created = {(viewer, assigned_to) for created_by, assigned_to in pairs if created_by in (None, viewer)}
    return created | {(created_by, viewer) for created_by, assigned_to in pairs if assigned_to in (None, viewer)}


def _matches_pair(thread: Thread, pair: NamePair) -> bool:
    return pair[0] in (None, thread.created_by) and pair[1] in (None, thread.assigned_to)


def _lock_if_exists(tx: Transaction, thread_id: str) -> HeldThread | None:
    """Lock a thread id, and return its thread and lease, or None if there is no such thread."""
    tx.lock_thread(checks.name("thread", thread_id))
    return tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)


def open_thread(tx: Transaction, *, sender: str, to: str, subject: str, body: str) -> PostedMessage:
    """Open a thread of work in this transaction. Its first message has the door of the transaction."""
    content = messages.check_content(subject, body, "{}", ())
    return _post_first(tx, _create_thread(tx, None, sender, to, subject, content, None, None, None), content, "task")


def _post_first(tx: Transaction, thread: Thread, content: Content, kind: str, message_id: str | None = None) -> PostedMessage:
    sides = {"sender": thread.created_by, "to": thread.assigned_to}
    return messages.post(tx, thread, content, kind=kind, event_type="thread.created", message_id=message_id, **sides)


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
        checks.line("run", run_id or ""),
        checks.line("task", task_id or ""),
        subject or content.summary,
        sender,
        to or "",
        PENDING,
        priority or "normal",
        None,
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
