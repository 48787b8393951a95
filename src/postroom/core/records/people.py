"""The records of the room `people`. The JSON of an entry has the camelCase field names of its document."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.records import NotedRecord, Record
from postroom.core.states import UNVERIFIED_DOORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PUSH, QUESTION, NOTICE = "push", "question", "notice"
INBOX, NOTICES = "inbox", "notices"
SECTIONS = (INBOX, NOTICES)
PART = "part"  # the section of a row that was added to another entry: it is listed with that one
DONE, SNOOZED = "done", "snoozed"
TRIAGE_STATES = (INBOX, SNOOZED, DONE)
UNTIL_ACTIVITY = 2**53 - 1  # a time in milliseconds that never comes: snoozed until something new arrives
APPROVE, EDIT, REJECT = "approve", "edit", "reject"
DECISIONS = (APPROVE, EDIT, REJECT)
OPEN, ANSWERED, DEFAULT, REFUSED, ENDED = "open", "answered", "default", "refused", "ended"
WAIT, REFUSE, ESCALATE = "wait", "refuse", "escalate"
ON_SILENCE = (WAIT, DEFAULT, REFUSE, ESCALATE)
REFUSING_WORDS = ("no", "refuse", "reject", "deny", "decline", "cancel", "abort")


class Workspace(Record):
    """A folder in which an agent works. Its id is public. Its token is secret and is not part of this record."""

    workspace_id: str
    label: str
    path: str
    agent: str
    created_at: str
    focus: str | None = None
    muted_at: str | None = None


class WorkspaceRegistration(Record):
    """A new workspace and its token, which is returned only once."""

    workspace: Workspace
    token: str


class Ask(Record):
    """The question of an entry: addressee, choices, and the effect of no answer. `thread_id` is set if it was asked in a thread.

    `answer_id` is the id of the message in the thread, or of the reply, that settled it. `matter_id` is the entry in whose row it is shown.
    `terms_json` holds the dangerous choices and the proposal, `decision_json` what was decided about the proposal.
    """

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
    answer_id: str | None = None
    matter_id: str = ""
    terms_json: str = "{}"
    decision_json: str | None = None

    @property
    def terms(self) -> dict[str, Any]:
        """The agent's additions to the choices: `dangerous`, a list of choices, and `proposal`."""
        return jsontext.loads(self.terms_json)  # type: ignore[no-any-return] # as it was stored

    @property
    def decision(self) -> dict[str, Any] | None:
        """The decision about the proposal."""
        return None if self.decision_json is None else jsontext.loads(self.decision_json)

    @property
    def choices(self) -> list[str]:
        """The answers that the person may choose from."""
        choices: list[str] = jsontext.loads(self.choices_json)
        return choices

    @property
    def choice(self) -> str | None:
        """The answer, if it is one of the choices."""
        return self.answer if self.answer in self.choices else None

    @property
    def accepted(self) -> bool:
        """Whether the answer lets the agent go on: an offered choice (any text where none was offered) that is no refusal.

        A proposal is accepted only by a decision to approve it, with or without changes.
        """
        if self.state not in (ANSWERED, DEFAULT) or self.answer is None or (self.choices and self.choice is None):
            return False
        if self.terms.get("proposal") is not None:
            return self.decision is not None and self.decision["type"] != REJECT
        return not is_refusing(self.answer)

    def to_json(self) -> dict[str, Any]:
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
            "answerId": self.answer_id,
            "dangerous": self.terms.get("dangerous", []),
            "proposal": self.terms.get("proposal"),
            "decision": self.decision,
        }


class DocumentReading(Record):
    """The versions of a document shown to a person: in their last visit (`shown_…`), and at the end of the visit before it (`read_…`)."""

    entry_id: str
    path: str
    person: str
    visit: str
    shown_sha256: str
    shown_text: str | None
    shown_at: str
    read_sha256: str | None
    read_text: str | None
    read_at: str | None


