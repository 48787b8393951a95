"""Read and write entries as rows, and append the event of each change. The verbs of this room call it inside their transactions."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, ids, limits
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import ANSWERED, DEFAULT, ENDED, INBOX, PART, REFUSED, Ask, Entry, Workspace, to_milliseconds
from postroom.core.text import shell_quote
from postroom.people.channels import planning
from postroom.store.event_log import append_event, inbox_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.store.interface import Transaction

MAX_PARTS = 1000  # of one entry
ANSWER_STEPS = (ANSWERED, DEFAULT, REFUSED, ENDED, "returned")  # they leave an answer for the agent to receive
ENTRY_TOPIC_PREFIX = "entry:"  # every event that creates, changes or deletes an entry has such a topic


def insert_entry(
    tx: Transaction,
    *,
    kind: str,
    section: str = INBOX,
    workspace: Workspace | None = None,
    workspace_id: str = "",
    label: str = "",
    agent: str = "",
    docs: Sequence[Mapping[str, Any]] = (),
    texts: Iterable[tuple[str, str]] = (),
    comments: str = "",
    ts: int | None = None,
    entry_id: str | None = None,
    door: str | None = None,
    ask: Mapping[str, Any] | None = None,
    **more: Any,
) -> Entry:
    """Write an entry and, with `ask`, its question. Append the event and return the entry. Its `seq` is the id of that event.

    `more` has fields of `Entry` that are not the usual ones: its title, states, unknown fields, message, or the entry it is a part of.
    """
    if workspace is not None:
        workspace_id, label, agent = workspace.workspace_id, workspace.label, workspace.agent
    entry_id, kept_texts = entry_id or ids.new_uuid4(), list(texts)
    root = {name: more[name] for name in ("root_id",) if more.get(name) is not None}
    place = {"workspace_id": workspace_id, "kind": kind, "section": section, "label": label}
    now = to_milliseconds(tx.now()) if ts is None else ts
    channels = [] if ask is not None else planning.find_channels_of_news(tx, section, more.get("triage", INBOX), now)
    seq = append_entry_event(tx, "created", entry_id, source=agent, agent=agent, **place, **root)
    fields: dict[str, Any] = {"seq": seq, "id": entry_id, "section": section, "kind": kind, "ts": now, "active_ts": now}
    fields |= {"workspace_id": workspace_id, "workspace_label": label, "agent": agent, "comments": comments}
    fields |= {"docs_json": jsontext.dumps(list(docs)), "door": door or tx.door, "stored_at": clock.format_stamp(tx.now())}
    # A search finds a part by the row of its entry, which gets the words of the part.
    words = "" if root else _search_words(more.get("title", ""), label, agent, comments, docs, ask, kept_texts)
    entry = Entry(**{**_UNTOUCHED, **fields, "is_open": int(ask is not None), "words": words, **more})
    _insert_rows(tx, entry, kept_texts)
    planning.plan_news(tx, channels, entry_id)
    return entry if ask is None else _insert_question(tx, entry, ask)


def _search_words(
    title: str,
    label: str,
    agent: str,
    comments: str,
    docs: Sequence[Mapping[str, Any]],
    ask: Mapping[str, Any] | None,
    texts: Iterable[tuple[str, str]],
) -> str:
    """Return the words by which a search finds an entry."""
    from postroom.people.search_terms import search_terms

    choices = [] if ask is None else jsontext.loads(ask["choices_json"])
    paths = (str(doc["path"]) for doc in docs)
    return " ".join(search_terms(title, label, agent, comments, *paths, *choices, *(text for _, text in texts)))


def _insert_rows(tx: Transaction, entry: Entry, texts: Iterable[tuple[str, str]]) -> None:
    """Write an entry, its search terms and the texts of its documents."""
    tx.execute(tx.sql.entry_insert, **{name: value for name, value in entry.items() if name not in ("ask", "latest")})
    tx.execute(tx.sql.words_insert, seq=entry.seq, words=entry.words)
    for path, text in texts:
        tx.execute(tx.sql.text_insert, entry_id=entry.id, path=path, text=text)


def _insert_question(tx: Transaction, entry: Entry, ask: Mapping[str, Any]) -> Entry:
    """Write the question of an entry and its alerts, and return the entry with it."""
    own = {"entry_id": entry.id, "matter_id": entry.matter_id, "agent": entry.agent, "asked_event": entry.seq}
    question = Ask(**{**_UNANSWERED, **own, **ask})
    tx.execute(tx.sql.ask_insert, **dict(question.items()))
    asked = entry.replace(ask=question)
    planning.plan_question(tx, asked)
    return asked


_UNTOUCHED: dict[str, Any] = {
    "replies": 0,
    "extra_json": "{}",
    "message_id": None,
    **dict.fromkeys(("offered_at", "offered_to", "offered_door", "read_at", "read_by", "read_door")),
}
_UNANSWERED = dict.fromkeys(Ask.__fields__) | {"state": "open", "on_silence": "wait", "terms_json": "{}"}


def add_part(tx: Transaction, root: Entry, part: Mapping[str, Any]) -> Entry:
    """Add a row to a locked entry: documents, a comment or a question. The entry comes back to the top of the inbox, unread.

    `part` has the arguments of `insert_entry`. Return the part.
    """
    from postroom.people.search_terms import search_terms

    added = insert_entry(tx, section=PART, root_id=root.id, **part)
    texts = list(part.get("texts", ()))
    added_words = _search_words(added.title, "", "", added.comments, added.docs, part.get("ask"), texts)
    words = " ".join(search_terms(root.words, added_words))
    tx.execute(tx.sql.words_delete, seq=root.seq, words=root.words)
    tx.execute(tx.sql.entry_extend, id=root.id, active_ts=max(added.ts, root.active_ts), words=words, is_open=added.is_open)
    tx.execute(tx.sql.words_insert, seq=root.seq, words=words)
    if root.triage != INBOX:
        write_triage(tx, root, INBOX, changed_seq=added.seq)
    return added


def write_triage(tx: Transaction, entry: Entry, state: str, *, changed_seq: int, until: int | None = None) -> Entry:
    """Move a locked entry to the inbox, to the done ones, or to the snoozed ones until a time in milliseconds. Return it."""
    changed = entry.replace(triage=state, snoozed_until=until, changed_seq=changed_seq)
    write_states(tx, changed)
    return changed


def write_states(tx: Transaction, entry: Entry) -> None:
    """Write the states of triage of an entry."""
    states = {name: getattr(entry, name) for name in ("id", "triage", "snoozed_until", "pinned_at", "changed_seq")}
    tx.execute(tx.sql.entry_triage, **states)


def mark_entry_read(tx: Transaction, entry: Entry, person: str) -> Entry:
    """Mark a locked entry as read by a person. Return it, unchanged if it was read before."""
    if entry.read_at is not None:
        return entry
    append_entry_event(tx, "read", entry.id, source=person, **event_facts(entry))
    return write_read_state(tx, entry, clock.format_stamp(tx.now()), person, tx.door)


def write_read_state(tx: Transaction, entry: Entry, at: str | None, by: str | None, door: str | None) -> Entry:
    """Write when, by whom and through which door an entry was read. None marks it as unread."""
    tx.execute(tx.sql.entry_read, id=entry.id, read_at=at, read_by=by, read_door=door)
    return entry.replace(read_at=at, read_by=by, read_door=door)


def lock_entry(tx: Transaction, entry_id: str) -> Entry:
    """Lock an entry until the transaction ends, and return it. Refuses with `NotFound`."""
    tx.fetch_one(tx.sql.entry_lock, id=checks.name("entry", entry_id))
    return get_entry(tx, entry_id)


def lock_matter(tx: Transaction, entry_id: str) -> Entry:
    """Lock the entry in whose row an entry is shown, which may be that entry itself. Refuses with `NotFound`."""
    entry = lock_entry(tx, entry_id)
    return entry if entry.root_id is None else lock_entry(tx, entry.root_id)


def lock_own_matter(tx: Transaction, entry_id: str, agent: str) -> Entry:
    """Lock the entry to which an agent adds. Refuses with `NotFound` if it is another agent's."""
    entry = lock_matter(tx, entry_id)
    if entry.agent != agent:
        raise entry_not_found(entry_id)
    return entry


