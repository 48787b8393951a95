"""Waiters: real processes, woken by real commands, outliving what happens to a database."""

from __future__ import annotations

import signal
import sqlite3
from typing import Any

import pytest

from postroom.core.limits import MAX_BODY_BYTES
from tests.cli.process import Inbox, eventually

NUMBERS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture
def blocked(inbox: Inbox) -> Inbox:
    """A store in which builder asked a question in the thread `one`."""
    inbox.send("One", "--thread", "one")
    inbox.ok("claim", "--agent", "builder", "--thread", "one")
    inbox.ok("update", "--agent", "builder", "--thread", "one", "--status", "blocked", "--summary", "Which auth?")
    return inbox


def _answer(inbox: Inbox, summary: str = "E-mail") -> Any:
    return inbox.ok("reply", "--from", "leader", "--thread", "one", "--summary", summary)


def _renewals(inbox: Inbox) -> str:
    expiry: str = inbox.ok("show", "--thread", "one")["lease"]["expires_at"]
    return expiry


def test_a_sleeping_wait_reply_is_woken_by_a_reply(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--json").sleeping()
    answered = _answer(blocked)
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.json == {
        "ok": True,
        "schema_version": 1,
        "command": "wait-reply",
        "woke": True,
        "next_event_id": answered["next_event_id"],
        "message": answered["message"],
    }


def test_a_sleeping_wait_reply_tells_people_what_was_said(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one").sleeping()
    question_id = _answer(blocked)["message"]["in_reply_to"]
    assert waiter.finish().stdout == f"leader → builder  answer, settles {question_id}  just now\n  E-mail\n"


def test_a_sleeping_watch_is_woken_by_what_happens(inbox: Inbox) -> None:
    waiter = inbox.start("watch", "--agent", "builder", "--json").sleeping()
    sent = inbox.ok("send", "--from", "leader", "--to", "builder", "--subject", "One")
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.json["woke"] is True
    assert finished.json["next_event_id"] == sent["next_event_id"]
    assert [event["message_id"] for event in finished.json["events"]] == [sent["message"]["message_id"]]


def test_a_sleeping_watch_sleeps_on_through_what_does_not_concern_it(blocked: Inbox) -> None:
    waiter = blocked.start("watch", "--agent", "leader", "--status", "done", "--json").sleeping()
    blocked.ok("update", "--agent", "builder", "--thread", "one", "--summary", "Halfway")
    blocked.ok("send", "--from", "x", "--to", "y", "--subject", "Else")
    done = blocked.ok("done", "--agent", "builder", "--thread", "one", "--summary", "Done")
    events = waiter.finish().json["events"]
    assert [(event["event_type"], event["event_id"]) for event in events] == [("thread.done", done["next_event_id"])]


@pytest.mark.parametrize("flags", [("--wait",), ("--timeout-seconds", "60"), ("--wait", "--timeout-seconds", "60")])
def test_a_sleeping_taker_is_woken_by_a_thread(inbox: Inbox, flags: tuple[str, ...]) -> None:
    waiter = inbox.start("take", "--agent", "builder", *flags, "--json").sleeping()
    thread = inbox.send()
    finished = waiter.finish()
    assert (finished.code, finished.json["thread"]["thread_id"]) == (0, thread)


def test_of_two_sleeping_takers_one_gets_the_thread_and_the_other_the_next(inbox: Inbox) -> None:
    waiters = [inbox.start("take", "--agent", "builder", "--wait", "--json").sleeping() for _ in range(2)]
    sent = {inbox.send("First"), inbox.send("Second")}
    assert {waiter.finish().json["thread"]["thread_id"] for waiter in waiters} == sent


@pytest.mark.parametrize("argv", [("watch",), ("wait-reply", "--thread", "one"), ("wait-reply", "--agent", "builder", "--thread", "one")])
def test_a_wait_in_vain_ends_with_10_and_its_cursor(blocked: Inbox, argv: tuple[str, ...]) -> None:
    finished = blocked.run(*argv, "--timeout-seconds", "0.05", "--json")
    expected = {"ok": True, "schema_version": 1, "command": argv[0], "woke": False, "next_event_id": 3}
    assert (finished.code, finished.json, finished.stderr) == (10, expected, "")


@pytest.mark.parametrize(("number", "code"), NUMBERS)
@pytest.mark.parametrize("argv", [("watch",), ("wait-reply", "--agent", "builder", "--thread", "one")])
def test_a_signal_ends_a_waiter_cleanly_with_its_cursor(blocked: Inbox, number: signal.Signals, code: int, argv: tuple[str, ...]) -> None:
    waiter = blocked.start(*argv, "--json").sleeping()
    waiter.process.send_signal(number)
    finished = waiter.finish()
    assert finished.error[:2] == (code, "interrupted")
    cursor = finished.json["error"]["next_event_id"]
    answered = _answer(blocked)
    again = blocked.ok(*argv, "--after-event", str(cursor))
    assert again["next_event_id"] == answered["next_event_id"]


@pytest.mark.parametrize(("number", "code"), NUMBERS)
def test_a_signal_ends_a_waiter_for_people_without_a_traceback(inbox: Inbox, number: signal.Signals, code: int) -> None:
    for argv in (("watch",), ("take", "--agent", "builder", "--wait")):
        waiter = inbox.start(*argv).sleeping()
        waiter.process.send_signal(number)
        finished = waiter.finish()
        assert (finished.code, finished.stdout) == (code, "")
        assert finished.stderr == "error: the wait was interrupted\nhint: Wait again; nothing was lost.\n"


def test_a_waiter_that_was_interrupted_left_no_lock(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one").sleeping()
    waiter.process.kill()
    waiter.finish()
    _answer(blocked)
    assert blocked.ok("wait-reply", "--agent", "builder", "--thread", "one")["woke"] is True


def _still_woken(inbox: Inbox, *argv: str, after: str) -> None:
    """A waiter sleeps through what is done to the database, and wakes for the answer."""
    waiter = inbox.start(*argv, "--json").sleeping()
    opened = sqlite3.connect(inbox.db, isolation_level=None)
    opened.execute(after).fetchall()
    opened.close()
    assert waiter.alive()
    answered = _answer(inbox)
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.json["next_event_id"] == answered["next_event_id"]


@pytest.mark.parametrize("argv", [("watch",), ("wait-reply", "--agent", "builder", "--thread", "one")])
@pytest.mark.parametrize("after", ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(RESTART)", "VACUUM", "REINDEX"])
def test_a_waiter_outlives_checkpoints_and_vacuum(blocked: Inbox, argv: tuple[str, ...], after: str) -> None:
    _still_woken(blocked, *argv, after=after)


def test_a_waiter_outlives_the_restart_of_the_wal(blocked: Inbox) -> None:
    """Enough writes to fill the log several times over, so that it is checkpointed and begun anew while somebody waits."""
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--json").sleeping()
    for _ in range(8):
        blocked.ok("send", "--from", "x", "--to", "y", "--subject", "Filler", "--body-file", "-", stdin=b"x" * MAX_BODY_BYTES)
    answered = _answer(blocked)
    assert waiter.finish().json["next_event_id"] == answered["next_event_id"]


def test_a_waiter_on_a_store_whose_log_was_deleted_is_woken(blocked: Inbox) -> None:
    """The last process that leaves deletes the log: here there was none when the waiter came."""
    opened = sqlite3.connect(blocked.db, isolation_level=None)
    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    opened.close()
    log = blocked.db.with_name("coord.db-wal")
    eventually(lambda: not log.exists() or log.stat().st_size == 0)
    waiter = blocked.start("watch", "--json").sleeping()
    answered = _answer(blocked)
    assert waiter.finish().json["next_event_id"] == answered["next_event_id"]


def test_a_waiter_whose_wake_files_were_deleted_is_woken_all_the_same(blocked: Inbox) -> None:
    waiter = blocked.start("watch", "--json").sleeping()
    wake_files = [file for file in blocked.db.parent.rglob("*") if file.is_file() and "coord.db.bell" in str(file)]
    assert wake_files
    for wake_file in wake_files:
        wake_file.unlink()
    answered = _answer(blocked)
    assert waiter.finish().json["next_event_id"] == answered["next_event_id"]


def test_a_writer_that_touches_no_wake_file_wakes_a_waiter(blocked: Inbox) -> None:
    waiter = blocked.start("watch", "--json").sleeping()
    opened = sqlite3.connect(blocked.db, isolation_level=None)
    opened.execute(
        "INSERT INTO events (run_id, task_id, thread_id, source, event_type, created_at)"
        " VALUES ('', '', 'one', 'foreign', 'thread.message', '2026-11-15T00:00:00.000000Z')"
    )
    opened.close()
    assert [event["source"] for event in waiter.finish().json["events"]] == ["foreign"]


@pytest.mark.parametrize("argv", [("watch",), ("wait-reply", "--agent", "builder", "--thread", "one")])
def test_a_waiter_outlives_a_writer_that_keeps_the_database_busy(blocked: Inbox, argv: tuple[str, ...]) -> None:
    cursor = "3"
    foreign = sqlite3.connect(blocked.db, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    waiter = blocked.start(*argv, "--after-event", cursor, "--json")
    replier = blocked.start("reply", "--from", "leader", "--thread", "one", "--summary", "E-mail", "--json")
    eventually(lambda: replier.waits_for(blocked.db) and waiter.has_opened(blocked.db))
    assert waiter.alive()
    assert replier.alive()
    foreign.execute("COMMIT")
    foreign.close()
    assert replier.finish().code == 0
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.json["woke"] is True


def test_a_waiter_that_is_interrupted_while_the_database_is_busy_gives_its_cursor(blocked: Inbox) -> None:
    foreign = sqlite3.connect(blocked.db, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--json")
    eventually(lambda: waiter.catches(signal.SIGTERM) and waiter.waits_for(blocked.db))
    waiter.process.terminate()
    foreign.execute("COMMIT")
    foreign.close()
    finished = waiter.finish()
    assert finished.error[:2] == (143, "interrupted")
    assert finished.json["error"]["next_event_id"] == 3


def test_a_database_that_stays_locked_for_readers_is_called_busy_and_never_empty(blocked: Inbox) -> None:
    foreign = sqlite3.connect(blocked.db, isolation_level=None)
    foreign.execute("PRAGMA locking_mode=EXCLUSIVE")
    foreign.execute("BEGIN IMMEDIATE")
    foreign.execute("COMMIT")
    finished = blocked.run("list", "--json")
    foreign.close()
    assert finished.error[:2] == (50, "store_busy")
    assert len(blocked.ok("list")["threads"]) == 1


def test_a_cursor_goes_back_unchanged_into_the_next_watch(inbox: Inbox) -> None:
    cursor, seen = "0", []
    for subject in ("First", "Second", "Third"):
        inbox.send(subject)
        woken = inbox.ok("watch", "--agent", "builder", "--after-event", cursor)
        seen += [event["summary"] for event in woken["events"]]
        cursor = str(woken["next_event_id"])
    assert seen == ["First", "Second", "Third"]
    finished = inbox.run("watch", "--agent", "builder", "--after-event", cursor, "--timeout-seconds", "0.05", "--json")
    assert (finished.code, str(finished.json["next_event_id"])) == (10, cursor)


def test_a_cursor_goes_back_unchanged_into_the_next_wait_reply(blocked: Inbox) -> None:
    for summary in ("First", "Second", "Third"):
        _answer(blocked, summary)
    heard, cursor = [], "3"
    for _ in range(3):
        woken = blocked.ok("wait-reply", "--thread", "one", "--after-event", cursor)
        heard.append(woken["message"]["summary"])
        cursor = str(woken["next_event_id"])
    assert heard == ["First", "Second", "Third"]
    assert blocked.run("wait-reply", "--thread", "one", "--after-event", cursor, "--timeout-seconds", "0.05").code == 10


def test_a_cursor_of_any_answer_fits_any_wait(blocked: Inbox) -> None:
    """The event ids of `update` and `show` are cursors, too."""
    asked = blocked.ok("update", "--agent", "builder", "--thread", "one", "--status", "blocked", "--summary", "And now?")
    assert blocked.ok("show", "--thread", "one")["next_event_id"] == asked["next_event_id"]
    question_id = asked["message"]["message_id"]
    blocked.ok("reply", "--from", "leader", "--thread", "one", "--question", question_id, "--summary", "E-mail")
    woken = blocked.ok("wait-reply", "--thread", "one", "--after-event", str(asked["next_event_id"]))
    assert woken["message"]["summary"] == "E-mail"


def test_a_message_is_a_cursor(blocked: Inbox) -> None:
    first = _answer(blocked, "First")["message"]["message_id"]
    second = _answer(blocked, "Second")["message"]["message_id"]
    woken = blocked.ok("wait-reply", "--thread", "one", "--after-message", first)
    assert woken["message"]["message_id"] == second
    assert blocked.run("wait-reply", "--thread", "one", "--after-message", second, "--timeout-seconds", "0.05").code == 10


def test_a_waiting_holder_keeps_its_lease(inbox: Inbox) -> None:
    inbox.send("One", "--thread", "one")
    inbox.ok("claim", "--agent", "builder", "--thread", "one", "--lease-seconds", "1")
    inbox.ok("update", "--agent", "builder", "--thread", "one", "--status", "blocked", "--summary", "Which auth?")
    first = _renewals(inbox)
    waiter = inbox.start("wait-reply", "--agent", "builder", "--thread", "one", "--json").sleeping()
    eventually(lambda: _renewals(inbox) > first)
    second = _renewals(inbox)
    eventually(lambda: _renewals(inbox) > second)
    assert inbox.run("claim", "--agent", "other", "--thread", "one").code == 20
    _answer(inbox)
    assert waiter.finish().json["woke"] is True


def test_a_waiter_whose_thread_is_taken_over_is_told(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--json").sleeping()
    blocked.ok("claim", "--agent", "builder", "--thread", "one", "--takeover")
    assert waiter.finish().error[:2] == (20, "lease_lost")


def test_a_waiter_whose_thread_is_cancelled_gets_the_control_message(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--json").sleeping()
    blocked.ok("cancel", "--agent", "leader", "--thread", "one", "--reason", "Superseded")
    finished = waiter.finish()
    assert (finished.code, finished.json["message"]["kind"], finished.json["message"]["summary"]) == (0, "control", "Superseded")


def test_a_waiter_for_a_kind_that_can_no_longer_come_is_told(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--kinds", "answer", "--json").sleeping()
    blocked.ok("cancel", "--agent", "leader", "--thread", "one")
    code, name, _ = waiter.finish().error
    assert (code, name) == (30, "invalid_state")


def test_a_reply_that_was_waited_for_counts_as_read(blocked: Inbox) -> None:
    _answer(blocked)
    assert blocked.run("fetch", "--agent", "builder", "--unread").code == 0
    blocked.ok("wait-reply", "--agent", "builder", "--thread", "one")
    assert blocked.run("fetch", "--agent", "builder", "--unread").code == 10


def test_a_reply_that_could_not_be_printed_does_not_count_as_read(blocked: Inbox) -> None:
    _answer(blocked)
    blocked.shell('"$0" wait-reply --agent builder --thread one > /dev/full')
    assert blocked.run("fetch", "--agent", "builder", "--unread").code == 0


def test_zero_seconds_wait_for_ever(blocked: Inbox) -> None:
    waiter = blocked.start("wait-reply", "--agent", "builder", "--thread", "one", "--timeout-seconds", "0", "--json").sleeping()
    assert waiter.alive()
    _answer(blocked)
    assert waiter.finish().code == 0
