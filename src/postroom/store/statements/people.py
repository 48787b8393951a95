"""The statements of the people room that are the same on every engine."""

from __future__ import annotations

from postroom.core.records.agent_sessions import AgentConversation, WakeRoute
from postroom.core.records.handovers import HandedItem
from postroom.core.records.passes import Pass
from postroom.core.records.people import Ask, ChangedEntry, DeletedEntry, DocumentReading, Entry, EntryPlace, PersonReply, Workspace
from postroom.core.records.room_search import FoundMail, FoundMessage
from postroom.store.tables import Query, Table, single_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WORKSPACES = Table("workspaces", (*Workspace.__fields__, "token_hash"))
ENTRIES = Table("entries", Entry.__fields__[:-2])  # without `ask`, which has a table of its own, and `latest`, which lists derive
DELETED_ENTRIES = Table("entries_gone", DeletedEntry.__fields__)
ASKS = Table("asks", Ask.__fields__)
REPLIES = Table("replies", PersonReply.__fields__)
PUSHED_TEXTS = Table("pushed_texts", ("entry_id", "path", "text"), key_columns=2)
READ_DOCUMENTS = Table("read_documents", DocumentReading.__fields__, key_columns=3)
PASSES = Table("passes", Pass.__fields__)
HANDOVERS = Table("handovers", HandedItem.__fields__, key_columns=4)
CONVERSATIONS = Table("conversations", AgentConversation.__fields__, key_columns=2)
WAKE_ROUTES = Table("wake_routes", WakeRoute.__fields__, key_columns=3)
CURSORS = Table("cursors", ("name", "event_id"))

WORKSPACE_COLUMNS = ", ".join(Workspace.__fields__)
ENTRY_COLUMN_COUNT = len(ENTRIES.columns)


def make_entry_with_ask(*row: Any) -> Entry:
    ask = None if row[ENTRY_COLUMN_COUNT] is None else Ask(*row[ENTRY_COLUMN_COUNT:])
    return Entry(*row[:ENTRY_COLUMN_COUNT], ask)  # type: ignore[call-arg] # a row has the columns of the statement


workspace_insert = WORKSPACES.insert_statement()
workspace_find = Query(f"SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE workspace_id = :workspace_id", Workspace)
workspace_of_agent = Query(f"SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE agent = :agent", Workspace)
workspace_of_path = Query(f"SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE path = :path", Workspace)
workspace_of_token = Query(f"SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE token_hash = :token_hash", Workspace)
workspace_retoken = "UPDATE workspaces SET token_hash = :token_hash WHERE workspace_id = :workspace_id"
workspace_set = "UPDATE workspaces SET label = :label, focus = :focus WHERE workspace_id = :workspace_id"
workspace_mute = "UPDATE workspaces SET muted_at = :muted_at WHERE workspace_id = :workspace_id"
workspace_delete = "DELETE FROM workspaces WHERE workspace_id = :workspace_id"
workspace_at = Query("SELECT workspace_id FROM workspaces ORDER BY workspace_id LIMIT 1 OFFSET :number", single_value)
workspaces_all = Query(f"SELECT {WORKSPACE_COLUMNS} FROM workspaces LIMIT :limit", Workspace)

