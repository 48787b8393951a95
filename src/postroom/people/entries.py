"""Entries: what a person should see. Pushed by an agent, read, searched, deleted by a person."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.entries import INBOX, NOTICE, NOTICES, PUSH, QUESTION, SECTIONS, Ask, Counts, Entry, Page, Workspace
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.verbs import verb
from postroom.people import documents, folding, ledger, twin, workspaces
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.people.documents import Described
    from postroom.store.port import Row, Store, Transaction

    Docs = Iterable[Mapping[str, Any] | str]

MOST_AT_ONCE = 500
COUNTED = 1000
LAST = 2**62  # later than any entry


@verb
def push(store: Store, workspace_id: str, *, docs: Docs = (), comments: str | None = None) -> Entry:
    """Show a person documents of a workspace, a comment, or both. Documents are pointed to, never copied; their hashes are kept."""
    paths = documents.named(docs)
    said = ledger.text("comments", comments or "")
    something(paths, said)
    with store.read() as tx:
        workspace = workspaces.found(tx, workspace_id)
    described = documents.described(workspace.path, paths)  # before anything is locked: files may be large
    folding.fold(store)
    entry = place(store, workspace, described, said)
    twin.follow(store)
    return entry


@retried
def place(store: Store, workspace: Workspace, described: Described, comments: str) -> Entry:
    """Store what a workspace pushes, with its documents described already."""
    with store.write() as tx:
        workspaces.found(tx, workspace.workspace_id)  # it may have been removed meanwhile
        tx.run(tx.sql.agent_seen, name=workspace.agent, now=clock.stamp(tx.now()))
        said = comments if comments.strip() else ""
        return ledger.insert(tx, kind=PUSH, workspace=workspace, docs=described.docs, texts=described.texts, comments=said)


@verb
@retried
def notify(store: Store, *, sender: str, text: str) -> Entry:
    """A message from automation that has no workspace, in a quieter section of its own. Replies go to the sender's mailbox."""
    checks.name("from", sender, hint="Name the job with --from.")
    said = ledger.said("text", text)
    folding.fold(store)
    with store.write() as tx:
        tx.run(tx.sql.agent_seen, name=sender, now=clock.stamp(tx.now()))
        return ledger.insert(tx, kind=NOTICE, section=NOTICES, agent=sender, label=sender, comments=said)


@verb
def seed(
    store: Store,
    *,
    workspace_id: str = "ws-dev",
    workspace_label: str = "Seeded",
    docs: Docs = (),
    comments: str | None = None,
    ts: int | None = None,
    id: str | None = None,
) -> Entry:
    """Append an entry by hand, for whoever works on the page. No file is looked at."""
    described = [{"path": path, "sha256": None, "size": None} for path in documents.named(docs)]
    said = ledger.text("comments", comments or "")
    something(described, said)
    folding.fold(store)
    entry = _seed(store, checks.name("workspaceId", workspace_id), checks.name("workspaceLabel", workspace_label), described, said, ts, id)
    twin.follow(store)
    return entry


@retried
def _seed(
    store: Store, workspace_id: str, label: str, docs: list[dict[str, Any]], comments: str, ts: int | None, entry_id: str | None
) -> Entry:
    with store.write() as tx:
        row = tx.one(tx.sql.workspace_find, workspace_id=workspace_id)
        if entry_id is not None and (tx.one(tx.sql.entry_place, id=entry_id) or tx.one(tx.sql.gone_find, id=entry_id)):
            raise InvalidState(f"an entry {entry_id} is there, or was", hint="Choose another id, or leave it out.")
        agent = "" if row is None else row[3]
        return ledger.insert(
            tx, kind=PUSH, workspace_id=workspace_id, label=label, agent=agent, docs=docs, comments=comments, ts=ts, entry_id=entry_id
        )


@verb
def history(
    store: Store,
    *,
    limit: int = 100,
    before: str | None = None,
    workspace_id: str | None = None,
    section: str = INBOX,
    unread: bool = False,
    open_only: bool = False,
) -> Page:
    """Entries, newest first, after the one named by `before`. A page costs the same however many there are."""
    check_page(limit, section)
    if workspace_id is not None:
        checks.name("workspace", workspace_id)
    twin.take_in(store)
    folding.fold(store)
    with store.read() as tx:
        return page(tx, limit=limit, before=before, workspace_id=workspace_id, section=section, unread=unread, open_only=open_only)


def page(
    tx: Transaction,
    *,
    limit: int = 100,
    before: str | None = None,
    workspace_id: str | None = None,
    section: str = INBOX,
    unread: bool = False,
    open_only: bool = False,
) -> Page:
    ts, seq = (LAST, LAST) if before is None else _place(tx, before)
    place = {"ts": ts, "seq": seq, "limit": limit + 1}
    if workspace_id is not None:
        rows = tx.all(tx.sql.entries_page_workspace, workspace_id=workspace_id, unread=int(unread), open=int(open_only), **place)
    elif open_only:
        rows = tx.all(tx.sql.entries_page_open, unread=int(unread), **place)
    elif unread:
        rows = tx.all(tx.sql.entries_page_unread, section=section, **place)
    else:
        rows = tx.all(tx.sql.entries_page, section=section, **place)
    return _page(tx, rows, limit)


