"""The statements of a queue's own database, which exists on SQLite only. The queue document defines its tables. `queues` uses them."""

from __future__ import annotations

from postroom.core.records.queues import ConsumerProgress, DeadEvent, EventLength, EventTime, HandlerLimits, QueueEvent, Subscription
from postroom.store.tables import Query, Table, single_value

EVENTS = Table("events", QueueEvent.__fields__)
SUBSCRIPTION_TABLE = Table("subscriptions", Subscription.__fields__)
PROGRESS_TABLE = Table("consumer_progress", ConsumerProgress.__fields__)
ENVIRONMENT_TABLE = Table("subscription_environment", ("consumer_id", "name", "value"))
LIMITS_TABLE = Table("subscription_limits", ("consumer_id", "timeout_seconds", "max_tries"))
DEAD_TABLE = Table("dead_events", DeadEvent.__fields__)

EVENT_COLUMNS = EVENTS.column_list
_DRAFT = EVENTS.columns[1:]  # without the id, which the database assigns

EVENT_INSERT = f"INSERT INTO events ({', '.join(_DRAFT)}) VALUES (:{', :'.join(_DRAFT)})"
EVENTS_INSERT = f"INSERT INTO events ({', '.join(_DRAFT)}) VALUES ({', '.join('?' * len(_DRAFT))})"
EVENTS_ADOPT = f"INSERT INTO events ({EVENTS.column_list}) VALUES ({', '.join('?' * len(EVENTS.columns))})"  # with their ids
EVENTS_AFTER = Query(f"SELECT {EVENTS.column_list} FROM events WHERE id > :after ORDER BY id LIMIT :limit", QueueEvent)
EVENT_TIME = Query("SELECT created_at FROM events WHERE id = :id", single_value)
EVENT_FROM = Query("SELECT id, created_at FROM events WHERE id >= :id ORDER BY id LIMIT 1", EventTime)
EVENT_HEAD = Query("SELECT coalesce(max(id), 0) FROM events", single_value)
EVENT_OLDEST = Query("SELECT coalesce(min(id), 1) FROM events", single_value)
EVENT_YOUNG = Query("SELECT id FROM events WHERE id <= :upto AND created_at >= :before ORDER BY id LIMIT 1", single_value)
EVENT_LENGTHS = Query(
    "SELECT id, length(content) AS chars FROM events WHERE id > :after AND id <= :upto ORDER BY id LIMIT :limit", EventLength
)
EVENTS_DELETE = "DELETE FROM events WHERE id <= :upto"
EVENT_COUNT = Query("SELECT count(*) FROM events", single_value)

_SUBSCRIPTION = f"SELECT {SUBSCRIPTION_TABLE.column_list} FROM subscriptions"
SUBSCRIPTION_GET = Query(f"{_SUBSCRIPTION} WHERE consumer_id = :consumer", Subscription)
SUBSCRIPTION_INSERT = f"INSERT INTO subscriptions ({SUBSCRIPTION_TABLE.column_list}) VALUES (:consumer, :handler, :filter)"
SUBSCRIPTION_DELETE = "DELETE FROM subscriptions WHERE consumer_id = :consumer"
SUBSCRIPTIONS = Query(f"{_SUBSCRIPTION} ORDER BY consumer_id", Subscription)

# Tables that a queue gets when they are first needed: with the first variable, limit or dead event.
ADDED_TABLES = Query(
    "SELECT name FROM sqlite_master WHERE name IN ('subscription_environment', 'subscription_limits', 'dead_events')", single_value
)
ENVIRONMENT_OF = "SELECT name, value FROM subscription_environment WHERE consumer_id = :consumer"
ENVIRONMENT_INSERT = f"INSERT INTO subscription_environment ({ENVIRONMENT_TABLE.column_list}) VALUES (:consumer, :name, :value)"
ENVIRONMENT_DELETE = "DELETE FROM subscription_environment WHERE consumer_id = :consumer"

_PROGRESS = f"SELECT {PROGRESS_TABLE.column_list} FROM consumer_progress"
PROGRESS_GET = Query(f"{_PROGRESS} WHERE consumer_id = :consumer", ConsumerProgress)
PROGRESS_ALL = Query(f"{_PROGRESS} ORDER BY consumer_id", ConsumerProgress)
PROGRESS_SET = (
    f"INSERT INTO consumer_progress ({PROGRESS_TABLE.column_list}) VALUES (:consumer, :acked, :now)"
    " ON CONFLICT (consumer_id) DO UPDATE SET last_acked_id = excluded.last_acked_id, updated_at = excluded.updated_at"
)
# Progress moves only forward, even if two acknowledgements arrive out of order.
PROGRESS_ADVANCE = f"{PROGRESS_SET} WHERE excluded.last_acked_id > last_acked_id"

LIMITS_OF = Query("SELECT timeout_seconds, max_tries FROM subscription_limits WHERE consumer_id = :consumer", HandlerLimits)
LIMITS_SET = (
    f"INSERT INTO subscription_limits ({LIMITS_TABLE.column_list}) VALUES (:consumer, :timeout, :tries)"
    " ON CONFLICT (consumer_id) DO UPDATE SET timeout_seconds = excluded.timeout_seconds, max_tries = excluded.max_tries"
)
LIMITS_DELETE = "DELETE FROM subscription_limits WHERE consumer_id = :consumer"

_DEAD = f"SELECT {DEAD_TABLE.column_list} FROM dead_events"
DEAD_OF = Query(f"{_DEAD} WHERE consumer_id = :consumer ORDER BY event_id", DeadEvent)
DEAD_ALL = Query(f"{_DEAD} ORDER BY consumer_id, event_id", DeadEvent)
DEAD_SET = (
    f"INSERT INTO dead_events ({DEAD_TABLE.column_list}) VALUES (:consumer, :event, :tries, :reason, :now, 0)"
    " ON CONFLICT (consumer_id, event_id) DO UPDATE SET tries = tries + excluded.tries, reason = excluded.reason,"
    " set_aside_at = excluded.set_aside_at, retrying = 0"
)
DEAD_OLDEST = Query("SELECT min(event_id) FROM dead_events", single_value)
DEAD_RETRY = "UPDATE dead_events SET retrying = 1 WHERE consumer_id = :consumer AND event_id = :event"
DEAD_DELETE = "DELETE FROM dead_events WHERE consumer_id = :consumer AND event_id = :event"
DEAD_RETRYING = Query(
    "SELECT event_id FROM dead_events WHERE consumer_id = :consumer AND retrying = 1 ORDER BY event_id LIMIT 1", single_value
)
