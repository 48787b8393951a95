"""The statements of the people room, for SQLite: the shared ones and those that differ from PostgreSQL."""

from __future__ import annotations

from postroom.core.records.people import Entry
from postroom.store.statements.people import *  # noqa: F403
from postroom.store.statements.people import SEARCH_CONDITIONS, SELECT_FOR_PAGE, cursor_find
from postroom.store.tables import Query, single_value

# Differs from PostgreSQL: a write transaction is alone, so it needs no lock.
cursor_lock = cursor_find

# Differs from PostgreSQL: the word index is a table of its own, and has to be changed together with `entries`.
words_insert = "INSERT INTO entry_words (rowid, words) VALUES (:seq, :words)"
words_delete = "INSERT INTO entry_words (entry_words, rowid, words) VALUES ('delete', :seq, :words)"
# Merges of the index, which come with a commit, write 64 pages for each level at once. With pages of 4,050 bytes that takes 20 ms.
words_small_pages = "INSERT INTO entry_words (entry_words, rank) VALUES ('pgsz', 400)"
words_settle = "INSERT INTO entry_words (entry_words) VALUES ('rebuild')"
entries_search = Query(
    f"""
    {SELECT_FOR_PAGE.replace("FROM entries e", "FROM entry_words w JOIN entries e ON e.seq = w.rowid")}
    WHERE entry_words MATCH :query AND e.seq < :seq
      AND (:section = '' OR e.section = :section) {SEARCH_CONDITIONS} ORDER BY w.rowid DESC LIMIT :limit""",
    Entry,
)

# Differs from PostgreSQL: as `cursor_lock`.
entry_lock = Query("SELECT 1 FROM entries WHERE id = :id", single_value)
