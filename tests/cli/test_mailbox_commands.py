"""Sending and receiving with `mailbox`: what each command answers, to programs and to people, and how it exits."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mailbox_process import ENQUEUE, LONG, PAYLOAD, SENDER, SESSION, STAMP, Mailbox, flagged, unwrap
from tests.cli.process import eventually

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
        mailbox.answers("ack", *flagged(taken["message"]["msg_id"]))


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
        mailbox.answers("nack", *flagged(identity))
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
    mailbox.answers("nack", *flagged(identity))
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
    mailbox.answers("ack", *flagged(first))
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
    assert mailbox.answers("ack", *flagged(identity)) == {"msg_id": identity, "state": "acked", "changed": True}
    for more in ((), ("--delivery-token", token)):
        assert mailbox.answers("ack", *flagged(identity), *more) == {"msg_id": identity, "state": "acked", "changed": False}
    assert identity in mailbox.says("ack", *flagged(identity))


def test_nack_answers_when_it_will_be_tried_again(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    token = mailbox.dequeue()["delivery_token"]
    nacked = mailbox.answers("nack", *flagged(identity), "--delivery-token", token, "--reason", "no such table")
    assert STAMP.fullmatch(nacked.pop("retry_at"))
    assert nacked == {"msg_id": identity, "state": "nacked", "changed": True}
    assert mailbox.reasons(identity) == ["no such table"]


def test_the_last_nack_says_that_there_will_be_no_other(mailbox: Mailbox) -> None:
    identity = mailbox.dead()
    expected = {"msg_id": identity, "state": "dead_letter", "changed": False, "retry_at": None}
    assert mailbox.answers("nack", *flagged(identity), "--reason", "again") == expected
    assert len(mailbox.reasons(identity)) == 1


def test_a_nack_after_an_ack_changes_nothing(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.answers("ack", *flagged(identity))
    expected = {"msg_id": identity, "state": "acked", "changed": False, "retry_at": None}
    assert mailbox.answers("nack", *flagged(identity)) == expected
    assert mailbox.run("dequeue", "--session", SESSION).code == 10


def test_nack_tells_people_what_becomes_of_the_message(mailbox: Mailbox) -> None:
    mailbox.set_policy(max_retries=1, base_backoff_secs=0)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    retried = mailbox.says("nack", *flagged(identity), "--reason", "no such table")
    mailbox.dequeue()
    dead = mailbox.says("nack", *flagged(identity))
    assert identity in retried
    assert identity in dead
    assert re.search("dead", dead)


def test_extend_starts_the_time_in_flight_anew(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    taken = mailbox.dequeue()
    longer = mailbox.answers("extend", *flagged(identity), "--delivery-token", taken["delivery_token"], "--seconds", "120")
    assert set(longer) == {"msg_id", "in_flight_until"}
    assert longer["in_flight_until"] > taken["in_flight_until"]
    usual = mailbox.answers("extend", *flagged(identity))
    assert taken["in_flight_until"] < usual["in_flight_until"] < longer["in_flight_until"]
    assert identity in mailbox.says("extend", *flagged(identity))


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_a_token_of_an_earlier_delivery_is_refused(mailbox: Mailbox, verb: str) -> None:
    mailbox.set_policy(base_backoff_secs=0, inflight_timeout_secs=0.05)
    identity = mailbox.enqueue()
    stale = mailbox.dequeue()["delivery_token"]
    eventually(lambda: mailbox.state(identity) != "in_flight")
    mailbox.set_policy(inflight_timeout_secs=LONG)
    current = mailbox.answers("wait", "--session", SESSION)["delivery_token"]
    for token in (stale, "no token of ours"):
        refused = mailbox.refusal(verb, *flagged(identity), "--delivery-token", token)
        assert (refused["exit"], refused["code"]) == (20, "delivery_lost")
    assert mailbox.run(verb, *flagged(identity), "--delivery-token=").code in (20, 30)
    assert mailbox.state(identity) == "in_flight"
    mailbox.answers(verb, *flagged(identity), "--delivery-token", current)


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
