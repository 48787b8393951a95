"""The verbs of entries: an agent pushes them, a person lists, reads, searches and deletes them. Called by the CLI and the server."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.limits import MAX_PAGE_ENTRIES
from postroom.core.records.people import (
    DONE,
    INBOX,
    NOTICE,
    NOTICES,
    OPEN,
    PUSH,
    QUESTION,
    SECTIONS,
    TRIAGE_STATES,
    Entry,
    EntryCounts,
    EntryPage,
    Workspace,
)
from postroom.core.text import short_repr
from postroom.core.verbs import OWN_ENTRIES, OWN_NAME, PEOPLE, READ, SERVER_MACHINE, STEPS, WRITE, verb
from postroom.people import documents, entries_mirror, replying, repository
from postroom.people.access import workspaces
from postroom.people.questions import due_questions
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.people.documents import Described
    from postroom.store.interface import Store, Transaction

    Docs = Iterable[Mapping[str, Any] | str]

MAX_COUNTED_ENTRIES = 1000
MAX_SHOWN_QUESTIONS = 20  # of one entry, among which the most urgent is found
NO_DEADLINE = "9"  # sorts behind every deadline, as in the index of the statement
_CURSOR_SEPARATOR = "|"  # in no time


@verb(caller="workspace_id", access=OWN_NAME, mode=STEPS)
def push(
    store: Store,
    workspace_id: str,
    *,
    docs: Docs = (),
    comments: str | None = None,
    title: str | None = None,
    entry_id: str | None = None,
) -> Entry:
    """Show a person documents of a workspace, a comment, or both. Return the entry.

    With `entry_id` they are added to that entry, which comes back to the top, unread. The entry holds the paths and hashes of the
    documents; small texts are kept for a later comparison. Refuses with `InvalidInput` if there is nothing to show.
    """
    paths = documents.check_doc_paths(docs)
    text = repository.check_text("comments", comments or "")
    require_content(paths, text)
    repository.check_title(title)
    with store.read() as tx:
        workspace = workspaces.get_workspace(tx, workspace_id)
    described = documents.describe_files(workspace.path, paths)  # before taking a lock: files may be large
    due_questions.sync(store)
    entry = store_entry(store, workspace, described, text, title=title, entry_id=entry_id)
    entries_mirror.update_mirror(store)
    return entry


def prefetch_for_entry(tx: Transaction, workspace: Workspace) -> None:
    """Announce what `store_entry` reads first."""
    tx.prefetch(tx.sql.workspace_find, workspace_id=workspace.workspace_id)
    tx.prefetch(tx.sql.channels_of_everything)


@retry_on_contention
def store_entry(
    store: Store, workspace: Workspace, described: Described, comments: str, *, title: str | None = None, entry_id: str | None = None
) -> Entry:
    """Store a pushed entry whose documents are described already, or add it to an entry of the same agent. Return the listed entry."""
    with store.write() as tx:
        known = workspaces.get_workspace(tx, workspace.workspace_id)  # it may have been removed or muted meanwhile
        note_seen(tx, "agent", workspace.agent)
        pushed: dict[str, Any] = {"kind": PUSH, "workspace": workspace, "docs": described.docs, "texts": described.texts}
        pushed |= {"comments": comments if comments.strip() else "", "title": repository.check_title(title)}
        if entry_id is not None:
            root = repository.lock_own_matter(tx, entry_id, workspace.agent)
            repository.add_part(tx, root, pushed)
            return repository.get_entry(tx, root.id)
        pushed["title"] = pushed["title"] or described.heading
        return repository.insert_entry(tx, triage=INBOX if known.muted_at is None else DONE, **pushed)


@verb(caller="sender", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def notify(store: Store, *, sender: str, text: str) -> Entry:
    """Show a person a message from automation that has no workspace. It is listed under notices. Replies go to the sender's mailbox."""
    checks.name("from", sender, hint="Name the job with --from.")
    repository.check_nonempty_text("text", text)
    due_questions.sync(store)
    with store.write() as tx:
        note_seen(tx, "from", sender)
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
    due_questions.sync(store)
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
    state: str = "",
    pinned: bool = False,
) -> EntryPage:
    """Return a page of entries, newest first: those older than the entry `before`. The cost does not grow with their number.

    `state` is one of `inbox`, `snoozed` and `done`, or "" for all. An entry is as new as what its agent last added to it.
    """
    check_page(limit, section, state)
    if workspace_id is not None:
        checks.name("workspace", workspace_id)
    entries_mirror.import_foreign_lines(store)
    due_questions.sync(store)
    with store.read() as tx:
        filters: dict[str, Any] = {"section": section, "unread": unread, "open_only": open_only, "state": state, "pinned": pinned}
        return read_page(tx, limit=limit, before=before, workspace_id=workspace_id, **filters)


