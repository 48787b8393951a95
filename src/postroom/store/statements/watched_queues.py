"""The statements of watched queues, in a module of their own because few commands need them."""

from __future__ import annotations

from postroom.core.records.watched_queues import WatchedQueue
from postroom.store.tables import Query, Table, single_value

WATCHED_QUEUES = Table("watched_queues", WatchedQueue.__fields__)

queue_insert = WATCHED_QUEUES.insert_statement()
queue_find = Query(f"SELECT {WATCHED_QUEUES.column_list} FROM watched_queues WHERE path = :path", WatchedQueue)
queue_delete = "DELETE FROM watched_queues WHERE path = :path"
queue_at = Query("SELECT path FROM watched_queues ORDER BY path LIMIT 1 OFFSET :number", single_value)
queues_all = Query(f"SELECT {WATCHED_QUEUES.column_list} FROM watched_queues ORDER BY path LIMIT :limit", WatchedQueue)
