"""Each command of `mailbox`: what it answers, to programs and to people, and how it exits."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mailbox_process import LONG, PAYLOAD, SENDER, SESSION, Mailbox, unwrap
from tests.cli.process import Inbox, eventually

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ENQUEUE = ("enqueue", "--from", SENDER, "--to", SESSION)
TEN_MIB = 10 * 1024 * 1024
PAYLOADS = [
    "",
    " ",
    "  leading and trailing  \n\n",
    "two\nlines\r\nand\ttabs",
    "ünï¢ode ☃ 漢字 👩‍👩‍👧 \u202e\u2028",
    "--looks-like-a-flag",
    "-",
    '"quoted" $HOME `id` \\n %s',
    "\x01\x1b[2J\x7f",
]


@pytest.fixture
def mailbox(tmp_path: Path, settled: Callable[[Inbox], None]) -> Iterator[Mailbox]:
    with Mailbox(tmp_path) as made:
        made.found()
        settled(made)
        yield made


def _flagged(*identity: str, session: str = SESSION) -> tuple[str, ...]:
    return ("--session", session, *(word for one in identity for word in ("--msg-id", one)))


# enqueue


def test_enqueue_answers_the_documents_three_fields(mailbox: Mailbox) -> None:
    first = mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", "m1")
    again = mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", "m1")
    other = mailbox.run(*ENQUEUE, "--payload", "something else", "--msg-id", "m1", "--json")
    assert (other.code, json.loads(other.stdout)["error"]["code"]) == (20, "id_conflict")
    second = mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", "m2")
    assert first == {"msg_id": "m1", "queued": True, "pending": 1}
    assert again == {"msg_id": "m1", "queued": False, "pending": 1}
    assert second == {"msg_id": "m2", "queued": True, "pending": 2}
    assert mailbox.dequeue()["message"]["payload"] == PAYLOAD


def test_enqueue_names_its_message_and_never_calls_it_delivered(mailbox: Mailbox) -> None:
    stored = mailbox.says(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", "m1")
    again = mailbox.says(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", "m1")
    assert "m1" in stored
    assert "m1" in again
    assert stored != again
    for text in (stored, again):
        assert not re.search(r"delivered|sent\b|seen\b", text, re.IGNORECASE), text


def test_a_message_without_an_id_gets_one_of_its_sender_and_the_time(mailbox: Mailbox) -> None:
    made = [mailbox.enqueue() for _ in range(3)]
    assert all(re.fullmatch(rf"{SENDER}:\d{{19}}", identity) for identity in made), made
    assert len(set(made)) == 3


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_comes_back_as_it_was_given(mailbox: Mailbox, tmp_path: Path, payload: str) -> None:
    (tmp_path / "payload.txt").write_bytes(payload.encode())
    mailbox.answers(*ENQUEUE, f"--payload={payload}")
    mailbox.answers(*ENQUEUE, "--payload-file", "payload.txt", "--msg-id", "by file")
    mailbox.answers(*ENQUEUE, "--payload-file", "-", "--msg-id", "by input", stdin=payload.encode())
    for _ in range(3):
        taken = mailbox.dequeue()
        assert taken["message"]["payload"] == payload
        mailbox.answers("ack", *_flagged(taken["message"]["msg_id"]))


def test_a_payload_may_be_ten_mebibytes(mailbox: Mailbox, tmp_path: Path) -> None:
    payload = "ü" * (TEN_MIB // 2 - 1) + "\n\n"
    (tmp_path / "big.txt").write_bytes(payload.encode())
    mailbox.answers(*ENQUEUE, "--payload-file", "big.txt")
    assert mailbox.dequeue()["message"]["payload"] == payload


@pytest.mark.parametrize("moment", [0, 1743999600, 253402300799])
def test_the_time_of_a_message_is_its_senders_and_never_changes(mailbox: Mailbox, moment: int) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    identity = mailbox.enqueue(PAYLOAD, "--created-at", str(moment))
    for attempt in range(3):
        message = mailbox.answers("wait", "--session", SESSION)["message"]
        assert (message["created_at"], message["attempt"], message["msg_id"]) == (moment, attempt, identity)
        mailbox.answers("nack", *_flagged(identity))
    assert mailbox.answers("peek", "--session", SESSION)["messages"][0]["created_at"] == moment


def test_a_whole_message_may_be_given_in_camel_case_with_fields_nobody_knows(mailbox: Mailbox, tmp_path: Path) -> None:
    extra = {"priority": {"level": 3, "tags": ["a", None, 1.5]}, "Ünknown field": "☃\n", "empty": {}}
    message = {"msgId": "m1", "from": SENDER, "to": SESSION, "payload": PAYLOAD, "createdAt": 1743999600, "attempt": 7}
    (tmp_path / "message.json").write_text(json.dumps({**message, **extra}))
    assert mailbox.answers("enqueue", "--message-file", "message.json") == {"msg_id": "m1", "queued": True, "pending": 1}
    expected = {"msg_id": "m1", "from": SENDER, "to": SESSION, "payload": PAYLOAD, "created_at": 1743999600, "attempt": 0}
    taken = mailbox.dequeue()["message"]
    assert taken == {**expected, **extra}
    assert mailbox.answers("show", "--msg-id", "m1")["message"] == taken


def test_a_whole_message_may_come_by_standard_input_in_snake_case(mailbox: Mailbox) -> None:
    message = {"msg_id": "m1", "from": SENDER, "to": SESSION, "payload": "a\nb ", "created_at": 5.0, "attempt": 0, "createdAt": 5}
    mailbox.answers("enqueue", "--message-file", "-", stdin=json.dumps(message, ensure_ascii=False).encode())
    taken = mailbox.dequeue()["message"]
    assert taken == {"msg_id": "m1", "from": SENDER, "to": SESSION, "payload": "a\nb ", "created_at": 5, "attempt": 0}
    assert isinstance(taken["created_at"], int)


# dequeue and wait


@pytest.mark.parametrize("verb", ["dequeue", "wait"])
def test_a_delivery_is_a_message_a_token_and_a_time(mailbox: Mailbox, verb: str) -> None:
    identity = mailbox.enqueue()
    taken = mailbox.answers(verb, "--session", SESSION)
    assert set(taken) == {"message", "delivery_token", "in_flight_until"}
    assert set(taken["message"]) == {"msg_id", "from", "to", "payload", "created_at", "attempt", "protocol_version"}
    assert (taken["message"]["msg_id"], taken["message"]["attempt"]) == (identity, 0)
    assert taken["delivery_token"]
    assert STAMP.fullmatch(taken["in_flight_until"])
    assert mailbox.state(identity) == "in_flight"


@pytest.mark.parametrize("argv", [("dequeue",), ("wait", "--timeout-seconds", "0.05")])
def test_a_mailbox_without_mail_exits_10_and_is_not_made_by_looking(mailbox: Mailbox, argv: tuple[str, ...]) -> None:
    assert mailbox.answers(*argv, "--session", "nobody", code=10) == {"message": None}
    spoken = mailbox.run(*argv, "--session", "nobody")
    assert (spoken.code, spoken.stderr) == (10, "")
    assert spoken.stdout.strip()
    assert mailbox.answers("sessions")["sessions"] == []


@pytest.mark.parametrize("verb", ["dequeue", "wait"])
def test_a_delivery_tells_people_what_came_from_whom_and_how_to_answer(mailbox: Mailbox, verb: str) -> None:
    identity = mailbox.enqueue()
    said = mailbox.says(verb, "--session", SESSION)
    for essential in (identity, SENDER, PAYLOAD):
        assert essential in said


def test_a_receipt_says_to_whom_a_message_was_offered(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    identity = mailbox.enqueue()
    mailbox.answers("dequeue", "--session", SESSION, "--receiver", "worker-7")
    mailbox.answers("nack", *_flagged(identity))
    mailbox.answers("wait", "--session", SESSION)
    offered = [step for step in mailbox.answers("show", "--msg-id", identity)["steps"] if step["step"] == "offered"]
    assert [step["attempt"] for step in offered] == [0, 1]
    assert offered[0]["receiver"] == "worker-7"
    assert offered[1]["receiver"] not in ("", "worker-7")


def test_a_sleeping_wait_is_woken_by_a_message(mailbox: Mailbox) -> None:
    waiter = mailbox.start("wait", "--session", SESSION, "--json").sleeping()
    identity = mailbox.enqueue()
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    assert unwrap(finished, "wait")["message"]["msg_id"] == identity


def test_a_sleeping_wait_is_woken_when_the_one_before_is_acked(mailbox: Mailbox) -> None:
    first, second = mailbox.enqueue("first"), mailbox.enqueue("second")
    mailbox.dequeue()
    waiter = mailbox.start("wait", "--session", SESSION, "--json").sleeping()
    mailbox.answers("ack", *_flagged(first))
    assert waiter.finish().json["message"]["msg_id"] == second


def test_a_wait_ends_when_a_retry_falls_due_or_a_delivery_times_out(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0.05, inflight_timeout_secs=0.2)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.answers("wait", "--session", SESSION, "--timeout-seconds", "30")
    mailbox.answers("wait", "--session", SESSION, "--timeout-seconds", "30")
    assert mailbox.reasons(identity)[:2] == ["not acknowledged within 0.2 s"] * 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_wait_cleanly(mailbox: Mailbox, number: signal.Signals, code: int) -> None:
    waiter = mailbox.start("wait", "--session", SESSION, "--json").sleeping()
    waiter.process.send_signal(number)
    assert waiter.finish().error[:2] == (code, "interrupted")
    mailbox.enqueue()
    assert mailbox.dequeue()["message"]["payload"] == PAYLOAD


# ack, nack, extend


def test_ack_answers_and_may_be_repeated(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    token = mailbox.dequeue()["delivery_token"]
    assert mailbox.answers("ack", *_flagged(identity)) == {"msg_id": identity, "state": "acked", "changed": True}
    for more in ((), ("--delivery-token", token)):
        assert mailbox.answers("ack", *_flagged(identity), *more) == {"msg_id": identity, "state": "acked", "changed": False}
    assert identity in mailbox.says("ack", *_flagged(identity))


def test_nack_answers_when_it_will_be_tried_again(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    token = mailbox.dequeue()["delivery_token"]
    nacked = mailbox.answers("nack", *_flagged(identity), "--delivery-token", token, "--reason", "no such table")
    assert STAMP.fullmatch(nacked.pop("retry_at"))
    assert nacked == {"msg_id": identity, "state": "nacked", "changed": True}
    assert mailbox.reasons(identity) == ["no such table"]


def test_the_last_nack_says_that_there_will_be_no_other(mailbox: Mailbox) -> None:
    identity = mailbox.dead()
    expected = {"msg_id": identity, "state": "dead_letter", "changed": False, "retry_at": None}
    assert mailbox.answers("nack", *_flagged(identity), "--reason", "again") == expected
    assert len(mailbox.reasons(identity)) == 1


def test_a_nack_after_an_ack_changes_nothing(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.answers("ack", *_flagged(identity))
    expected = {"msg_id": identity, "state": "acked", "changed": False, "retry_at": None}
    assert mailbox.answers("nack", *_flagged(identity)) == expected
    assert mailbox.run("dequeue", "--session", SESSION).code == 10


def test_nack_tells_people_what_becomes_of_the_message(mailbox: Mailbox) -> None:
    mailbox.set_policy(max_retries=1, base_backoff_secs=0)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    retried = mailbox.says("nack", *_flagged(identity), "--reason", "no such table")
    mailbox.dequeue()
    dead = mailbox.says("nack", *_flagged(identity))
    assert identity in retried
    assert identity in dead
    assert re.search("dead", dead)


def test_extend_starts_the_time_in_flight_anew(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    taken = mailbox.dequeue()
    longer = mailbox.answers("extend", *_flagged(identity), "--delivery-token", taken["delivery_token"], "--seconds", "120")
    assert set(longer) == {"msg_id", "in_flight_until"}
    assert longer["in_flight_until"] > taken["in_flight_until"]
    usual = mailbox.answers("extend", *_flagged(identity))
    assert taken["in_flight_until"] < usual["in_flight_until"] < longer["in_flight_until"]
    assert identity in mailbox.says("extend", *_flagged(identity))


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_a_token_of_an_earlier_delivery_is_refused(mailbox: Mailbox, verb: str) -> None:
    mailbox.set_policy(base_backoff_secs=0, inflight_timeout_secs=0.05)
    identity = mailbox.enqueue()
    stale = mailbox.dequeue()["delivery_token"]
    eventually(lambda: mailbox.state(identity) != "in_flight")
    mailbox.set_policy(inflight_timeout_secs=LONG)
    current = mailbox.answers("wait", "--session", SESSION)["delivery_token"]
    for token in (stale, "no token of ours"):
        refused = mailbox.refusal(verb, *_flagged(identity), "--delivery-token", token)
        assert (refused["exit"], refused["code"]) == (20, "delivery_lost")
    assert mailbox.run(verb, *_flagged(identity), "--delivery-token=").code in (20, 30)
    assert mailbox.state(identity) == "in_flight"
    mailbox.answers(verb, *_flagged(identity), "--delivery-token", current)


# what is there


def test_peek_lists_what_is_not_ended_in_the_order_of_delivery(mailbox: Mailbox) -> None:
    taken, waiting = mailbox.enqueue("first"), mailbox.enqueue("second")
    other = mailbox.enqueue(sender="other")
    mailbox.dequeue()
    peeked = mailbox.answers("peek", "--session", SESSION)
    assert set(peeked) == {"messages", "total", "more", "after"}
    assert (peeked["total"], peeked["more"], peeked["after"]) == (3, False, None)
    assert all(set(one) == {"msg_id", "from", "created_at", "attempt", "state", "due_at"} for one in peeked["messages"])
    found = {one["msg_id"]: one for one in peeked["messages"]}
    assert {identity: one["state"] for identity, one in found.items()} == {taken: "in_flight", waiting: "pending", other: "pending"}
    assert list(found).index(taken) < list(found).index(waiting)
    assert STAMP.fullmatch(found[taken]["due_at"])
    assert (found[waiting]["due_at"], found[other]["from"]) == (None, "other")
    limited = mailbox.answers("peek", "--session", SESSION, "--limit", "1")
    assert (limited["messages"], limited["total"], limited["more"]) == (peeked["messages"][:1], 3, True)
    assert mailbox.answers("peek", "--session", SESSION, "--after", limited["after"])["messages"] == peeked["messages"][1:]
    assert f"there are more of 3: --after {limited['after']}" in mailbox.says("peek", "--session", SESSION, "--limit", "1")
    said = mailbox.says("peek", "--session", SESSION)
    assert all(word in said for word in (taken, waiting, other, "in_flight", "pending", SENDER))


def test_a_mailbox_that_nobody_heard_of_is_empty_and_stays_unmade(mailbox: Mailbox) -> None:
    assert mailbox.answers("peek", "--session", "nobody") == {"messages": [], "total": 0, "more": False, "after": None}
    assert mailbox.answers("peek-dead-letter", "--session", "nobody") == {"entries": [], "total": 0, "more": False, "after": None}
    assert mailbox.says("peek", "--session", "nobody").strip()
    assert mailbox.says("peek-dead-letter", "--session", "nobody").strip()
    assert mailbox.says("sessions").strip()
    assert mailbox.answers("sessions")["sessions"] == []


def test_purge_says_how_many_went_and_their_ids_stay_known(mailbox: Mailbox) -> None:
    first = mailbox.enqueue()
    mailbox.enqueue()
    mailbox.dequeue()
    assert mailbox.answers("purge", "--session", SESSION) == {"purged": 2}
    assert "0" in mailbox.says("purge", "--session", SESSION) or "No" in mailbox.says("purge", "--session", SESSION)
    assert mailbox.answers("peek", "--session", SESSION)["total"] == 0
    assert mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", first)["queued"] is False
    shown = mailbox.answers("show", "--msg-id", first)
    assert (shown["message"], shown["state"]) == (None, "purged")
    assert "purged" in mailbox.says("show", "--msg-id", first)


def test_sessions_counts_each_mailbox_by_state(mailbox: Mailbox) -> None:
    mailbox.dead()
    mailbox.enqueue()
    mailbox.enqueue(to="b")
    mailbox.dequeue("b")
    none = {"pending": 0, "in_flight": 0, "nacked": 0, "acked": 0, "dead_letter": 0, "expired": 0}
    expected = [{"session": SESSION, **none, "pending": 1, "dead_letter": 1}, {"session": "b", **none, "in_flight": 1}]
    assert mailbox.answers("sessions") == {"sessions": expected, "more": False, "after": None}
    assert mailbox.answers("sessions", "--limit", "1") == {"sessions": expected[:1], "more": True, "after": SESSION}
    lines = mailbox.says("sessions").splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [SESSION, "b"]


def test_show_tells_every_step_with_its_time(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.answers("extend", *_flagged(identity))
    nacked = mailbox.answers("nack", *_flagged(identity), "--reason", "no such table")
    token = mailbox.answers("wait", "--session", SESSION)["delivery_token"]
    mailbox.answers("ack", *_flagged(identity))
    shown = mailbox.answers("show", "--msg-id", identity)
    assert set(shown) == {"message", "state", "steps", "more", "after"}
    assert (shown["state"], shown["message"]["payload"]) == ("acked", PAYLOAD)
    assert all(STAMP.fullmatch(step["at"]) for step in shown["steps"])
    assert [step["step"] for step in shown["steps"]] == ["stored", "offered", "extended", "nacked", "retried", "offered", "acked"]
    assert [step["at"] for step in shown["steps"]] == sorted(step["at"] for step in shown["steps"])
    facts = shown["steps"][3]
    assert (facts["reason"], facts["by"], facts["retry_at"]) == ("no such table", "receiver", nacked["retry_at"])
    said = mailbox.says("show", "--msg-id", identity)
    assert all(word in said for word in (identity, SENDER, SESSION, PAYLOAD, "stored", "offered", "nacked", "no such table", "acked"))
    assert token not in said + json.dumps(shown)


# dead letters


def test_a_dead_letter_is_the_documents_entry(mailbox: Mailbox) -> None:
    identity = mailbox.dead("no such table")
    entries = mailbox.answers("peek-dead-letter", "--session", SESSION)["entries"]
    assert [set(entry) for entry in entries] == [
        {"msg_id", "from", "to", "payload", "created_at", "attempt", "protocol_version", "reason", "failed_at", "attempts"}
    ]
    entry = entries[0]
    assert (entry["msg_id"], entry["payload"]) == (identity, PAYLOAD)
    assert entry["reason"] == "max_retries exhausted: no such table"
    assert isinstance(entry["failed_at"], int)
    assert entry["attempts"] == 0
    said = mailbox.says("peek-dead-letter", "--session", SESSION)
    assert all(word in said for word in (identity, SENDER, "no such table"))


@pytest.mark.parametrize("verb", ["purge-dead-letter", "retry-dead-letter"])
def test_dead_letters_are_taken_all_at_once_or_one_alone(mailbox: Mailbox, verb: str) -> None:
    counted = {"purge-dead-letter": "purged", "retry-dead-letter": "retried"}[verb]
    first, *others = (mailbox.dead() for _ in range(3))
    assert mailbox.answers(verb, *_flagged(first)) == {counted: 1}
    left = mailbox.answers("peek-dead-letter", "--session", SESSION, "--limit", "1")["entries"]
    assert [entry["msg_id"] for entry in left] == others[:1]
    assert mailbox.answers(verb, "--session", SESSION) == {counted: 2}
    assert mailbox.says(verb, "--session", SESSION).strip()
    assert mailbox.answers("peek-dead-letter", "--session", SESSION)["entries"] == []
    assert mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", first)["queued"] is False


def test_a_retried_dead_letter_is_pending_again_as_it_was(mailbox: Mailbox) -> None:
    identity = mailbox.dead()
    before = mailbox.answers("show", "--msg-id", identity)["message"]
    behind = mailbox.enqueue()
    mailbox.answers("retry-dead-letter", *_flagged(identity))
    assert mailbox.state(identity) == "pending"
    assert "requeued" in mailbox.steps(identity)
    for expected in (behind, identity):
        taken = mailbox.dequeue()["message"]
        assert taken["msg_id"] == expected
        mailbox.answers("ack", *_flagged(expected))
    assert taken == {**before, "attempt": 0}


# policy, alias, sweep, init


def test_durations_of_a_policy_are_given_in_seconds_as_everywhere_and_by_the_names_of_the_document(mailbox: Mailbox) -> None:
    for ending in ("seconds", "secs"):
        words = [f"--base-backoff-{ending}=2", f"--inflight-timeout-{ending}=90", f"--ttl-{ending}=60"]
        changed = mailbox.answers("policy", "--session", ending, *words)["policy"]
        assert (changed["base_backoff_secs"], changed["inflight_timeout_secs"], changed["ttl_secs"]) == (2, 90, 60)
    said = mailbox.says("policy", "--help")
    assert "--ttl-seconds" in said
    assert "-secs" not in said
    both = mailbox.refusal("policy", "--session", "both", "--ttl-seconds", "1", "--ttl-secs", "2")
    assert "was given twice" in both["message"]


def test_a_policy_is_told_and_changed_value_by_value(mailbox: Mailbox) -> None:
    defaults = {"session": SESSION, "base_backoff_secs": 5, "max_retries": 3, "inflight_timeout_secs": 30, "ttl_secs": None}
    assert mailbox.answers("policy", "--session", SESSION) == {"policy": defaults}
    changed = mailbox.answers("policy", "--session", SESSION, "--base-backoff-secs", "0.5", "--ttl-secs", "60")
    assert changed == {"policy": {**defaults, "base_backoff_secs": 0.5, "ttl_secs": 60}}
    mailbox.answers("policy", "--session", SESSION, "--max-retries", "0", "--inflight-timeout-secs", "90", "--ttl-secs", "0")
    expected = {**defaults, "base_backoff_secs": 0.5, "max_retries": 0, "inflight_timeout_secs": 90}
    assert mailbox.answers("policy", "--session", SESSION) == {"policy": expected}
    said = mailbox.says("policy", "--session", SESSION)
    assert SESSION in said
    assert "0.5" in said
    assert "90" in said


def test_a_message_past_its_time_expires_by_itself_and_stays_known(mailbox: Mailbox) -> None:
    mailbox.set_policy(ttl_secs=0.05)
    identity = mailbox.enqueue()
    eventually(lambda: mailbox.state(identity) == "expired")
    assert mailbox.run("dequeue", "--session", SESSION).code == 10
    assert mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", identity)["queued"] is False


def test_an_alias_is_made_told_listed_and_removed(mailbox: Mailbox) -> None:
    made = {"name": "boss", "session": SESSION}
    assert mailbox.answers("alias", "boss", SESSION) == {"alias": made}
    assert mailbox.answers("alias")["aliases"] == [made]
    assert all(word in mailbox.says("alias") for word in ("boss", SESSION))
    mailbox.enqueue(to="boss")
    mailbox.answers("alias", "boss", "--remove")
    assert mailbox.answers("alias")["aliases"] == []
    assert mailbox.says("alias").strip()
    assert mailbox.dequeue()["message"]["to"] == SESSION
    refused = mailbox.refusal("alias", "boss", "--remove")
    assert (refused["exit"], refused["code"]) == (40, "not_found")


def test_one_alias_is_told_by_its_name(mailbox: Mailbox) -> None:
    mailbox.answers("alias", "boss", SESSION)
    assert mailbox.answers("alias", "boss") == {"alias": {"name": "boss", "session": SESSION}}
    assert mailbox.refusal("alias", "nobody")["exit"] == 40


def test_sweep_carries_out_what_is_due_and_says_what_it_was(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.answers("nack", *_flagged(identity))
    nothing = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0, "forgotten": 0}
    assert mailbox.answers("sweep") == {"swept": {**nothing, "retried": 1}}
    assert mailbox.answers("sweep") == {"swept": nothing}
    mailbox.dequeue()
    mailbox.answers("ack", *_flagged(identity))
    assert mailbox.answers("sweep", "--keep-days", "1") == {"swept": nothing}
    assert mailbox.answers("sweep", "--keep-days", "0") == {"swept": {**nothing, "forgotten": 1}}
    shown = mailbox.answers("show", "--msg-id", identity)
    assert (shown["message"], shown["state"]) == (None, "forgotten")
    assert mailbox.answers(*ENQUEUE, "--payload", PAYLOAD, "--msg-id", identity)["queued"] is False
    assert mailbox.says("sweep").strip()


def test_sweep_counts_deliveries_that_timed_out_and_died(mailbox: Mailbox) -> None:
    mailbox.set_policy(max_retries=0, inflight_timeout_secs=0.001)
    mailbox.enqueue()
    mailbox.dequeue()
    totals: dict[str, int] = {}

    def swept() -> bool:
        for name, count in mailbox.answers("sweep")["swept"].items():
            totals[name] = totals.get(name, 0) + count
        return totals["dead_lettered"] > 0

    eventually(swept)
    assert totals == {"retried": 0, "timed_out": 1, "dead_lettered": 1, "expired": 0, "forgotten": 0}


def test_init_makes_a_store_that_both_commands_share(tmp_path: Path) -> None:
    mailbox, inbox = Mailbox(tmp_path), Inbox(tmp_path)
    assert mailbox.answers("init") == {"db": str(mailbox.db), "created": True}
    assert mailbox.answers("init") == {"db": str(mailbox.db), "created": False}
    assert inbox.ok("list")["threads"] == []
    inbox.ok("init", "--db", "other.db")
    assert mailbox.answers("sessions", "--db", "other.db")["sessions"] == []
    assert mailbox.answers("sessions", INBOX_DB="other.db")["sessions"] == []


def test_the_session_may_be_named_by_the_environment_and_the_flag_wins(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    here: dict[str, Any] = {"MAILBOX_SESSION": SESSION}
    assert mailbox.answers("peek", **here)["total"] == 1
    assert mailbox.answers("peek", "--session", "other", **here)["total"] == 0
    assert mailbox.answers("dequeue", **here)["message"]["msg_id"] == identity
    mailbox.answers("extend", "--msg-id", identity, **here)
    mailbox.answers("nack", "--msg-id", identity, **here)
    assert mailbox.answers("policy", **here)["policy"]["session"] == SESSION
    assert mailbox.answers("purge", **here) == {"purged": 1}


def test_a_receiver_that_resembles_a_known_one_is_pointed_out_and_refused_if_strict(mailbox: Mailbox) -> None:
    mailbox.enqueue(to="analyst")
    refused = mailbox.run("enqueue", "--from", "lead", "--to", "analist", "--payload", "x", "--strict")
    assert (refused.code, refused.stderr) == (40, "error: nobody called analist has been seen\nhint: Did you mean analyst?\n")
    said = mailbox.run("enqueue", "--from", "lead", "--to", "analist", "--msg-id", "m1", "--payload", "x")
    assert said.stdout == "Stored m1  1 pending\n  note: nobody called analist has been seen; did you mean analyst?\n"