entry_insert = ENTRIES.insert_statement()
_ENTRY_AND_ASK_COLUMNS = f"{ENTRIES.column_list_as('e')}, {ASKS.column_list_as('a')}"
SELECT_WITH_ASK = f"SELECT {_ENTRY_AND_ASK_COLUMNS} FROM entries e LEFT JOIN asks a ON a.entry_id = e.id"
entry_find = Query(f"{SELECT_WITH_ASK} WHERE e.id = :id", make_entry_with_ask)
# For pages: without the search words, which no caller shows, and without the asks. Few entries have one, and it is looked up.
_PAGE_COLUMNS = ENTRIES.column_list_as("e").replace("e.words", "'' AS words")
SELECT_FOR_PAGE = f"SELECT {_PAGE_COLUMNS} FROM entries e"
ask_find = Query(f"SELECT {ASKS.column_list} FROM asks WHERE entry_id = :entry_id", Ask)
# The question to show in the row of an entry: of the open ones the latest, else the latest of all.
ask_of_matter = Query(f"SELECT {ASKS.column_list} FROM asks WHERE matter_id = :matter_id ORDER BY asked_event DESC LIMIT :limit", Ask)
entry_place = Query("SELECT active_ts, seq FROM entries WHERE id = :id", EntryPlace)
entry_of_message = Query("SELECT id FROM entries WHERE message_id = :message_id", single_value)
_IS_OLDER = "(e.active_ts, e.seq) < (:ts, :seq)"
_NEWEST_FIRST = "ORDER BY e.active_ts DESC, e.seq DESC LIMIT :limit"
# CAST: SQLite prepares a statement again at each call if it compares a bare bind with the condition of a partial index.
_IN_SECTION = "e.section = CAST(:section AS text)"
entries_page = Query(f"{SELECT_FOR_PAGE} WHERE {_IN_SECTION} AND {_IS_OLDER} {_NEWEST_FIRST}", Entry)
entries_page_triage = Query(f"{SELECT_FOR_PAGE} WHERE {_IN_SECTION} AND e.triage = :triage AND {_IS_OLDER} {_NEWEST_FIRST}", Entry)
entries_page_unread = Query(
    f"{SELECT_FOR_PAGE} WHERE {_IN_SECTION} AND e.read_at IS NULL AND e.triage = 'inbox' AND {_IS_OLDER} {_NEWEST_FIRST}", Entry
)
entries_page_pinned = Query(
    f"""{SELECT_FOR_PAGE} WHERE {_IN_SECTION} AND e.pinned_at IS NOT NULL AND (:triage = '' OR e.triage = :triage)
      AND {_IS_OLDER} {_NEWEST_FIRST}""",
    Entry,
)
# Two filters at once are rare. One of them uses its index, and the other is compared row by row.
entries_page_open = Query(
    f"""
    {SELECT_FOR_PAGE} WHERE e.is_open = 1 AND e.root_id IS NULL AND {_IS_OLDER}
      AND (:unread = 0 OR e.read_at IS NULL) {_NEWEST_FIRST}""",
    Entry,
)
entries_page_workspace = Query(
    f"""
    {SELECT_FOR_PAGE} WHERE e.section = 'inbox' AND e.workspace_id = :workspace_id AND {_IS_OLDER}
      AND (:unread = 0 OR (e.read_at IS NULL AND e.triage = 'inbox')) AND (:open = 0 OR e.is_open = 1)
      AND (:triage = '' OR e.triage = :triage) AND (:pinned = 0 OR e.pinned_at IS NOT NULL) {_NEWEST_FIRST}""",
    Entry,
)
entries_page_agent = Query(f"{SELECT_FOR_PAGE} WHERE e.agent = :agent AND e.root_id IS NULL AND {_IS_OLDER} {_NEWEST_FIRST}", Entry)
# Entries with an open question, the most urgent first. Of two open questions of one entry, the more urgent one gives its place.
entries_urgent = Query(
    f"""
    {SELECT_FOR_PAGE.replace("FROM entries e", "FROM asks a JOIN entries e ON e.id = a.matter_id")} WHERE a.state = 'open'
      AND coalesce(a.deadline, '9') >= :deadline AND (coalesce(a.deadline, '9') > :deadline OR a.asked_event > :asked_event)
      AND NOT EXISTS (SELECT 1 FROM asks b WHERE b.matter_id = a.matter_id AND b.state = 'open'
        AND (coalesce(b.deadline, '9') < coalesce(a.deadline, '9')
          OR (coalesce(b.deadline, '9') = coalesce(a.deadline, '9') AND b.asked_event < a.asked_event)))
    ORDER BY coalesce(a.deadline, '9'), a.asked_event LIMIT :limit""",
    Entry,
)
entries_parts = Query(f"{SELECT_WITH_ASK} WHERE e.root_id = :root_id ORDER BY e.seq LIMIT :limit", make_entry_with_ask)
entry_newest_part = Query(f"{SELECT_FOR_PAGE} WHERE e.root_id = :root_id ORDER BY e.seq DESC LIMIT 1", Entry)
entries_changed = Query(
    "SELECT id, changed_seq FROM entries WHERE changed_seq > 0 AND changed_seq > :after ORDER BY changed_seq LIMIT :limit", ChangedEntry
)
entries_waking = Query(
    "SELECT id FROM entries WHERE snoozed_until IS NOT NULL AND snoozed_until <= :now ORDER BY snoozed_until LIMIT :limit", single_value
)
entry_next_waking = Query("SELECT min(snoozed_until) FROM entries WHERE snoozed_until IS NOT NULL", single_value)
entry_triage = """
    UPDATE entries SET triage = :triage, snoozed_until = :snoozed_until, pinned_at = :pinned_at, changed_seq = :changed_seq
    WHERE id = :id"""
