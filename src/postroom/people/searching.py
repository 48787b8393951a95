"""Search entries by words and by operators: `from:`, `is:`, `in:`, `before:` and `after:`. Called by the CLI and the server."""

from __future__ import annotations

from datetime import UTC, datetime

from postroom.core import checks
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.records.people import DONE, INBOX, NOTICES, SNOOZED, EntryPage
from postroom.core.verbs import PEOPLE, STEPS, verb
from postroom.people import entries, entries_mirror
from postroom.people.questions import due_questions
from postroom.people.search_terms import search_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postroom.core.records.people import Entry
    from postroom.store.interface import Store, Transaction

MAX_COMPARED_ENTRIES = 500
_STATES: dict[str, dict[str, Any]] = {
    "unread": {"unread": 1},
    "read": {"is_read": 1},
    "open": {"open": 1},
    "question": {"open": 1},
    "pinned": {"pinned": 1},
    "done": {"triage": DONE},
    "snoozed": {"triage": SNOOZED},
}
_PLACES: dict[str, dict[str, Any]] = {
    "inbox": {"section": INBOX, "triage": INBOX},
    "notices": {"section": NOTICES},
    "done": {"section": INBOX, "triage": DONE},
    "snoozed": {"section": INBOX, "triage": SNOOZED},
}
_FILTERS: dict[str, Any] = {
    "section": "", "triage": "", "workspace_id": "", "sender": "", "unread": 0, "is_read": 0, "open": 0, "pinned": 0, "until": 0,
    "since": 0,
}  # fmt: skip


class ParsedQuery(Record):
    """A search as a person wrote it: the words to find, and the values of the filters in SQL."""

    terms: tuple[str, ...]
    filters: dict[str, Any]


@verb(caller=PEOPLE, mode=STEPS)
def search(
    store: Store,
    q: str,
    *,
    limit: int = 50,
    before: str | None = None,
    section: str = "",
    workspace_id: str = "",
    state: str = "",
    unread: bool = False,
    open_only: bool = False,
) -> EntryPage:
    """Return the entries that contain every word of `q`, or a word that begins with it, newest first.

    Operators narrow the search: `from:NAME`, `is:unread`, `is:open`, `is:pinned`, `in:done`, `in:notices`, `before:2026-11-30`, `after:…`.
    The other arguments do the same for the filters of the page. `before` is the last entry of the page before.
    """
    entries_mirror.import_foreign_lines(store)
    due_questions.sync(store)
    given = {"section": section, "workspace_id": workspace_id, "triage": state, "unread": int(unread), "open": int(open_only)}
    with store.read() as tx:
        return search_page(tx, q=q, limit=limit, before=before, **given)


def search_page(tx: Transaction, *, q: str, limit: int = 50, before: str | None = None, **given: Any) -> EntryPage:
    """Return the entries that match `q` and the given filters. The transaction's part of `search`."""
    entries.check_page(limit, given.get("section") or INBOX, given.get("triage", ""))
    parsed = parse_query(checks.text("q", q))
    binds = {**_FILTERS, **{name: value for name, value in given.items() if value}, **parsed.filters, "limit": limit + 1}
    ts, seq = (checks.AFTER_ALL_IDS, checks.AFTER_ALL_IDS) if before is None else entries.find_position(tx, before)
    if parsed.terms and (few := _find_few(tx, parsed.terms, binds, seq)) is not None:
        return entries.make_page(tx, few[: limit + 1], limit)
    if parsed.terms:
        query = " ".join(f'"{word}"*' for word in parsed.terms)
        return entries.make_page(tx, tx.fetch_all(tx.sql.entries_search, query=query, seq=seq, **binds), limit)
    binds["section"] = binds["section"] or INBOX
    return entries.make_page(tx, tx.fetch_all(tx.sql.entries_filtered, ts=ts, seq=seq, **binds), limit)


def _find_few(tx: Transaction, terms: tuple[str, ...], binds: dict[str, Any], seq: int) -> list[Entry] | None:
    """Return the entries that match, if only unread, open or pinned ones are wanted and there are few of those; else None.

    They are compared with the words one by one: the index of words would go through every entry with a common word.
    """
    flag = next((name for name in ("unread", "open", "pinned") if binds[name]), None)
    if flag is None or (tx.fetch_one(tx.sql.entries_flagged_count, flag=flag, limit=MAX_COMPARED_ENTRIES + 1) or 0) > MAX_COMPARED_ENTRIES:
        return None
    rows = tx.fetch_all(tx.sql.entries_flagged, **{**binds, "flag": flag, "seq": seq, "limit": MAX_COMPARED_ENTRIES})
    return [entry.replace(words="") for entry in rows if all(f" {term}" in f" {entry.words}" for term in terms)]


def parse_query(q: str) -> ParsedQuery:
    """Split a search into words and operators. Refuses one that has neither, and an operator with an unknown value."""
    words: list[str] = []
    filters: dict[str, Any] = {}
    for part in q.split():
        name, colon, value = part.partition(":")
        if not colon or not value or name.lower() not in _OPERATORS:
            words.append(part)
        else:
            filters.update(_OPERATORS[name.lower()](value))
    terms = search_terms(*words)
    if not terms and not filters:
        raise InvalidInput("there is no word to look for", field="q", hint="Write a word, the beginning of one, or is:unread.")
    return ParsedQuery(tuple(terms), filters)


def _choose(name: str, values: dict[str, dict[str, Any]], value: str) -> dict[str, Any]:
    if value.lower() not in values:
        raise InvalidInput(f"{name}:{value} is not known", field="q", hint=f"Known: {', '.join(f'{name}:{known}' for known in values)}.")
    return values[value.lower()]


def _day(name: str, value: str) -> int:
    try:
        return int(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise InvalidInput(f"{name}:{value} is not a day", field="q", hint=f"Write it as {name}:2026-11-30.") from None


_OPERATORS: dict[str, Callable[[str], dict[str, Any]]] = {
    "from": lambda value: {"sender": value.lower()},
    "is": lambda value: _choose("is", _STATES, value),
    "in": lambda value: _choose("in", _PLACES, value),
    "before": lambda value: {"until": _day("before", value)},
    "after": lambda value: {"since": _day("after", value)},
}
