"""Progress: the reports of a thread's holder, from the first step to the result. An update renews the lease."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidInput
from postroom.core.states import BLOCKED, CANCELLED, DONE, FAILED, IN_PROGRESS, TERMINAL_STATUSES
from postroom.core.verbs import THREAD_CONTROL, THREAD_PART, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.work import leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.core.records.work import Attachment, PostedMessage
    from postroom.store.interface import Store, Transaction
    from postroom.work.messages import Content


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def update(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    status: str = IN_PROGRESS,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
    to: str | None = None,
    lease_token: str | None = None,
) -> PostedMessage:
    """Report progress, or ask a question with the status `blocked`. It goes to the thread's creator, or to `to`.

    Refuses with `InvalidInput` a question without text in its summary, its body or `payload.question`.
    """
    checks.choice("status", status, (IN_PROGRESS, BLOCKED), advice="A thread is ended by `inbox done` or `inbox fail`.")
    content = messages.check_content(summary, body, payload_json, artifacts, payload)
    if status == BLOCKED:
        content = _require_question(content)
    kind = "question" if status == BLOCKED else "progress"
    with store.write() as tx:
        thread, lease = leases.lock_held_thread(tx, thread_id, agent=agent, lease_token=lease_token)
        addressee = thread.created_by if to is None else checks.name("to", to)
        leases.extend_lease(tx, lease)
        return messages.post(tx, thread, content, kind=kind, sender=agent, to=addressee, event_type="thread.updated", status=status)


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def done(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
) -> PostedMessage:
    """Finish a thread with its result."""
    content = messages.check_content(summary, body, payload_json, artifacts, payload)
    with store.write() as tx:
        return finish_thread(tx, thread_id, content, agent=agent, status=DONE, lease_token=lease_token)


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def fail(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
) -> PostedMessage:
    """End a thread as failed, with the reason."""
    content = messages.check_content(summary, body, payload_json, artifacts, payload)
    with store.write() as tx:
        return finish_thread(tx, thread_id, content, agent=agent, status=FAILED, lease_token=lease_token)


@verb(caller="agent", access=THREAD_CONTROL, mode=WRITE)
@retry_on_contention
def cancel(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    reason: str = "",
    payload_json: str = "{}",
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
) -> PostedMessage:
    """Cancel a thread. Any agent may do this. The other side receives a `control` message."""
    checks.name("agent", agent)
    content = messages.check_content(reason, "", payload_json, artifacts, payload)
    with store.write() as tx:
        return cancel_thread(tx, checks.name("thread", thread_id), content, agent=agent)


def cancel_thread(tx: Transaction, thread_id: str, content: Content, *, agent: str) -> PostedMessage:
    """Cancel a thread in this transaction, as `cancel` does."""
    thread, lease = messages.lock_thread(tx, thread_id)
    if thread.status in TERMINAL_STATUSES:
        raise leases.thread_ended_error(thread)
    leases.end_lease(tx, lease)
    to = thread.created_by if agent == thread.assigned_to else thread.assigned_to
    return messages.post(tx, thread, content, kind="control", sender=agent, to=to, event_type="thread.cancelled", status=CANCELLED)


def finish_thread(tx: Transaction, thread_id: str, content: Content, *, agent: str, status: str, lease_token: str | None) -> PostedMessage:
    """End a thread that the caller holds, in this transaction. What was said in it waits for the caller no more."""
    thread, lease = leases.lock_held_thread(tx, thread_id, agent=agent, lease_token=lease_token)
    leases.end_lease(tx, lease)
    posted = messages.post(
        tx, thread, content, kind="result", sender=agent, to=thread.created_by, event_type=f"thread.{status}", status=status
    )
    place = {"thread_id": thread_id, "event_id": posted.message.event_id}
    tx.execute(tx.sql.read_ended, agent=agent, now=clock.format_stamp(tx.now()), door=tx.door, **place)
    has_text = content.summary.strip() or content.body.strip() or content.payload_json != "{}" or content.artifacts
    return posted if has_text else posted.replace(note="the result says nothing; next time add --summary or --body-file")


def _require_question(content: Content) -> Content:
    """Return the content of a question, with `payload.question` as its summary if it has no other text."""
    if content.summary.strip() or content.body.strip():
        return content
    question = jsontext.loads(content.payload_json).get("question")
    if isinstance(question, str) and question.strip():
        return content.replace(summary=checks.line("payload.question", question))
    raise InvalidInput(
        "a blocked thread must say what is missing", field="summary", hint="Ask precisely: --summary, --body, or a payload with a question."
    )
