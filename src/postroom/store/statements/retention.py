"""The statements that remove old or erased rows, and those of settings. They are the same on every engine."""

from __future__ import annotations

from postroom.core.records.retention import AgedEvent, AgedRow, EndedThread, ReadKey, TopicBlock
from postroom.core.states import TERMINAL_STATUSES
from postroom.store.tables import Query, Table, single_value

REMOVED_IDS = Table("removed_ids", ("kind", "id", "removed_at"), key_columns=2)
SETTINGS = Table("settings", ("name", "value"))
PLACE_SETTING = "place"  # where the file of the store belongs: its path, as `init` found it

THREAD_IDS = "SELECT value FROM json_each(:thread_ids)"  # a list of ids in one bind
KEY_MESSAGE_ID_LENGTH = 36  # of the id of a message that was posted with a key: `work.threads` derives it

# ids that outlive their rows, and settings

removed_find = Query("SELECT removed_at FROM removed_ids WHERE kind = :kind AND id = :id", single_value)
removed_keep = f"{REMOVED_IDS.insert_statement()} ON CONFLICT (kind, id) DO NOTHING"
setting_find = Query("SELECT value FROM settings WHERE name = :name", single_value)
setting_put = SETTINGS.upsert_statement()
setting_delete = "DELETE FROM settings WHERE name = :name"

# events

prune_event_from = Query("SELECT event_id, created_at FROM events WHERE event_id >= :event_id ORDER BY event_id LIMIT 1", AgedEvent)
# The newest event that may be removed. One stays, so that the newest id is always known.
prune_event_newest = Query("SELECT coalesce(max(event_id), 0) - 1 FROM events", single_value)
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
# Two senders may have used one id of mail. The history stays until the last of these messages is gone.
prune_subject_events = """
    DELETE FROM events WHERE thread_id = '' AND message_id = :subject AND event_id <= :upto
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.msg_id = :subject)"""
prune_topic_next = Query("SELECT topic, block FROM event_topics WHERE topic > :topic ORDER BY topic, block LIMIT 1", TopicBlock)
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
    SELECT thread_id FROM threads WHERE thread_id IN ({THREAD_IDS})
      AND +status IN ({", ".join(f"'{status}'" for status in sorted(TERMINAL_STATUSES))}) AND updated_at < :before""",
    single_value,
)
# Those with too many events for one transaction. Each message has one.
prune_threads_long = Query(
    f"""
    SELECT thread_id FROM events WHERE thread_id IN ({THREAD_IDS}) AND thread_id <> ''
    GROUP BY thread_id HAVING count(*) > :most ORDER BY thread_id""",
    single_value,
)
prune_event_ids = Query("SELECT event_id FROM events WHERE thread_id = :thread_id AND thread_id <> '' ORDER BY event_id", single_value)
prune_thread_ids = f"""
    INSERT INTO removed_ids (kind, id, removed_at)
    SELECT 'thread', value, CAST(:now AS bigint) FROM ({THREAD_IDS}) ids WHERE true ON CONFLICT (kind, id) DO NOTHING"""
prune_thread_keys = f"""
    INSERT INTO removed_ids (kind, id, removed_at)
    SELECT 'message', message_id, CAST(:now AS bigint) FROM messages
    WHERE thread_id IN ({THREAD_IDS}) AND event_id <= :until AND length(message_id) = {KEY_MESSAGE_ID_LENGTH}
    ON CONFLICT (kind, id) DO NOTHING"""
prune_thread_artifacts = f"""
    DELETE FROM artifacts
    WHERE message_id IN (SELECT message_id FROM messages WHERE thread_id IN ({THREAD_IDS}) AND event_id <= :until)"""
# The marks of all that take part. `prune_reads_after` finds those of others, which no list shows.
prune_thread_reads = """
    DELETE FROM reads WHERE thread_id = :thread_id AND agent_id IN (
      SELECT from_agent FROM messages WHERE thread_id = :thread_id UNION SELECT to_agent FROM messages WHERE thread_id = :thread_id
      UNION SELECT created_by FROM threads WHERE thread_id = :thread_id
      UNION SELECT assigned_to FROM threads WHERE thread_id = :thread_id)"""
prune_thread_messages = f"DELETE FROM messages WHERE thread_id IN ({THREAD_IDS}) AND event_id <= :until"
prune_thread_leases = f"DELETE FROM leases WHERE thread_id IN ({THREAD_IDS})"
prune_thread_events = f"DELETE FROM events WHERE thread_id IN ({THREAD_IDS}) AND thread_id <> '' AND event_id <= :upto"
prune_thread_rows = f"DELETE FROM threads WHERE thread_id IN ({THREAD_IDS})"
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
    """
    SELECT e.id, e.seq AS position FROM entries e
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
prune_replies = """
    DELETE FROM replies WHERE entry_id = :entry_id
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.msg_id = replies.message_id AND d.ended_at IS NULL)"""