entry_wake = "UPDATE entries SET active_ts = :active_ts, read_at = NULL, read_by = NULL, read_door = NULL WHERE id = :id"
# A row was added to an entry: it comes back to the top, unread.
entry_extend = """
    UPDATE entries SET active_ts = :active_ts, parts = parts + 1, read_at = NULL, read_by = NULL, read_door = NULL, words = :words,
      is_open = CASE WHEN :is_open = 1 THEN 1 ELSE is_open END
    WHERE id = :id"""
entries_after = Query(f"{SELECT_WITH_ASK} WHERE e.seq > :after ORDER BY e.seq LIMIT :limit", make_entry_with_ask)
entry_read = "UPDATE entries SET read_at = :read_at, read_by = :read_by, read_door = :read_door WHERE id = :id"
entry_offered = """
    UPDATE entries SET offered_at = :offered_at, offered_to = :offered_to, offered_door = :offered_door
    WHERE id = :id AND offered_at IS NULL"""
entry_replied = "UPDATE entries SET replies = replies + 1, words = :words WHERE id = :id"
entry_close = "UPDATE entries SET is_open = 0 WHERE id = :id"
entry_settle = """
    UPDATE entries SET is_open = CASE WHEN EXISTS (SELECT 1 FROM asks a WHERE a.matter_id = :id AND a.state = 'open') THEN 1 ELSE 0 END
    WHERE id = :id"""
entries_unread = Query(
    "SELECT 1 FROM entries WHERE section = CAST(:section AS text) AND read_at IS NULL AND triage = 'inbox' LIMIT :limit", single_value
)
asks_open = Query("SELECT 1 FROM asks WHERE state = 'open' ORDER BY coalesce(deadline, '9'), asked_event LIMIT :limit", single_value)
# The conditions of a search beside its words. Each is compared row by row with what the words, or the order of time, have found.
SEARCH_CONDITIONS = """
      AND (:triage = '' OR e.triage = :triage)
      AND (:workspace_id = '' OR e.workspace_id = :workspace_id)
      AND (:sender = '' OR e.agent = :sender OR lower(e.workspace_label) = :sender)
      AND (:unread = 0 OR (e.read_at IS NULL AND e.triage = 'inbox')) AND (:is_read = 0 OR e.read_at IS NOT NULL)
      AND (:open = 0 OR e.is_open = 1) AND (:pinned = 0 OR e.pinned_at IS NOT NULL)
      AND (:until = 0 OR e.active_ts < :until) AND (:since = 0 OR e.active_ts >= :since)"""
entries_filtered = Query(f"{SELECT_FOR_PAGE} WHERE {_IN_SECTION} AND {_IS_OLDER} {SEARCH_CONDITIONS} {_NEWEST_FIRST}", Entry)
# The entries that are unread, open or pinned, whichever is asked for. Each of the three has an index of its own.
_FLAGGED = """
    SELECT u.seq FROM entries u
    WHERE :flag = 'unread' AND u.section IN ('inbox', 'notices') AND u.read_at IS NULL AND u.triage = 'inbox'
    UNION ALL SELECT o.seq FROM entries o WHERE :flag = 'open' AND o.is_open = 1 AND o.root_id IS NULL
    UNION ALL SELECT p.seq FROM entries p WHERE :flag = 'pinned' AND p.section IN ('inbox', 'notices') AND p.pinned_at IS NOT NULL
    LIMIT :limit"""
