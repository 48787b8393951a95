"""Progress: what the holder of a thread reports, from the first step to the end. Each report renews the lease."""

from __future__ import annotations

from postroom.core import checks, jsontext
from postroom.core.errors import InvalidInput
from postroom.core.states import BLOCKED, CANCELLED, DONE, FAILED, IN_PROGRESS, TERMINAL
from postroom.core.verbs import verb
from postroom.store.attempts import retried
from postroom.work import leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postroom.core.records import Attachment, Claim, Posted
    from postroom.store.port import Store, Transaction
    from postroom.work.messages import Content


@verb
@retried
def update(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    status: str = IN_PROGRESS,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
    to: str | None = None,
    lease_token: str | None = None,
) -> Posted:
    """Report progress, or, with status `blocked`, ask a question: of the thread's creator, or of `to`.

    A question must say what is missing, in its summary, its body or `payload.question`.
    """
    checks.choice("status", status, (IN_PROGRESS, BLOCKED))
    said = messages.content(summary, body, payload_json, artifacts)
    if status == BLOCKED:
        said = _question(said)
    kind = "question" if status == BLOCKED else "progress"
    with store.write() as tx:
        thread, lease = leases.holding(tx, thread_id, agent=agent, lease_token=lease_token)
        addressee = thread.created_by if to is None else checks.name("to", to)
        leases.extend(tx, lease)
        return messages.post(tx, thread, said, kind=kind, sender=agent, to=addressee, event_type="thread.updated", status=status)


@verb
@retried
def done(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
) -> Posted:
    """Finish a thread with its result."""
    said = messages.content(summary, body, payload_json, artifacts)
    with store.write() as tx:
        return _finish(tx, thread_id, said, agent=agent, status=DONE, lease_token=lease_token)


@verb
@retried
def done_and_take(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
    lease_seconds: float = leases.LEASE_SECONDS,
) -> tuple[Posted, Claim | None]:
    """Finish a thread and take the next, in one transaction: half the cost of doing one after the other."""
    from postroom.work.candidates import take_next

    checks.seconds("lease-seconds", lease_seconds)
    said = messages.content(summary, body, payload_json, artifacts)
    with store.write() as tx:
        posted = _finish(tx, thread_id, said, agent=agent, status=DONE, lease_token=lease_token)
        return posted, take_next(tx, agent=agent, lease_seconds=lease_seconds)


@verb
@retried
def fail(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
) -> Posted:
    """End a thread that could not be done, with what went wrong."""
    said = messages.content(summary, body, payload_json, artifacts)
    with store.write() as tx:
        return _finish(tx, thread_id, said, agent=agent, status=FAILED, lease_token=lease_token)


@verb
@retried
def cancel(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    reason: str = "",
    payload_json: str = "{}",
    artifacts: Sequence[Attachment] = (),
) -> Posted:
    """End a thread that is not wanted any more. Anyone may; whoever works on it is told by a `control` message."""
    checks.name("agent", agent)
    said = messages.content(reason, "", payload_json, artifacts)
    with store.write() as tx:
        thread, lease = messages.locked(tx, checks.name("thread", thread_id))
        if thread.status in TERMINAL:
            raise leases.ended(thread)
        leases.drop(tx, lease)
        to = thread.created_by if agent == thread.assigned_to else thread.assigned_to
        return messages.post(tx, thread, said, kind="control", sender=agent, to=to, event_type="thread.cancelled", status=CANCELLED)


def _finish(tx: Transaction, thread_id: str, said: Content, *, agent: str, status: str, lease_token: str | None) -> Posted:
    thread, lease = leases.holding(tx, thread_id, agent=agent, lease_token=lease_token)
    leases.drop(tx, lease)
    return messages.post(tx, thread, said, kind="result", sender=agent, to=thread.created_by, event_type=f"thread.{status}", status=status)


def _question(said: Content) -> Content:
    if said.summary.strip() or said.body.strip():
        return said
    question = jsontext.loads(said.payload_json).get("question")
    if isinstance(question, str) and question.strip():
        return said.replace(summary=checks.text("payload.question", question))
    raise InvalidInput(
        "a blocked thread must say what is missing", field="summary", hint="Ask precisely: --summary, --body, or a payload with a question."
    )
