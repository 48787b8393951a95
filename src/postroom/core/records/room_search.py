"""Records of the search in threads and mail."""

from __future__ import annotations

from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

THREAD, MAIL = "thread", "mail"  # what a search finds beside entries


class RoomHit(Record):
    """A thread or a mail that a search found: where it is, and the part of its text that was found."""

    kind: str
    thread_id: str | None
    session: str | None
    msg_id: str | None
    title: str
    text: str
    sender: str
    at: str

    def to_json(self) -> dict[str, Any]:
        place = {"threadId": self.thread_id} if self.kind == THREAD else {"session": self.session, "msgId": self.msg_id}
        return {"kind": self.kind, **place, "title": self.title, "text": self.text, "from": self.sender, "at": self.at}


class RoomHits(Record):
    """The threads and mails that a search found. `since` is the time back to which it looked, or None if it looked at all of them."""

    hits: tuple[RoomHit, ...]
    since: str | None

    def to_json(self) -> dict[str, Any]:
        return {"hits": [hit.to_json() for hit in self.hits], "since": self.since}


class FoundMessage(Record):
    """A message of a thread, as a search reads it. `body` is its beginning."""

    message_id: str
    thread_id: str
    subject: str
    from_agent: str
    created_at: str
    summary: str
    body: str


class FoundMail(Record):
    """A mail, as a search reads it. `stored_at` is in microseconds, `payload` its beginning as it is stored."""

    delivery_id: int
    session: str
    msg_id: str
    sender: str
    stored_at: int
    payload: str
