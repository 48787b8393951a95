"""The state of a consumer for people: whether its handler runs, since when events wait, and why nothing runs. `queue.info` calls it."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.errors import FilterFailed, NoStore, Refusal, UntrustedStore
from postroom.core.records.queues import Consumer, ConsumerProgress
from postroom.core.text import to_file_name
from postroom.queues.dead_events import list_dead
from postroom.queues.locks import read_lock
from postroom.queues.subscriptions import read_subscription_state
from postroom.store.files.ownership import require_own_queue
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.queues import Subscription
    from postroom.queues.queue import Queue

NO_PROGRESS = ConsumerProgress("", 0, "")


def describe_consumer(queue: Queue, subscription: Subscription, progress: ConsumerProgress) -> Consumer:
    """Return a consumer with its progress, its handler and its problem, if any."""
    name = subscription.consumer_id
    stored, is_held = read_lock(queue.path, name)
    problem = state = None
    try:
        state = read_subscription_state(queue, name)
    except FilterFailed as refusal:
        problem = str(refusal)
    event = state.next_event if state is not None else None
    is_running = is_held and bool(stored.get("group"))
    if problem is None:
        problem = describe_problem(stored, is_held)
    return Consumer(
        subscription,
        progress.last_acked_id,
        progress.updated_at or None,
        is_running,
        problem,
        waiting_since=event.created_at if event is not None else None,
        waiting_because=_explain_idle(queue) if event is not None and not is_held else None,
        running_since=clock.format_stamp(stored["started_at"]) if is_running and stored.get("started_at") else None,
        pid=stored.get("group") if is_running else None,
        last_run=stored.get("last_run") or None,
        output=_find_output(queue, name),
        dead_events=len(list_dead(queue, name)),
        timeout_seconds=state.timeout_seconds if state is not None else None,
        max_tries=state.max_tries if state is not None else None,
    )


def summarize_known_queues() -> tuple[dict[str, Any], ...]:
    """Return what waits in each queue that this user has used: its path, newest event, consumers, and its problem, if any."""
    from postroom.queues import notifier

    if not os.path.exists(os.path.join(notifier.default_home(), "notifier.db")):
        return ()
    with notifier.open_notifier() as opened:
        return tuple([_summarize_queue(queue.path) for queue in notifier.list_queues(opened)])


def _summarize_queue(path: str) -> dict[str, Any]:
    from postroom.queues.queue import Queue, head

    summary: dict[str, Any] = {"thread": path, "last_event_id": 0, "consumers": 0, "waiting": 0, "running": 0, "trouble": None}
    try:
        with Queue(path, door="cli") as queue:
            with queue.file.read() as tx:
                subscriptions = tx.fetch_all(sql.SUBSCRIPTIONS)
            consumers = [describe_consumer(queue, subscription, NO_PROGRESS) for subscription in subscriptions]
            summary |= {
                "last_event_id": head(queue),
                "consumers": len(consumers),
                "waiting": len([one for one in consumers if one.waiting_since]),
                "running": len([one for one in consumers if one.running]),
            }
    except NoStore:
        summary["trouble"] = "it was deleted"
    except Refusal as refusal:
        summary["trouble"] = str(refusal)
    return summary


def needs_dispatch(path: str) -> bool:
    """Return whether a queue of ours has a consumer with unread events that no process looks after."""
    from postroom.queues.queue import Queue

    try:
        with Queue(path, door="cli") as queue:
            require_own_queue(queue.file.location)
            with queue.file.read() as tx:
                consumers = [subscription.consumer_id for subscription in tx.fetch_all(sql.SUBSCRIPTIONS)]
            return any(_waits_alone(queue, consumer) for consumer in consumers)
    except (Refusal, OSError):
        return False  # it is gone or broken: `thread info` reports that


def _waits_alone(queue: Queue, consumer: str) -> bool:
    try:
        state = read_subscription_state(queue, consumer)
    except FilterFailed:
        return False
    return state is not None and state.unread and not read_lock(queue.path, consumer)[1]


def describe_problem(state: dict[str, Any], is_held: bool) -> str | None:
    """Return what the state of a consumer's lock tells about runs that failed, or None."""
    fruitless = state.get("fruitless") or 0
    problems = [str(state["trouble"])] if state.get("trouble") else []
    if fruitless:
        problems.append(f"{fruitless} {'run' if fruitless == 1 else 'runs in a row'} made no progress")
        if state.get("last_run"):
            problems.append(f"the last ended with {state['last_run']}")
    if is_held and state.get("resting") and state.get("not_before"):
        problems.append(f"the next is at {clock.format_stamp(state['not_before'])}")
    return ", ".join(problems) or None


def _explain_idle(queue: Queue) -> str:
    """Return why no process looks after a consumer that has unread events."""
    from postroom.queues import notifier

    try:
        require_own_queue(queue.file.location)
    except UntrustedStore as refusal:
        return f"{refusal}. {refusal.hint}"
    if os.environ.get("THREAD_NOTIFIER"):
        return "nothing has dispatched it: the notifier of THREAD_NOTIFIER does that, or `thread dispatch`"
    try:
        up, reason = notifier.explain_runner()
    except Refusal as refusal:
        return f"the notifier cannot be read: {refusal}"
    return "its dispatch is about to begin" if up else reason


def _find_output(queue: Queue, consumer: str) -> str | None:
    path = output_path(queue.path, consumer)
    return path if os.path.exists(path) else None


def output_path(folder: str, consumer: str) -> str:
    """Return the path of the file with the output of a consumer's handler."""
    return os.path.join(folder, "logs", to_file_name(consumer) + ".out")