def lock_entry_if_exists(tx: Transaction, entry_id: str) -> Entry | None:
    """Lock an entry until the transaction ends. Return it, or None if it was deleted."""
    tx.fetch_one(tx.sql.entry_lock, id=entry_id)
    return tx.fetch_one(tx.sql.entry_find, id=entry_id)


def get_entry(tx: Transaction, entry_id: str) -> Entry:
    """Return an entry with its question. Refuses with `NotFound`."""
    entry = tx.fetch_one(tx.sql.entry_find, id=checks.name("entry", entry_id))
    if entry is None:
        raise entry_not_found(entry_id)
    return entry


def list_parts(tx: Transaction, root: Entry) -> list[Entry]:
    """Return what was added to an entry, oldest first, each with its question."""
    return tx.fetch_all(tx.sql.entries_parts, root_id=root.id, limit=MAX_PARTS) if root.parts else []


def pushed_text(tx: Transaction, entry_id: str, path: str) -> str | None:
    """Return the text of a document as it was when the entry was made, or None if it was not kept."""
    return tx.fetch_one(tx.sql.text_find, entry_id=entry_id, path=path)


def require_person(tx: Transaction, field: str, name: str) -> str:
    """Return the name if it is a person whom the store knows. Only such people can be asked, and only they can answer."""
    known = tx.fetch_one(tx.sql.agent_find, name=checks.name(field, name))
    if known is not None and not known.is_person:
        raise InvalidInput(f"{name} is an agent, not a person", field=field, hint="Name a person; `inbox agent list` shows them.")
    if known is None:
        hint = f"Make them known with `inbox agent add {shell_quote(name)} --kind human`."
        raise InvalidInput(f"{name} is not a person that this store knows", field=field, hint=hint)
    return name


