"""Prepare what an alert says, when it is sent: texts of the entry, choices, deadline, and the link with its pass."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import NotFound
from postroom.core.records.channels import ASKED, DROPPED, OVERVIEW, QUEUED, REMINDER, SENT, TRIAL, AlertContent
from postroom.core.records.people import DEFAULT, ESCALATE, INBOX, REFUSE
from postroom.people import entries
from postroom.people.access import passes
from postroom.people.channels import links, queueing
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.channels import Alert, Channel
    from postroom.core.records.people import Ask, Entry
    from postroom.store.interface import Store, Transaction

LINK_SECONDS = 7 * 86_400.0  # of a question without a deadline
MAX_TEXT_CHARS = 4000  # of an entry, in a message
MAX_DIGEST_ITEMS = 20


@retry_on_contention
def prepare_alert(store: Store, alert_id: str, session: str, url: str | None) -> AlertContent | None:
    """Return what to send for an alert in the mailbox `session`, or None if there is nothing to send: it was sent, or is not wanted.

    `url` is the address of the server that runs, for channels without one. Refuses with `NotFound` a mail that no alert was queued for.
    """
    with store.write() as tx:
        alert = tx.fetch_one(tx.sql.alert_find, alert_id=alert_id)
        channel = None if alert is None else tx.fetch_one(tx.sql.channel_find, channel_id=alert.channel_id)
        if alert is None or channel is None or channel.session != session:
            raise NotFound(f"no alert of this channel is called {alert_id}", hint="Only `inbox` itself sends mail to a channel.")
        if alert.state != QUEUED:
            return None
        reason = queueing.find_drop_reason(tx, channel, alert)
        if reason is not None:
            queueing.end_alert(tx, alert, DROPPED, reason)
            return None
        return _make_content(tx, alert, channel, channel.url or url)


@retry_on_contention
def record_sent(store: Store, alert: Alert) -> None:
    """Record that an alert was sent. A second delivery of its mail sends nothing from now on."""
    with store.write() as tx:
        queueing.end_alert(tx, alert, SENT)


@retry_on_contention
def drop_alert(store: Store, alert_id: str, reason: str) -> None:
    """Record that an alert shall not be sent, if it was not."""
    with store.write() as tx:
        alert = tx.fetch_one(tx.sql.alert_find, alert_id=alert_id)
        if alert is not None:
            queueing.end_alert(tx, alert, DROPPED, reason)


def _make_content(tx: Transaction, alert: Alert, channel: Channel, url: str | None) -> AlertContent:
    secrets = jsontext.loads(tx.fetch_one(tx.sql.channel_secrets, channel_id=channel.channel_id) or "{}")
    fields: dict[str, Any] = {"alert": alert, "channel": channel, "secret": secrets.get("secret"), "url": url, "agent": ""}
    if alert.purpose == TRIAL:
        return AlertContent(title="A test of this channel", text="If you can read this, questions of your agents reach you here.", **fields)
    if alert.purpose == OVERVIEW:
        lines = _list_digest(tx)
        return AlertContent(title=f"{len(lines)} waiting", text="", lines=lines, **fields)
    entry = tx.fetch_one(tx.sql.entry_find, id=alert.entry_id)
    assert entry is not None  # `find_drop_reason` has seen it
    fields |= {"title": entry.shown_title, "text": _cut(entry.comments), "agent": entry.agent or entry.workspace_label}
    if entry.ask is None or alert.purpose not in (ASKED, REMINDER):
        return AlertContent(**fields)
    token = _make_link(tx, alert, channel, entry.ask, links.derive_token(secrets["link_key"], alert.alert_id))
    return AlertContent(token=token, question_id=entry.question_id, **_describe_question(entry.ask), **fields)


def _make_link(tx: Transaction, alert: Alert, channel: Channel, ask: Ask, token: str) -> str:
    """Store the pass of a link when the link is first made: a pass that was used or revoked does not come back with a retry."""
    if alert.linked_at is None:
        seconds = LINK_SECONDS if ask.due_at is None else (ask.due_at - tx.now()) / clock.MICROSECONDS_PER_SECOND
        passes.insert_question_pass(tx, token, channel.person, ask.entry_id, max(seconds, 1.0))
        tx.execute(tx.sql.alert_link, alert_id=alert.alert_id, now=clock.format_stamp(tx.now()))
    return token


def _describe_question(ask: Ask) -> dict[str, Any]:
    proposal = ask.terms.get("proposal")
    shown = None if proposal is None else _cut(proposal.get("text") or f"{proposal['action']} {jsontext.dumps(proposal['args'])}")
    deadline = None if ask.escalated_at else ask.deadline
    fields = {"choices": tuple(ask.choices), "dangerous": tuple(ask.terms.get("dangerous", ())), "proposal": shown}
    return {**fields, "deadline": deadline, "silence": "" if deadline is None else describe_silence(ask)}


def describe_silence(ask: Ask) -> str:
    """Return what happens without an answer, as the end of a sentence."""
    if ask.on_silence == DEFAULT:
        return f"the answer is “{ask.default_answer}”"
    if ask.on_silence == REFUSE:
        return "it counts as refused"
    return f"{ask.escalate_to} is asked" if ask.on_silence == ESCALATE else "the agent goes on waiting"


def _list_digest(tx: Transaction) -> tuple[str, ...]:
    """Return the titles of the open questions and the unread entries, questions first."""
    asking = entries.read_page(tx, limit=MAX_DIGEST_ITEMS, open_only=True).entries
    unread = entries.read_page(tx, limit=MAX_DIGEST_ITEMS, section=INBOX, unread=True).entries
    shown = {entry.id: _digest_line(entry) for entry in (*asking, *unread)}
    return tuple(shown.values())[:MAX_DIGEST_ITEMS]


def _digest_line(entry: Entry) -> str:
    return f"{'Question' if entry.is_open else 'New'}: {entry.shown_title} ({entry.agent or entry.workspace_label})"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def find_alert(store: Store, alert_id: str) -> Alert:
    """Return an alert. Refuses with `NotFound`."""
    with store.read() as tx:
        alert = tx.fetch_one(tx.sql.alert_find, alert_id=alert_id)
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}", hint="Its channel may have been removed.", alert_id=alert_id)
    return alert
