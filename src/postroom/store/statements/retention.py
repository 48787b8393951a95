"""The statements that remove old or erased rows, and those of settings. They are the same on every engine."""

from __future__ import annotations

from postroom.core.checks import AFTER_ALL_IDS
from postroom.core.records.retention import AgedEvent, AgedRow, EndedThread, EventSize, PartKey, ReadKey, ThreadSize, TopicBlock
from postroom.core.states import TERMINAL_STATUSES
from postroom.store.tables import Query, Table, single_value

REMOVED_IDS = Table("removed_ids", ("kind", "id", "removed_at"), key_columns=2)
SETTINGS = Table("settings", ("name", "value"))
PLACE_SETTING = "place"  # where the file of the store belongs: its path, as `init` found it

IDS = "SELECT value FROM json_each(:ids)"  # a list of ids in one bind
CHARS_PER_ROW = 65_536  # of a text: to free its pages takes about as long as to delete another row
WORD_CHARS_PER_ROW = 200  # of the words of an entry, which leave the search index one by one
MOST_COUNTED_EVENTS = 100  # of a thread: of these, the messages are read. One with more goes in steps anyway
KEY_MESSAGE_ID_LENGTH = 36  # of the id of a message that was posted with a key: `work.threads` derives it

# ids that outlive their rows, and settings

removed_find = Query("SELECT removed_at FROM removed_ids WHERE kind = :kind AND id = :id", single_value)
removed_keep = f"{REMOVED_IDS.insert_statement()} ON CONFLICT (kind, id) DO NOTHING"
setting_find = Query("SELECT value FROM settings WHERE name = :name", single_value)
setting_put = SETTINGS.upsert_statement()
setting_delete = "DELETE FROM settings WHERE name = :name"

# events

# The newest event that may be removed. One stays, so that the newest id is always known.
prune_event_newest = Query("SELECT coalesce(max(event_id), 0) - 1 FROM events", single_value)
# The first young event of an interval, and the event with the last time of the old ones.
prune_event_young = Query(
    """
    SELECT min(event_id) FROM events
    WHERE event_id > :after AND event_id <= :until AND created_at >= :before AND created_at <= :now""",
    single_value,
)
prune_event_old = Query(
    """
    SELECT event_id, created_at FROM events
    WHERE event_id > :after AND event_id <= :until AND created_at = (
      SELECT max(created_at) FROM events WHERE event_id > :after AND event_id <= :until AND created_at < :before)
    ORDER BY event_id DESC LIMIT 1""",
    AgedEvent,
)
# Differs from PostgreSQL: every visible event is settled.
prune_events_settle = "SELECT 1"

# The events of an interval that belong to nothing that is still here: neither a thread nor mail, a task or an entry. With NOT EXISTS,
# PostgreSQL would read each of those tables as a whole for every interval, because it does not know how short one is.
prune_events = """
    DELETE FROM events WHERE event_id > :after AND event_id <= :until
      AND (SELECT 1 FROM threads t WHERE t.thread_id = events.thread_id LIMIT 1) IS NULL
      AND (SELECT 1 FROM deliveries d WHERE d.msg_id = events.message_id LIMIT 1) IS NULL
      AND (SELECT 1 FROM tasks k WHERE k.task_id = events.message_id LIMIT 1) IS NULL
      AND (SELECT 1 FROM entries n WHERE n.id = events.message_id LIMIT 1) IS NULL"""
# Two senders may have used one id of mail. The history stays until the last of these messages goes, which is `delivery_id`.
prune_subject_events = """
    DELETE FROM events WHERE thread_id = '' AND message_id = :subject AND event_id <= :upto
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.msg_id = :subject AND d.delivery_id <> :delivery_id)"""
# Those with too many events for one transaction.
prune_subjects_long = Query(
    f"""
    SELECT message_id FROM events WHERE thread_id = '' AND message_id IN ({IDS})
    GROUP BY message_id HAVING count(*) > :most ORDER BY message_id""",
    single_value,
)
prune_subject_event_ids = Query(
    """
    SELECT event_id FROM events WHERE thread_id = '' AND message_id = :subject AND event_id > :after AND event_id <= :upto
    ORDER BY event_id LIMIT :limit""",
    single_value,
)
# The first block of each topic.
prune_topics_after = Query(
    "SELECT topic, min(block) AS block FROM event_topics WHERE topic > :topic GROUP BY topic ORDER BY topic LIMIT :limit", TopicBlock
)
prune_topic = "DELETE FROM event_topics WHERE topic = :topic AND block < :until"

