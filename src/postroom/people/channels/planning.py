"""Store the alerts of a new entry, in the transaction that stores the entry. `repository` and the verbs of channels call it.

An alert waits in the table `alerts` until it is due. `queueing` looks then whether it is still wanted.
"""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records.channels import ASKED, DIGEST, EVERYTHING, OVERVIEW, PUSHED, QUESTIONS, REMINDER, WAITING, Alert
from postroom.core.records.people import INBOX, OPEN, PART, to_milliseconds
from postroom.people.channels import schedule
from postroom.store.event_log import append_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.channels import Channel
    from postroom.core.records.people import Entry
    from postroom.store.interface import Transaction

ALERTS_TOPIC = "alerts"  # of the events that wake a sender
NEWS_SECONDS = 3600  # an entry that is older was imported, and is no news


def find_channels_of_news(tx: Transaction, section: str, triage: str, ts: int) -> list[Channel]:
    """Return the channels to which a new entry without a question is sent."""
    is_news = section != PART and triage == INBOX and to_milliseconds(tx.now()) - ts < NEWS_SECONDS * 1000
    return tx.fetch_all(tx.sql.channels_of_everything) if is_news else []


def plan_news(tx: Transaction, channels: Iterable[Channel], entry_id: str) -> None:
    """Store the alerts of a new entry without a question."""
    for channel in channels:
        insert_alert(tx, channel, entry_id, PUSHED, tx.now() + clock.microseconds(channel.delay_seconds))


def plan_question(tx: Transaction, entry: Entry) -> None:
    """Store the alerts of a new or escalated question, one for each channel of the person to whom it is put."""
    assert entry.ask is not None
    for channel in tx.fetch_all(tx.sql.channels_of, person=entry.ask.addressee):
        if channel.sends in (QUESTIONS, EVERYTHING) and entry.ask.state == OPEN:
            _plan_on_channel(tx, channel, entry)


def _plan_on_channel(tx: Transaction, channel: Channel, entry: Entry) -> None:
    """Store the alert of a question, and its reminder: `remind_seconds` before the deadline, at most halfway to it."""
    assert entry.ask is not None
    due_at = tx.now() + clock.microseconds(channel.delay_seconds)
    insert_alert(tx, channel, entry.id, ASKED, due_at)
    if entry.ask.deadline is None or entry.ask.escalated_at is not None or not channel.remind_seconds:
        return
    deadline = clock.parse_stamp(entry.ask.deadline)
    remind_at = max(deadline - clock.microseconds(channel.remind_seconds), (tx.now() + deadline) // 2)
    if due_at < remind_at < deadline:
        insert_alert(tx, channel, entry.id, REMINDER, remind_at)


def plan_digest(tx: Transaction, channel: Channel) -> None:
    """Store the next digest of a channel that sends digests, and forget the earlier ones."""
    if channel.sends == DIGEST:
        tx.execute(tx.sql.alerts_forget, channel_id=channel.channel_id)
        insert_alert(tx, channel, "", OVERVIEW, schedule.find_next_digest(channel, tx.now()))


def insert_alert(tx: Transaction, channel: Channel, entry_id: str, purpose: str, due_at: int) -> Alert:
    """Store an alert that waits until `due_at`, and wake the senders."""
    alert = Alert(tx.new_id("alr"), channel.channel_id, entry_id, purpose, WAITING, due_at, clock.format_stamp(tx.now()))
    tx.execute(tx.sql.alert_insert, **dict(alert.items()))
    announce(tx, "planned", channel, alert_id=alert.alert_id, entry_id=entry_id, purpose=purpose)
    return alert


def announce(tx: Transaction, step: str, channel: Channel, *, alert_id: str | None = None, **facts: str) -> None:
    """Append the event of a channel or an alert. It wakes the senders. It holds no address and no text."""
    payload = {"channel_id": channel.channel_id, "kind": channel.kind, "person": channel.person, **facts}
    room = "channel" if alert_id is None else "alert"
    append_event(tx, (ALERTS_TOPIC,), event_type=f"{room}.{step}", source="", message_id=alert_id, payload=payload)