entries_flagged_count = Query(f"SELECT count(*) FROM ({_FLAGGED}) AS page", single_value)
# With their search words.
entries_flagged = Query(
    f"""
    SELECT {ENTRIES.column_list_as("e")} FROM entries e WHERE e.seq IN ({_FLAGGED}) AND e.seq < :seq
      AND (:section = '' OR e.section = :section) {SEARCH_CONDITIONS} ORDER BY e.seq DESC""",
    Entry,
)
# The newest messages and mails, for a search. Both walk down a primary key: ids of messages begin with the time of their creation.
words_of_messages = Query(
    """
    SELECT m.message_id, m.thread_id, t.subject, m.from_agent, m.created_at, m.summary,
      substr(m.body, 1, CAST(:characters AS integer)) AS body
    FROM messages m JOIN threads t ON t.thread_id = m.thread_id WHERE m.message_id < :before ORDER BY m.message_id DESC LIMIT :limit""",
    FoundMessage,
)
words_of_mail = Query(
    """
    SELECT delivery_id, session, msg_id, sender, stored_at, substr(payload, 1, CAST(:characters AS integer)) AS payload
    FROM deliveries WHERE delivery_id < :before ORDER BY delivery_id DESC LIMIT :limit""",
    FoundMail,
)
text_insert = PUSHED_TEXTS.insert_statement()
text_find = Query("SELECT text FROM pushed_texts WHERE entry_id = :entry_id AND path = :path", single_value)
texts_delete = "DELETE FROM pushed_texts WHERE entry_id = :entry_id"
text_seen_find = Query(
    f"SELECT {READ_DOCUMENTS.column_list} FROM read_documents WHERE entry_id = :entry_id AND path = :path AND person = :person",
    DocumentReading,
)
text_seen_put = READ_DOCUMENTS.upsert_statement()
texts_seen_delete = "DELETE FROM read_documents WHERE entry_id = :entry_id"
entry_delete = "DELETE FROM entries WHERE id = :id"
gone_insert = DELETED_ENTRIES.insert_statement()
gone_find = Query("SELECT ts, entry_seq FROM entries_gone WHERE id = :id", EntryPlace)
PRUNER = "retention"  # named in the events of the entries that pruning deletes
# With 0 for `pruned`, the entries that pruning deleted are left out.
UNLESS_PRUNED = f"""
    (:pruned = 1 OR coalesce((SELECT v.source FROM events v WHERE v.event_id = entries_gone.seq LIMIT 1), '') <> '{PRUNER}')"""
gone_after = Query(
    f"SELECT {DELETED_ENTRIES.column_list} FROM entries_gone WHERE seq > :after AND {UNLESS_PRUNED} ORDER BY seq LIMIT :limit", DeletedEntry
)

ask_insert = ASKS.insert_statement()
ask_answer = """
    UPDATE asks SET state = :state, answer = :answer, answered_by = :answered_by, answered_door = :answered_door,
      answered_at = :answered_at, answer_id = :answer_id, decision_json = :decision_json, due_at = NULL
    WHERE entry_id = :entry_id AND (state = 'open') IS TRUE"""
ask_escalate = """
    UPDATE asks SET addressee = :addressee, escalated_at = :escalated_at, due_at = NULL
    WHERE entry_id = :entry_id AND (state = 'open') IS TRUE AND due_at = :due_at"""
ask_collect = """
    UPDATE asks SET collected_at = :collected_at, collected_door = :collected_door WHERE entry_id = :entry_id AND collected_at IS NULL"""
ask_delete = "DELETE FROM asks WHERE entry_id = :entry_id"
_SELECT_OPEN_ASK = f"{SELECT_WITH_ASK.replace('LEFT JOIN', 'JOIN')} WHERE a.state = 'open'"
asks_due = Query(f"{_SELECT_OPEN_ASK} AND a.due_at IS NOT NULL AND a.due_at <= :now ORDER BY a.due_at LIMIT :limit", make_entry_with_ask)
ask_next_due = Query("SELECT min(due_at) FROM asks WHERE state = 'open' AND due_at IS NOT NULL", single_value)
# The asks whose question is closed in its thread, but not yet here.
asks_closed_in_thread = Query(
    f"""
    {_SELECT_OPEN_ASK} AND a.thread_id IS NOT NULL AND a.thread_id = :thread_id
      AND NOT EXISTS (SELECT 1 FROM messages q WHERE q.message_id = e.message_id AND q.is_open = 1) ORDER BY a.asked_event""",
    make_entry_with_ask,
)
ask_of_thread = Query("SELECT matter_id FROM asks WHERE thread_id = :thread_id ORDER BY asked_event LIMIT 1", single_value)
asks_uncollected = Query(
    f"""
    SELECT {_ENTRY_AND_ASK_COLUMNS} FROM asks a JOIN entries e ON e.id = a.entry_id
    WHERE a.state <> 'open' AND a.collected_at IS NULL AND a.thread_id IS NULL AND a.agent = :agent
      AND NOT EXISTS (SELECT 1 FROM handovers h WHERE h.agent = a.agent AND h.kind = 'answer' AND h.item_id = a.entry_id AND h.until > :now)
    ORDER BY a.answered_at LIMIT :limit""",
    make_entry_with_ask,
)

