"""Put the alerts that are due into the mailboxes of their channels, unless they are not wanted any more. The sender calls it."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock, limits
from postroom.core.errors import StoreBusy
from postroom.core.records.channels import ASKED, DROPPED, OVERVIEW, PUSHED, QUEUED, REMINDER, TRIAL
from postroom.core.records.people import INBOX, OPEN
from postroom.mail import mailbox
from postroom.mail.drafts import PROTOCOL_VERSION, Draft
from postroom.people import repository
from postroom.people.channels import planning, schedule
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.channels import Alert, Channel
    from postroom.store.interface import Store, Transaction

BATCH_ROWS = 100
_HOUR = 3600 * clock.MICROSECONDS_PER_SECOND


class AlertBudget:
    """The alerts of each agent by each channel in the last hour. An agent that asks without end would delay those of all others.

    A sender keeps one in memory: it is a bound for load, and each sender has its own.
    """

    def __init__(self) -> None:
        self._queued: dict[tuple[str, str], list[int]] = {}

    def find_next(self, channel_id: str, agent: str, now: int) -> int | None:
        """Return the instant from which another alert may be queued, or None if it may be now."""
        key = channel_id, agent
        kept = self._queued[key] = [at for at in self._queued.get(key, ()) if at > now - _HOUR]
        return kept[-limits.MAX_ALERTS_PER_HOUR] + _HOUR if len(kept) >= limits.MAX_ALERTS_PER_HOUR else None

    def note_queued(self, channel_id: str, agent: str, now: int) -> None:
        """Count an alert."""
        self._queued[channel_id, agent].append(now)


def queue_due_alerts(store: Store, budget: AlertBudget | None = None) -> int:
    """Queue, postpone or drop every alert that is due. Return the number of those that were due."""
    budget = AlertBudget() if budget is None else budget
    total = 0
    while _is_due(store):
        count = _queue_batch(store, budget)
        total += count
        if not count:
            break
    return total


def seconds_until_alert(store: Store) -> float | None:
    """Return the seconds until the next alert is due, or None if none waits."""
    with store.read() as tx:
        due_at = tx.fetch_one(tx.sql.alert_next_due)
        return None if due_at is None else max((due_at - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0)


def _is_due(store: Store) -> bool:
    return seconds_until_alert(store) == 0


@retry_on_contention
def _queue_batch(store: Store, budget: AlertBudget) -> int:
    with store.write() as tx:
        due = tx.fetch_all(tx.sql.alerts_due, now=tx.now(), limit=BATCH_ROWS)
        for alert in due:
            _settle_due(tx, alert, budget)
    return len(due)


def _settle_due(tx: Transaction, alert: Alert, budget: AlertBudget) -> None:
    """Postpone an alert to the end of the quiet hours or until its agent may send another one, drop it, or queue it."""
    channel = tx.fetch_one(tx.sql.channel_find, channel_id=alert.channel_id)
    if channel is None:
        end_alert(tx, alert, DROPPED, "the channel was removed")
        return
    quiet_end = schedule.find_quiet_end(channel, tx.now())
    if quiet_end is not None:
        tx.execute(tx.sql.alert_postpone, alert_id=alert.alert_id, due_at=quiet_end)
        return
    reason = find_drop_reason(tx, channel, alert)
    if reason is None:
        _queue_within_budget(tx, channel, alert, budget)
    else:
        end_alert(tx, alert, DROPPED, reason)
    if alert.purpose == OVERVIEW:
        planning.plan_digest(tx, channel)


def _queue_within_budget(tx: Transaction, channel: Channel, alert: Alert, budget: AlertBudget) -> None:
    entry = tx.fetch_one(tx.sql.entry_find, id=alert.entry_id) if alert.entry_id else None
    agent = "" if entry is None else entry.agent or entry.workspace_label
    free_at = budget.find_next(channel.channel_id, agent, tx.now())
    if entry is not None and free_at is not None:
        tx.execute(tx.sql.alert_postpone, alert_id=alert.alert_id, due_at=free_at)
        return
    queue_alert(tx, channel, alert)
    budget.note_queued(channel.channel_id, agent, tx.now())


def queue_alert(tx: Transaction, channel: Channel, alert: Alert) -> Alert:
    """Store a mail for an alert in the mailbox of its channel. The mail has ids only: texts and links are made when it is sent."""
    payload = jsontext.dumps({"alert_id": alert.alert_id, "purpose": alert.purpose, "entry_id": alert.entry_id})
    extra = jsontext.dumps({"protocol_version": PROTOCOL_VERSION})
    now = clock.format_stamp(tx.now())
    taken = StoreBusy(f"{alert.alert_id} was queued by another sender", hint="Try again.")
    tx.execute_exactly_one(taken, tx.sql.alert_queue, alert_id=alert.alert_id, now=now)
    sender = make_sender_name(channel.session, alert.alert_id)
    mailbox.store_drafts(tx, [Draft(alert.alert_id, sender, channel.session, payload, None, extra)])
    return alert.replace(state=QUEUED, due_at=None, queued_at=now)


def make_sender_name(session: str, alert_id: str) -> str:
    """Return the sender of an alert's mail. Each has its own, because the mail of one sender waits for its predecessors."""
    return f"{session}:{alert_id}"


def end_alert(tx: Transaction, alert: Alert, state: str, reason: str = "") -> None:
    """Record that an alert was sent, or why it was dropped."""
    tx.execute(tx.sql.alert_end, alert_id=alert.alert_id, state=state, reason=reason, now=clock.format_stamp(tx.now()))


def find_drop_reason(tx: Transaction, channel: Channel, alert: Alert) -> str | None:
    """Return why an alert is not wanted any more, or None. Nobody is told what was read, answered, snoozed or put away."""
    if alert.purpose == TRIAL:
        return None
    if alert.purpose == OVERVIEW:
        return None if tx.fetch_all(tx.sql.entries_unread, section=INBOX, limit=1) or _has_open_question(tx) else "nothing waits"
    entry = tx.fetch_one(tx.sql.entry_find, id=alert.entry_id)
    if entry is None:
        return "deleted"
    if alert.purpose in (ASKED, REMINDER) and entry.ask is not None:
        if entry.ask.state != OPEN:
            return entry.ask.state
        if entry.ask.addressee != channel.person:
            return "escalated"
    matter = entry if entry.root_id is None else repository.get_entry(tx, entry.root_id)
    if matter.triage != INBOX:
        return matter.triage
    return "read" if matter.read_at is not None and alert.purpose in (ASKED, REMINDER, PUSHED) else None


def _has_open_question(tx: Transaction) -> bool:
    return bool(tx.fetch_all(tx.sql.asks_open, limit=1))
