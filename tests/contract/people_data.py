"""Data for tests of the people room: a workspace, an entry in it, a question that waits, and all that can be seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from postroom import mail, people, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput
from postroom.core.records import Event
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import events

USER, ADA = "user", "ada"  # a person by default, and another
AGENT = "macro"  # of the workspace that `new_workspace` makes
NOWHERE = "00000000-0000-4000-8000-000000000000"
KIB = 1024
Plain = dict[str, Any]


def new_workspace(store: Store, folder: Path, name: str = AGENT, **fields: Any) -> str:
    """The id of a new workspace in a folder of its own, with a report in it."""
    place = folder / name
    place.mkdir()
    (place / "report.md").write_text("# Rates\n")
    workspace_id: str = people.add_workspace(
        store, str(place), label=fields.pop("label", f"The {name} desk"), **fields
    ).workspace.workspace_id
    return workspace_id


def persons(store: Store) -> None:
    """Somebody besides the user."""
    work.add_agent(store, ADA, kind="human")


def pushed(store: Store, workspace_id: str, comments: str | None = "Drafted the piece", docs: Any = ()) -> str:
    """The id of a new entry."""
    return id_of(people.push(store, workspace_id, docs=docs, comments=comments))


def asked(store: Store, question: str = "Ship it?", *, agent: str = AGENT, **fields: Any) -> str:
    """The id of a new question of an agent."""
    return id_of(people.ask(store, agent=agent, question=question, **fields))


SILENCES: dict[str, dict[str, Any]] = {
    "default": {"on_silence": "default", "default": "no"},
    "refuse": {"on_silence": "refuse"},
    "escalate": {"on_silence": "escalate", "escalate_to": ADA},
}
FIRED = {"default": "default", "refuse": "refused", "escalate": "open"}  # the state that each silence leaves a question in


def timed(store: Store, silence: str = "default", seconds: float = 60, **fields: Any) -> str:
    """The id of a question with a deadline."""
    persons(store)
    return asked(store, deadline_seconds=seconds, **{**SILENCES[silence], **fields})


def blocked(store: Store, question: str = "Which colour?", *, agent: str = AGENT, to: str = USER, **fields: Any) -> str:
    """The id of a thread whose holder asks a person."""
    thread_id = work.send(store, sender="leader", to=agent, subject="Paint it").thread.thread_id
    work.claim(store, thread_id, agent=agent)
    work.update(store, thread_id, agent=agent, status="blocked", summary=question, to=to, **fields)
    return thread_id


def surfaced(store: Store, question: str = "Which colour?", **fields: Any) -> tuple[str, str]:
    """A thread whose holder asks a person, and the id of the entry that came of it."""
    thread_id = blocked(store, question, **fields)
    (entry_id,) = [entry["id"] for entry in inbox(store) if entry.get("threadId") == thread_id]
    return thread_id, entry_id


def seeded(store: Store, comments: str = "Seeded", **fields: Any) -> str:
    return id_of(people.seed(store, comments=comments, **fields))


# Looking


def id_of(entry: Any) -> str:
    entry_id: str = entry.to_json()["id"]
    return entry_id


def inbox(store: Store, **wanted: Any) -> list[Plain]:
    """The newest entries."""
    return [entry.to_json() for entry in people.history(store, **{"limit": 500, **wanted}).entries]


def ids(store: Store, **wanted: Any) -> list[str]:
    return [entry["id"] for entry in inbox(store, **wanted)]


def found(store: Store, q: str, **wanted: Any) -> list[str]:
    """The ids of what a search finds."""
    return [id_of(entry) for entry in people.search(store, q, **wanted).entries]


def shown(store: Store, entry_id: str) -> Plain:
    """An entry, as JSON has it."""
    entry: Plain = people.show_entry(store, entry_id).entry.to_json()
    return entry


def question_of(store: Store, entry_id: str) -> Plain:
    question: Plain = shown(store, entry_id)["question"]
    return question


def state_of(store: Store, entry_id: str) -> str:
    state: str = question_of(store, entry_id)["state"]
    return state


def receipts(store: Store, entry_id: str) -> list[Plain]:
    told: list[Plain] = people.show_entry(store, entry_id).to_json()["receipts"]
    return told


def steps(store: Store, entry_id: str) -> list[str]:
    """Its receipts, without when it was offered: that is the doors' business."""
    return [receipt["step"] for receipt in receipts(store, entry_id) if receipt["step"] != "offered"]


def happened(store: Store, entry_id: str | None = None) -> list[str]:
    """The events of entries, or of one, in their order."""
    return [event.event_type for event in entry_events(store, entry_id)]


def entry_events(store: Store, entry_id: str | None = None) -> list[Event]:
    return [one for one in events(store) if one.event_type.startswith("entry.") and entry_id in (None, one.message_id)]


def facts(event: Event) -> Plain:
    told: Plain = json.loads(event.payload_json)
    return told


def received(store: Store, agent: str = AGENT, **wanted: Any) -> list[tuple[str, str, str]]:
    """Return what an agent reads: kind, sender and text of each message."""
    return [(one.kind, one.from_, one.body) for one in people.read_messages(store, agent=agent, **wanted)]


def letters(store: Store, session: str = AGENT) -> list[Plain]:
    """Return the whole messages that wait in a mailbox."""
    waiting = [mail.show(store, one.msg_id).message for one in mail.peek(store, session).messages]
    return [message.to_json() for message in waiting if message is not None]


def everything(store: Store) -> object:
    """All that can be seen of the room, to compare before and after a refusal. Looking folds: look once before."""
    every = [entry for section in ("inbox", "notices") for entry in inbox(store, section=section)]
    whole = [people.show_entry(store, entry["id"]).to_json() for entry in every]
    threads = [work.show(store, thread.thread_id) for thread in work.list_threads(store, limit=500).threads]
    return every, whole, people.list_workspaces(store), mail.sessions(store), threads, [one.event_type for one in events(store)]


def settled(store: Store) -> object:
    everything(store)
    return everything(store)


def field(refusal: InvalidInput) -> str:
    """The field that it names, as Python would write it."""
    return str(refusal.facts.get("field")).replace("-", "_")


def at(clock: Clock, seconds: float = 0) -> str:
    """The stamp of an instant so far from now."""
    return time.format_stamp(clock.instant + round(seconds * time.MICROSECONDS_PER_SECOND))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# The verbs that read: each folds first, and fires what is due. None needs an entry of its own.
LOOKS: dict[str, Callable[[Store, str], object]] = {
    "surface": lambda s, w: people.sync_questions(s),
    "history": lambda s, w: people.history(s),
    "history of notices": lambda s, w: people.history(s, section="notices"),
    "search": lambda s, w: people.search(s, "anything"),
    "push": lambda s, w: people.push(s, w, comments="Something else"),
    "notify": lambda s, w: people.notify(s, sender="cron", text="Something else"),
    "seed": lambda s, w: people.seed(s, comments="Something else"),
    "ask": lambda s, w: people.ask(s, agent="other", question="Something else?"),
    "read_messages": lambda s, w: people.read_messages(s, agent="other"),
    "own_entries": lambda s, w: people.own_entries(s, agent="other"),
}
