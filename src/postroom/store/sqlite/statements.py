"""Every statement of the house, for SQLite: the common ones, and these."""

from __future__ import annotations

from postroom.store.statements import *  # noqa: F403
from postroom.store.statements import ARTIFACT, LISTED, MESSAGE, agent_find, cursor_find, mailbox_find

# A row of json_each is read once; the list of kinds stays one bind.
message_after = f"""
    SELECT {MESSAGE} FROM messages
    WHERE thread_id = :thread_id AND event_id > :after AND kind IN (SELECT value FROM json_each(:kinds))
    ORDER BY event_id LIMIT 1"""

artifacts_of_thread = f"""
    SELECT {ARTIFACT} FROM messages m JOIN artifacts a ON a.message_id = m.message_id
    WHERE m.thread_id = :thread_id ORDER BY m.event_id, a.rowid"""

artifacts_of_message = f"SELECT {ARTIFACT} FROM artifacts a WHERE a.message_id = :message_id ORDER BY a.rowid"

event_append = """
    INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
    VALUES (:run_id, :task_id, :thread_id, :source, :event_type, :message_id, :summary, :payload_json, :created_at)"""

# Differs from PostgreSQL: the counter of ids follows by itself when events are copied in.
events_settle = "SELECT 1"

agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at) VALUES (:name, :now, :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

# A write transaction is alone anyway.
mailbox_lock = mailbox_find

# Its counter follows what is inserted.
deliveries_settle = "SELECT 1"

# A write transaction is alone anyway.
cursor_lock = cursor_find

# An index of words beside the table, told of every change.
words_insert = "INSERT INTO entry_words (rowid, words) VALUES (:seq, :words)"
words_delete = "INSERT INTO entry_words (entry_words, rowid, words) VALUES ('delete', :seq, :words)"
words_settle = "INSERT INTO entry_words (entry_words) VALUES ('rebuild')"
entries_search = f"""
    {LISTED.replace("FROM entries e", "FROM entry_words w JOIN entries e ON e.seq = w.rowid")}
    WHERE entry_words MATCH :query ORDER BY w.rowid DESC LIMIT :limit"""

# A write transaction is alone anyway.
agent_lock = agent_find

# A write transaction is alone anyway.
entry_lock = "SELECT 1 FROM entries WHERE id = :id"