reply_insert = REPLIES.insert_statement()
reply_find = Query(f"SELECT {REPLIES.column_list} FROM replies WHERE reply_id = :reply_id", PersonReply)
replies_of_entry = Query(f"SELECT {REPLIES.column_list} FROM replies WHERE entry_id = :entry_id ORDER BY created_at, reply_id", PersonReply)
replies_of_agent = Query(
    f"""
    SELECT {REPLIES.column_list} FROM replies WHERE agent = :agent AND body <> ''
      AND (created_at, reply_id) < (:before_at, :before_id)
    ORDER BY created_at DESC, reply_id DESC LIMIT :limit""",
    PersonReply,
)
# The row outlives its text: it proves that a message which is still on its way is a person's reply.
reply_of_entry = Query("SELECT 1 FROM replies WHERE entry_id = :entry_id LIMIT 1", single_value)
replies_forget = "UPDATE replies SET body = '' WHERE entry_id = :entry_id"

pass_insert = PASSES.insert_statement()
# A pass of a person is void while its name is not a person's, and the token of an agent while its name is.
pass_find = Query(
    f"""
    SELECT {PASSES.column_list} FROM passes WHERE token_hash = :token_hash
    AND (kind <> 'agent') = EXISTS (SELECT 1 FROM agents WHERE agents.name = passes.person AND agents.kind = 'human')""",
    Pass,
)
pass_expire = "DELETE FROM passes WHERE expires_at IS NOT NULL AND expires_at <= :now"
pass_delete = "DELETE FROM passes WHERE token_hash = :token_hash AND kind = :kind"
pass_use = """
    UPDATE passes SET last_used_at = :now, expires_at = CASE WHEN kind = 'bearer' THEN :bearer_expires_at ELSE expires_at END
    WHERE token_hash = :token_hash AND (last_used_at IS NULL OR last_used_at <= :before)"""
passes_of = Query(f"SELECT {PASSES.column_list} FROM passes WHERE person = :person ORDER BY token_hash", Pass)
passes_page = Query(
    f"SELECT {PASSES.column_list} FROM passes WHERE token_hash > :after AND token_hash < :until ORDER BY token_hash LIMIT :limit", Pass
)
passes_page_of = Query(
    f"SELECT {PASSES.column_list} FROM passes WHERE person = :person AND token_hash > :after ORDER BY token_hash LIMIT :limit", Pass
)

conversation_put = CONVERSATIONS.upsert_statement()
_CONVERSATIONS = f"SELECT {CONVERSATIONS.column_list} FROM conversations WHERE agent = :agent"
conversation_find = Query(f"{_CONVERSATIONS} AND thread_id = :thread_id", AgentConversation)
conversation_delete = "DELETE FROM conversations WHERE agent = :agent AND thread_id = :thread_id"
# The thread ids are "" and others. `after` is " ", which is no id, for the first page.
conversations_of = Query(
    f"{_CONVERSATIONS} AND thread_id >= :start AND thread_id <> :after ORDER BY thread_id LIMIT :limit", AgentConversation
)
route_put = WAKE_ROUTES.upsert_statement()
_ROUTES = f"SELECT {WAKE_ROUTES.column_list} FROM wake_routes WHERE agent = :agent"
route_find = Query(f"{_ROUTES} AND route = :route AND session = :session", WakeRoute)
route_delete = "DELETE FROM wake_routes WHERE agent = :agent AND route = :route AND session = :session"
routes_forget = "DELETE FROM wake_routes WHERE agent = :agent AND registered_at < :before"
routes_of = Query(f"{_ROUTES} AND (route, session) > (:after_route, :after_session) ORDER BY route, session LIMIT :limit", WakeRoute)
handover_put = HANDOVERS.upsert_statement()
handovers_of = Query(
    f"""
    SELECT {HANDOVERS.column_list} FROM handovers
    WHERE agent = :agent AND (kind, item_id, sender) > (:after_kind, :after_id, :after_sender)
    ORDER BY kind, item_id, sender LIMIT :limit""",
    HandedItem,
)
# Only that handover: the item may have been taken back, or handed over again.
handover_end = """
    UPDATE handovers SET until = :until
    WHERE agent = :agent AND kind = :kind AND item_id = :item_id AND sender = :sender AND handover_id = :handover_id"""
handover_delete = """
    DELETE FROM handovers
    WHERE agent = :agent AND kind = :kind AND item_id = :item_id AND sender = :sender AND handover_id = :handover_id"""

cursor_find = Query("SELECT event_id FROM cursors WHERE name = :name", single_value)
cursor_move = "UPDATE cursors SET event_id = :event_id WHERE name = :name AND event_id = :seen"
