"""Read and write entries as rows, and append the event of each change. The verbs of this room call it inside their transactions."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock, ids, limits
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import INBOX, Ask, Entry, Workspace, to_milliseconds
from postroom.core.text import shell_quote
from postroom.store.event_log import append_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.store.interface import Transaction

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
    message_id: str | None = None,
    ask: Mapping[str, Any] | None = None,
    extra_json: str = "{}",
) -> Entry:
    """Write an entry and, with `ask`, its question. Append the event and return the entry. Its `seq` is the id of that event."""
    if workspace is not None:
        workspace_id, label, agent = workspace.workspace_id, workspace.label, workspace.agent
    entry_id = entry_id or ids.new_uuid4()
    words = _search_words(label, agent, comments, docs, ask)
    seq = append_entry_event(
        tx, "created", entry_id, source=agent, agent=agent, workspace_id=workspace_id, kind=kind, section=section, label=label
    )
    entry = Entry(
        **_UNTOUCHED,
        seq=seq,
        id=entry_id,
        section=section,
        kind=kind,
        ts=to_milliseconds(tx.now()) if ts is None else ts,
        workspace_id=workspace_id,
        workspace_label=label,
        agent=agent,
        docs_json=jsontext.dumps(list(docs)),
        comments=comments,
        door=door or tx.door,
        stored_at=clock.format_stamp(tx.now()),
        message_id=message_id,
        is_open=int(ask is not None),
        extra_json=extra_json,
        words=words,
    )
    _insert_rows(tx, entry, texts)
    return entry if ask is None else _insert_question(tx, entry, ask)


def _search_words(label: str, agent: str, comments: str, docs: Sequence[Mapping[str, Any]], ask: Mapping[str, Any] | None) -> str:
    """Return the words by which a search finds an entry."""
    from postroom.people.search_terms import search_terms

    choices = [] if ask is None else jsontext.loads(ask["choices_json"])
    return " ".join(search_terms(label, agent, comments, *(str(doc["path"]) for doc in docs), *choices))


def _insert_rows(tx: Transaction, entry: Entry, texts: Iterable[tuple[str, str]]) -> None:
    """Write an entry, its search terms and the texts of its documents."""
    tx.execute(tx.sql.entry_insert, **{name: value for name, value in entry.items() if name != "ask"})
    tx.execute(tx.sql.words_insert, seq=entry.seq, words=entry.words)
    for path, text in texts:
        tx.execute(tx.sql.text_insert, entry_id=entry.id, path=path, text=text)


def _insert_question(tx: Transaction, entry: Entry, ask: Mapping[str, Any]) -> Entry:
    """Write the question of an entry, and return the entry with it."""
    question = Ask(**{**_UNANSWERED, "entry_id": entry.id, "agent": entry.agent, "asked_event": entry.seq, **ask})
    tx.execute(tx.sql.ask_insert, **dict(question.items()))
    return entry.replace(ask=question)


_UNTOUCHED: dict[str, Any] = {
    "replies": 0,
    **dict.fromkeys(("offered_at", "offered_to", "offered_door", "read_at", "read_by", "read_door")),
}
_UNANSWERED = dict.fromkeys(Ask.__fields__) | {"state": "open", "on_silence": "wait"}


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


def check_nonempty_text(field: str, value: str) -> str:
    """Check a Markdown text that must not be empty, and return it."""
    if not check_text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint="Write some text.")
    return value


def append_entry_event(tx: Transaction, step: str, entry_id: str, *, source: str, agent: str, **facts: object) -> int:
    """Append the event of a step and return its id. It wakes waiters on this entry, on any entry, and on answers to its agent."""
    topics = (entry_topic(entry_id), answers_topic(agent))
    payload = {"entry_id": entry_id, "agent": agent, "door": tx.door, **facts}
    return append_event(tx, topics, event_type=f"entry.{step}", source=source, message_id=entry_id, payload=payload)


def event_facts(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry that its events carry."""
    return {"agent": entry.agent, "workspace_id": entry.workspace_id, "kind": entry.kind, "section": entry.section}


def entry_topic(entry_id: str) -> str:
    """Return the topic of the events of one entry."""
    return f"{ENTRY_TOPIC_PREFIX}{entry_id}"


def answers_topic(agent: str) -> str:
    """Return the topic of the events of all entries of an agent."""
    return f"answers:{agent}"


def entry_not_found(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id}", hint="It may have been deleted. See `inbox entries`.", entry_id=entry_id)
