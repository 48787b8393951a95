"""Messages: how anything is said in a thread. Every other part of the room speaks through `post`."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.errors import NotFound, StoreBusy
from postroom.core.records import Artifact, Attachment, Lease, Message, Posted, Record, Thread
from postroom.core.states import BLOCKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postroom.store.port import Row, Transaction

RELEASED = "thread.released"
_THREAD_FIELDS = len(Thread.__fields__)


class Content(Record):
    """What a message says, checked."""

    summary: str
    body: str
    payload_json: str
    artifacts: tuple[Attachment, ...]


def content(summary: str, body: str, payload_json: str, artifacts: Sequence[Attachment]) -> Content:
    return Content(
        checks.text("summary", summary),
        checks.text("body", body),
        checks.json_object("payload-json", payload_json),
        tuple(_attachment(artifact) for artifact in artifacts),
    )


def _attachment(artifact: Attachment) -> Attachment:
    return Attachment(
        checks.path("artifact", artifact.path),
        checks.name("artifact-kind", artifact.kind),
        checks.json_object("artifact-metadata-json", artifact.metadata_json),
    )


def locked(tx: Transaction, thread_id: str) -> tuple[Thread, Lease | None]:
    """A thread and its lease, ours to change until the transaction ends."""
    tx.hold(thread_id)
    return found(tx, thread_id)


def found(tx: Transaction, thread_id: str) -> tuple[Thread, Lease | None]:
    row = tx.one(tx.sql.thread_find, thread_id=thread_id)
    if row is None:
        raise _unknown(thread_id)
    return with_lease(row)


def _unknown(thread_id: str) -> NotFound:
    return NotFound(f"there is no thread {thread_id}", hint="See `inbox list`.", thread_id=thread_id)


def with_lease(row: Row) -> tuple[Thread, Lease | None]:
    """What `thread_find` returns."""
    lease = None if row[_THREAD_FIELDS] is None else Lease(*row[_THREAD_FIELDS:])
    return Thread(*row[:_THREAD_FIELDS]), lease


def message(tx: Transaction, row: Row) -> Message:
    """A message with its artifacts."""
    artifacts = tx.all(tx.sql.artifacts_of_message, message_id=row[0])
    return Message(*row).replace(artifacts=tuple(Artifact(*artifact) for artifact in artifacts))


def post(
    tx: Transaction,
    thread: Thread,
    said: Content,
    *,
    kind: str,
    sender: str,
    to: str,
    event_type: str,
    status: str | None = None,
    assigned_to: str | None = None,
    message_id: str | None = None,
) -> Posted:
    """Say something in a thread: the message, its event, what it changes and who is owed it, in this transaction."""
    now = clock.stamp(tx.now())
    message_id = message_id or tx.fresh("msg")
    after = thread.replace(
        status=status or thread.status, assigned_to=assigned_to or thread.assigned_to, latest_message_id=message_id, updated_at=now
    )
    move(tx, thread, after)
    if BLOCKED in (thread.status, after.status):
        # Asked, and so waiting for an answer; or something was said since, and whoever holds it can go on.
        tx.run(tx.sql.lease_wait, thread_id=thread.thread_id, waiting=int(status == BLOCKED))
    tx.run(tx.sql.agent_seen, name=sender, now=now)
    # The event comes late: on PostgreSQL, events are written one transaction at a time from here on.
    event_id = announce(tx, after, event_type=event_type, source=sender, message_id=message_id, summary=said.summary, kind=kind, to=to)
    stored = Message(message_id, thread.thread_id, sender, to, kind, said.summary, said.body, said.payload_json, now, event_id, tx.door)
    tx.run(
        tx.sql.message_insert,
        message_id=message_id,
        thread_id=thread.thread_id,
        from_agent=sender,
        to_agent=to,
        kind=kind,
        summary=said.summary,
        body=said.body,
        payload_json=said.payload_json,
        created_at=now,
        event_id=event_id,
        door=tx.door,
    )
    tx.run(tx.sql.read_owed, agent=to, thread_id=thread.thread_id, event_id=event_id)
    if said.artifacts:
        stored = stored.replace(artifacts=tuple(_attach(tx, message_id, artifact, now) for artifact in said.artifacts))
    return Posted(after, stored, event_id)


def move(tx: Transaction, before: Thread, after: Thread) -> None:
    """Write a thread's new state, guarded by the one that was seen."""
    tx.must(
        StoreBusy(f"{after.thread_id} changed while it was being written", hint="Try again."),
        tx.sql.thread_move,
        thread_id=after.thread_id,
        status=after.status,
        assigned_to=after.assigned_to,
        latest_message_id=after.latest_message_id,
        now=after.updated_at,
        seen=before.status,
    )


def announce(
    tx: Transaction, thread: Thread, *, event_type: str, source: str, message_id: str | None = None, summary: str = "", **facts: object
) -> int:
    """Write the event that wakes waiters. Its payload holds what they choose by, as it was at that moment."""
    payload = {"status": thread.status, "assigned_to": thread.assigned_to, "created_by": thread.created_by, **facts}
    concerned = {thread.assigned_to, thread.created_by, facts.get("to")} - {None}
    return tx.append(
        tx.sql.event_append,
        (of_thread(thread.thread_id), of_status(thread.status), *(of_agent(str(name)) for name in concerned)),
        run_id=thread.run_id,
        task_id=thread.task_id,
        thread_id=thread.thread_id,
        source=source,
        event_type=event_type,
        message_id=message_id,
        summary=summary,
        payload_json=jsontext.dumps(payload),
        created_at=thread.updated_at,
    )


# The topics that waiters choose from: what happens in a thread, what leaves one in a status, what concerns an agent.


def of_thread(thread_id: str) -> str:
    return f"thread:{thread_id}"


def of_status(status: str) -> str:
    return f"status:{status}"


def of_agent(name: str) -> str:
    return f"agent:{name}"


def _attach(tx: Transaction, message_id: str, attachment: Attachment, now: str) -> Artifact:
    artifact = Artifact(tx.fresh("art"), message_id, attachment.path, attachment.kind, attachment.metadata_json, now)
    tx.run(tx.sql.artifact_insert, **dict(artifact.items()))
    return artifact
