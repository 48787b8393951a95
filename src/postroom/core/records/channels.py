"""The records of channels: the ways to reach people who are away, and the alerts that go out by them."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core.records import Record
from postroom.core.states import CHANNEL_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WEBHOOK, EMAIL, COMMAND, NTFY = CHANNEL_KINDS = ("webhook", "email", "command", "ntfy")
QUESTIONS, EVERYTHING, DIGEST = CHANNEL_CONTENTS = ("questions", "everything", "digest")
ASKED, REMINDER, PUSHED, OVERVIEW, TRIAL = "question", "reminder", "entry", "digest", "test"  # the purposes of alerts
WAITING, QUEUED, SENT, DROPPED = "waiting", "queued", "sent", "dropped"  # the states of an alert


class Channel(Record):
    """A way to reach a person: what it sends, and when. Its secrets are not part of this record.

    `quiet` is a time of the day such as `22:00-07:00`, in `time_zone`. `digest_at` is the time of the daily digest. An alert waits for
    `delay_seconds`, so that a person who reads the page gets none. `url` is the address of the server for links. `options_json` has what
    only one kind needs, and the name of the variable with its secret.
    """

    channel_id: str
    person: str
    kind: str
    target: str
    sends: str
    quiet: str | None
    time_zone: str
    digest_at: str
    delay_seconds: float
    remind_seconds: float
    url: str | None
    options_json: str
    created_at: str

    @property
    def options(self) -> dict[str, Any]:
        """Options that only one kind of channel needs: `smtp`, `from`, `reply_to`, `allow_plain`, `env`, `secret_env`."""
        return jsontext.loads(self.options_json)  # type: ignore[no-any-return] # as it was stored

    @property
    def session(self) -> str:
        """The mailbox of the channel."""
        return f"{CHANNEL_PREFIX}{self.channel_id}"

    def to_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in self.items() if name != "options_json"}
        return {**fields, "mailbox": self.session, "options": {name: value for name, value in self.options.items() if name != "env"}}


class ChannelList(Record):
    """The channels of a person, or of all people."""

    channels: tuple[Channel, ...]


class Alert(Record):
    """One message to a person by one channel. Its id is that of the mail in the channel's mailbox, and of the webhook.

    `purpose`: a question, its reminder, an entry, a digest or a test. `state`: waiting until `due_at`, queued in the mailbox, sent, or
    dropped, for the `reason`. `linked_at` is when its link was made: a link that was revoked is not made again.
    """

    alert_id: str
    channel_id: str
    entry_id: str
    purpose: str
    state: str
    due_at: int | None
    created_at: str
    queued_at: str | None = None
    ended_at: str | None = None
    reason: str = ""
    linked_at: str | None = None


class AlertContent(Record):
    """All that a message to a person is made of. `token` is the secret of the link, and None without a link.

    `lines` are those of a digest. `secret` is that of the channel. The text of a question or an entry was written by an agent.
    """

    alert: Alert
    channel: Channel
    secret: str | None
    title: str
    text: str
    agent: str
    choices: tuple[str, ...] = ()
    dangerous: tuple[str, ...] = ()
    proposal: str | None = None
    deadline: str | None = None
    silence: str = ""
    question_id: str | None = None
    url: str | None = None
    token: str | None = None
    lines: tuple[str, ...] = ()

    @property
    def link(self) -> str | None:
        """The address that shows the question, and to which an answer is posted."""
        return None if self.url is None or self.token is None else f"{self.url}/answer?token={self.token}"
