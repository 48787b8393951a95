"""The statements of the people room, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records.people import Entry
from postroom.store.statements.people import *  # noqa: F403
from postroom.store.statements.people import SELECT_FOR_PAGE, cursor_find
from postroom.store.tables import Query, single_value

# Differs from SQLite: the cursor is locked until COMMIT, so that one transaction at a time syncs questions.
cursor_lock = Query(f"{cursor_find} FOR UPDATE", single_value)

# Differs from SQLite: the word index is an ordinary index, which the server maintains.
words_insert = "SELECT CAST(:seq AS bigint), CAST(:words AS text)"

# Differs from SQLite: as above.
words_delete = "SELECT CAST(:seq AS bigint), CAST(:words AS text)"

# Differs from SQLite: as above.
words_settle = "SELECT 1"

# Differs from SQLite: it has another query language, into which ours ("one"* "two"*) is translated.
entries_search = Query(
    f"""
    {SELECT_FOR_PAGE} WHERE to_tsvector('simple', e.words)
      @@ to_tsquery('simple', replace(replace(replace(:query, '"* "', ':* & '), '"*', ':*'), '"', ''))
    ORDER BY e.seq DESC LIMIT :limit""",
    Entry,
)

# Differs from SQLite: the entry is locked until COMMIT.
entry_lock = Query("SELECT 1 FROM entries WHERE id = :id FOR UPDATE", single_value)
