"""Wake waiters for tasks when a deadline or a lease ends: no transaction notifies them then. Used by the conductor."""

from __future__ import annotations

from postroom.core import clock
from postroom.work.lapses import seconds_until_lapse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store

_AFTER_ALL_STAMPS = "~"


class DueTaskWake:
    """A periodic task of `wait_until` that is due when the next deadline or lease of any task, or lease of any job, ends.

    With `with_threads`, also when the next lease of any thread ends: a task that is worked on in a thread may then be accepted.
    """

    def __init__(self, store: Store, *, with_threads: bool = False) -> None:
        self._store = store
        self._with_threads = with_threads

    def seconds_until_due(self) -> float | None:
        """Return the seconds until then, at least 0.001, or None if nothing falls due."""
        with self._store.read() as tx:
            task = tx.fetch_one(tx.sql.tasks_due, now=_AFTER_ALL_STAMPS, limit=1)
            job = tx.fetch_one(tx.sql.jobs_lapsed, now=_AFTER_ALL_STAMPS, limit=1)
            stamps = [stamp for stamp in (task and task.due_at, job and job.lease_expires_at) if stamp]
            waits = [max((clock.parse_stamp(min(stamps)) - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)] if stamps else []
            lapse = seconds_until_lapse(tx) if self._with_threads else None
            return min(waits if lapse is None else [*waits, lapse], default=None)

    def run(self) -> None:
        """Do nothing: the next read settles the tasks."""
