"""The statements of the people room, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records.people import ChangedEntry, DeletedEntry, Entry
from postroom.store.postgres.work_statements import SETTLED_EVENT
from postroom.store.statements.people import *  # noqa: F403
from postroom.store.statements.people import (
    DELETED_ENTRIES,
    SEARCH_CONDITIONS,
    SELECT_FOR_PAGE,
    SELECT_WITH_ASK,
    UNLESS_PRUNED,
    cursor_find,
    make_entry_with_ask,
)
from postroom.store.tables import Query, single_value

# Differs from SQLite: the cursor is locked until COMMIT, so that one transaction at a time syncs questions.
cursor_lock = Query(f"{cursor_find} FOR UPDATE", single_value)

# Differs from SQLite: the word index is an ordinary index, which the server maintains. So there is nothing to run.
words_insert = ""

# Differs from SQLite: as above.
words_delete = ""

# Differs from SQLite: as above.
words_small_pages = "SELECT 1"

# Differs from SQLite: as above.
words_settle = "SELECT 1"

# Differs from SQLite: it has another query language, into which ours ("one"* "two"*) is translated.
entries_search = Query(
    f"""
    {SELECT_FOR_PAGE} WHERE to_tsvector('simple', e.words)
      @@ to_tsquery('simple', replace(replace(replace(:query, '"* "', ':* & '), '"*', ':*'), '"', '')) AND e.seq < :seq
      AND (:section = '' OR e.section = :section) {SEARCH_CONDITIONS}
    ORDER BY e.seq DESC LIMIT :limit""",
    Entry,
)

# Differs from SQLite: the entry is locked until COMMIT.
entry_lock = Query("SELECT 1 FROM entries WHERE id = :id FOR UPDATE", single_value)

# Differs from SQLite: a reader with a cursor stops at the last settled event, as `events_after`.
entries_after = Query(
    f"{SELECT_WITH_ASK} WHERE e.seq > :after AND e.seq <= {SETTLED_EVENT} ORDER BY e.seq LIMIT :limit", make_entry_with_ask
)

# Differs from SQLite: as above.
entries_changed = Query(
    f"""
    SELECT id, changed_seq FROM entries WHERE changed_seq > 0 AND changed_seq > :after AND changed_seq <= {SETTLED_EVENT}
    ORDER BY changed_seq LIMIT :limit""",
    ChangedEntry,
)

# Differs from SQLite: as above.
gone_after = Query(
    f"""
    SELECT {DELETED_ENTRIES.column_list} FROM entries_gone WHERE seq > :after AND seq <= {SETTLED_EVENT} AND {UNLESS_PRUNED}
    ORDER BY seq LIMIT :limit""",
    DeletedEntry,
)