class Entry(Record):
    """One item in the inbox of a person. `seq` is the id of the event that announced it.

    `root_id` is set on a row that was added to another entry. `active_ts` is when its agent last wrote to it or to its parts, which are
    counted by `parts`. `triage` is `inbox`, `snoozed` until `snoozed_until`, or `done`. `changed_seq` is the event of the last change of
    its line in `entries.jsonl`. Only in lists, `latest` has the words of the part that its row shows.
    """

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
    title: str = ""
    root_id: str | None = None
    active_ts: int = 0
    parts: int = 0
    triage: str = INBOX
    snoozed_until: int | None = None
    pinned_at: str | None = None
    changed_seq: int = 0
    ask: Ask | None = None
    latest: str | None = None

    @property
    def docs(self) -> list[dict[str, Any]]:
        """The documents to which the entry points."""
        docs: list[dict[str, Any]] = jsontext.loads(self.docs_json)
        return docs

    @property
    def question_id(self) -> str:
        """The id of the entry's question: of the message that asked it in a thread, or else of the entry or part that asks it."""
        return self.message_id or (self.id if self.ask is None else self.ask.entry_id)

    @property
    def matter_id(self) -> str:
        """The id of the entry in whose row this one is shown."""
        return self.root_id or self.id

    @property
    def shown_title(self) -> str:
        """The title that people see: the given one, else the first line of the comments, else the name of the first document."""
        from postroom.core.titles import first_line

        return self.title or first_line(self.comments) or next(iter(self.file_names), "") or self.workspace_label

    @property
    def file_names(self) -> list[str]:
        """The names of the documents, without their folders."""
        return [str(doc.get("path", "")).rpartition("/")[2] for doc in self.docs]

    def to_document(self) -> dict[str, Any]:
        """Return the entry with the fields of document 002. Empty fields are left out."""
        fields: dict[str, Any] = {
            "id": self.id,
            "ts": self.ts,
            "workspaceId": self.workspace_id,
            "workspaceLabel": self.workspace_label,
        }
        if self.docs_json != "[]":
            fields["docs"] = self.docs
        if self.comments:
            fields["comments"] = self.comments
        return fields

    def to_jsonl_line(self) -> str:
        """Return the line of the entry in `entries.jsonl`, without the newline."""
        fields = self.to_document()
        if self.kind == QUESTION:
            fields["kind"] = QUESTION
        fields.update(self._line_fields())
        if self.extra_json != "{}":
            fields = {**jsontext.loads(self.extra_json), **fields}
        return jsontext.dumps(fields)

    def _line_fields(self) -> dict[str, Any]:
        """Return the fields of a line that document 002 does not have, if they are set. Its other readers ignore them."""
        state = None if self.triage == INBOX else self.triage
        fields = {"title": self.title or None, "entryId": self.root_id, "state": state, "snoozedUntil": self.snoozed_until}
        fields["pinned"] = None if self.pinned_at is None else True
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        fields = self.to_document()
        fields.update(kind=self.kind, door=self.door, readAt=self.read_at, readBy=self.read_by, replies=self.replies)
        fields["from"] = self.agent
        fields.update(title=self.shown_title, activeTs=self.active_ts, parts=self.parts, state=self.triage)
        fields.update(snoozedUntil=self.snoozed_until, pinned=self.pinned_at is not None)
        if self.latest is not None:
            fields["latest"] = self.latest
        if self.root_id is not None:
            fields["entryId"] = self.root_id
        if self.ask is not None:
            fields["question"] = {**self.ask.to_json(), "questionId": self.question_id, "entryId": self.ask.entry_id}
            if self.ask.thread_id is not None:
                fields["threadId"] = self.ask.thread_id
        return fields


class EntryPlace(Record):
    """The position of an entry in the order of pages: when it was last active, in milliseconds, and its sequence number."""

    ts: int
    seq: int


class DeletedEntry(Record):
    """A deleted entry. `seq` is the id of the event that announced the deletion. `ts` and `entry_seq` are the former position."""

    id: str
    seq: int
    ts: int
    entry_seq: int


class ChangedEntry(Record):
    """An entry whose line in `entries.jsonl` changed with the event `changed_seq`."""

    id: str
    changed_seq: int


