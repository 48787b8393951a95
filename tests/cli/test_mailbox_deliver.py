"""`mailbox deliver`: any command line becomes a receiver."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.mailbox_process import LINE, LONG, PAYLOAD, SENDER, SESSION, Gate, Mailbox, unwrap, written
from tests.cli.process import Waiter, eventually, is_alive

BOX = ("--session", SESSION)
NOTHING = {"acked": 0, "nacked": 0, "lost": 0}
STAY = "echo $$ > pid; exec sleep 60"  # a command that ends only when it is ended
STAY_AS_CHILD = f"sh -c '{STAY}'; true"
OURS = '--session "$MAILBOX_SESSION" --msg-id "$MAILBOX_MSG_ID" --delivery-token "$MAILBOX_DELIVERY_TOKEN"'


def deliver(mailbox: Mailbox, command: str, *flags: str) -> dict[str, Any]:
    """Deliver until there is nothing left, or as the flags say; what came of it."""
    mode = flags or (*BOX, "--until-empty")
    return mailbox.answers("deliver", "--command", command, *mode)


def resident(mailbox: Mailbox, command: str, *flags: str) -> Waiter:
    return mailbox.start("deliver", "--json", "--command", command, *(flags or BOX))


def stop(waiter: Waiter) -> dict[str, Any]:
    """Tell it to stop; what came of it."""
    waiter.process.terminate()
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, ""), finished
    return unwrap(finished, "deliver")


# what a command is given


@pytest.mark.parametrize("payload", ["", " outer \n\n", "ünï¢ode ☃ 漢字\r\ntwo", "--looks-like-a-flag", "no end of line", "x" * 100_000])
def test_a_command_is_given_the_payload_and_nothing_else_on_its_standard_input(mailbox: Mailbox, payload: str) -> None:
    mailbox.answers("enqueue", "--from", SENDER, "--to", SESSION, "--payload-file", "-", stdin=payload.encode())
    assert deliver(mailbox, "cat > got") == {**NOTHING, "acked": 1}
    assert (mailbox.folder / "got").read_bytes() == payload.encode()


def test_a_command_is_told_the_rest_in_its_environment(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    mailbox.answers("alias", "boss", SESSION)
    identity = mailbox.enqueue(PAYLOAD, "--created-at", "1743999600", to="boss")
    command = 'env > "environment.$MAILBOX_ATTEMPT"; test "$MAILBOX_ATTEMPT" = 1'
    assert deliver(mailbox, command) == {**NOTHING, "nacked": 1, "acked": 1}
    first, second = (_environment(mailbox, attempt) for attempt in (0, 1))
    token = second.pop("MAILBOX_DELIVERY_TOKEN")
    assert first.pop("MAILBOX_DELIVERY_TOKEN") not in ("", token)
    expected = {
        "INBOX_DB": mailbox.served.get("INBOX_DB", str(mailbox.db)),
        "MAILBOX_SESSION": SESSION,
        "MAILBOX_MSG_ID": identity,
        "MAILBOX_FROM": SENDER,
        "MAILBOX_TO": SESSION,
        "MAILBOX_CREATED_AT": "1743999600",
    }
    assert first == {**expected, "MAILBOX_ATTEMPT": "0"}
    assert second == {**expected, "MAILBOX_ATTEMPT": "1"}


def _environment(mailbox: Mailbox, attempt: int) -> dict[str, str]:
    lines = (mailbox.folder / f"environment.{attempt}").read_text().splitlines()
    return {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines if line.startswith(("MAILBOX_", "INBOX_DB"))}


def test_inside_a_command_the_environment_names_the_store_and_the_delivery(mailbox: Mailbox) -> None:
    """Also when the store was named by a relative path, and the command goes elsewhere."""
    mailbox.ok("init", "--db", "other.db")
    mailbox.answers("enqueue", "--from", SENDER, "--to", SESSION, "--payload", "x", "--msg-id", "m1", "--db", "other.db")
    command = f"cd /; {LINE} ack {OURS} --json > '{mailbox.folder}/said'"
    answer = deliver(mailbox, command, *BOX, "--once", "--db", "other.db")
    assert (answer["nacked"], answer["lost"]) == (0, 0)
    assert '"changed": true' in (mailbox.folder / "said").read_text()


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_that_acks_by_itself_is_believed(mailbox: Mailbox, code: int) -> None:
    identity = mailbox.enqueue()
    deliver(mailbox, f"{LINE} ack {OURS}; exit {code}")
    assert mailbox.state(identity) == "acked"
    assert mailbox.steps(identity) == ["stored", "offered", "acked"]


def test_a_message_that_its_command_acked_is_not_counted_as_nacked(mailbox: Mailbox) -> None:
    mailbox.enqueue()
    answer = deliver(mailbox, f"{LINE} ack {OURS}; exit 3")
    assert (answer["nacked"], answer["lost"]) == (0, 0)


def test_a_command_that_nacks_by_itself_is_believed(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    other = mailbox.enqueue(sender="other")
    answer = deliver(mailbox, f'test "$MAILBOX_FROM" = other || {LINE} nack {OURS} --reason "by itself"')
    assert answer["lost"] == 0
    assert (mailbox.state(identity), mailbox.state(other)) == ("nacked", "acked")
    assert mailbox.reasons(identity) == ["by itself"]


# what becomes of the message


def test_exit_0_acks(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    assert deliver(mailbox, "echo noise; echo noise >&2") == {**NOTHING, "acked": 1}
    assert mailbox.state(identity) == "acked"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo no such table >&2; exit 3", "exit 3: no such table"),
        ("echo unimportant; echo no such table >&2; exit 1", "exit 1: no such table"),
        ("echo said; exit 4", "exit 4: said"),
        ("exit 255", "exit 255"),
        ("kill -s KILL $$", "signal 9"),
        ("echo dying >&2; kill -s TERM $$", "signal 15: dying"),
        ("exec 0<&- 1>&- 2>&-; exit 2", "exit 2"),
    ],
)
def test_anything_else_nacks_and_says_why(mailbox: Mailbox, command: str, reason: str) -> None:
    identity = mailbox.enqueue()
    assert deliver(mailbox, command) == {**NOTHING, "nacked": 1}
    assert mailbox.state(identity) == "nacked"
    (said,) = mailbox.reasons(identity)
    assert said.rstrip().rstrip(":") == reason


@pytest.mark.parametrize("letter", ["a", "ü", "漢"])
def test_a_long_reason_is_cut_to_its_tail(mailbox: Mailbox, letter: str) -> None:
    (mailbox.folder / "long").write_text("BEGINNING" + letter * 5000 + "END")
    identity = mailbox.enqueue()
    assert deliver(mailbox, "cat long >&2; exit 1")["nacked"] == 1
    assert mailbox.reasons(identity) == ["exit 1: " + letter * 1997 + "END"]


def test_a_message_that_always_fails_is_tried_four_times_and_is_then_dead(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0)
    identity, behind = mailbox.enqueue("poison"), mailbox.enqueue("next")
    command = 'echo "$MAILBOX_ATTEMPT" >> attempts; grep -q poison && { echo boom >&2; exit 1; }; exit 0'
    assert deliver(mailbox, command) == {**NOTHING, "nacked": 4, "acked": 1}
    assert (mailbox.folder / "attempts").read_text().split() == ["0", "1", "2", "3", "0"]
    (entry,) = mailbox.answers("peek-dead-letter", *BOX)["entries"]
    assert (entry["msg_id"], entry["attempts"]) == (identity, 3)
    assert entry["reason"].rstrip() == "max_retries exhausted: exit 1: boom"
    assert mailbox.state(behind) == "acked"


# once, until empty


def test_once_delivers_one_message_of_each_session(mailbox: Mailbox) -> None:
    for session in ("a", "b"):
        for payload in ("first", "second"):
            mailbox.enqueue(payload, to=session)
    command = 'cat > "got.$MAILBOX_SESSION"'
    flags = ("--session", "a", "--session", "b", "--session", "empty", "--once")
    assert deliver(mailbox, command, *flags) == {**NOTHING, "acked": 2}
    assert [(mailbox.folder / f"got.{session}").read_text() for session in ("a", "b")] == ["first", "first"]
    assert [mailbox.answers("peek", "--session", session)["total"] for session in ("a", "b")] == [1, 1]


@pytest.mark.parametrize("mode", ["--once", "--until-empty"])
def test_with_nothing_to_deliver_it_ends_and_runs_nothing(mailbox: Mailbox, mode: str) -> None:
    assert deliver(mailbox, "touch ran", *BOX, mode) == NOTHING
    assert mailbox.says("deliver", *BOX, mode, "--command", "touch ran").strip()
    assert not (mailbox.folder / "ran").exists()
    assert mailbox.answers("sessions")["sessions"] == []


def test_a_command_that_takes_too_long_is_ended_with_its_children_and_nacked(mailbox: Mailbox) -> None:
    mailbox.set_policy(max_retries=0)
    mailbox.enqueue()
    assert deliver(mailbox, STAY_AS_CHILD, *BOX, "--once", "--timeout-seconds", "0.3") == {**NOTHING, "nacked": 1}
    assert not is_alive(int((mailbox.folder / "pid").read_text()))
    (entry,) = mailbox.answers("peek-dead-letter", *BOX)["entries"]
    assert entry["reason"] == "max_retries exhausted: timed out after 0.3 s"


def test_a_deliverer_may_name_the_alias_of_its_mailbox(mailbox: Mailbox) -> None:
    mailbox.answers("alias", "nick", SESSION)
    mailbox.enqueue()
    assert deliver(mailbox, "true", "--session", "nick", "--until-empty") == {**NOTHING, "acked": 1}


def test_until_empty_delivers_in_order(mailbox: Mailbox) -> None:
    for number in range(5):
        mailbox.enqueue(f"{number}\n")
    assert deliver(mailbox, "cat >> got") == {**NOTHING, "acked": 5}
    assert (mailbox.folder / "got").read_text() == "0\n1\n2\n3\n4\n"


@pytest.mark.parametrize("mode", ["--once", "--until-empty"])
def test_neither_waits_for_a_retry_nor_overtakes_it(mailbox: Mailbox, mode: str) -> None:
    mailbox.set_policy(base_backoff_secs=LONG)
    first, second = mailbox.enqueue("first"), mailbox.enqueue("second")
    assert deliver(mailbox, "exit 1", *BOX, mode) == {**NOTHING, "nacked": 1}
    assert deliver(mailbox, "exit 1", *BOX, mode) == NOTHING
    assert (mailbox.state(first), mailbox.state(second)) == ("nacked", "pending")


def test_the_session_may_be_named_by_the_environment(mailbox: Mailbox) -> None:
    mailbox.enqueue()
    answer = mailbox.answers("deliver", "--command", "true", "--once", MAILBOX_SESSION=SESSION)
    assert answer == {**NOTHING, "acked": 1}


def test_a_receipt_names_the_receiver(mailbox: Mailbox) -> None:
    identity = mailbox.enqueue()
    deliver(mailbox, "true", *BOX, "--once", "--receiver", "worker-7")
    offered = next(step for step in mailbox.answers("show", "--msg-id", identity)["steps"] if step["step"] == "offered")
    assert offered["receiver"] == "worker-7"


def test_people_are_told_what_was_delivered_and_what_was_not(mailbox: Mailbox) -> None:
    good, bad = mailbox.enqueue("good"), mailbox.enqueue("bad", sender="other")
    said = mailbox.says("deliver", *BOX, "--until-empty", "--command", "grep -q good || { echo no such table >&2; exit 1; }")
    assert all(word in said for word in (good, bad, "no such table"))


# resident


def test_a_resident_one_is_woken_by_a_message(mailbox: Mailbox) -> None:
    waiter = resident(mailbox, "cat > got; mv got done").sleeping()
    identity = mailbox.enqueue()
    assert written(mailbox.folder / "done") == PAYLOAD
    eventually(lambda: mailbox.state(identity) == "acked")
    assert stop(waiter) == {**NOTHING, "acked": 1}


def test_a_resident_one_is_woken_when_a_retry_falls_due(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0.05)
    identity = mailbox.enqueue()
    waiter = resident(mailbox, 'test "$MAILBOX_ATTEMPT" = 2')
    eventually(lambda: mailbox.state(identity) == "acked")
    assert stop(waiter) == {**NOTHING, "nacked": 2, "acked": 1}


def test_a_resident_one_takes_over_what_another_receiver_let_time_out(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=0.05, inflight_timeout_secs=0.2)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.set_policy(inflight_timeout_secs=LONG)  # from the next delivery on
    waiter = resident(mailbox, "true")
    eventually(lambda: mailbox.state(identity) == "acked")
    assert stop(waiter) == {**NOTHING, "acked": 1}
    assert len(mailbox.reasons(identity)) == 1


def test_a_time_out_is_told_with_the_time_that_the_delivery_had(mailbox: Mailbox) -> None:
    """Not with that of a policy that came later, and holds for later deliveries."""
    mailbox.set_policy(inflight_timeout_secs=0.2)
    identity = mailbox.enqueue()
    mailbox.dequeue()
    mailbox.set_policy(inflight_timeout_secs=LONG)
    eventually(lambda: mailbox.state(identity) == "nacked")
    assert mailbox.reasons(identity) == ["not acknowledged within 0.2 s"]


def test_a_session_whose_command_blocks_delays_no_other(mailbox: Mailbox) -> None:
    gate = Gate(mailbox.folder)
    slow = mailbox.enqueue("first", to="slow")
    behind = mailbox.enqueue("second", to="slow", sender="other")
    command = 'if [ "$MAILBOX_SESSION" = slow ]; then touch started; read -r go < gate; fi'
    waiter = resident(mailbox, command, "--session", "slow", "--session", "quick")
    eventually((mailbox.folder / "started").exists)
    for _ in range(3):
        mailbox.enqueue(to="quick")
    eventually(lambda: mailbox.answers("peek", "--session", "quick")["total"] == 0)
    assert (mailbox.state(slow), mailbox.state(behind)) == ("in_flight", "pending"), "one at a time in a session"
    gate.open()
    eventually(lambda: mailbox.state(slow) == "acked")
    gate.open()
    eventually(lambda: mailbox.state(behind) == "acked")
    assert stop(waiter) == {**NOTHING, "acked": 5}


def test_until_empty_serves_its_sessions_side_by_side(mailbox: Mailbox) -> None:
    for session in ("a", "b", "c"):
        mailbox.enqueue(to=session)
    # Each waits until all three are there: with fewer at once none would end.
    command = 'touch "here.$MAILBOX_SESSION"; while [ "$(ls here.* | wc -l)" -lt 3 ]; do sleep 0.02; done'
    flags = ("--session", "a", "--session", "b", "--session", "c", "--until-empty")
    assert deliver(mailbox, command, *flags) == {**NOTHING, "acked": 3}


def test_two_of_them_share_a_session_without_delivering_twice(mailbox: Mailbox) -> None:
    identities = [mailbox.enqueue(sender=f"sender {number}") for number in range(8)]
    both = [resident(mailbox, 'echo "$MAILBOX_MSG_ID" >> got', *BOX, "--until-empty") for _ in range(2)]
    answers = [unwrap(waiter.finish(), "deliver") for waiter in both]
    assert sum(answer["acked"] for answer in answers) == 8
    assert sorted((mailbox.folder / "got").read_text().splitlines()) == sorted(identities)


def test_a_delivery_is_extended_while_its_command_runs(mailbox: Mailbox) -> None:
    mailbox.set_policy(inflight_timeout_secs=1.5, base_backoff_secs=LONG)
    gate = Gate(mailbox.folder)
    identity = mailbox.enqueue()
    waiter = resident(mailbox, "touch started; read -r go < gate")
    eventually((mailbox.folder / "started").exists)
    first = _due(mailbox)
    eventually(lambda: (_due(mailbox) - first).total_seconds() > 1.5)  # extended after the first time-out would have come
    assert mailbox.state(identity) == "in_flight"
    gate.open()
    eventually(lambda: mailbox.state(identity) == "acked")
    assert stop(waiter) == {**NOTHING, "acked": 1}
    assert "nacked" not in mailbox.steps(identity)


def _due(mailbox: Mailbox) -> datetime:
    (message,) = mailbox.answers("peek", *BOX)["messages"]
    assert (message["state"], message["attempt"]) == ("in_flight", 0)
    return datetime.strptime(message["due_at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


# how it ends


def test_sigterm_ends_one_that_has_nothing_in_hand(mailbox: Mailbox) -> None:
    assert stop(resident(mailbox, "true").sleeping()) == NOTHING


def test_sigterm_finishes_what_is_in_hand_and_takes_nothing_more(mailbox: Mailbox) -> None:
    gate = Gate(mailbox.folder)
    in_hand, behind = mailbox.enqueue("first"), mailbox.enqueue("second")
    waiter = resident(mailbox, "touch started; read -r go < gate; touch finished")
    eventually((mailbox.folder / "started").exists)
    waiter.process.send_signal(signal.SIGTERM)
    gate.open()
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    assert unwrap(finished, "deliver") == {**NOTHING, "acked": 1}
    assert (mailbox.folder / "finished").exists()
    assert (mailbox.state(in_hand), mailbox.state(behind)) == ("acked", "pending")


def test_a_failure_in_hand_is_still_nacked_after_sigterm(mailbox: Mailbox) -> None:
    gate = Gate(mailbox.folder)
    identity = mailbox.enqueue()
    waiter = resident(mailbox, "touch started; read -r go < gate; echo too bad >&2; exit 1")
    eventually((mailbox.folder / "started").exists)
    waiter.process.terminate()
    gate.open()
    finished = waiter.finish()
    assert (finished.code, unwrap(finished, "deliver")) == (0, {**NOTHING, "nacked": 1})
    assert mailbox.reasons(identity)[0].rstrip() == "exit 1: too bad"


@pytest.mark.parametrize("command", [STAY, STAY_AS_CHILD], ids=["alone", "with a child"])
def test_sigkill_ends_its_command_too_and_the_message_comes_again(mailbox: Mailbox, command: str) -> None:
    mailbox.set_policy(base_backoff_secs=0.05, inflight_timeout_secs=1)
    identity = mailbox.enqueue()
    waiter = resident(mailbox, command)
    pid = int(written(mailbox.folder / "pid"))
    waiter.process.kill()
    waiter.process.wait()
    eventually(lambda: not is_alive(pid))
    again = mailbox.answers("wait", *BOX, "--timeout-seconds", "30")["message"]
    assert (again["msg_id"], again["payload"]) == (identity, PAYLOAD)
    assert again["attempt"] >= 1


def test_a_second_sigterm_ends_the_command_and_its_message_is_nacked(mailbox: Mailbox) -> None:
    mailbox.set_policy(base_backoff_secs=LONG)
    identity = mailbox.enqueue()
    waiter = resident(mailbox, STAY)
    pid = int(written(mailbox.folder / "pid"))

    def told_until_it_ends() -> bool:  # two signals that come together are one
        waiter.process.terminate()
        return not is_alive(pid)

    eventually(told_until_it_ends)
    finished = waiter.finish()
    assert (finished.code, unwrap(finished, "deliver")) == (0, {**NOTHING, "nacked": 1})
    assert mailbox.state(identity) == "nacked"


@pytest.mark.parametrize("stay", [STAY, STAY_AS_CHILD], ids=["alone", "with a child"])
def test_a_delivery_that_is_lost_ends_its_command_and_nothing_else(mailbox: Mailbox, stay: str) -> None:
    mailbox.set_policy(inflight_timeout_secs=1)
    mailbox.enqueue("stay\n")
    waiter = resident(mailbox, f'read -r what; if [ "$what" = stay ]; then {stay}; fi')
    pid = int(written(mailbox.folder / "pid"))
    mailbox.answers("purge", *BOX)
    eventually(lambda: not is_alive(pid))
    after = mailbox.enqueue("go\n")
    eventually(lambda: mailbox.state(after) == "acked")
    assert stop(waiter) == {**NOTHING, "acked": 1, "lost": 1}


# commands that behave badly


@pytest.mark.parametrize("stream", ["1", "2"])
def test_any_amount_of_output_is_taken(mailbox: Mailbox, stream: str) -> None:
    good, bad = mailbox.enqueue("good"), mailbox.enqueue("bad", sender="other")
    command = f"head -c 5000000 /dev/zero | tr '\\0' x >&{stream}; echo END >&{stream}; grep -q good"
    assert deliver(mailbox, command) == {**NOTHING, "acked": 1, "nacked": 1}
    assert mailbox.state(good) == "acked"
    (reason,) = mailbox.reasons(bad)
    assert reason.rstrip().endswith("xEND") or reason.rstrip().endswith("x\nEND")
    assert len(reason) <= len("exit 1: ") + 2000


@pytest.mark.parametrize("command", ["true", "exec 0<&-; true", "head -c 10 > got"])
def test_a_command_need_not_read_its_input(mailbox: Mailbox, command: str) -> None:
    mailbox.answers("enqueue", "--from", SENDER, "--to", SESSION, "--payload-file", "-", stdin=b"x" * 3_000_000)
    assert deliver(mailbox, command) == {**NOTHING, "acked": 1}


def test_a_command_that_answers_while_it_reads_does_not_hang(mailbox: Mailbox) -> None:
    mailbox.answers("enqueue", "--from", SENDER, "--to", SESSION, "--payload-file", "-", stdin=b"x" * 3_000_000)
    assert deliver(mailbox, "tee /dev/stderr") == {**NOTHING, "acked": 1}


@pytest.mark.parametrize("streams", ["", " > /dev/null 2>&1"], ids=["holding our pipes", "detached"])
def test_what_a_command_leaves_running_holds_up_nothing(mailbox: Mailbox, streams: str) -> None:
    mailbox.enqueue()
    try:
        assert deliver(mailbox, f"sleep 600{streams} & echo $! > pid") == {**NOTHING, "acked": 1}
    finally:
        pid = int(written(mailbox.folder / "pid"))
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_its_answer_is_one_object_whatever_its_commands_print(mailbox: Mailbox) -> None:
    mailbox.enqueue()
    finished = mailbox.run("deliver", *BOX, "--once", "--json", "--command", "echo '{\"ok\": false}'; echo noise >&2")
    assert (finished.code, finished.stderr) == (0, "")
    assert unwrap(finished, "deliver") == {**NOTHING, "acked": 1}


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "./not-executable"])
def test_a_command_that_cannot_be_run_gives_its_message_back_and_ends_the_delivery(mailbox: Mailbox, command: str) -> None:
    (mailbox.folder / "not-executable").write_text("#!/bin/sh\n")
    for number in range(2):
        mailbox.answers("enqueue", "--from", SENDER, "--to", SESSION, "--payload", "x", "--msg-id", f"m{number}")
    finished = mailbox.run("deliver", "--json", "--command", command, *BOX)
    assert finished.error[:2] == (30, "invalid_input")
    assert "the command cannot be run" in finished.error[2]
    waiting = mailbox.answers("peek", *BOX)["messages"]
    assert [(one["msg_id"], one["state"], one["attempt"]) for one in waiting] == [("m0", "pending", 0), ("m1", "pending", 0)]
    assert deliver(mailbox, "true") == {**NOTHING, "acked": 2}
