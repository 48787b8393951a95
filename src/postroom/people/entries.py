"""The verbs of entries: an agent pushes them, a person lists, reads, searches and deletes them. Called by the CLI and the server."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.people import INBOX, NOTICE, NOTICES, PUSH, QUESTION, SECTIONS, Entry, EntryCounts, EntryPage, Workspace
from postroom.core.verbs import OWN_ENTRIES, OWN_NAME, PEOPLE, READ, SERVER_MACHINE, STEPS, WRITE, verb
from postroom.people import documents, entries_mirror, question_sync, repository, workspaces
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.people.documents import Described
    from postroom.store.interface import Store, Transaction

    Docs = Iterable[Mapping[str, Any] | str]

MAX_PAGE_ENTRIES = 500
MAX_COUNTED_ENTRIES = 1000
PAST_NEWEST = 2**62  # a time and a sequence number after every entry


@verb(caller="workspace_id", access=OWN_NAME, mode=STEPS)
def push(store: Store, workspace_id: str, *, docs: Docs = (), comments: str | None = None) -> Entry:
    """Show a person documents of a workspace, a comment, or both. Return the entry.

    The entry holds the paths and hashes of the documents, not their content. Refuses with `InvalidInput` if there is nothing to show.
    """
    paths = documents.check_doc_paths(docs)
    text = repository.check_text("comments", comments or "")
    require_content(paths, text)
    with store.read() as tx:
        workspace = workspaces.get_workspace(tx, workspace_id)
    described = documents.describe_files(workspace.path, paths)  # before taking a lock: files may be large
    question_sync.sync(store)
    entry = store_entry(store, workspace, described, text)
    entries_mirror.update_mirror(store)
    return entry


@retry_on_contention
def store_entry(store: Store, workspace: Workspace, described: Described, comments: str) -> Entry:
    """Store a pushed entry whose documents are described already."""
    with store.write() as tx:
        workspaces.get_workspace(tx, workspace.workspace_id)  # it may have been removed meanwhile
        tx.execute(tx.sql.agent_seen, name=workspace.agent, now=clock.format_stamp(tx.now()))
        text = comments if comments.strip() else ""
        return repository.insert_entry(tx, kind=PUSH, workspace=workspace, docs=described.docs, texts=described.texts, comments=text)


@verb(caller="sender", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def notify(store: Store, *, sender: str, text: str) -> Entry:
    """Show a person a message from automation that has no workspace. It is listed under notices. Replies go to the sender's mailbox."""
    checks.name("from", sender, hint="Name the job with --from.")
    repository.check_nonempty_text("text", text)
    question_sync.sync(store)
    with store.write() as tx:
        tx.execute(tx.sql.agent_seen, name=sender, now=clock.format_stamp(tx.now()))
        return repository.insert_entry(tx, kind=NOTICE, section=NOTICES, agent=sender, label=sender, comments=text)


@verb(caller=SERVER_MACHINE, mode=STEPS)
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
    """Append an entry by hand, to develop the web page. Its documents need not exist."""
    described = [{"path": path, "sha256": None, "size": None} for path in documents.check_doc_paths(docs)]
    text = repository.check_text("comments", comments or "")
    require_content(described, text)
    question_sync.sync(store)
    entry = _store_seed(
        store, checks.name("workspaceId", workspace_id), checks.name("workspaceLabel", workspace_label), described, text, ts, id
    )
    entries_mirror.update_mirror(store)
    return entry


@retry_on_contention
def _store_seed(
    store: Store, workspace_id: str, label: str, docs: list[dict[str, Any]], comments: str, ts: int | None, entry_id: str | None
) -> Entry:
    with store.write() as tx:
        workspace = tx.fetch_one(tx.sql.workspace_find, workspace_id=workspace_id)
        if entry_id is not None and (tx.fetch_one(tx.sql.entry_place, id=entry_id) or tx.fetch_one(tx.sql.gone_find, id=entry_id)):
            raise InvalidState(f"there is an entry {entry_id}, or there was one", hint="Choose another id, or leave it out.")
        agent = "" if workspace is None else workspace.agent
        return repository.insert_entry(
            tx, kind=PUSH, workspace_id=workspace_id, label=label, agent=agent, docs=docs, comments=comments, ts=ts, entry_id=entry_id
        )


