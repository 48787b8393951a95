"""Entries as rows: how each is written, and how each change of one is announced. Verbs are elsewhere."""

from __future__ import annotations

from postroom.core import checks, clock, ids, jsontext
from postroom.core.entries import INBOX, Ask, Entry, Workspace, entry_of, milliseconds
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.words import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from postroom.store.port import Transaction

TEXT_BYTES = 256 * 1024


def insert(
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
    """Write an entry, with what it asks, and say so. Its place is the id of that event."""
    from postroom.people.words import words

    if workspace is not None:
        workspace_id, label, agent = workspace.workspace_id, workspace.label, workspace.agent
    fresh = entry_id or ids.uuid4()
    choices = [] if ask is None else jsontext.loads(ask["choices_json"])
    found_by = " ".join(words(label, agent, comments, *(str(doc["path"]) for doc in docs), *choices))
    seq = announce(tx, "created", fresh, source=agent, agent=agent, workspace_id=workspace_id, kind=kind, section=section, label=label)
    now, known_ts = clock.stamp(tx.now()), milliseconds(tx.now()) if ts is None else ts
    where = (workspace_id, label, agent, jsontext.dumps(list(docs)), comments, door or tx.door, now, message_id)
    nothing_yet = (int(ask is not None), 0, None, None, None, None, None, None)
    entry = Entry(seq, fresh, section, kind, known_ts, *where, *nothing_yet, extra_json, found_by)
    tx.run(tx.sql.entry_insert, **{name: value for name, value in entry.items() if name != "ask"})
    tx.run(tx.sql.words_insert, seq=seq, words=found_by)
    for path, text in texts:
        tx.run(tx.sql.text_insert, entry_id=fresh, path=path, text=text)
    if ask is None:
        return entry
    asked = Ask(**{**_UNANSWERED, "entry_id": fresh, "agent": agent, "asked_event": seq, **ask})
    tx.run(tx.sql.ask_insert, **dict(asked.items()))
    return entry.replace(ask=asked)


_UNANSWERED = dict.fromkeys(Ask.__fields__) | {"state": "open", "on_silence": "wait"}


def see(tx: Transaction, entry: Entry, person: str) -> Entry:
    """Note that a person has read an entry that is ours to change."""
    if entry.read_at is not None:
        return entry
    announce(tx, "read", entry.id, source=person, **facts(entry))
    return write_read(tx, entry, clock.stamp(tx.now()), person, tx.door)


def write_read(tx: Transaction, entry: Entry, at: str | None, by: str | None, door: str | None) -> Entry:
    tx.run(tx.sql.entry_read, id=entry.id, read_at=at, read_by=by, read_door=door)
    return entry.replace(read_at=at, read_by=by, read_door=door)


def locked(tx: Transaction, entry_id: str) -> Entry:
    """An entry, ours to change until the transaction ends."""
    tx.one(tx.sql.entry_lock, id=checks.name("entry", entry_id))
    return found(tx, entry_id)


def locked_or_none(tx: Transaction, entry_id: str) -> Entry | None:
    tx.one(tx.sql.entry_lock, id=entry_id)
    row = tx.one(tx.sql.entry_find, id=entry_id)
    return None if row is None else entry_of(row)


def found(tx: Transaction, entry_id: str) -> Entry:
    row = tx.one(tx.sql.entry_find, id=checks.name("entry", entry_id))
    if row is None:
        raise unknown(entry_id)
    return entry_of(row)


def pushed_text(tx: Transaction, entry_id: str, path: str) -> str | None:
    """What a document was when the entry was made, if that was kept."""
    row = tx.one(tx.sql.text_find, entry_id=entry_id, path=path)
    return None if row is None else str(row[0])


def human(tx: Transaction, field: str, name: str) -> str:
    """A person that the store knows: nobody else is asked, and nobody else answers."""
    row = tx.one(tx.sql.agent_find, name=checks.name(field, name))
    if row is not None and row[1] != "human":
        raise InvalidInput(f"{name} is an agent, not a person", field=field, hint="Name a person; `inbox agent list` shows them.")
    if row is None:
        hint = f"Make them known with `inbox agent add {quoted(name)} --kind human`."
        raise InvalidInput(f"{name} is not a person that this store knows", field=field, hint=hint)
    return name


def text(field: str, value: str) -> str:
    """Markdown of a sensible size."""
    checks.text(field, value)
    if len(value) * 4 > TEXT_BYTES and len(value.encode()) > TEXT_BYTES:
        raise InvalidInput(f"{field} is larger than {TEXT_BYTES // 1024} KiB", field=field, hint="Write it to a file and push that.")
    return value


def said(field: str, value: str) -> str:
    """The same, and not empty."""
    if not text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint="Say something.")
    return value


def announce(tx: Transaction, step: str, entry_id: str, *, source: str, agent: str, **facts: object) -> int:
    """Write the event of a step. It wakes who waits for this entry, for any, or for what is said to its agent."""
    return tx.append(
        tx.sql.event_append,
        (of_entry(entry_id), of_answers(agent)),
        run_id="",
        task_id="",
        thread_id="",
        source=source,
        event_type=f"entry.{step}",
        message_id=entry_id,
        summary="",
        payload_json=jsontext.dumps({"entry_id": entry_id, "agent": agent, "door": tx.door, **facts}),
        created_at=clock.stamp(tx.now()),
    )


def facts(entry: Entry) -> dict[str, Any]:
    """What its events say of an entry."""
    return {"agent": entry.agent, "workspace_id": entry.workspace_id, "kind": entry.kind, "section": entry.section}


# The topics that waiters choose from: what becomes of an entry, and what is answered to an agent.


def of_entry(entry_id: str) -> str:
    return f"entry:{entry_id}"


def of_answers(agent: str) -> str:
    return f"answers:{agent}"


def unknown(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id}", hint="It may have been deleted. See `inbox entries`.", entry_id=entry_id)
