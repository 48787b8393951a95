"""The versions of a document that each person was shown, so that the next visit can tell what changed since then."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records import Record
from postroom.core.records.people import DocumentReading, Entry
from postroom.people import repository
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction


class ReadVersion(Record):
    """The version of a document that a person had last read before this visit. `text` is None if it was not kept."""

    sha256: str
    text: str | None
    read_at: str


@retry_on_contention
def note_shown(store: Store, entry_id: str, *, path: str, person: str, visit: str, sha256: str, text: str | None) -> ReadVersion | None:
    """Note that a person is shown a version of a document of an entry. Return the one that they had last read, or None.

    `visit` stands for the time during which the entry is open. The last version that one visit showed is what the next one has read.
    """
    where = {"entry_id": entry_id, "path": path, "person": person}
    with store.read() as tx:
        noted = tx.fetch_one(tx.sql.text_seen_find, **where)
        if noted is not None and noted.shown_sha256 == sha256 and (noted.visit == visit or noted.read_sha256 == sha256):
            return _last_read(tx, noted, visit)
    with store.write() as tx:
        entry = repository.lock_entry(tx, entry_id)
        noted = tx.fetch_one(tx.sql.text_seen_find, **where)
        shown_text = None if sha256 == _pushed_sha256(entry, path) else text
        now = DocumentReading(entry_id, path, person, visit, sha256, shown_text, clock.format_stamp(tx.now()), *_read_before(noted, visit))
        tx.execute(tx.sql.text_seen_put, **dict(now.items()))
        return _last_read(tx, now, visit)


def _read_before(noted: DocumentReading | None, visit: str) -> tuple[str | None, str | None, str | None]:
    """Return the hash, the text and the time of what the person had last read when this visit began."""
    if noted is None:
        return None, None, None
    if noted.visit == visit:
        return noted.read_sha256, noted.read_text, noted.read_at
    return noted.shown_sha256, noted.shown_text, noted.shown_at


def _last_read(tx: Transaction, noted: DocumentReading, visit: str) -> ReadVersion | None:
    sha256, text, read_at = _read_before(noted, visit)
    if sha256 is None or read_at is None:
        return None
    if text is None and sha256 == _pushed_sha256(repository.get_entry(tx, noted.entry_id), noted.path):
        text = repository.pushed_text(tx, noted.entry_id, noted.path)
    return ReadVersion(sha256, text, read_at)


def _pushed_sha256(entry: Entry, path: str) -> str | None:
    return next((doc.get("sha256") for doc in entry.docs if doc.get("path") == path), None)