def read_page(
    tx: Transaction,
    *,
    limit: int = 100,
    before: str | None = None,
    workspace_id: str | None = None,
    section: str = INBOX,
    unread: bool = False,
    open_only: bool = False,
    state: str = "",
    pinned: bool = False,
) -> EntryPage:
    """Return a page of entries, newest first. The transaction's part of `history`."""
    ts, seq = (checks.AFTER_ALL_IDS, checks.AFTER_ALL_IDS) if before is None else find_position(tx, before)
    place = {"ts": ts, "seq": seq, "limit": limit + 1}
    if workspace_id is not None:
        flags = {"unread": int(unread), "open": int(open_only), "triage": state, "pinned": int(pinned)}
        rows = tx.fetch_all(tx.sql.entries_page_workspace, workspace_id=workspace_id, **flags, **place)
    elif open_only:
        rows = tx.fetch_all(tx.sql.entries_page_open, unread=int(unread), **place)
    elif unread:
        rows = tx.fetch_all(tx.sql.entries_page_unread, section=section, **place)
    elif pinned:
        rows = tx.fetch_all(tx.sql.entries_page_pinned, section=section, triage=state, **place)
    elif state:
        rows = tx.fetch_all(tx.sql.entries_page_triage, section=section, triage=state, **place)
    else:
        rows = tx.fetch_all(tx.sql.entries_page, section=section, **place)
    return make_page(tx, rows, limit)


@verb(caller=PEOPLE, mode=STEPS)
def open_questions(store: Store, *, limit: int = 100, after: str | None = None) -> EntryPage:
    """Return the entries with an open question, the one with the earliest deadline first. `after` is the cursor of a page."""
    check_page(limit)
    due_questions.sync(store)
    with store.read() as tx:
        return read_open_questions(tx, limit=limit, after=after)


def read_open_questions(tx: Transaction, *, limit: int = 100, after: str | None = None) -> EntryPage:
    """Return the entries with an open question. The transaction's part of `open_questions`."""
    deadline, asked_event = ("", 0) if after is None else _parse_question_cursor(after)
    page = make_page(tx, tx.fetch_all(tx.sql.entries_urgent, deadline=deadline, asked_event=asked_event, limit=limit + 1), limit)
    shown = page.entries[-1].ask if page.has_more else None
    return page if shown is None else page.replace(after=f"{shown.deadline or NO_DEADLINE}{_CURSOR_SEPARATOR}{shown.asked_event}")


def _parse_question_cursor(after: str) -> tuple[str, int]:
    """Return the deadline and the event of the last question of a page."""
    deadline, _, event = after.partition(_CURSOR_SEPARATOR) if isinstance(after, str) else ("", "", "")
    if not deadline or not (event.isascii() and event.isdigit()):
        why = f"after is not the cursor of open questions: {short_repr(after)}"
        raise InvalidInput(why, field="after", hint="Pass `after` of the page before.")
    return checks.name("after", deadline), checks.event_id("after", int(event))


def count_waiting(tx: Transaction) -> EntryCounts:
    """Count the unread entries, open questions and unread notices, each up to `MAX_COUNTED_ENTRIES`."""
    unread, notices = (len(tx.fetch_all(tx.sql.entries_unread, section=section, limit=MAX_COUNTED_ENTRIES)) for section in SECTIONS)
    questions = len(tx.fetch_all(tx.sql.asks_open, limit=MAX_COUNTED_ENTRIES))
    has_entries = any(
        tx.fetch_all(tx.sql.entries_page, section=section, ts=checks.AFTER_ALL_IDS, seq=checks.AFTER_ALL_IDS, limit=1)
        for section in SECTIONS
    )
    had_entries = has_entries or bool(tx.fetch_all(tx.sql.gone_after, after=0, pruned=1, limit=1))
    return EntryCounts(unread, questions, notices, had_entries)


@verb(caller="agent", access=OWN_ENTRIES, mode=STEPS)
def own_entries(store: Store, *, agent: str, limit: int = 20, before: str | None = None) -> EntryPage:
    """Return the entries that an agent pushed and asked, newest first. `before` is the last entry of the page before."""
    checks.name("agent", agent)
    check_page(limit)
    due_questions.sync(store)
    with store.read() as tx:
        return page_of_agent(tx, agent, limit, before)


def page_of_agent(tx: Transaction, agent: str, limit: int, before: str | None = None) -> EntryPage:
    """Return a page of the entries of an agent, newest first. The transaction's part of `own_entries`."""
    ts, seq = (checks.AFTER_ALL_IDS, checks.AFTER_ALL_IDS) if before is None else find_position(tx, before)
    return make_page(tx, tx.fetch_all(tx.sql.entries_page_agent, agent=agent, ts=ts, seq=seq, limit=limit + 1), limit)


