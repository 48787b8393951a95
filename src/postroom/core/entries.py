"""The records of the people room. An entry is given back as its document writes it, in camelCase."""

from __future__ import annotations

from postroom.core import clock, jsontext
from postroom.core.records import UNVERIFIED, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PUSH, QUESTION, NOTICE = "push", "question", "notice"
INBOX, NOTICES = "inbox", "notices"
SECTIONS = (INBOX, NOTICES)
OPEN, ANSWERED, DEFAULT, REFUSED, ENDED = "open", "answered", "default", "refused", "ended"
WAIT, REFUSE, ESCALATE = "wait", "refuse", "escalate"
ON_SILENCE = (WAIT, DEFAULT, REFUSE, ESCALATE)


class Workspace(Record):
    """A folder in which an agent works. Its id is public; its token is not, and is never given back."""

    workspace_id: str
    label: str
    path: str
    agent: str
    created_at: str
    focus: str | None = None


class Registered(Record):
    """A workspace and its token, which is shown this once."""

    workspace: Workspace
    token: str


class Ask(Record):
    """What an entry asks, of whom, and what silence means; `thread_id` if it was asked in a thread."""

    entry_id: str
    agent: str
    thread_id: str | None
    asked_event: int
    addressee: str
    choices_json: str
    state: str
    due_at: int | None
    deadline: str | None
    on_silence: str
    default_answer: str | None
    escalate_to: str | None
    escalated_at: str | None
    answer: str | None
    answered_by: str | None
    answered_door: str | None
    answered_at: str | None
    collected_at: str | None
    collected_door: str | None

    @property
    def choices(self) -> list[str]:
        found: list[str] = jsontext.loads(self.choices_json)
        return found

    @property
    def choice(self) -> str | None:
        return self.answer if self.answer in self.choices else None

    def plain(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "to": self.addressee,
            "choices": self.choices,
            "deadline": self.deadline,
            "onSilence": self.on_silence,
            "default": self.default_answer,
            "escalateTo": self.escalate_to,
            "escalatedAt": self.escalated_at,
            "answer": self.answer,
            "choice": self.choice,
            "answeredBy": self.answered_by,
            "answeredAt": self.answered_at,
        }


class Entry(Record):
    """What a person sees. `seq` is the id of the event that announced it."""

    seq: int
    id: str
    section: str
    kind: str
    ts: int
    workspace_id: str
    workspace_label: str
    agent: str
    docs_json: str
    comments: str
    door: str
    stored_at: str
    message_id: str | None
    is_open: int
    replies: int
    offered_at: str | None
    offered_to: str | None
    offered_door: str | None
    read_at: str | None
    read_by: str | None
    read_door: str | None
    extra_json: str
    words: str
    ask: Ask | None = None

    @property
    def docs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = jsontext.loads(self.docs_json)
        return found

    def document(self) -> dict[str, Any]:
        """As document 002 has it: what is not there is left out."""
        written: dict[str, Any] = {
            "id": self.id,
            "ts": self.ts,
            "workspaceId": self.workspace_id,
            "workspaceLabel": self.workspace_label,
        }
        if self.docs_json != "[]":
            written["docs"] = self.docs
        if self.comments:
            written["comments"] = self.comments
        return written

    def line(self) -> str:
        """Its line in the twin, without the end of the line."""
        written = self.document()
        if self.kind == QUESTION:
            written["kind"] = QUESTION
        if self.extra_json != "{}":
            written = {**jsontext.loads(self.extra_json), **written}
        return jsontext.dumps(written)

    def plain(self) -> dict[str, Any]:
        shown = self.document()
        shown.update(kind=self.kind, door=self.door, readAt=self.read_at, readBy=self.read_by, replies=self.replies)
        shown["from"] = self.agent
        if self.ask is not None:
            shown["question"] = self.ask.plain()
            if self.ask.thread_id is not None:
                shown["threadId"] = self.ask.thread_id
        return shown


ENTRY_FIELDS = len(Entry.__fields__) - 1


def entry_of(row: tuple[Any, ...]) -> Entry:
    """What the statements that list entries return: an entry, and what it asks."""
    ask = None if row[ENTRY_FIELDS] is None else Ask(*row[ENTRY_FIELDS:])
    return Entry(*row[:ENTRY_FIELDS], ask)  # type: ignore[call-arg] # a row is as long as the statement says


class Page(Record):
    """Some entries, newest first, and whether there are more."""

    entries: tuple[Entry, ...]
    has_more: bool

    def plain(self) -> dict[str, Any]:
        return {"entries": [entry.plain() for entry in self.entries], "hasMore": self.has_more}


class Counts(Record):
    """What waits for a person, each counted so far and no further; `any` says whether there was ever an entry."""

    unread: int
    questions: int
    notices: int
    any: bool


class PersonReply(Record):
    """What a person answered to an entry, and the way it went: `thread`, `answer` or `mailbox`."""

    reply_id: str
    entry_id: str
    agent: str
    person: str
    body: str
    door: str
    created_at: str
    via: str
    message_id: str | None

    def plain(self) -> dict[str, Any]:
        return {
            "id": self.reply_id,
            "entryId": self.entry_id,
            "from": self.person,
            "body": self.body,
            "door": self.door,
            "at": self.created_at,
            "via": self.via,
            "verified": self.door not in UNVERIFIED,
        }


class Replied(Record):
    """An entry as it stands after a reply, and the reply."""

    entry: Entry
    reply: PersonReply


class Stamp(Record):
    """One hop of an entry, or of the `reply` to it: what happened, when, through whom, by which door."""

    step: str
    at: str
    by: str
    door: str
    reply: str | None = None


class Detail(Record):
    """An entry, the conversation about it, and every hop of both."""

    entry: Entry
    replies: tuple[PersonReply, ...]
    receipts: tuple[Stamp, ...]


class Answer(Record):
    """How a wait for an answer ended: `open` when the time was over first."""

    entry_id: str
    state: str
    answer: str | None
    choice: str | None
    answered_by: str | None
    answered_at: str | None
    door: str | None
    deadline: str | None
    to: str

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "verified": self.door not in UNVERIFIED}

    @classmethod
    def of(cls, ask: Ask) -> Answer:
        by, at, door = ask.answered_by, ask.answered_at, ask.answered_door
        return cls(ask.entry_id, ask.state, ask.answer, ask.choice, by, at, door, None if ask.escalated_at else ask.deadline, ask.addressee)


class Received(Record):
    """Something that was said to an agent: a reply, an answer, or mail."""

    kind: str
    id: str
    from_: str
    body: str
    entry_id: str | None
    at: str
    verified: bool

    def plain(self) -> dict[str, Any]:
        shown = {"kind": self.kind, "from": self.from_, "body": self.body, "at": self.at, "verified": self.verified}
        return shown if self.entry_id is None else {**shown, "entryId": self.entry_id}


class Session(Record):
    """A person who came in by a link, and the token that their browser keeps."""

    person: str
    token: str
    expires_at: str


def milliseconds(instant: int) -> int:
    return instant * 1000 // clock.SECOND
