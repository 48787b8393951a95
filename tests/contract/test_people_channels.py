"""Channels: what is sent to people who are away, when, and what is not sent. Nothing here touches a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.core.records.channels import AlertContent
from postroom.mail import mailbox
from postroom.mail.drafts import Draft
from postroom.people.channels import content, queueing
from postroom.people.questions import due_questions
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import ADA, USER, asked, new_workspace, persons, pushed, timed
from tests.contract.thread_data import events
from tests.faults.mail_children import everything as every_row

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
URL = "https://inbox.example.org"


def channel(store: Store, **fields: Any) -> str:
    """The id of a new webhook of the user, which sends at once."""
    options = {
        "person": USER,
        "kind": "webhook",
        "target": "https://hooks.example.org/in",
        "options": {"secret": SECRET},
        "delay_seconds": 0,
    }
    return people.add_channel(store, **{**options, **fields}).channel_id


def queued(store: Store, channel_id: str) -> list[str]:
    """The ids of the alerts that are in the mailbox of a channel, after all that is due was put there."""
    queueing.queue_due_alerts(store)
    return [message.msg_id for message in mail.peek(store, f"channel:{channel_id}").messages]


def prepared(store: Store, channel_id: str, alert_id: str) -> AlertContent | None:
    """Return the content that would be sent for an alert."""
    return content.prepare_alert(store, alert_id, f"channel:{channel_id}", URL)


def sent_token(store: Store, channel_id: str) -> str:
    """The token of the link in the one message that is sent now."""
    (alert_id,) = queued(store, channel_id)
    made = prepared(store, channel_id, alert_id)
    assert made is not None
    assert made.token is not None
    return made.token


def steps(store: Store, entry_id: str) -> list[str]:
    return [step.step for step in people.show_entry(store, entry_id).receipts]


def instant(text: str) -> int:
    return time.parse_stamp(f"{text}:00.000000Z")


def test_a_question_sends_one_message_with_a_link_of_its_own(store: Store) -> None:
    known = channel(store)
    entry = asked(store, "Ship it?", choices=["yes", "no"])
    (alert_id,) = queued(store, known)
    made = prepared(store, known, alert_id)
    assert made is not None
    assert (made.title, made.choices, made.agent, made.secret) == ("Ship it?", ("yes", "no"), "macro", SECRET)
    assert made.link == f"{URL}/answer?token={made.token}"
    assert people.open_question_link(store, str(made.token)).id == entry
    assert prepared(store, known, alert_id) == made.replace(alert=made.alert.replace(linked_at=_linked_at(store, alert_id)))
    assert queued(store, known) == [alert_id]
    assert steps(store, entry) == ["stored", "alert_queued"]


def _linked_at(store: Store, alert_id: str) -> str | None:
    with store.read() as tx:
        alert = tx.fetch_one(tx.sql.alert_find, alert_id=alert_id)
    assert alert is not None
    return alert.linked_at


def test_an_alert_that_was_sent_is_not_prepared_again_and_has_a_receipt(store: Store) -> None:
    known = channel(store)
    entry = asked(store)
    (alert_id,) = queued(store, known)
    made = prepared(store, known, alert_id)
    assert made is not None
    content.record_sent(store, made.alert)
    assert prepared(store, known, alert_id) is None
    sent = people.show_entry(store, entry).receipts[-1]
    assert (sent.step, sent.by, sent.door) == ("alert_sent", USER, "webhook")


def test_an_alert_that_became_a_dead_letter_has_a_receipt(store: Store) -> None:
    known = channel(store)
    entry = asked(store)
    (alert_id,) = queued(store, known)
    mail.set_policy(store, f"channel:{known}", max_retries=0)
    delivery = mail.dequeue(store, f"channel:{known}")
    assert delivery is not None
    mail.nack(store, f"channel:{known}", alert_id, "HTTP 500", delivery_token=delivery.delivery_token)
    assert steps(store, entry) == ["stored", "alert_queued", "alert_failed"]


def test_the_mailbox_of_a_channel_takes_no_mail_of_others(store: Store) -> None:
    """Each mail would start a process, and an id of an alert would forge its receipt."""
    known = channel(store)
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, {"from": "stranger", "to": f"channel:{known}", "payload": "x"})
    assert refused.value.facts["field"] == "to"
    assert mail.peek(store, f"channel:{known}").messages == ()


def test_the_receipt_of_an_entry_has_only_the_failures_of_its_alert(store: Store) -> None:
    known = channel(store)
    entry = asked(store)
    (alert_id,) = queued(store, known)
    mail.set_policy(store, "stranger", max_retries=0)
    mail.enqueue(store, {"from": "stranger", "to": "stranger", "msg_id": alert_id, "payload": "x"})
    assert mail.dequeue(store, "stranger") is not None
    mail.nack(store, "stranger", alert_id, "no")
    assert steps(store, entry) == ["stored", "alert_queued"]


QUIET_DEEDS: dict[str, Callable[[Store, str], object]] = {
    "read": lambda store, entry: people.mark_read(store, entry, person=USER),
    "answered": lambda store, entry: people.reply(store, entry, person=USER, body="yes"),
    "snoozed": lambda store, entry: people.set_state(store, entry, person=USER, state="snoozed"),
    "snoozed, and marked as unread": lambda store, entry: people.mark_unread(
        store, people.set_state(store, entry, person=USER, state="snoozed").id, person=USER
    ),
    "done": lambda store, entry: people.set_state(store, entry, person=USER, state="done"),
    "deleted": lambda store, entry: people.delete_entry(store, entry, person=USER),
}


@pytest.mark.parametrize("deed", QUIET_DEEDS)
@pytest.mark.parametrize("moment", ["before it is due", "in the mailbox"])
def test_nothing_is_sent_for_what_was_dealt_with(store: Store, clock: Clock, deed: str, moment: str) -> None:
    known = channel(store, delay_seconds=60)
    entry = asked(store)
    if moment == "before it is due":
        QUIET_DEEDS[deed](store, entry)
        clock.advance(61)
        assert queued(store, known) == []
    else:
        clock.advance(61)
        (alert_id,) = queued(store, known)
        QUIET_DEEDS[deed](store, entry)
        if deed == "deleted":
            with pytest.raises(NotFound):
                prepared(store, known, alert_id)
        else:
            assert prepared(store, known, alert_id) is None


def test_a_message_waits_so_that_a_person_at_the_page_gets_none(store: Store, clock: Clock) -> None:
    known = channel(store, delay_seconds=60)
    asked(store)
    assert queued(store, known) == []
    assert queueing.seconds_until_alert(store) == 60
    clock.advance(60)
    assert len(queued(store, known)) == 1


def test_one_reminder_comes_before_the_deadline_and_then_silence_decides(store: Store, clock: Clock) -> None:
    known = channel(store, remind_seconds=600)
    entry = timed(store, "default", 3600)
    assert len(queued(store, known)) == 1
    clock.advance(2999)
    assert len(queued(store, known)) == 1
    clock.advance(1)
    both = queued(store, known)
    assert len(both) == 2
    made = prepared(store, known, both[1])
    assert made is not None
    assert made.alert.purpose == "reminder"
    assert made.silence == "the answer is “no”"
    clock.advance(600)
    assert queued(store, known) == both
    assert people.answer_of(store, entry).answer == "no"
    assert prepared(store, known, both[1]) is None


def test_a_reminder_comes_at_the_earliest_halfway_to_the_deadline(store: Store, clock: Clock) -> None:
    known = channel(store)
    timed(store, "refuse", 100)
    clock.advance(49)
    assert len(queued(store, known)) == 1
    clock.advance(1)
    assert len(queued(store, known)) == 2


def test_a_question_that_is_escalated_reaches_the_next_person(store: Store, clock: Clock) -> None:
    persons(store)
    own, other = channel(store, remind_seconds=0), channel(store, person=ADA)
    timed(store, "escalate", 60)
    (first,) = queued(store, own)
    assert queued(store, other) == []
    clock.advance(61)
    due_questions.sync(store)
    (second,) = queued(store, other)
    assert prepared(store, own, first) is None
    made = prepared(store, other, second)
    assert made is not None
    assert made.deadline is None


def test_a_channel_for_questions_sends_nothing_else(store: Store, tmp_path: Path) -> None:
    questions, everything = channel(store), channel(store, sends="everything")
    workspace = new_workspace(store, tmp_path)
    pushed(store, workspace)
    people.notify(store, sender="backup", text="12 GB")
    asked(store)
    assert (len(queued(store, questions)), len(queued(store, everything))) == (1, 3)


def test_one_message_per_matter(store: Store, tmp_path: Path) -> None:
    known = channel(store, sends="everything")
    workspace = new_workspace(store, tmp_path)
    entry = pushed(store, workspace)
    people.push(store, workspace, comments="And one more thing", entry_id=entry)
    people.push(store, workspace, comments="And another", entry_id=entry)
    assert len(queued(store, known)) == 1
    people.ask(store, workspace_id=workspace, question="Publish it?", entry_id=entry)
    assert len(queued(store, known)) == 2


def test_a_muted_workspace_sends_its_questions_only(store: Store, tmp_path: Path) -> None:
    known = channel(store, sends="everything")
    workspace = new_workspace(store, tmp_path)
    people.mute_workspace(store, workspace)
    pushed(store, workspace)
    assert queued(store, known) == []
    people.ask(store, workspace_id=workspace, question="Publish it?")
    assert len(queued(store, known)) == 1


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-18T20:59", None),
        ("2026-11-18T21:00", "2026-11-19T06:00"),
        ("2026-11-19T05:59", "2026-11-19T06:00"),
        ("2026-11-19T06:00", None),
        ("2026-03-28T22:00", "2026-03-29T05:00"),  # the night in which the clock goes forward
    ],
)
def test_quiet_hours_hold_by_the_clock_of_the_persons_zone(store: Store, clock: Clock, now: str, end: str | None) -> None:
    clock.instant = instant(now)
    known = channel(store, quiet="22:00-07:00", time_zone="Europe/Berlin")
    asked(store)
    assert len(queued(store, known)) == (1 if end is None else 0)
    if end is not None:
        clock.instant = instant(end) - 1
        assert queued(store, known) == []
        clock.instant = instant(end)
        assert len(queued(store, known)) == 1


def test_quiet_hours_within_a_day(store: Store, clock: Clock) -> None:
    clock.instant = instant("2026-11-18T12:30")
    known = channel(store, quiet="12:00-13:00")
    asked(store)
    assert queued(store, known) == []
    clock.instant = instant("2026-11-18T13:00")
    assert len(queued(store, known)) == 1


def test_a_digest_comes_once_a_day_if_something_waits(store: Store, clock: Clock) -> None:
    clock.instant = instant("2026-11-18T12:00")
    known = channel(store, sends="digest", digest_at="08:00", time_zone="Europe/Berlin")
    entry = asked(store, "Ship it?")
    people.notify(store, sender="backup", text="12 GB")
    clock.instant = instant("2026-11-19T06:59")
    assert queued(store, known) == []
    clock.instant = instant("2026-11-19T07:00")
    (first,) = queued(store, known)
    made = prepared(store, known, first)
    assert made is not None
    assert made.lines == ("Question: Ship it? (macro)",)
    assert made.token is None
    content.record_sent(store, made.alert)
    people.reply(store, entry, person=USER, body="yes")
    clock.advance(86_400)
    assert queued(store, known) == [first]
    asked(store, "And now?")
    clock.advance(86_400)
    assert len(queued(store, known)) == 2


def test_a_link_answers_its_question_once_as_its_person(store: Store) -> None:
    known = channel(store)
    entry = asked(store, choices=["yes", "no"])
    token = sent_token(store, known)
    people.answer_question_link(store.with_door("web"), token, body="yes")
    answer = people.answer_of(store, entry)
    assert (answer.choice, answer.answered_by, answer.door, answer.verified) == ("yes", USER, "web", True)
    for way in (people.open_question_link, lambda at, used: people.answer_question_link(at, used, body="no")):
        with pytest.raises(NotFound):
            way(store, token)


def test_a_link_cannot_change_an_answer_that_came_another_way(store: Store) -> None:
    known = channel(store)
    entry = asked(store)
    token = sent_token(store, known)
    people.reply(store, entry, person=USER, body="yes")
    with pytest.raises(InvalidState):
        people.answer_question_link(store, token, body="no")
    assert len(people.show_entry(store, entry).replies) == 1


def test_a_link_ends_with_the_deadline_and_can_be_revoked(store: Store, clock: Clock) -> None:
    known = channel(store)
    timed(store, "refuse", 60)
    token = sent_token(store, known)
    clock.advance(61)
    with pytest.raises(NotFound):
        people.open_question_link(store, token)
    other = channel(store)
    entry = asked(store, "Another?")
    alert_id = queued(store, other)[-1]
    made = prepared(store, other, alert_id)
    assert made is not None
    (listed,) = [known for known in people.list_passes(store).passes if known.kind == "question" and known.scope == entry]
    people.revoke_passes(store, pass_id=listed.pass_id)
    with pytest.raises(NotFound):
        people.open_question_link(store, str(made.token))
    assert prepared(store, other, alert_id) is not None  # sent again, with a link that stays void
    with pytest.raises(NotFound):
        people.open_question_link(store, str(made.token))


def test_a_link_is_no_other_pass_and_opens_no_other_question(store: Store) -> None:
    known = channel(store)
    asked(store)
    token = sent_token(store, known)
    for way in (people.person_of, people.redeem, people.workspace_of):
        with pytest.raises(NotFound):
            way(store, token)
    for other in (people.issue_link(store, person=USER), people.issue_bearer(store, person=USER), "prq_" + "0" * 40, ""):
        with pytest.raises(NotFound):
            people.open_question_link(store, other)


def test_a_proposal_is_decided_by_a_link(store: Store) -> None:
    known = channel(store)
    entry = asked(store, proposal={"text": "Dear all"})
    people.answer_question_link(store, sent_token(store, known), decision={"type": "approve"})
    assert people.answer_of(store, entry).decision == {"type": "approve", "proposal": {"text": "Dear all"}, "reason": ""}


def test_secrets_and_tokens_are_nowhere_but_in_their_column(store: Store) -> None:
    known = channel(store)
    asked(store)
    token = sent_token(store, known)
    rows = every_row(store.location)
    assert not any(token in str(row) for table in rows.values() for row in table)
    assert [name for name, table in rows.items() if any(SECRET in str(row) for row in table)] == ["channels"]
    for shown in (people.show_channel(store, known), people.list_channels(store).channels[0]):
        assert SECRET not in str(shown.to_json())
        assert SECRET not in repr(shown)
    assert not any(SECRET in str(event.to_json()) or "hooks.example" in str(event.to_json()) for event in events(store))


def test_mail_that_others_put_into_the_mailbox_of_a_channel_is_refused(store: Store) -> None:
    known, other = channel(store), channel(store)
    asked(store)
    (alert_id, *_), session = queued(store, known), f"channel:{other}"
    with store.write() as tx:  # as earlier versions accepted it
        mailbox.store_drafts(tx, [Draft("forged", "evil", session, "{}", None, "{}")])
    for forged in ("forged", alert_id):
        with pytest.raises(NotFound):
            content.prepare_alert(store, forged, session, URL)


def test_a_channel_that_is_removed_sends_nothing_more(store: Store) -> None:
    known = channel(store, sends="digest")
    people.remove_channel(store, known)
    asked(store)
    queueing.queue_due_alerts(store)
    assert people.list_channels(store).channels == ()
    assert queueing.seconds_until_alert(store) is None
    with pytest.raises(NotFound):
        people.show_channel(store, known)


def test_channels_are_listed_by_person(store: Store) -> None:
    persons(store)
    own, other = channel(store), channel(store, person=ADA)
    assert [listed.channel_id for listed in people.list_channels(store, person=ADA).channels] == [other]
    assert {listed.channel_id for listed in people.list_channels(store).channels} == {own, other}


EMAIL = {"kind": "email", "target": "maria@example.org", "options": {"smtp": "smtps://mail.example.org", "from": "inbox@example.org"}}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown kind": ({"kind": "pigeon"}, "kind"),
    "an unknown person": ({"person": "nobody"}, "person"),
    "another scheme": ({"target": "file:///etc/passwd"}, "target"),
    "no host": ({"target": "https:///in"}, "target"),
    "a password in the address": ({"target": "https://me:pw@hooks.example.org/in"}, "target"),
    "plain http": ({"target": "http://hooks.example.org/in"}, "target"),
    "plain http to an address that only looks local": ({"target": "http://127.0.0.1.example.org/in"}, "target"),
    "a line break": ({"target": "https://hooks.example.org/in\r\nX: y"}, "target"),
    "a webhook without a secret": ({"options": {}}, "secret-file"),
    "a secret that is too short": ({"options": {"secret": "whsec_c2hvcnQ="}}, "secret-file"),
    "two secrets": ({"options": {"secret": SECRET, "secret_env": "HOOK"}}, "secret-env"),
    "an option of another kind": ({"options": {"secret": SECRET, "smtp": "smtps://mail.example.org"}}, "smtp"),
    "quiet hours without an end": ({"quiet": "22:00"}, "quiet"),
    "quiet hours all day": ({"quiet": "22:00-22:00"}, "quiet"),
    "a time that no day has": ({"digest_at": "24:00"}, "digest-at"),
    "an unknown zone": ({"time_zone": "Mars/Olympus"}, "time-zone"),
    "a zone outside of its folder": ({"time_zone": "../../etc/passwd"}, "time-zone"),
    "a negative delay": ({"delay_seconds": -1}, "delay_seconds"),
    "an address for links that is none": ({"url": "inbox.example.org"}, "url"),
    "two receivers": ({**EMAIL, "target": "a@example.org,b@example.org"}, "target"),
    "a header in an address": ({**EMAIL, "target": "a@example.org\nBcc: b@example.org"}, "target"),
    "no mail server": ({**EMAIL, "options": {"from": "inbox@example.org"}}, "smtp"),
    "a user without a password": ({**EMAIL, "options": {**EMAIL["options"], "smtp": "smtps://me@mail.example.org"}}, "secret-file"),  # type: ignore[dict-item]
    "a topic without a name": ({"kind": "ntfy", "target": "https://ntfy.sh/", "options": {}}, "target"),
    "an empty command": ({"kind": "command", "target": " ", "options": {}}, "target"),
}


@pytest.mark.input_check
@pytest.mark.parametrize("case", BAD)
def test_a_channel_that_cannot_work_is_refused_and_not_stored(store: Store, case: str) -> None:
    fields, named = BAD[case]
    with pytest.raises(InvalidInput) as refused:
        channel(store, **fields)
    assert refused.value.facts["field"] == named
    assert SECRET not in str(refused.value)
    assert people.list_channels(store).channels == ()
