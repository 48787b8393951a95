"""The statements of retention, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.store.postgres.work_statements import SETTLED_EVENT
from postroom.store.statements.retention import *  # noqa: F403
from postroom.store.tables import Query, single_value

# Differs from SQLite: an event that is not settled may still get predecessors.
prune_event_newest = Query(f"SELECT least({SETTLED_EVENT}, (SELECT coalesce(max(event_id), 0) - 1 FROM events))", single_value)

# Differs from SQLite: readers walk over the ids after the settled event that is stored, so it is stored before ids go.
prune_events_settle = f"UPDATE meta SET settled_event_id = {SETTLED_EVENT} WHERE settled_event_id < {SETTLED_EVENT}"