@verb(caller=PEOPLE, mode=STEPS)
def history(
    store: Store,
    *,
    limit: int = 100,
    before: str | None = None,
    workspace_id: str | None = None,
    section: str = INBOX,
    unread: bool = False,
    open_only: bool = False,
) -> EntryPage:
    """Return a page of entries, newest first: those older than the entry `before`. The cost does not grow with their number."""
    check_page(limit, section)
    if workspace_id is not None:
        checks.name("workspace", workspace_id)
    entries_mirror.import_foreign_lines(store)
    question_sync.sync(store)
    with store.read() as tx:
        return read_page(tx, limit=limit, before=before, workspace_id=workspace_id, section=section, unread=unread, open_only=open_only)


def read_page(
    tx: Transaction,
    *,
    limit: int = 100,
    before: str | None = None,
    workspace_id: str | None = None,
    section: str = INBOX,
    unread: bool = False,
    open_only: bool = False,
) -> EntryPage:
    """Return a page of entries, newest first. The transaction's part of `history`."""
    ts, seq = (PAST_NEWEST, PAST_NEWEST) if before is None else _find_position(tx, before)
    place = {"ts": ts, "seq": seq, "limit": limit + 1}
    if workspace_id is not None:
        rows = tx.fetch_all(tx.sql.entries_page_workspace, workspace_id=workspace_id, unread=int(unread), open=int(open_only), **place)
    elif open_only:
        rows = tx.fetch_all(tx.sql.entries_page_open, unread=int(unread), **place)
    elif unread:
        rows = tx.fetch_all(tx.sql.entries_page_unread, section=section, **place)
    else:
        rows = tx.fetch_all(tx.sql.entries_page, section=section, **place)
    return _make_page(tx, rows, limit)


def count_waiting(tx: Transaction) -> EntryCounts:
    """Count the unread entries, open questions and unread notices, each up to `MAX_COUNTED_ENTRIES`."""
    unread, notices = (len(tx.fetch_all(tx.sql.entries_unread, section=section, limit=MAX_COUNTED_ENTRIES)) for section in SECTIONS)
    questions = len(tx.fetch_all(tx.sql.entries_open, ts=PAST_NEWEST, limit=MAX_COUNTED_ENTRIES))
    has_entries = any(tx.fetch_all(tx.sql.entries_page, section=section, ts=PAST_NEWEST, seq=PAST_NEWEST, limit=1) for section in SECTIONS)
    had_entries = has_entries or bool(tx.fetch_all(tx.sql.gone_after, after=0, limit=1))
    return EntryCounts(unread, questions, notices, had_entries)


@verb(caller="agent", access=OWN_ENTRIES, mode=STEPS)
def own_entries(store: Store, *, agent: str, limit: int = 20) -> tuple[Entry, ...]:
    """Return the entries that an agent pushed and asked, newest first."""
    checks.name("agent", agent)
    check_page(limit)
    question_sync.sync(store)
    with store.read() as tx:
        return page_of_agent(tx, agent, limit)


def page_of_agent(tx: Transaction, agent: str, limit: int) -> tuple[Entry, ...]:
    """Return the latest entries of an agent, newest first. The transaction's part of `own_entries`."""
    return _make_page(
        tx, tx.fetch_all(tx.sql.entries_page_agent, agent=agent, ts=PAST_NEWEST, seq=PAST_NEWEST, limit=limit + 1), limit
    ).entries


@verb(caller="agent", access=OWN_ENTRIES, mode=READ)
def find_entry(store: Store, entry_id: str, *, agent: str | None = None) -> Entry:
    """Return an entry without its replies. With `agent`, refuses with `NotFound` if the entry is another agent's."""
    with store.read() as tx:
        entry = repository.get_entry(tx, entry_id)
    if agent is not None and entry.agent != agent:
        raise repository.entry_not_found(entry_id)
    return entry


@verb(caller=PEOPLE, mode=STEPS)
def search(store: Store, q: str, *, limit: int = 50) -> EntryPage:
    """Return the entries that contain every word of `q`, or a word that begins with it, newest first."""
    entries_mirror.import_foreign_lines(store)
    question_sync.sync(store)
    with store.read() as tx:
        return search_page(tx, q=q, limit=limit)


