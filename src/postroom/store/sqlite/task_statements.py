"""The statements of the tasks room, for SQLite: the shared ones and the one that differs from PostgreSQL."""

from __future__ import annotations

from postroom.store.statements.tasks import *  # noqa: F403
from postroom.store.tables import Query, single_value

# Differs from PostgreSQL: a write transaction is alone, so it needs no lock.
job_hold = Query("SELECT 1 FROM jobs WHERE job_id = :job_id", single_value)
