"""The statements of the mail room that are the same on every engine. Instants are microseconds since 1970."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records import Event
from postroom.core.records.mail import (
    STATES,
    DeadLetterSize,
    DeliveryContents,
    DeliveryRow,
    KnownMessage,
    MailboxAlias,
    MailboxRow,
    MailId,
    MailSummary,
    StoredMessage,
    WaitingMessage,
)
from postroom.store.mail_values import decode_created_at, decode_payload
from postroom.store.tables import Query, Table, single_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAILBOXES = Table("mailboxes", MailboxRow.__fields__)
DELIVERIES = Table("deliveries", (*DeliveryRow.__fields__, *DeliveryContents.__fields__))
MAIL_IDS = Table("mail_ids", MailId.__fields__, key_columns=2)
ALIASES = Table("mail_aliases", MailboxAlias.__fields__)

DELIVERY_ROW_COLUMNS = ", ".join(DeliveryRow.__fields__)
DELIVERY_ROW_FIELD_COUNT = len(DeliveryRow.__fields__)


def make_delivery_row(*row: Any) -> DeliveryRow:
    made = DeliveryRow(*row)
    return made if made.created_at >= 0 else made.replace(created_at=decode_created_at(made.created_at))


def make_delivery_contents(extra_json: str, payload: str) -> DeliveryContents:
    return DeliveryContents(extra_json, decode_payload(payload))


def make_stored_message(*row: Any) -> StoredMessage:
    return StoredMessage(make_delivery_row(*row[:DELIVERY_ROW_FIELD_COUNT]), make_delivery_contents(*row[DELIVERY_ROW_FIELD_COUNT:]))


def make_known_message(session: str, payload: str | None, payload_digest: str | None) -> KnownMessage:
    return KnownMessage(session, None if payload is None else decode_payload(payload), payload_digest)


def make_waiting_message(
    msg_id: str, sender: str, created_at: int, attempt: int, state: str, due_at: int | None, rank: int, delivery_id: int
) -> WaitingMessage:
    due = None if due_at is None else clock.format_stamp(due_at)
    return WaitingMessage(MailSummary(msg_id, sender, decode_created_at(created_at), attempt, state, due), rank, delivery_id)


# mailboxes

mailbox_open = "INSERT INTO mailboxes (session) VALUES (:session) ON CONFLICT (session) DO NOTHING"

mailbox_find = Query(f"SELECT {MAILBOXES.column_list} FROM mailboxes WHERE session = :session", MailboxRow)

# As `mailbox_find`, for a name that may be an alias.
mailbox_find_named = Query(
    f"""
    SELECT {MAILBOXES.column_list} FROM mailboxes
    WHERE session = coalesce((SELECT session FROM mail_aliases WHERE name = :name), :name)""",
    MailboxRow,
)

# The counts alone. `mailbox_put` also writes the page of the index on next_due.
mailbox_count = "UPDATE mailboxes SET " + ", ".join(f"{state} = :{state}" for state in STATES) + " WHERE session = :session"

mailbox_put = f"UPDATE mailboxes SET {', '.join(f'{name} = :{name}' for name in MAILBOXES.columns[1:])} WHERE session = :session"

mailboxes_all = Query(f"SELECT {MAILBOXES.column_list} FROM mailboxes WHERE session > :after ORDER BY session LIMIT :limit", MailboxRow)

mailboxes_due = Query("SELECT session FROM mailboxes WHERE next_due <= :now ORDER BY next_due LIMIT :limit", single_value)

# deliveries

# A message ranks behind the open messages of the same sender, even if the sender's clock went back. Without any, it is the head.
delivery_insert = """
    INSERT INTO deliveries (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, expires_at, due_at, door,
                            extra_json, payload)
    SELECT CAST(:msg_id AS text), CAST(:session AS text), CAST(:sender AS text), CAST(:created_at AS bigint), 0, 'pending',
           CASE WHEN before.rank IS NULL THEN 1 ELSE 0 END,
           CASE WHEN before.rank > :rank THEN before.rank ELSE CAST(:rank AS bigint) END,
           CAST(:now AS bigint), CAST(:now AS bigint), CAST(:expires_at AS bigint), CAST(:expires_at AS bigint), CAST(:door AS text),
           CAST(:extra_json AS text), CAST(:payload AS text)
    FROM (SELECT (SELECT rank FROM deliveries WHERE session = :session AND sender = :sender AND ended_at IS NULL
                  ORDER BY delivery_id DESC LIMIT 1) AS rank) AS before"""

delivery_known = Query(
    """
    SELECT session, payload, CAST(NULL AS text) FROM deliveries WHERE msg_id = :msg_id AND sender = :sender
    UNION ALL SELECT session, NULL, payload_digest FROM mail_ids WHERE msg_id = :msg_id AND sender = :sender LIMIT 1""",
    make_known_message,
)

# Several senders may have used one id. A mailbox names its own messages, so the other mailboxes are left out here.
deliveries_named = Query(f"SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries WHERE msg_id = :msg_id AND session = :session", make_delivery_row)

deliveries_of_id = Query(f"SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries WHERE msg_id = :msg_id LIMIT :limit", make_delivery_row)

delivery_of_sender = Query(f"SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries WHERE msg_id = :msg_id AND sender = :sender", make_delivery_row)

delivery_contents = Query("SELECT extra_json, payload FROM deliveries WHERE delivery_id = :delivery_id", make_delivery_contents)

# A head that is not pending has a `move_at`: the end of its delivery, or of its backoff.
delivery_offer = Query(
    f"""
    SELECT {DELIVERIES.column_list} FROM deliveries
    WHERE session = :session AND head = 1 AND move_at IS NULL ORDER BY rank, delivery_id LIMIT 1""",
    make_stored_message,
)

delivery_offered = Query("SELECT 1 FROM deliveries WHERE session = :session AND head = 1 AND move_at IS NULL LIMIT 1", single_value)

delivery_move = """
    UPDATE deliveries
    SET state = :state, attempt = :attempt, head = :head, delivery_token = :delivery_token, since = :since, move_at = :move_at,
        due_at = :due_at, ended_at = :ended_at, reason = :reason
    WHERE delivery_id = :delivery_id AND state = :seen"""

# A move to `in_flight`. It leaves the columns of the indexes on waiting messages alone, so that their pages are not written.
delivery_hold = """
    UPDATE deliveries SET state = :state, delivery_token = :delivery_token, since = :since, move_at = :move_at, due_at = :due_at
    WHERE delivery_id = :delivery_id AND state = :seen"""

delivery_delete = "DELETE FROM deliveries WHERE delivery_id = :delivery_id"

delivery_latest = Query("SELECT coalesce(max(delivery_id), 0) FROM deliveries", single_value)

delivery_next_move = Query("SELECT min(move_at) FROM deliveries WHERE session = :session AND head = 1", single_value)

delivery_next_expiry = Query(
    "SELECT min(expires_at) FROM deliveries WHERE session = :session AND expires_at IS NOT NULL AND ended_at IS NULL", single_value
)

pair_advance = """
    UPDATE deliveries SET head = 1 WHERE delivery_id = (
      SELECT delivery_id FROM deliveries WHERE session = :session AND sender = :sender AND ended_at IS NULL
      ORDER BY delivery_id LIMIT 1)"""

# Deliveries and retries that began later than it is now, because the clock was set back.
deliveries_misdated = Query(
    f"""
    SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries
    WHERE session = :session AND head = 1 AND move_at > :now AND since > :latest ORDER BY move_at, rank, delivery_id LIMIT :limit""",
    make_delivery_row,
)

# Deliveries and backoffs whose time is over. Messages that expired before that are in `deliveries_expired`.
deliveries_overdue = Query(
    f"""
    SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries
    WHERE session = :session AND head = 1 AND move_at <= :now AND (expires_at IS NULL OR move_at < expires_at)
    ORDER BY move_at, rank, delivery_id LIMIT :limit""",
    make_delivery_row,
)

deliveries_expired = Query(
    f"""
    SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries
    WHERE session = :session AND expires_at <= :now AND ended_at IS NULL AND (move_at IS NULL OR move_at >= expires_at)
    ORDER BY expires_at, delivery_id LIMIT :limit""",
    make_delivery_row,
)

deliveries_waiting = Query(
    """
    SELECT msg_id, sender, created_at, attempt, state, due_at, rank, delivery_id FROM deliveries
    WHERE session = :session AND ended_at IS NULL AND (rank, delivery_id) > (:rank, :after) ORDER BY rank, delivery_id LIMIT :limit""",
    make_waiting_message,
)

deliveries_of_pair = Query(
    f"""
    SELECT {DELIVERIES.column_list} FROM deliveries
    WHERE session = :session AND sender = :sender AND ended_at IS NULL AND delivery_id > :after ORDER BY delivery_id LIMIT :limit""",
    make_stored_message,
)

# From the tail, so that the remaining messages of a pair (sender, session) keep their head.
deliveries_purgeable = Query(
    f"""
    SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries WHERE session = :session AND ended_at IS NULL AND delivery_id <= :upto
    ORDER BY rank DESC, delivery_id DESC LIMIT :limit""",
    make_delivery_row,
)

deliveries_dead = Query(
    f"""
    SELECT {DELIVERIES.column_list} FROM deliveries
    WHERE session = :session AND state = 'dead_letter' AND delivery_id > :after AND delivery_id <= :upto
    ORDER BY delivery_id LIMIT :limit""",
    make_stored_message,
)


def select_dead_sizes(size: str) -> Query[DeadLetterSize]:
    """Return the statement that reads the sizes of dead letters. `size` is an expression for the bytes of a payload."""
    return Query(
        f"""
    SELECT delivery_id, {size} AS bytes FROM deliveries
    WHERE session = :session AND state = 'dead_letter' AND delivery_id > :after ORDER BY delivery_id LIMIT :limit""",
        DeadLetterSize,
    )


deliveries_acked = Query(
    f"""
    SELECT {DELIVERIES.column_list} FROM deliveries
    WHERE session = :session AND state = 'acked' AND delivery_id < :before ORDER BY delivery_id DESC LIMIT :limit""",
    make_stored_message,
)

deliveries_acked_summaries = Query(
    """
    SELECT msg_id, sender, created_at, attempt, state, due_at, rank, delivery_id FROM deliveries
    WHERE session = :session AND state = 'acked' AND delivery_id < :before ORDER BY delivery_id DESC LIMIT :limit""",
    make_waiting_message,
)

deliveries_forgettable = Query(
    f"""
    SELECT {DELIVERY_ROW_COLUMNS} FROM deliveries WHERE delivery_id > :after AND ended_at < :before AND state IN ('acked', 'expired')
    ORDER BY delivery_id LIMIT :limit""",
    make_delivery_row,
)

deliveries_expire = """
    UPDATE deliveries
    SET expires_at = stored_at + CAST(:ttl AS bigint),
        due_at = CASE WHEN move_at < stored_at + CAST(:ttl AS bigint) THEN move_at
                      ELSE coalesce(stored_at + CAST(:ttl AS bigint), move_at) END
    WHERE session = :session AND ended_at IS NULL"""

mail_id_keep = MAIL_IDS.insert_statement()

mail_ids_of = Query(f"SELECT {MAIL_IDS.column_list} FROM mail_ids WHERE msg_id = :msg_id LIMIT :limit", MailId)

mail_steps = Query(
    f"""
    SELECT {", ".join(Event.__fields__)} FROM events
    WHERE thread_id = '' AND message_id = :msg_id AND event_id > :after ORDER BY event_id LIMIT :limit""",
    Event,
)

mail_step_put = "UPDATE events SET payload_json = :payload_json WHERE event_id = :event_id"

alias_put = "INSERT INTO mail_aliases (name, session) VALUES (:name, :session) ON CONFLICT (name) DO UPDATE SET session = excluded.session"

alias_find = Query("SELECT session FROM mail_aliases WHERE name = :name", single_value)

alias_of = Query("SELECT name FROM mail_aliases WHERE session = :session LIMIT 1", single_value)

alias_delete = "DELETE FROM mail_aliases WHERE name = :name"

aliases_all = Query(f"SELECT {ALIASES.column_list} FROM mail_aliases WHERE name > :after ORDER BY name LIMIT :limit", MailboxAlias)
