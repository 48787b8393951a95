"""The statements of the tasks room, for PostgreSQL: the shared ones and the one that differs from SQLite."""

from __future__ import annotations

from postroom.store.statements.tasks import *  # noqa: F403
from postroom.store.tables import Query, single_value

# Differs from SQLite: the job cannot end until COMMIT. Several transactions can hold it at the same time.
job_hold = Query("SELECT 1 FROM jobs WHERE job_id = :job_id FOR SHARE", single_value)
