"""Messages of a thread: check, store and read them. Every verb of this package that adds a message calls `post`."""

from __future__ import annotations

from postroom.core import checks, clock, limits, tracing
from postroom.core.errors import InvalidInput, NotFound, StoreBusy
from postroom.core.records import Record
from postroom.core.records.work import Artifact, Attachment, Lease, Message, PostedMessage, Thread
from postroom.core.states import BLOCKED, PENDING, TERMINAL_STATUSES
from postroom.store.agents import note_seen
from postroom.store.event_log import announce, append_event, inbox_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.store.interface import Transaction

RELEASED_EVENT = "thread.released"
LAPSED_EVENT = "thread.lapsed"


class Content(Record):
    """The checked content of a message."""

    summary: str
    body: str
    payload_json: str
    artifacts: tuple[Attachment, ...]


def check_content(
    summary: str, body: str, payload_json: str, artifacts: Sequence[Attachment], payload: dict[str, Any] | None = None
) -> Content:
    """Check the parts of a message, whose payload is a dict or the text of one. Refuses with `InvalidInput` and the name of the field."""
    return Content(
        checks.line("summary", summary),
        checks.text("body", body),
        checks.json_object("payload-json", payload_json) if payload is None else _dump_payload(payload, payload_json),
        tuple(map(_check_attachment, checks.items("artifact", artifacts, maximum=limits.MAX_ARTIFACTS))),
    )


def _dump_payload(payload: dict[str, Any], payload_json: str) -> str:
    if payload_json != "{}":
        raise InvalidInput("payload and payload-json exclude each other", field="payload", hint="Leave one of them out.")
    if not isinstance(payload, dict):
        raise InvalidInput(f"payload must be an object, not {type(payload).__name__}", field="payload")
    return checks.json_value("payload", payload, max_bytes=limits.MAX_PAYLOAD_JSON_BYTES)


def _check_attachment(artifact: Attachment) -> Attachment:
    return Attachment(
        checks.path("artifact", artifact.path),
        checks.name("artifact-kind", artifact.kind),
        checks.json_object("artifact-metadata-json", artifact.metadata_json, max_bytes=limits.MAX_METADATA_JSON_BYTES),
    )


def lock_thread(tx: Transaction, thread_id: str) -> tuple[Thread, Lease | None]:
    """Lock a thread until the transaction ends, and return it with its lease. Refuses with `NotFound`."""
    tx.lock_thread(thread_id)
    return get_thread(tx, thread_id)


def get_thread(tx: Transaction, thread_id: str) -> tuple[Thread, Lease | None]:
    """Return a thread and its lease, without a lock. Refuses with `NotFound`."""
    held_thread = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
    if held_thread is None:
        raise thread_not_found_error(thread_id)
    return held_thread.thread, held_thread.lease


def thread_not_found_error(thread_id: str) -> NotFound:
    """Return the refusal of a thread that does not exist, and of one that the caller may not see. It must not tell which."""
    return NotFound(f"there is no thread {thread_id}", hint="See `inbox list`.", thread_id=thread_id)


def load_artifacts(tx: Transaction, stored: Message) -> Message:
    """Return a message with its artifacts."""
    return stored.replace(artifacts=tuple(tx.fetch_all(tx.sql.artifacts_of_message, message_id=stored.message_id)))


class MessagePage(Record):
    """Consecutive messages of a thread, oldest first, and the event id of the thread's first message."""

    messages: tuple[Message, ...]
    first_event_id: int


def read_page(
    tx: Transaction, thread_id: str, *, limit: int, max_characters: int, before_event: int | None, after_event: int | None
) -> MessagePage:
    """Read the newest messages before an event, or the oldest after one. A page has as many as fit, and at least one."""
    size = {"limit": limit, "characters": max_characters}
    if after_event is not None:
        bounds = tx.fetch_one(tx.sql.messages_page_after, thread_id=thread_id, after=after_event, **size)
    else:
        before = checks.AFTER_ALL_IDS if before_event is None else before_event
        bounds = tx.fetch_one(tx.sql.messages_page_before, thread_id=thread_id, before=before, **size)
    if bounds is None or bounds.first_event_id is None or bounds.thread_first_event_id is None:
        return MessagePage((), 0)
    span = {"thread_id": thread_id, "first": bounds.first_event_id, "last": bounds.last_event_id}
    artifacts: dict[str, list[Artifact]] = {}
    for artifact in tx.fetch_all(tx.sql.artifacts_between, **span):
        artifacts.setdefault(artifact.message_id, []).append(artifact)
    stored = tx.fetch_all(tx.sql.messages_between, **span)
    page = tuple(message.replace(artifacts=tuple(artifacts.get(message.message_id, ()))) for message in stored)
    return MessagePage(page, bounds.thread_first_event_id)


