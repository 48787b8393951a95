"""The statements of retention, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records.retention import PartKey, ThreadSize
from postroom.store.postgres.work_statements import SETTLED_EVENT
from postroom.store.statements import retention as shared
from postroom.store.statements.retention import *  # noqa: F403
from postroom.store.tables import Query, single_value

# Differs from SQLite: an event that is not settled may still get predecessors.
prune_event_newest = Query(f"SELECT least({SETTLED_EVENT}, (SELECT coalesce(max(event_id), 0) - 1 FROM events))", single_value)

# Differs from SQLite: readers walk over the ids after the settled event that is stored, so it is stored before ids go.
prune_events_settle = f"UPDATE meta SET settled_event_id = {SETTLED_EVENT} WHERE settled_event_id < {SETTLED_EVENT}"


def _with_list(statement: str) -> str:
    """Return a shared statement as PostgreSQL reads lists of ids: json_array_elements_text for json_each."""
    return statement.replace(shared.IDS, "SELECT json_array_elements_text(CAST(:ids AS json)) AS value")


# Differs from SQLite: a thread that another transaction has locked is left for the next run.
prune_threads_held = Query(f"{_with_list(shared.prune_threads_held).replace('+status', 'status')} FOR UPDATE SKIP LOCKED", single_value)
# Differs from SQLite: the list.
prune_thread_sizes = Query(_with_list(shared.prune_thread_sizes), ThreadSize)
# Differs from SQLite: the list.
prune_subjects_long = Query(_with_list(shared.prune_subjects_long), single_value)
# Differs from SQLite: the list.
prune_entry_parts = Query(_with_list(shared.prune_entry_parts), PartKey)
# Differs from SQLite: the list.
prune_thread_ids = _with_list(shared.prune_thread_ids)
# Differs from SQLite: the list.
prune_thread_keys = _with_list(shared.prune_thread_keys)
# Differs from SQLite: the list.
prune_thread_artifacts = _with_list(shared.prune_thread_artifacts)
# Differs from SQLite: the list.
prune_thread_messages = _with_list(shared.prune_thread_messages)
# Differs from SQLite: the list.
prune_thread_leases = _with_list(shared.prune_thread_leases)
# Differs from SQLite: the list.
prune_thread_events = _with_list(shared.prune_thread_events)
# Differs from SQLite: the list.
prune_thread_rows = _with_list(shared.prune_thread_rows)
