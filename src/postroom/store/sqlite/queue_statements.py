"""The SQL of a queue's own database. Its tables are its document's, and are on SQLite alone."""

from __future__ import annotations

EVENT_COLUMNS = "id, created_at, source, type, subtype, content"

EVENT_INSERT = "INSERT INTO events (created_at, source, type, subtype, content) VALUES (:created_at, :source, :type, :subtype, :content)"
EVENTS_INSERT = "INSERT INTO events (created_at, source, type, subtype, content) VALUES (?, ?, ?, ?, ?)"
EVENTS_AFTER = f"SELECT {EVENT_COLUMNS} FROM events WHERE id > :after ORDER BY id LIMIT :limit"
EVENT_TIME = "SELECT created_at FROM events WHERE id = :id"
EVENT_FROM = "SELECT id, created_at FROM events WHERE id >= :id ORDER BY id LIMIT 1"
EVENT_HEAD = "SELECT coalesce(max(id), 0) FROM events"
EVENT_COUNT = "SELECT count(*) FROM events"

SUBSCRIPTION_GET = "SELECT consumer_id, handler_cmd, filter FROM subscriptions WHERE consumer_id = :consumer"
SUBSCRIPTION_INSERT = "INSERT INTO subscriptions (consumer_id, handler_cmd, filter) VALUES (:consumer, :handler, :filter)"
SUBSCRIPTION_DELETE = "DELETE FROM subscriptions WHERE consumer_id = :consumer"
SUBSCRIPTIONS = "SELECT consumer_id, handler_cmd, filter FROM subscriptions ORDER BY consumer_id"

PROGRESS_GET = "SELECT consumer_id, last_acked_id, updated_at FROM consumer_progress WHERE consumer_id = :consumer"
PROGRESS_ALL = "SELECT consumer_id, last_acked_id, updated_at FROM consumer_progress ORDER BY consumer_id"
# Only ever forward, whoever comes late.
PROGRESS_ADVANCE = (
    "INSERT INTO consumer_progress (consumer_id, last_acked_id, updated_at) VALUES (:consumer, :acked, :now)"
    " ON CONFLICT (consumer_id) DO UPDATE SET last_acked_id = excluded.last_acked_id, updated_at = excluded.updated_at"
    " WHERE excluded.last_acked_id > last_acked_id"
)
PROGRESS_SET = (
    "INSERT INTO consumer_progress (consumer_id, last_acked_id, updated_at) VALUES (:consumer, :acked, :now)"
    " ON CONFLICT (consumer_id) DO UPDATE SET last_acked_id = excluded.last_acked_id, updated_at = excluded.updated_at"
)