class EntryPage(Record):
    """One page of entries. `has_more` is true if there are further entries: pass `after`, or else the last entry's id as `before`."""

    entries: tuple[Entry, ...]
    has_more: bool
    after: str | None = None  # only of open questions, which are not sorted by age

    def to_json(self) -> dict[str, Any]:
        """Return the entries, and `after` only where it is the cursor."""
        cursor = {} if self.after is None else {"after": self.after}
        return {"entries": [entry.to_json() for entry in self.entries], "hasMore": self.has_more, **cursor}


class EntryCounts(Record):
    """The number of entries that wait for a person, each counted up to a limit. `any` is true if there was ever an entry."""

    unread: int
    questions: int
    notices: int
    any: bool


class PersonReply(Record):
    """The reply of a person to an entry. `via` is how it reached the agent: `thread`, `answer` or `mailbox`."""

    reply_id: str
    entry_id: str
    agent: str
    person: str
    body: str
    door: str
    created_at: str
    via: str
    message_id: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.reply_id,
            "entryId": self.entry_id,
            "from": self.person,
            "body": self.body,
            "door": self.door,
            "at": self.created_at,
            "via": self.via,
            "messageId": self.message_id,
            "verified": self.door not in UNVERIFIED_DOORS,
        }


class ReplyResult(NotedRecord):
    """A reply, and the entry after the reply. `note` says so if the question of the entry was settled before."""

    entry: Entry
    reply: PersonReply
    note: str = ""


class EntryReceiptStep(Record):
    """One step of an entry, or of the `reply` to it: what happened, when, by which agent or person, through which door.

    `answer` is the id of the message or reply that settled the question, in the step in which it did.
    """

    step: str
    at: str
    by: str
    door: str
    reply: str | None = None
    answer: str | None = None


class EntryDetail(Record):
    """An entry, the replies to it, the receipts of both, and the parts that its agent added to it, oldest first."""

    entry: Entry
    replies: tuple[PersonReply, ...]
    receipts: tuple[EntryReceiptStep, ...]
    parts: tuple[Entry, ...] = ()


class Answer(Record):
    """The result of a wait for an answer. `state` is `open` if the wait timed out. `answer_id` is the message or reply that settled it."""

    entry_id: str
    state: str
    answer: str | None
    choice: str | None
    answered_by: str | None
    answered_at: str | None
    door: str | None
    deadline: str | None
    to: str
    question_id: str = ""
    answer_id: str | None = None
    decision: dict[str, Any] | None = None
    accepted: bool = False

    @property
    def verified(self) -> bool:
        """Whether a server checked the person who answered. Nobody's pass stands for silence."""
        return self.door is not None and self.door not in UNVERIFIED_DOORS

    @property
    def timed_out(self) -> bool:
        return self.state == OPEN

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "verified": self.verified}

    @classmethod
    def from_entry(cls, entry: Entry) -> Answer:
        """Return the current answer to the question of an entry. An escalated question has no deadline any more."""
        ask = entry.ask
        assert ask is not None
        return cls(
            entry_id=ask.entry_id,
            state=ask.state,
            answer=ask.answer,
            choice=ask.choice,
            answered_by=ask.answered_by,
            answered_at=ask.answered_at,
            door=ask.answered_door,
            deadline=None if ask.escalated_at else ask.deadline,
            to=ask.addressee,
            question_id=entry.question_id,
            answer_id=ask.answer_id,
            decision=ask.decision,
            accepted=ask.accepted,
        )


def is_refusing(answer: str) -> bool:
    """Whether an answer is one of `REFUSING_WORDS`, alone or before a comma or another mark: `No, wait`, but not `No objections`."""
    first = answer.strip().casefold()
    for mark in ",.;:!\n":
        first = first.partition(mark)[0]
    return first.strip() in REFUSING_WORDS


def to_milliseconds(instant: int) -> int:
    """Return an instant of microseconds in milliseconds, the unit of `Entry.ts`."""
    return instant * 1000 // clock.MICROSECONDS_PER_SECOND