# threads

prune_threads = Query(
    """
    SELECT t.thread_id, t.run_id, t.updated_at FROM threads t
    WHERE t.status = :status AND t.updated_at >= :after_at AND t.updated_at < :before
      AND (t.updated_at > :after_at OR t.thread_id > :after_id)
      AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.is_open = 1 AND k.thread_id IS NOT NULL AND k.thread_id = t.thread_id)
    ORDER BY t.updated_at, t.thread_id LIMIT :limit""",
    EndedThread,
)
# The threads that may still be removed. `+` keeps SQLite from reading all ended threads.
prune_threads_held = Query(
    f"""
    SELECT thread_id FROM threads WHERE thread_id IN ({IDS})
      AND +status IN ({", ".join(f"'{status}'" for status in sorted(TERMINAL_STATUSES))}) AND updated_at < :before""",
    single_value,
)
# The size of a message in rows: itself, its artifacts, and one row more for each `CHARS_PER_ROW` characters of their texts.
_MESSAGE_SIZE = f"""
    1 + (length(m.body) + length(m.payload_json)) / {CHARS_PER_ROW} + (
      SELECT count(*) + coalesce(sum(length(a.metadata_json)), 0) / {CHARS_PER_ROW} FROM artifacts a WHERE a.message_id = m.message_id)"""
prune_thread_sizes = Query(
    f"""
    SELECT t.thread_id, CAST(
      (SELECT count(*) FROM events e WHERE e.thread_id = t.thread_id AND e.thread_id <> '')
      + coalesce((
        SELECT sum({_MESSAGE_SIZE}) FROM messages m WHERE m.thread_id = t.thread_id AND m.event_id <= coalesce((
          SELECT n.event_id FROM events n WHERE n.thread_id = t.thread_id AND n.thread_id <> ''
          ORDER BY n.event_id LIMIT 1 OFFSET {MOST_COUNTED_EVENTS}), {AFTER_ALL_IDS})), 0) AS bigint) AS size
    FROM threads t WHERE t.thread_id IN ({IDS})""",
    ThreadSize,
)
# All events of a thread but the newest, each with the size of its message.
prune_event_sizes = Query(
    f"""
    SELECT e.event_id, CAST(1 + coalesce((
      SELECT {_MESSAGE_SIZE} FROM messages m WHERE m.thread_id = :thread_id AND m.event_id = e.event_id LIMIT 1), 0) AS bigint) AS size
    FROM events e WHERE e.thread_id = :thread_id AND e.thread_id <> '' AND e.event_id > :after
      AND e.event_id < (SELECT max(n.event_id) FROM events n WHERE n.thread_id = :thread_id AND n.thread_id <> '')
    ORDER BY e.event_id LIMIT :limit""",
    EventSize,
)
prune_thread_ids = f"""
    INSERT INTO removed_ids (kind, id, removed_at)
    SELECT 'thread', value, CAST(:now AS bigint) FROM ({IDS}) ids WHERE true ON CONFLICT (kind, id) DO NOTHING"""
prune_thread_keys = f"""
    INSERT INTO removed_ids (kind, id, removed_at)
    SELECT 'message', message_id, CAST(:now AS bigint) FROM messages
    WHERE thread_id IN ({IDS}) AND event_id <= :until AND length(message_id) = {KEY_MESSAGE_ID_LENGTH}
    ON CONFLICT (kind, id) DO NOTHING"""
prune_thread_artifacts = f"""
    DELETE FROM artifacts
    WHERE message_id IN (SELECT message_id FROM messages WHERE thread_id IN ({IDS}) AND event_id <= :until)"""