def search_page(tx: Transaction, *, q: str, limit: int = 50) -> EntryPage:
    """Return the entries that match `q`. The transaction's part of `search`."""
    from postroom.people.search_terms import search_terms

    check_page(limit)
    terms = search_terms(checks.text("q", q))
    if not terms:
        raise InvalidInput("there is no word to look for", field="q", hint="Write a word or the beginning of one.")
    return _make_page(tx, tx.fetch_all(tx.sql.entries_search, query=" ".join(f'"{word}"*' for word in terms), limit=limit + 1), limit)


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def mark_read(store: Store, entry_id: str, *, person: str) -> Entry:
    """Mark an entry as read by a person, and return it. Calling it again changes nothing."""
    checks.name("person", person)
    question_sync.sync(store)
    with store.write() as tx:
        return repository.mark_entry_read(tx, repository.lock_entry(tx, entry_id), repository.require_person(tx, "person", person))


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def mark_unread(store: Store, entry_id: str, *, person: str) -> Entry:
    """Mark an entry as unread, and return it. Calling it again changes nothing."""
    checks.name("person", person)
    question_sync.sync(store)
    with store.write() as tx:
        entry = repository.lock_entry(tx, entry_id)
        repository.require_person(tx, "person", person)
        if entry.read_at is None:
            return entry
        repository.append_entry_event(tx, "unread", entry_id, source=person, **repository.event_facts(entry))
        return repository.write_read_state(tx, entry, None, None, None)


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def note_offered(store: Store, entry_ids: Iterable[str], *, person: str) -> None:
    """Record that entries were listed for a person, who may not have read them yet. Only the first time is kept."""
    with store.write() as tx:
        now = clock.format_stamp(tx.now())
        for entry_id in entry_ids:
            tx.execute(tx.sql.entry_offered, id=entry_id, offered_at=now, offered_to=person, offered_door=tx.door)


@verb(caller=PEOPLE, mode=WRITE)
def delete_entry(store: Store, entry_id: str, *, person: str) -> None:
    """Delete an entry and the texts of the replies to it. Its id is kept, so that no import creates it again."""
    checks.name("person", person)
    question_sync.sync(store)
    _delete_rows(store, entry_id, person)
    entries_mirror.update_mirror(store)


@retry_on_contention
def _delete_rows(store: Store, entry_id: str, person: str) -> None:
    with store.write() as tx:
        entry = repository.lock_entry(tx, entry_id)
        repository.require_person(tx, "person", person)
        seq = repository.append_entry_event(tx, "deleted", entry_id, source=person, **repository.event_facts(entry))
        tx.execute(tx.sql.words_delete, seq=entry.seq, words=entry.words)
        for statement in (tx.sql.replies_forget, tx.sql.ask_delete, tx.sql.texts_delete):
            tx.execute(statement, entry_id=entry_id)
        tx.execute(tx.sql.entry_delete, id=entry_id)
        tx.execute(tx.sql.gone_insert, id=entry_id, seq=seq, ts=entry.ts, entry_seq=entry.seq)


def require_content(docs: Sequence[object], comments: str) -> None:
    """Refuse an entry that has neither documents nor a comment."""
    if not docs and not comments.strip():
        raise InvalidInput("there is nothing to show", field="docs", hint="Give docs, comments, or both.")


def check_page(limit: int, section: str = INBOX) -> None:
    """Refuse an unknown section, or a limit outside of 1 to `MAX_PAGE_ENTRIES`."""
    checks.choice("section", section, SECTIONS)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE_ENTRIES:
        raise InvalidInput(f"limit must be from 1 to {MAX_PAGE_ENTRIES}, not {limit}", field="limit")


def _find_position(tx: Transaction, entry_id: str) -> tuple[int, int]:
    """Return the time and the sequence number of an entry, also of a deleted one."""
    place = tx.fetch_one(tx.sql.entry_place, id=checks.name("before", entry_id)) or tx.fetch_one(tx.sql.gone_find, id=entry_id)
    if place is None:
        raise repository.entry_not_found(entry_id)
    return place.ts, place.seq


def _make_page(tx: Transaction, rows: list[Entry], limit: int) -> EntryPage:
    return EntryPage(tuple(_with_ask(tx, entry) for entry in rows[:limit]), len(rows) > limit)


def _with_ask(tx: Transaction, entry: Entry) -> Entry:
    return entry.replace(ask=tx.fetch_one(tx.sql.ask_find, entry_id=entry.id)) if entry.kind == QUESTION else entry
