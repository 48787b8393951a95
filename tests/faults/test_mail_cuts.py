"""Cut at every statement of the mail room's verbs: whichever fails, nothing has changed, and the refusal is one of ours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from postroom import mail
from postroom.core.errors import StoreUnreachable
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import Clock
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import BOX, assert_sound, everything, message
from tests.faults.test_cuts import FAILURES, INTERRUPTIONS, Act, How, Prepare, cut_everywhere, failure
from tests.faults.test_lost_connections import Losing, in_part

DAY = 86_400


def nothing(store: Store, clock: Clock) -> str:
    return ""


def pending(store: Store, clock: Clock) -> str:
    """Two of one sender, and one of another."""
    mail.enqueue(store, message("first"))
    mail.enqueue(store, message("second"))
    mail.enqueue(store, message("other", sender="bob"))
    return "first"


def in_flight(store: Store, clock: Clock) -> str:
    pending(store, clock)
    got = mail.dequeue(store, BOX)
    assert got is not None
    return got.message.msg_id


def at_the_last_attempt(store: Store, clock: Clock) -> str:
    mail.set_policy(store, BOX, max_retries=0)
    return in_flight(store, clock)


def dead(store: Store, clock: Clock) -> str:
    """Two dead letters of one sender, and one that waits."""
    mail.set_policy(store, BOX, max_retries=0)
    for msg_id in ("dead", "dead too"):
        mail.enqueue(store, message(msg_id))
        mail.dequeue(store, BOX)
        mail.nack(store, BOX, msg_id, "no")
    mail.enqueue(store, message("second"))
    return "dead"


def nacked(store: Store, clock: Clock) -> str:
    msg_id = in_flight(store, clock)
    mail.nack(store, BOX, msg_id, "not now")
    clock.advance(5)
    return msg_id


def overdue(store: Store, clock: Clock) -> str:
    """A delivery timed out, and its retry is due."""
    msg_id = in_flight(store, clock)
    clock.advance(60)
    return msg_id


def exhausted(store: Store, clock: Clock) -> str:
    """The last delivery timed out."""
    msg_id = at_the_last_attempt(store, clock)
    clock.advance(60)
    return msg_id


def expired(store: Store, clock: Clock) -> str:
    """All are past their time, and one that is not came later."""
    mail.set_policy(store, BOX, ttl_secs=10)
    msg_id = in_flight(store, clock)
    clock.advance(11)
    mail.enqueue(store, message("elsewhere", to="another box"))
    return msg_id


def long_ended(store: Store, clock: Clock) -> str:
    msg_id = in_flight(store, clock)
    mail.ack(store, BOX, msg_id)
    clock.advance(9 * DAY)
    mail.sweep(store)  # so that nothing is due: a sweep is a transaction of moves, and then one of forgetting
    return msg_id


def aliased(store: Store, clock: Clock) -> str:
    mail.set_alias(store, "nick", BOX)
    return "nick"


WRITES: dict[str, tuple[Prepare, Act]] = {
    "enqueue the first": (nothing, lambda s, m: mail.enqueue(s, message("new"))),
    "enqueue one more": (pending, lambda s, m: mail.enqueue(s, message("new"))),
    "enqueue without an id": (pending, lambda s, m: mail.enqueue(s, {"from": "ada", "to": BOX, "payload": "", "colour": "red"})),
    "enqueue by an alias": (aliased, lambda s, m: mail.enqueue(s, message("new", to=m))),
    "enqueue where something is due": (overdue, lambda s, m: mail.enqueue(s, message("new"))),
    "dequeue": (pending, lambda s, m: mail.dequeue(s, BOX)),
    "dequeue a retry": (nacked, lambda s, m: mail.dequeue(s, BOX, receiver="builder")),
    "dequeue what timed out": (overdue, lambda s, m: mail.dequeue(s, BOX)),
    "dequeue behind what is exhausted": (exhausted, lambda s, m: mail.dequeue(s, BOX)),
    "wait": (pending, lambda s, m: mail.wait(s, BOX, timeout_seconds=10)),
    "wait where something is due": (overdue, lambda s, m: mail.wait(s, BOX, timeout_seconds=10)),
    "ack": (in_flight, lambda s, m: mail.ack(s, BOX, m)),
    "nack": (in_flight, lambda s, m: mail.nack(s, BOX, m, "not now")),
    "nack the last attempt": (at_the_last_attempt, lambda s, m: mail.nack(s, BOX, m, "never")),
    "extend": (in_flight, lambda s, m: mail.extend(s, BOX, m, seconds=90)),
    "purge": (in_flight, lambda s, m: mail.purge(s, BOX)),
    "purge_dead_letter": (dead, lambda s, m: mail.purge_dead_letter(s, BOX)),
    "purge_dead_letter of one": (dead, lambda s, m: mail.purge_dead_letter(s, BOX, msg_id=m)),
    "retry_dead_letter": (dead, lambda s, m: mail.retry_dead_letter(s, BOX)),
    "retry_dead_letter of one": (dead, lambda s, m: mail.retry_dead_letter(s, BOX, msg_id=m)),
    "set_policy": (nothing, lambda s, m: mail.set_policy(s, BOX, max_retries=5)),
    "set_policy with a new time to live": (in_flight, lambda s, m: mail.set_policy(s, BOX, ttl_secs=60)),
    "set_alias": (nothing, lambda s, m: mail.set_alias(s, "nick", BOX)),
    "set_alias anew": (aliased, lambda s, m: mail.set_alias(s, m, "another box")),
    "remove_alias": (aliased, mail.remove_alias),
    "sweep": (overdue, lambda s, m: mail.sweep(s)),
    "sweep what is exhausted": (exhausted, lambda s, m: mail.sweep(s)),
    "sweep what expired": (expired, lambda s, m: mail.sweep(s)),
    "sweep what ended long ago": (long_ended, lambda s, m: mail.sweep(s, keep_days=7)),
}

READS: dict[str, tuple[Prepare, Act]] = {
    "dequeue from nobody's": (nothing, lambda s, m: mail.dequeue(s, "nobody")),
    "wait that sleeps": (pending, lambda s, m: mail.wait(s, "nobody", timeout_seconds=0.001)),
    "peek": (in_flight, lambda s, m: mail.peek(s, BOX)),
    "peek_dead_letter": (dead, lambda s, m: mail.peek_dead_letter(s, BOX)),
    "show": (in_flight, mail.show),
    "sessions": (in_flight, lambda s, m: mail.sessions(s)),
    "policy": (dead, lambda s, m: mail.policy(s, BOX)),
    "aliases": (aliased, lambda s, m: mail.aliases(s)),
}


def assert_usable(store: Store) -> None:
    assert mail.enqueue(store, message("afterwards", to="a third box")).queued
    got = mail.dequeue(store, "a third box")
    assert got is not None
    assert mail.ack(store, "a third box", "afterwards", delivery_token=got.delivery_token).changed


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), WRITES.values(), ids=WRITES.keys())
def test_a_write_of_which_any_statement_fails_has_not_happened(
    sqlite_place: str, clock: Clock, prepare: Prepare, act: Act, how: How
) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        statements = cut_everywhere(store, clock, prepare, act, how)
        assert {"BEGIN IMMEDIATE", "COMMIT"} <= set(statements)
        assert len(statements) >= 3
        assert_sound(sqlite_place)
        assert_usable(store)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), READS.values(), ids=READS.keys())
def test_a_read_of_which_any_statement_fails_says_so_instead_of_empty(
    sqlite_place: str, clock: Clock, prepare: Prepare, act: Act, how: How
) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        assert len(cut_everywhere(store, clock, prepare, act, how)) >= 3
        assert_usable(store)


@pytest.mark.parametrize("how", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
@pytest.mark.parametrize("verb", ["enqueue one more", "dequeue what timed out", "ack", "nack", "purge", "sweep", "peek"])
def test_a_verb_that_a_signal_interrupts_anywhere_leaves_nothing_behind(sqlite_place: str, clock: Clock, verb: str, how: How) -> None:
    prepare, act = {**WRITES, **READS}[verb]
    with SqliteStore(sqlite_place, now=clock) as store:
        cut_everywhere(store, clock, prepare, act, how)
        assert_usable(store)


# A waiter goes on after a lost connection, instead of failing.
LOSABLE = {name: verb for name, verb in WRITES.items() if not name.startswith("wait")}


@pytest.mark.parametrize(("prepare", "act"), in_part(LOSABLE))
def test_a_write_that_loses_its_connection_has_not_happened(
    postgres_place: str, watcher: psycopg.Connection[Any], clock: Clock, prepare: Prepare, act: Act
) -> None:
    with closing(PostgresStore(postgres_place, now=clock)) as store:
        opened: Any = store
        msg_id = prepare(opened, clock)
        before = everything(postgres_place)
        for nth in range(1, 100):
            losing = Losing(store.connection, nth, watcher)
            opened.connection = losing
            raised = failure(lambda: act(opened, msg_id))
            if losing.lost is None:
                assert raised is None
                break
            assert isinstance(raised, StoreUnreachable), f"{raised!r} came of a connection lost before {losing.lost}"
            assert everything(postgres_place) == before, losing.lost
            store.reconnect()
        assert nth >= 3
        assert everything(postgres_place) != before
        store.connection = losing._connection
        assert_no_lock(postgres_place)
        assert_usable(store)


def test_a_waiter_that_loses_its_connection_while_it_takes_goes_on_and_takes_it_once(
    postgres_place: str, watcher: psycopg.Connection[Any]
) -> None:
    with ThreadPoolExecutor(1) as thread, closing(PostgresStore(postgres_place)) as store:
        thread.submit(store.watch, "mail:another box").result()  # the only waiter of a process would take by the connection that listens
        opened: Any = store
        mail.set_policy(store, BOX, inflight_timeout_secs=3600)
        for nth in range(1, 100):
            mail.enqueue(store, message(f"message {nth}", sender=f"sender {nth}"))
            losing = Losing(store.connection, nth, watcher)
            opened.connection = losing
            got = mail.wait(opened, BOX, timeout_seconds=30)
            assert got is not None
            assert got.message.msg_id == f"message {nth}", losing.lost
            assert got.message.attempt == 0
            if losing.lost is None:
                break
        assert nth >= 3
        store.connection = losing._connection
        assert {entry.state for entry in mail.peek(store, BOX).messages} == {"in_flight"}
        assert [step.step for step in mail.show(store, "message 1").steps] == ["stored", "offered"]
