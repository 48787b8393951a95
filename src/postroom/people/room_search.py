"""Search threads and mail by words. Entries have an index of their words; these are read from the newest back, up to a limit.

An index of all messages would cost every send a page. The newest rows are what a person looks for, and the answer says how far it looked.
"""

from __future__ import annotations

import re

from postroom.core import checks, clock
from postroom.core.records.room_search import MAIL, THREAD, FoundMail, FoundMessage, RoomHit, RoomHits
from postroom.core.states import CHANNEL_PREFIX
from postroom.core.verbs import PEOPLE, READ, verb
from postroom.people.search_terms import fold, is_single_character
from postroom.people.searching import ParsedQuery, parse_query
from postroom.store.mail_values import decode_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from postroom.store.interface import Store, Transaction

    Row = TypeVar("Row")

MAX_ROWS = 5000  # messages, and as many mails: 20 to 40 ms on one core with texts of 300 characters
PAGE_ROWS = 500
MAX_TEXT_CHARS = 4000  # of one message
MAX_SNIPPET_CHARS = 200
_BEFORE_HIT_CHARS = 60
_KNOWN_FILTERS = {"sender", "until", "since"}  # the others are states of entries
_AFTER_ALL_IDS = "~"  # ids begin with a letter


@verb(caller=PEOPLE, mode=READ)
def search_rooms(store: Store, q: str, *, limit: int = 20) -> RoomHits:
    """Return the newest threads and mails that contain every word of `q`, or a word that begins with it: at most `limit` of each.

    A thread is found by its subject and its messages. `from:`, `before:` and `after:` narrow the search; with another operator, nothing
    is found. It looks at the newest 5,000 messages and as many mails: `since` is the time of the oldest one if there are older ones.
    """
    checks.limit("limit", limit)
    parsed = parse_query(checks.text("q", q))
    if not parsed.terms or not _KNOWN_FILTERS.issuperset(parsed.filters):
        return RoomHits((), None)
    matcher = _Matcher(parsed)
    with store.read() as tx:
        threads, threads_since = _find(_read_messages(tx), matcher, limit)
        mails, mails_since = _find(_read_mail(tx), matcher, limit)
    return RoomHits((*threads, *mails), max(filter(None, (threads_since, mails_since)), default=None))


class _Matcher:
    """The words and the filters of a search."""

    def __init__(self, parsed: ParsedQuery) -> None:
        self._filters = parsed.filters
        self._patterns = [
            re.compile(re.escape(term) if is_single_character(term) else rf"(?<![^\W_]){re.escape(term)}") for term in parsed.terms
        ]

    def quote(self, title: str, text: str, sender: str, at: str) -> str | None:
        """Return the part of a text that matches, or None if title and text together do not match."""
        if not self._passes(sender, at):
            return None
        folded, folded_title = fold(text), fold(title)
        places = [pattern.search(folded) for pattern in self._patterns]
        if not all(place or pattern.search(folded_title) for place, pattern in zip(places, self._patterns, strict=True)):
            return None
        first = min((place.start() for place in places if place), default=0)
        start = max(0, first - _BEFORE_HIT_CHARS)
        return " ".join(text[start : start + MAX_SNIPPET_CHARS].replace("\0", " ").split())

    def _passes(self, sender: str, at: str) -> bool:
        wanted, until, since = (self._filters.get(name) for name in ("sender", "until", "since"))
        instant = clock.parse_stamp(at) // 1000
        return (not wanted or sender.lower() == wanted) and (not until or instant < until) and (not since or instant >= since)


def _find(rows: Iterator[RoomHit], matcher: _Matcher, limit: int) -> tuple[list[RoomHit], str | None]:
    """Return the hits, each thread once, and the time of the last row if there may be more."""
    found: dict[str, RoomHit] = {}
    read = 0
    oldest = None
    for row in rows:
        read += 1
        oldest = row.at
        key = row.thread_id or f"{row.session} {row.msg_id}"
        if key in found:
            continue
        quoted = matcher.quote(row.title if row.kind == THREAD else "", row.text, row.sender, row.at)
        if quoted is not None:
            found[key] = row.replace(text=quoted)
        if len(found) == limit:
            return list(found.values()), None
    return list(found.values()), oldest if read == MAX_ROWS else None


def _read_messages(tx: Transaction) -> Iterator[RoomHit]:
    def read_page(before: str, size: int) -> Sequence[FoundMessage]:
        return tx.fetch_all(tx.sql.words_of_messages, before=before, characters=MAX_TEXT_CHARS, limit=size)

    for message in _read_pages(read_page, _AFTER_ALL_IDS, lambda message: message.message_id):
        text = message.body if message.body.startswith(message.summary) else f"{message.summary}\n{message.body}"
        yield RoomHit(THREAD, message.thread_id, None, None, message.subject, text, message.from_agent, message.created_at)


def _read_mail(tx: Transaction) -> Iterator[RoomHit]:
    def read_page(before: int, size: int) -> Sequence[FoundMail]:
        return tx.fetch_all(tx.sql.words_of_mail, before=before, characters=MAX_TEXT_CHARS, limit=size)

    for mail in _read_pages(read_page, checks.AFTER_ALL_IDS, lambda mail: mail.delivery_id):
        text = (
            "" if mail.session.startswith(CHANNEL_PREFIX) else decode_payload(mail.payload)
        )  # an alert holds the link that answers a question
        at = clock.format_stamp(mail.stored_at)
        yield RoomHit(MAIL, None, mail.session, mail.msg_id, f"Mail for {mail.session}", text, mail.sender, at)


def _read_pages(read_page: Callable[[Any, int], Sequence[Row]], before: Any, key_of: Callable[[Row], Any]) -> Iterator[Row]:
    """Yield rows in pages: most searches find enough in the first ones."""
    left = MAX_ROWS
    while left > 0:
        page = read_page(before, min(PAGE_ROWS, left))
        yield from page
        if len(page) < min(PAGE_ROWS, left):
            return
        left -= len(page)
        before = key_of(page[-1])