@verb(caller="agent", access=OWN_ENTRIES, mode=READ)
def find_entry(store: Store, entry_id: str, *, agent: str | None = None) -> Entry:
    """Return an entry without its replies. With `agent`, refuses with `NotFound` if the entry is another agent's."""
    with store.read() as tx:
        entry = repository.get_entry(tx, entry_id)
    if agent is not None and entry.agent != agent:
        raise repository.entry_not_found(entry_id)
    return entry


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def mark_read(store: Store, entry_id: str, *, person: str) -> Entry:
    """Mark an entry as read by a person, and return it. Calling it again changes nothing."""
    checks.name("person", person)
    due_questions.sync(store)
    with store.write() as tx:
        return repository.mark_entry_read(tx, repository.lock_matter(tx, entry_id), repository.require_person(tx, "person", person))


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def mark_unread(store: Store, entry_id: str, *, person: str) -> Entry:
    """Mark an entry as unread, and return it. Calling it again changes nothing."""
    checks.name("person", person)
    due_questions.sync(store)
    with store.write() as tx:
        entry = repository.lock_matter(tx, entry_id)
        repository.require_person(tx, "person", person)
        if entry.read_at is None:
            return entry
        repository.append_entry_event(tx, "unread", entry.id, source=person, **repository.event_facts(entry))
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
    due_questions.sync(store)
    _delete_rows(store, entry_id, person)
    entries_mirror.update_mirror(store)


@retry_on_contention
def _delete_rows(store: Store, entry_id: str, person: str) -> None:
    with store.write() as tx:
        entry = repository.lock_matter(tx, entry_id)
        repository.require_person(tx, "person", person)
        matter = (entry, *repository.list_parts(tx, entry))
        for part in matter:
            replying.decline_thread_question(tx, part, person)
        for part in reversed(matter):
            delete_entry_row(tx, part, person)


def delete_entry_row(tx: Transaction, entry: Entry, person: str) -> None:
    """Delete the row of one entry, with its question and texts, in this transaction. Its id is kept."""
    seq = repository.append_entry_event(tx, "deleted", entry.id, source=person, **repository.event_facts(entry))
    tx.execute(tx.sql.words_delete, seq=entry.seq, words=entry.words)
    for statement in (tx.sql.ask_delete, tx.sql.texts_delete, tx.sql.texts_seen_delete, tx.sql.alerts_delete_entry):
        tx.execute(statement, entry_id=entry.id)
    if tx.fetch_one(tx.sql.reply_of_entry, entry_id=entry.id):  # an UPDATE writes a piece of the search index for each entry of a batch
        tx.execute(tx.sql.replies_forget, entry_id=entry.id)
    tx.execute(tx.sql.entry_delete, id=entry.id)
    tx.execute(tx.sql.gone_insert, id=entry.id, seq=seq, ts=entry.active_ts, entry_seq=entry.seq)


def require_content(docs: Sequence[object], comments: str) -> None:
    """Refuse an entry that has neither documents nor a comment."""
    if not docs and not comments.strip():
        raise InvalidInput("there is nothing to show", field="docs", hint="Give docs, comments, or both.")


def check_page(limit: int, section: str = INBOX, state: str = "") -> None:
    """Refuse an unknown section or state, or a limit outside of 1 to `MAX_PAGE_ENTRIES`."""
    checks.choice("section", section, SECTIONS)
    if state:
        checks.choice("state", state, TRIAGE_STATES)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE_ENTRIES:
        raise InvalidInput(f"limit must be from 1 to {MAX_PAGE_ENTRIES}, not {limit}", field="limit")


def find_position(tx: Transaction, entry_id: str) -> tuple[int, int]:
    """Return the time and the sequence number of an entry, also of a deleted one."""
    place = tx.fetch_one(tx.sql.entry_place, id=checks.name("before", entry_id)) or tx.fetch_one(tx.sql.gone_find, id=entry_id)
    if place is None:
        raise repository.entry_not_found(entry_id)
    return place.ts, place.seq


def make_page(tx: Transaction, rows: list[Entry], limit: int) -> EntryPage:
    """Return the first entries with what their rows show, and whether there are more."""
    return EntryPage(tuple(_with_latest(tx, with_shown_question(tx, entry)) for entry in rows[:limit]), len(rows) > limit)


def _with_latest(tx: Transaction, entry: Entry) -> Entry:
    """Return an entry with the words of the part that asks its open question, else of the newest part."""
    if not entry.parts:
        return entry
    asking = entry.ask.entry_id if entry.ask is not None and entry.ask.state == OPEN else None
    if asking == entry.id:
        return entry
    newest = tx.sql.entry_newest_part
    part = tx.fetch_one(newest, root_id=entry.id) if asking is None else repository.get_entry(tx, asking)
    return entry if part is None else entry.replace(latest=part.comments or ", ".join(part.file_names))


def with_shown_question(tx: Transaction, entry: Entry) -> Entry:
    """Return an entry with the question that its row shows: of the open ones the most urgent, else the latest."""
    if entry.kind != QUESTION and not entry.parts:
        return entry
    asks = tx.fetch_all(tx.sql.ask_of_matter, matter_id=entry.id, limit=MAX_SHOWN_QUESTIONS)
    urgent = sorted((ask for ask in asks if ask.state == OPEN), key=lambda ask: (ask.deadline or NO_DEADLINE, ask.asked_event))
    shown = next(iter(urgent + asks), None)
    if shown is None or shown.entry_id == entry.id:
        return entry.replace(ask=shown)
    return entry.replace(ask=shown, message_id=repository.get_entry(tx, shown.entry_id).message_id)
