"""The records of what waits for an agent, and of what was handed to it."""

from __future__ import annotations

from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ReceivedMessage(Record):
    """A message that an agent received: a reply, an answer, or mail.

    `door` is how it entered, and empty for the outcome of silence. `again` is true if it was handed over before and not confirmed.
    """

    kind: str
    id: str
    from_: str
    body: str
    entry_id: str | None
    at: str
    verified: bool
    decision: dict[str, Any] | None = None
    door: str = ""
    again: bool = False

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "from": self.from_, "body": self.body, "at": self.at, "verified": self.verified}
        fields["door"] = self.door
        if self.decision is not None:
            fields["decision"] = self.decision
        if self.entry_id is not None:
            fields["entryId"] = self.entry_id
        return {**fields, "again": True} if self.again else fields


class WaitingItem(Record):
    """Something that waits for an agent. `kind` is `mail`, `reply`, `answer` (or how silence decided), `thread` or `message`.

    `id` is that of the message, of the entry for an answer, and of the thread for a thread. `text` may be cut. `event_id` is the event with
    which it came.
    """

    kind: str
    id: str
    from_: str
    text: str
    at: str
    verified: bool
    door: str
    event_id: int
    entry_id: str | None = None
    thread_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        fields = {**super().to_json(), "from": self.from_}
        return {name: value for name, value in fields.items() if name != "from_" and value is not None}


class WaitingList(Record):
    """The messages that wait for an agent, oldest first. `more` is true if the list is cut. `next_event_id` is a cursor behind them."""

    agent: str
    waiting: tuple[WaitingItem, ...]
    more: bool
    next_event_id: int


class HandedItem(Record):
    """One row of `handovers`: what was handed to an agent and waits for its confirmation. `until` is in microseconds."""

    agent: str
    kind: str
    item_id: str
    sender: str
    handover_id: str
    client: str
    event_id: int
    handed_at: str
    until: int
    position: int


class ReceivedPage(Record):
    """One page of messages that an agent received before. If there are `more`, pass `after` to get the next page."""

    messages: tuple[ReceivedMessage, ...]
    more: bool = False
    after: str | None = None


class Handover(Record):
    """Messages that were handed to an agent. They stay in flight until they are confirmed. `more` is true if further ones wait."""

    handover_id: str
    messages: tuple[ReceivedMessage, ...]
    more: bool
