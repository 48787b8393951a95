"""The event log: the only function that appends to it. Every room calls it."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from postroom.store.interface import Transaction


def append_event(
    tx: Transaction,
    topics: Iterable[str],
    *,
    event_type: str,
    source: str,
    payload: Mapping[str, object],
    message_id: str | None = None,
    summary: str = "",
    run_id: str = "",
    task_id: str = "",
    thread_id: str = "",
    created_at: str | None = None,
) -> int:
    """Append an event in the transaction of the change that it announces, and return its id.

    Waiters that watch one of its topics wake after the COMMIT. `run_id`, `task_id` and `thread_id` are those of the event's thread, if it
    has one. `created_at` is the transaction's time, for callers that have already formatted it.
    """
    return tx.insert_event(
        tx.sql.event_append,
        topics,
        run_id=run_id,
        task_id=task_id,
        thread_id=thread_id,
        source=source,
        event_type=event_type,
        message_id=message_id,
        summary=summary,
        payload_json=jsontext.dumps(payload),
        created_at=created_at or clock.format_stamp(tx.now()),
    )
