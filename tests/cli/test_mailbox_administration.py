"""What `mailbox` shows and keeps: listings, dead letters, policies, aliases, sweeps, and a new store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.mailbox_process import ENQUEUE, PAYLOAD, SENDER, SESSION, STAMP, Mailbox, flagged
from tests.cli.process import Inbox, eventually

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
    mailbox.answers("ack", *flagged(taken))
    assert mailbox.answers("peek", SESSION, "--acked")["messages"] == [{**found[taken], "state": "acked", "due_at": None}]
    assert taken in mailbox.says("peek", SESSION, "--acked")


def test_a_mailbox_that_nobody_heard_of_is_empty_and_stays_unmade(mailbox: Mailbox) -> None:
    assert mailbox.answers("peek", "--session", "nobody") == {"messages": [], "total": 0, "more": False, "after": None}
    assert mailbox.answers("peek-dead-letter", "--session", "nobody") == {"entries": [], "total": 0, "more": False, "after": None}
    assert mailbox.says("peek", "--session", "nobody") == "Nothing waits here. `mailbox peek --acked` lists what was acked.\n"
    assert mailbox.says("peek", "--session", "nobody", "--acked") == "No acked message is kept here.\n"
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
    mailbox.answers("extend", *flagged(identity))
    nacked = mailbox.answers("nack", *flagged(identity), "--reason", "no such table")
    token = mailbox.answers("wait", "--session", SESSION)["delivery_token"]
    mailbox.answers("ack", *flagged(identity))
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
    assert mailbox.answers(verb, *flagged(first)) == {counted: 1}
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
    mailbox.answers("retry-dead-letter", *flagged(identity))
    assert mailbox.state(identity) == "pending"
    assert "requeued" in mailbox.steps(identity)
    for expected in (behind, identity):
        taken = mailbox.dequeue()["message"]
        assert taken["msg_id"] == expected
        mailbox.answers("ack", *flagged(expected))
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
    mailbox.answers("nack", *flagged(identity))
    nothing = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0, "forgotten": 0}
    assert mailbox.answers("sweep") == {"swept": {**nothing, "retried": 1}}
    assert mailbox.answers("sweep") == {"swept": nothing}
    mailbox.dequeue()
    mailbox.answers("ack", *flagged(identity))
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
