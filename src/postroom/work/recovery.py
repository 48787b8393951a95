"""Recovery: give a thread that nobody works on to another agent, and reopen one that failed or was cancelled."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidState
from postroom.core.states import CANCELLED, PENDING, RETRIED_STATUSES, TERMINAL_STATUSES
from postroom.core.text import shell_quote
from postroom.core.verbs import THREAD_CONTROL, WRITE, verb
from postroom.store import removed
from postroom.store.retries import retry_on_contention
from postroom.work import lapses, leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.core.records.work import PostedMessage
    from postroom.store.interface import Store


@verb(caller="agent", access=THREAD_CONTROL, mode=WRITE)
@retry_on_contention
def reassign(store: Store, thread_id: str, *, agent: str, to: str, reason: str = "") -> PostedMessage:
    """Give a thread that is pending, or whose lease ran out, to another agent. It is pending for `to`.

    A holder whose lease ran out is refused from then on. Refuses with `LeaseHeld` while a lease is live, and with
    `InvalidState` once the thread has ended, also if the lease that ran out was the last attempt of its task.
    """
    checks.name("agent", agent)
    checks.name("to", to)
    content = messages.check_content(reason, "", "{}", ())
    with store.write() as tx:
        thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
        if thread.status in TERMINAL_STATUSES:
            raise leases.thread_ended_error(thread)
        if lease is not None and lease.is_live(clock.format_stamp(tx.now())):
            hint = "Its holder can give it away with `inbox release --to`. Otherwise wait until the lease runs out."
            raise leases.lease_held_error(lease, agent, hint=hint)
        if lapses.close_lapse(tx, thread, lease):
            leases.end_lease(tx, lease)
            return messages.post(
                tx, thread, content, kind="event", sender=agent, to=to, event_type="thread.reassigned", status=PENDING, assigned_to=to
            )
    raise leases.thread_ended_error(thread.replace(status=CANCELLED))  # after the commit: the lapse was the last attempt of its task


@verb(caller="agent", access=THREAD_CONTROL, mode=WRITE)
@retry_on_contention
def retry_thread(store: Store, thread_id: str, *, agent: str, reason: str = "") -> PostedMessage:
    """Reopen a thread that failed or was cancelled, with its history. It is pending for the same agent.

    Refuses with `InvalidState` a thread that has not ended, one that is done, one of which pruning has removed the beginning, and one
    of a task: its giver has the failure, and would never get a second result.
    """
    checks.name("agent", agent)
    content = messages.check_content(reason, "", "{}", ())
    with store.write() as tx:
        thread, _ = messages.lock_thread(tx, checks.name("thread", thread_id))
        if thread.status not in RETRIED_STATUSES:
            raise _not_retried_error(thread_id, thread.status)
        if removed.is_removed(tx, removed.THREAD, thread_id):
            hint = "Its task is not known any more: send it again as a new thread, with `inbox send`."
            raise InvalidState(f"{thread_id} cannot be retried: its beginning was removed", hint=hint, status=thread.status)
        task = tx.fetch_one(tx.sql.task_find, task_id=thread.task_id) if thread.task_id else None
        if task is not None:
            raise _task_not_retried_error(thread_id, task)
        to = thread.assigned_to
        if not reason:
            content = content.replace(summary=f"reopened: it was {thread.status}")
        return messages.post(tx, thread, content, kind="event", sender=agent, to=to, event_type="thread.retried", status=PENDING)


def _task_not_retried_error(thread_id: str, task: TaskRow) -> InvalidState:
    hint = f"The task is {task.status}, and is taken or accepted again: `inbox task show {shell_quote(task.task_id)}`."
    if not task.is_open:
        names = f"--from {shell_quote(task.source_agent)} --to {shell_quote(task.target_agent)}"
        hint = f"{task.source_agent} has its result. Submit the task again: `inbox task submit {names} --description TEXT`."
    return InvalidState(f"{thread_id} cannot be retried: it belongs to task {task.task_id}", hint=hint, task_id=task.task_id)


def _not_retried_error(thread_id: str, status: str) -> InvalidState:
    if status in TERMINAL_STATUSES:
        hint = "Its result was delivered. For anything more, send a new thread."
    else:
        hint = f"Only a thread that failed or was cancelled can be retried: see `inbox show --thread {shell_quote(thread_id)}`."
    return InvalidState(f"{thread_id} cannot be retried: it is {status}", hint=hint, status=status)