# The marks of the senders and receivers of the messages that are removed in the same transaction. `prune_reads_after` finds those of
# others, which no list shows.
prune_thread_reads = """
    DELETE FROM reads WHERE thread_id = :thread_id AND agent_id IN (
      SELECT from_agent FROM messages WHERE thread_id = :thread_id AND event_id <= :until
      UNION SELECT to_agent FROM messages WHERE thread_id = :thread_id AND event_id <= :until
      UNION SELECT created_by FROM threads WHERE thread_id = :thread_id
      UNION SELECT assigned_to FROM threads WHERE thread_id = :thread_id)"""
prune_thread_messages = f"DELETE FROM messages WHERE thread_id IN ({IDS}) AND event_id <= :until"
prune_thread_leases = f"DELETE FROM leases WHERE thread_id IN ({IDS})"
prune_thread_events = f"DELETE FROM events WHERE thread_id IN ({IDS}) AND thread_id <> '' AND event_id <= :upto"
prune_thread_rows = f"DELETE FROM threads WHERE thread_id IN ({IDS})"
prune_reads_after = Query(
    """
    SELECT r.agent_id, r.thread_id,
      coalesce((SELECT 1 FROM threads t WHERE t.thread_id = r.thread_id), 0) AS has_thread
    FROM reads r WHERE (r.agent_id, r.thread_id) > (:agent_id, :thread_id) ORDER BY r.agent_id, r.thread_id LIMIT :limit""",
    ReadKey,
)
prune_read = "DELETE FROM reads WHERE agent_id = :agent_id AND thread_id = :thread_id"

# tasks and jobs, in the order of their arrival

prune_tasks = Query(
    """
    SELECT task_id AS id, event_id AS position FROM tasks
    WHERE event_id > :after AND event_id <= :upto AND is_open = 0 AND coalesce(ended_at, created_at) < :before
    ORDER BY event_id LIMIT :limit""",
    AgedRow,
)
prune_task = "DELETE FROM tasks WHERE task_id = :task_id AND is_open = 0"
prune_jobs = Query(
    """
    SELECT j.job_id AS id, j.event_id AS position FROM jobs j
    WHERE j.event_id > :after AND j.event_id <= :upto AND j.status = 'ended' AND j.updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.is_open = 1 AND k.target_job_id = j.job_id)
    ORDER BY j.event_id LIMIT :limit""",
    AgedRow,
)
prune_job = "DELETE FROM jobs WHERE job_id = :job_id AND status = 'ended'"

# entries

# Entries that a person has read or put away, and that wait for nobody: not pinned, not snoozed, no open question, no answer on its way.
# They age from the last thing that happened to them: a push, a read, a change of state, an answer or a reply.
prune_entries = Query(
    f"""
    SELECT e.id, e.seq AS position, 1 + length(e.words) / {WORD_CHARS_PER_ROW} AS size FROM entries e
    WHERE e.seq > :after AND e.seq <= :upto AND e.root_id IS NULL AND e.is_open = 0 AND e.pinned_at IS NULL AND e.active_ts < :before
      AND (e.triage = 'done' OR (e.triage = 'inbox' AND e.read_at IS NOT NULL))
      AND (e.read_at IS NULL OR e.read_at < :before_stamp)
      AND NOT EXISTS (SELECT 1 FROM events v WHERE v.event_id = e.changed_seq AND v.created_at >= :before_stamp)
      AND NOT EXISTS (
        SELECT 1 FROM asks a WHERE a.matter_id = e.id
          AND (a.state = 'open' OR a.answered_at >= :before_stamp OR (a.collected_at IS NULL AND a.thread_id IS NULL)))
      AND NOT EXISTS (SELECT 1 FROM replies r WHERE r.entry_id = e.id AND r.created_at >= :before_stamp)
    ORDER BY e.seq LIMIT :limit""",
    AgedRow,
)
prune_entry_parts = Query(f"SELECT id, root_id FROM entries WHERE root_id IN ({IDS}) ORDER BY root_id, seq DESC", PartKey)
prune_replies = """
    DELETE FROM replies WHERE entry_id = :entry_id
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.msg_id = replies.message_id AND d.ended_at IS NULL)"""