def read_for_claim(tx: Transaction, thread_id: str) -> tuple[tuple[Message, ...], bool]:
    """Return the messages that a claim carries, oldest first: the opening one and the newest. True if some between them are missing."""
    found = tx.fetch_all(tx.sql.messages_newest, thread_id=thread_id, limit=limits.MAX_CLAIM_MESSAGES + 1)
    newest: list[Message] = []
    characters = 0
    for message, has_artifacts in found[: limits.MAX_CLAIM_MESSAGES]:
        characters += len(message.summary) + len(message.body) + len(message.payload_json)
        if newest and characters > limits.MAX_PAGE_CHARS:
            break
        newest.append(load_artifacts(tx, message) if has_artifacts else message)
    left_out = found[len(newest) :]
    if not left_out:
        return tuple(reversed(newest)), False
    first = tx.fetch_one(tx.sql.message_first, thread_id=thread_id)
    assert first is not None
    return (load_artifacts(tx, first), *reversed(newest)), left_out[0][0].message_id != first.message_id


def read_message_at(tx: Transaction, thread_id: str, event_id: int) -> Message:
    """Read the message that was posted with an event."""
    [stored] = tx.fetch_all(tx.sql.messages_between, thread_id=thread_id, first=event_id, last=event_id)
    return load_artifacts(tx, stored)


def post(
    tx: Transaction,
    thread: Thread,
    content: Content,
    *,
    kind: str,
    sender: str,
    to: str,
    event_type: str,
    status: str | None = None,
    assigned_to: str | None = None,
    message_id: str | None = None,
    in_reply_to: str | None = None,
    door: str | None = None,
) -> PostedMessage:
    """Post a message in a thread, in this transaction.

    Writes the message, its event, the thread's new state, and the unread mark of the receiver. Settles the question `in_reply_to`, and
    ends all questions of a thread that ends. A message that ends the wait of a blocked thread without a holder makes it pending.
    The caller holds the thread's lock. `door` is that of the transaction by default.
    """
    now = clock.format_stamp(tx.now())
    message_id = message_id or tx.new_id("msg")
    _settle_question(tx, in_reply_to)
    if status is None and _is_offered_again(tx, thread, kind=kind, to=to):
        status = PENDING
    after = thread.replace(
        status=status or thread.status, assigned_to=assigned_to or thread.assigned_to, latest_message_id=message_id, updated_at=now
    )
    write_thread_state(tx, thread, after)
    if after.status in TERMINAL_STATUSES:
        tx.execute(tx.sql.questions_end, thread_id=thread.thread_id, agent="")
    if BLOCKED in (thread.status, status):
        _write_lease_wait(tx, thread.thread_id, status=status, kind=kind, to=to)
    note_seen(tx, "from", sender)
    trace = tracing.current_traceparent() or _trace_of_question(tx, in_reply_to)
    # Append the event as late as possible: on PostgreSQL, readers with a cursor stop before it until this transaction ends.
    facts: dict[str, Any] = {"kind": kind, "to": to, **({} if in_reply_to is None else {"in_reply_to": in_reply_to})}
    event_id = append_thread_event(tx, after, event_type=event_type, source=sender, message_id=message_id, summary=content.summary, **facts)
    is_open = int(kind == "question")
    texts = (content.summary, content.body, content.payload_json)
    stored = Message(message_id, thread.thread_id, sender, to, kind, *texts, now, event_id, door or tx.door, in_reply_to, is_open, trace)
    tx.execute(tx.sql.message_insert, **vars(stored))  # the statement does not use `artifacts`: it is not a column
    tx.execute(tx.sql.read_owed, agent=to, thread_id=thread.thread_id, event_id=event_id, guest=int(_is_guest(after, to)))
    if _is_guest(after, sender):
        tx.execute(tx.sql.read_guest, agent=sender, thread_id=thread.thread_id, guest=1)
    if content.artifacts:
        stored = stored.replace(artifacts=tuple(_insert_artifact(tx, message_id, artifact, now) for artifact in content.artifacts))
    return PostedMessage(after, stored, event_id)


def _trace_of_question(tx: Transaction, question_id: str | None) -> str | None:
    """Return the trace in which a question was asked: a person's answer belongs to it."""
    question = None if question_id is None else tx.fetch_one(tx.sql.message_find, message_id=question_id)
    return None if question is None else question.traceparent


def _settle_question(tx: Transaction, question_id: str | None) -> None:
    if question_id is not None:
        closed = StoreBusy(f"{question_id} was settled while it was being answered", hint="Try again.")
        tx.execute_exactly_one(closed, tx.sql.question_settle, message_id=question_id)