def counts(tx: Transaction) -> Counts:
    """How much waits for a person. Beyond `COUNTED` nobody needs the number."""
    unread, notices = (len(tx.all(tx.sql.entries_unread, section=section, limit=COUNTED)) for section in SECTIONS)
    questions = len(tx.all(tx.sql.entries_open, ts=LAST, limit=COUNTED))
    there = any(tx.all(tx.sql.entries_page, section=section, ts=LAST, seq=LAST, limit=1) for section in SECTIONS)
    ever = there or bool(tx.all(tx.sql.gone_after, after=0, limit=1))
    return Counts(unread, questions, notices, ever)


@verb
def own_entries(store: Store, *, agent: str, limit: int = 20) -> tuple[Entry, ...]:
    """What an agent pushed and asked, newest first."""
    checks.name("agent", agent)
    check_page(limit)
    folding.fold(store)
    with store.read() as tx:
        return page_of_agent(tx, agent, limit)


def page_of_agent(tx: Transaction, agent: str, limit: int) -> tuple[Entry, ...]:
    return _page(tx, tx.all(tx.sql.entries_page_agent, agent=agent, ts=LAST, seq=LAST, limit=limit + 1), limit).entries


@verb
def find_entry(store: Store, entry_id: str, *, agent: str | None = None) -> Entry:
    """An entry as it stands, without what was said to it; with `agent`, only one of its own."""
    with store.read() as tx:
        entry = ledger.found(tx, entry_id)
    if agent is not None and entry.agent != agent:
        raise ledger.unknown(entry_id)
    return entry


@verb
def search(store: Store, q: str, *, limit: int = 50) -> Page:
    """Entries that hold every word of `q`, or words that begin so, newest first."""
    twin.take_in(store)
    folding.fold(store)
    with store.read() as tx:
        return find(tx, q=q, limit=limit)


def find(tx: Transaction, *, q: str, limit: int = 50) -> Page:
    from postroom.people.words import words

    check_page(limit)
    wanted = words(checks.text("q", q))
    if not wanted:
        raise InvalidInput("there is no word to look for", field="q", hint="Write a word or the beginning of one.")
    return _page(tx, tx.all(tx.sql.entries_search, query=" ".join(f'"{word}"*' for word in wanted), limit=limit + 1), limit)


@verb
@retried
def mark_read(store: Store, entry_id: str, *, person: str) -> Entry:
    """Seen by a person. Said again, nothing changes."""
    checks.name("person", person)
    folding.fold(store)
    with store.write() as tx:
        return ledger.see(tx, ledger.locked(tx, entry_id), ledger.human(tx, "person", person))


@verb
@retried
def mark_unread(store: Store, entry_id: str, *, person: str) -> Entry:
    checks.name("person", person)
    folding.fold(store)
    with store.write() as tx:
        entry = ledger.locked(tx, entry_id)
        ledger.human(tx, "person", person)
        if entry.read_at is None:
            return entry
        ledger.announce(tx, "unread", entry_id, source=person, **ledger.facts(entry))
        return ledger.write_read(tx, entry, None, None, None)


@verb
@retried
def note_offered(store: Store, entry_ids: Iterable[str], *, person: str) -> None:
    """Note that entries were put before a person, who may not have looked yet. The first time counts."""
    with store.write() as tx:
        now = clock.stamp(tx.now())
        for entry_id in entry_ids:
            tx.run(tx.sql.entry_offered, id=entry_id, offered_at=now, offered_to=person, offered_door=tx.door)


@verb
def delete_entry(store: Store, entry_id: str, *, person: str) -> None:
    """Remove an entry for good, with the replies to it. Its id is remembered, so that it never returns."""
    checks.name("person", person)
    folding.fold(store)
    _delete(store, entry_id, person)
    twin.follow(store)


@retried
def _delete(store: Store, entry_id: str, person: str) -> None:
    with store.write() as tx:
        entry = ledger.locked(tx, entry_id)
        ledger.human(tx, "person", person)
        seq = ledger.announce(tx, "deleted", entry_id, source=person, **ledger.facts(entry))
        tx.run(tx.sql.words_delete, seq=entry.seq, words=entry.words)
        for statement in (tx.sql.replies_delete, tx.sql.ask_delete, tx.sql.texts_delete):
            tx.run(statement, entry_id=entry_id)
        tx.run(tx.sql.entry_delete, id=entry_id)
        tx.run(tx.sql.gone_insert, id=entry_id, seq=seq, ts=entry.ts, entry_seq=entry.seq)


def something(docs: Sequence[object], comments: str) -> None:
    """An entry shows documents, a comment, or both."""
    if not docs and not comments.strip():
        raise InvalidInput("there is nothing to show", field="docs", hint="Give docs, comments, or both.")


def check_page(limit: int, section: str = INBOX) -> None:
    checks.choice("section", section, SECTIONS)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_AT_ONCE:
        raise InvalidInput(f"limit must be from 1 to {MOST_AT_ONCE}, not {limit}", field="limit")


def _place(tx: Transaction, entry_id: str) -> tuple[int, int]:
    row = tx.one(tx.sql.entry_place, id=checks.name("before", entry_id)) or tx.one(tx.sql.gone_find, id=entry_id)
    if row is None:
        raise ledger.unknown(entry_id)
    return row[0], row[1]


def _page(tx: Transaction, rows: list[Row], limit: int) -> Page:
    return Page(tuple(_listed(tx, row) for row in rows[:limit]), len(rows) > limit)


def _listed(tx: Transaction, row: Row) -> Entry:
    asked = tx.one(tx.sql.ask_find, entry_id=row[1]) if row[3] == QUESTION else None
    return Entry(*row, None if asked is None else Ask(*asked))  # type: ignore[call-arg] # a row is as long as the statement says