def check_text(field: str, value: str) -> str:
    """Return a Markdown text if it has at most `MAX_COMMENT_BYTES`."""
    return checks.text(field, value, max_bytes=limits.MAX_COMMENT_BYTES, hint="Write it to a file and push that.")


def check_title(title: str | None) -> str:
    """Return a title, or "" for none. Refuses one that is longer than `limits.MAX_TITLE_CHARS`, or has several lines."""
    if title is None:
        return ""
    checks.text("title", title)
    if len(title) > limits.MAX_TITLE_CHARS or "\n" in title or "\r" in title:
        raise InvalidInput(
            f"a title is one line of at most {limits.MAX_TITLE_CHARS} characters", field="title", hint="Put the rest into comments."
        )
    return title.strip()


def check_nonempty_text(field: str, value: str) -> str:
    """Check a Markdown text that must not be empty, and return it."""
    if not check_text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint="Write some text.")
    return value


def append_entry_event(tx: Transaction, step: str, entry_id: str, *, source: str, agent: str, **facts: object) -> int:
    """Append the event of a step and return its id. It wakes waiters on this entry, on any entry, and on answers to its agent."""
    topics: tuple[str, ...] = (entry_topic(entry_id), answers_topic(agent))
    if step in ANSWER_STEPS:
        topics = (*topics, inbox_topic(agent))
    payload = {"entry_id": entry_id, "agent": agent, "door": tx.door, **facts}
    return append_event(tx, topics, event_type=f"entry.{step}", source=source, message_id=entry_id, payload=payload)


def event_facts(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry that its events carry."""
    facts = {"agent": entry.agent, "workspace_id": entry.workspace_id, "kind": entry.kind, "section": entry.section}
    return facts if entry.root_id is None else {**facts, "root_id": entry.root_id}


def entry_topic(entry_id: str) -> str:
    """Return the topic of the events of one entry."""
    return f"{ENTRY_TOPIC_PREFIX}{entry_id}"


def answers_topic(agent: str) -> str:
    """Return the topic of the events of all entries of an agent."""
    return f"answers:{agent}"


def entry_not_found(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id}", hint="It may have been deleted. See `inbox entries`.", entry_id=entry_id)


def wake_snoozed(tx: Transaction, limit: int) -> int:
    """Bring the entries whose time has come back to the top of the inbox, unread. Return their number."""
    now = to_milliseconds(tx.now())
    ids = tx.fetch_all(tx.sql.entries_waking, now=now, limit=limit)
    for entry_id in ids:
        entry = lock_entry_if_exists(tx, entry_id)
        if entry is not None and entry.snoozed_until is not None and entry.snoozed_until <= now:  # not woken before we locked it
            seq = append_entry_event(tx, "woken", entry.id, source="", **event_facts(entry))
            write_triage(tx, entry, INBOX, changed_seq=seq)
            tx.execute(tx.sql.entry_wake, id=entry.id, active_ts=now)
    return len(ids)