def _is_offered_again(tx: Transaction, thread: Thread, *, kind: str, to: str) -> bool:
    """Return whether a message ends the wait of a thread that its holder gave back until an answer. See `leases.release`."""
    if thread.status != BLOCKED or kind not in ("answer", "control") or to != thread.assigned_to:
        return False
    key = {"thread_id": thread.thread_id, "agent": to, "is_control": int(kind == "control")}
    return tx.fetch_one(tx.sql.lease_ready, **key) is not None


def _write_lease_wait(tx: Transaction, thread_id: str, *, status: str | None, kind: str, to: str) -> None:
    """Write whether the lease of a blocked thread waits for an answer.

    It waits from the holder's question until the holder goes on, has no open question, or receives a control message. A remark of
    another agent does not end the wait: the next worker could only ask again.
    """
    if status is not None:
        tx.execute(tx.sql.lease_wait, thread_id=thread_id, waiting=int(status == BLOCKED))
    elif kind in ("answer", "control"):
        tx.execute(tx.sql.lease_resume, thread_id=thread_id, agent=to, is_control=int(kind == "control"))


def write_thread_state(tx: Transaction, before: Thread, after: Thread) -> None:
    """Write a thread's new state. Raises `StoreBusy` if its status is no longer that of `before`."""
    tx.execute_exactly_one(
        StoreBusy(f"{after.thread_id} changed while it was being written", hint="Try again."),
        tx.sql.thread_move,
        thread_id=after.thread_id,
        status=after.status,
        assigned_to=after.assigned_to,
        latest_message_id=after.latest_message_id,
        now=after.updated_at,
        seen=before.status,
    )
    if after.assigned_to != before.assigned_to:  # the agent that was assigned before still takes part
        for agent in (before.assigned_to, after.assigned_to):
            tx.execute(tx.sql.read_guest, agent=agent, thread_id=after.thread_id, guest=int(_is_guest(after, agent)))


def _is_guest(thread: Thread, agent: str) -> bool:
    """Return whether an agent that takes part in a thread neither created it nor is assigned to it."""
    return agent not in (thread.created_by, thread.assigned_to)


def append_thread_event(tx: Transaction, thread: Thread, *, topics: tuple[str, ...] = (), **event: Any) -> int:
    """Append an event of a thread, which wakes waiters, and return its id. `topics` are further ones to notify.

    `event` has the arguments of `_make_thread_event`.
    """
    own_topics, fields = _make_thread_event(thread, **event)
    return append_event(tx, (*own_topics, *topics), **fields)


def announce_thread_event(tx: Transaction, thread: Thread, **event: Any) -> None:
    """Append an event of a thread whose id the caller does not need."""
    topics, fields = _make_thread_event(thread, **event)
    announce(tx, topics, **fields)


def _make_thread_event(
    thread: Thread, *, event_type: str, source: str, message_id: str | None = None, summary: str = "", **facts: object
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the topics and the fields of an event. Its payload has the facts that waiters filter by, as they are at this moment."""
    payload = {"status": thread.status, "assigned_to": thread.assigned_to, "created_by": thread.created_by, **facts}
    concerned = {thread.assigned_to, thread.created_by, facts.get("to")} - {None}
    receivers = {facts.get("to"), thread.assigned_to if thread.status == PENDING else None} - {None, source}
    own_topics = (*(agent_topic(str(name)) for name in concerned), *(inbox_topic(str(name)) for name in receivers))
    fields = {
        "run_id": thread.run_id,
        "task_id": thread.task_id,
        "thread_id": thread.thread_id,
        "source": source,
        "event_type": event_type,
        "message_id": message_id,
        "summary": summary,
        "payload": payload,
        "created_at": thread.updated_at,
    }
    return (*_topics_of(thread), *own_topics), fields


# The topics that waiters subscribe to: events of one thread, of one run, that leave a thread in a status, and that concern an agent.


def _topics_of(thread: Thread) -> tuple[str, ...]:
    topics = thread_topic(thread.thread_id), status_topic(thread.status)
    return (*topics, run_topic(thread.run_id)) if thread.run_id else topics


def thread_topic(thread_id: str) -> str:
    return f"thread:{thread_id}"


def run_topic(run_id: str) -> str:
    return f"run:{run_id}"


def status_topic(status: str) -> str:
    return f"status:{status}"


def agent_topic(name: str) -> str:
    return f"agent:{name}"


def _insert_artifact(tx: Transaction, message_id: str, attachment: Attachment, now: str) -> Artifact:
    artifact = Artifact(tx.new_id("art"), message_id, attachment.path, attachment.kind, attachment.metadata_json, now)
    tx.execute(tx.sql.artifact_insert, **dict(artifact.items()))
    return artifact
