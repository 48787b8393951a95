"""Races at a mailbox, staged and not left to luck: one stands before its COMMIT, and another comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from postroom import mail
from postroom.core.errors import DeliveryLost, IdConflict, InvalidInput, InvalidState, StoreUnreachable
from postroom.core.records.mail import Delivery
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore, eventually
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import BOX, AtCommit, message
from tests.faults.test_postgres import in_background, waiting_for_a_lock
from tests.postgres_server import Postgres

OTHER = "another box"
Act = Callable[[Store], Any]


class Stage:
    """Two stores on one server, with one clock."""

    def __init__(self, place: str, postgres: Postgres, clock: Clock, stack: ExitStack) -> None:
        self._place, self._postgres, self._clock, self._stack = place, postgres, clock, stack
        self.first, self.second = self.open(), self.open()

    def open(self) -> PostgresStore:
        return self._stack.enter_context(PostgresStore(self._place, now=self._clock))

    @contextmanager
    def before_commit(self, act: Act, *, lose: bool = False) -> Iterator[list[Any]]:
        """The first does something, and stands before its COMMIT while the block runs; afterwards it commits, or its connection is lost."""
        reached, go = threading.Event(), threading.Event()
        opened: Any = self.first
        real = self.first.connection

        def pause() -> None:
            if not go.is_set():
                reached.set()
                go.wait(LONG)

        opened.connection = AtCommit(real, pause)
        thread, came = in_background(lambda: act(self.first))
        try:
            assert eventually(lambda: reached.is_set() or bool(came))
            assert came == [], "it never came to its COMMIT"
            yield came
            if lose:
                self._end(real.info.backend_pid)
        finally:
            go.set()
            thread.join(LONG)
        if not lose:
            opened.connection = real

    def _end(self, pid: int) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", (pid,))
            gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
            assert eventually(lambda: killer.execute(gone, (pid,)).fetchone() == (0,))

    def meanwhile(self, act: Act, store: Store | None = None) -> Callable[[], Any]:
        """The second does something, until it is done or waits for the first; ask it later what came of it."""
        thread, came = in_background(lambda: act(store or self.second))
        assert eventually(lambda: bool(came) or waiting_for_a_lock(self._postgres) > 0)

        def outcome() -> Any:
            thread.join(LONG)
            (only,) = came
            return only

        return outcome

    def raced(self, first: Act, second: Act, *, lose: bool = False) -> tuple[Any, Any]:
        """Return both results: the second ran while the first stood before its COMMIT."""
        with self.before_commit(first, lose=lose) as came:
            outcome = self.meanwhile(second)
        return came[0], outcome()


@pytest.fixture
def postgres_place(postgres: Postgres) -> Iterator[str]:
    with postgres.store() as url:
        yield url
        assert_no_lock(url)


@pytest.fixture
def stage(postgres_place: str, postgres: Postgres, clock: Clock) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(postgres_place, postgres, clock, stack)


def dequeue(store: Store) -> Delivery | None:
    return mail.dequeue(store, BOX)


def enqueue(msg_id: str, *, sender: str = "ada", to: str = BOX) -> Act:
    return lambda store: mail.enqueue(store, message(msg_id, sender=sender, to=to))


def taken(store: Store) -> Delivery:
    """The next one, in flight."""
    got = mail.dequeue(store, BOX)
    assert got is not None
    return got


def steps(store: Store, msg_id: str) -> list[str]:
    return [step.step for step in mail.show(store, msg_id).steps]


@pytest.mark.parametrize("to", [BOX, OTHER], ids=["one mailbox", "two mailboxes"])
@pytest.mark.parametrize("used", [True, False], ids=["in use", "new"])
def test_of_two_that_enqueue_one_id_at_once_one_is_queued_and_the_other_is_told_so(stage: Stage, to: str, *, used: bool) -> None:
    if used:
        for box in (BOX, OTHER):
            enqueue(f"before in {box}", to=box)(stage.first)
    first, second = stage.raced(enqueue("same"), enqueue("same", to=to))
    assert (first.msg_id, first.queued, first.pending) == ("same", True, 1 + used)
    if to == BOX:
        assert (second.msg_id, second.queued, second.pending) == ("same", False, first.pending)
    else:
        assert isinstance(second, IdConflict)
    assert steps(stage.first, "same") == ["stored"]
    shown = mail.show(stage.first, "same").message
    assert shown is not None
    assert shown.to == BOX


def test_an_id_whose_first_sender_lost_its_connection_is_queued_by_the_second(stage: Stage) -> None:
    first, second = stage.raced(enqueue("same"), enqueue("same"), lose=True)
    assert isinstance(first, StoreUnreachable)
    assert (second.queued, second.pending) == (True, 1)
    assert mail.enqueue(stage.first, message("same")).queued is False
    assert steps(stage.first, "same") == ["stored"]


def test_of_two_that_dequeue_the_only_message_at_once_one_gets_it(stage: Stage) -> None:
    enqueue("only")(stage.first)
    first, second = stage.raced(dequeue, dequeue)
    assert first.message.msg_id == "only"
    assert second is None
    assert steps(stage.first, "only") == ["stored", "offered"]


def test_of_two_that_dequeue_one_pair_at_once_the_second_does_not_get_ahead(stage: Stage) -> None:
    for msg_id in ("head", "next"):
        enqueue(msg_id)(stage.first)
    first, second = stage.raced(dequeue, dequeue)
    assert first.message.msg_id == "head"
    assert second is None


def test_two_that_dequeue_two_pairs_at_once_get_one_each(stage: Stage) -> None:
    for sender in ("ada", "bob"):
        enqueue(f"of {sender}", sender=sender)(stage.first)
    first, second = stage.raced(dequeue, dequeue)
    assert [got.message.msg_id for got in (first, second)] == ["of ada", "of bob"]
    assert first.delivery_token != second.delivery_token


def test_nothing_there_is_never_said_because_a_race_was_lost_to_one_that_failed(stage: Stage) -> None:
    enqueue("only")(stage.first)
    first, second = stage.raced(dequeue, dequeue, lose=True)
    assert isinstance(first, StoreUnreachable)
    assert second is not None
    assert (second.message.msg_id, second.message.attempt) == ("only", 0)
    assert steps(stage.second, "only") == ["stored", "offered"]


def test_an_ack_that_comes_first_stands_though_the_time_is_over_when_it_commits(stage: Stage, clock: Clock) -> None:
    enqueue("only")(stage.first)
    got = taken(stage.first)
    with stage.before_commit(lambda store: mail.ack(store, BOX, "only", delivery_token=got.delivery_token)) as acked:
        clock.advance(100)
        swept = stage.meanwhile(mail.sweep)
    assert (acked[0].state, acked[0].changed) == ("acked", True)
    assert (swept().timed_out, swept().retried) == (0, 0)
    assert steps(stage.first, "only") == ["stored", "offered", "acked"]
    assert dequeue(stage.first) is None


@pytest.mark.parametrize("token", [True, False], ids=["with its token", "without"])
def test_an_ack_that_comes_after_the_sweep_took_its_delivery_is_refused(stage: Stage, clock: Clock, *, token: bool) -> None:
    enqueue("only")(stage.first)
    got = taken(stage.first)
    clock.advance(31)  # timed out, and its retry not yet due
    swept, acked = stage.raced(mail.sweep, lambda store: mail.ack(store, BOX, "only", delivery_token=got.delivery_token if token else None))
    assert swept.timed_out == 1
    assert isinstance(acked, DeliveryLost if token else InvalidState)
    assert steps(stage.first, "only") == ["stored", "offered", "nacked"]


def test_an_ack_with_an_old_token_does_not_speak_for_the_delivery_that_is_just_being_made(stage: Stage, clock: Clock) -> None:
    enqueue("only")(stage.first)
    old = taken(stage.first)
    clock.advance(100)
    new, acked = stage.raced(dequeue, lambda store: mail.ack(store, BOX, "only", delivery_token=old.delivery_token))
    assert new.message.attempt == 1
    assert isinstance(acked, DeliveryLost)
    assert mail.show(stage.first, "only").state == "in_flight"
    assert mail.ack(stage.first, BOX, "only", delivery_token=new.delivery_token).changed


def test_two_that_sweep_at_once_make_each_move_once(stage: Stage, clock: Clock) -> None:
    enqueue("only")(stage.first)
    taken(stage.first)
    clock.advance(100)
    first, second = stage.raced(mail.sweep, mail.sweep)
    assert (first.timed_out, first.retried) == (1, 1)
    assert (second.timed_out, second.retried) == (0, 0)
    assert steps(stage.first, "only") == ["stored", "offered", "nacked", "retried"]


def test_a_nack_that_waited_for_an_ack_changes_nothing(stage: Stage) -> None:
    enqueue("only")(stage.first)
    taken(stage.first)
    acked, nacked = stage.raced(lambda store: mail.ack(store, BOX, "only"), lambda store: mail.nack(store, BOX, "only", "no"))
    assert acked.changed
    assert (nacked.state, nacked.changed, nacked.retry_at) == ("acked", False, None)
    assert steps(stage.first, "only") == ["stored", "offered", "acked"]


def test_an_ack_that_waited_for_a_nack_is_refused(stage: Stage) -> None:
    enqueue("only")(stage.first)
    taken(stage.first)
    nacked, acked = stage.raced(lambda store: mail.nack(store, BOX, "only", "no"), lambda store: mail.ack(store, BOX, "only"))
    assert (nacked.state, nacked.changed) == ("nacked", True)
    assert isinstance(acked, InvalidState)
    assert acked.facts["state"] == "nacked"


def test_two_that_ack_at_once_both_succeed_and_one_did_it(stage: Stage) -> None:
    enqueue("only")(stage.first)
    taken(stage.first)
    both = stage.raced(lambda store: mail.ack(store, BOX, "only"), lambda store: mail.ack(store, BOX, "only"))
    assert [(acked.state, acked.changed) for acked in both] == [("acked", True), ("acked", False)]
    assert steps(stage.first, "only") == ["stored", "offered", "acked"]


def test_an_ack_that_waited_for_a_purge_is_refused(stage: Stage) -> None:
    enqueue("only")(stage.first)
    taken(stage.first)
    purged, acked = stage.raced(lambda store: mail.purge(store, BOX), lambda store: mail.ack(store, BOX, "only"))
    assert purged == 1
    assert isinstance(acked, InvalidState)
    assert mail.show(stage.first, "only").state == "purged"


def test_dead_letters_that_two_retry_at_once_are_retried_once(stage: Stage) -> None:
    mail.set_policy(stage.first, BOX, max_retries=0)
    for msg_id in ("dead", "dead too"):
        enqueue(msg_id)(stage.first)
        mail.nack(stage.first, BOX, taken(stage.first).message.msg_id, "no")
    first, second = stage.raced(lambda store: mail.retry_dead_letter(store, BOX), lambda store: mail.retry_dead_letter(store, BOX))
    assert (first, second) == (2, 0)
    assert mail.peek(stage.first, BOX).total == 2
    assert mail.peek_dead_letter(stage.first, BOX).entries == ()


def test_a_policy_that_two_set_for_the_first_time_at_once_is_both(stage: Stage) -> None:
    stage.raced(lambda store: mail.set_policy(store, BOX, max_retries=7), lambda store: mail.set_policy(store, BOX, base_backoff_secs=2))
    policy = mail.policy(stage.first, BOX)
    assert (policy.max_retries, policy.base_backoff_secs, policy.inflight_timeout_secs) == (7, 2, 30)


@pytest.mark.parametrize("used", [True, False], ids=["in use", "new"])
def test_no_message_is_stored_behind_an_alias_that_is_set_at_the_same_time(stage: Stage, *, used: bool) -> None:
    def alias(store: Store) -> object:
        return mail.set_alias(store, "nick", BOX)

    if used:
        enqueue("before", to="nick")(stage.first)
        assert mail.purge(stage.first, "nick") == 1
    first, second = stage.raced(enqueue("one", to="nick"), alias)
    assert (first.queued, type(second)) == (True, InvalidState)
    assert mail.purge(stage.first, "nick") == 1
    stage.raced(alias, enqueue("two", to="nick"))
    assert taken(stage.first).message.msg_id == "two"


def test_aliases_that_two_set_at_once_make_no_chain(stage: Stage) -> None:
    _, second = stage.raced(lambda store: mail.set_alias(store, "nick", OTHER), lambda store: mail.set_alias(store, OTHER, BOX))
    assert isinstance(second, InvalidInput)


def test_an_alias_that_two_set_for_the_first_time_at_once_is_the_last_ones(stage: Stage) -> None:
    stage.raced(lambda store: mail.set_alias(store, "nick", BOX), lambda store: mail.set_alias(store, "nick", OTHER))
    (alias,) = mail.aliases(stage.first).aliases
    assert (alias.name, alias.session) == ("nick", OTHER)


HOLDERS: dict[str, Act] = {
    "enqueues": enqueue("rival", sender="bob"),
    "enqueues of the same pair": enqueue("rival"),
    "dequeues": dequeue,
    "acks": lambda store: mail.ack(store, BOX, "taken"),
    "nacks": lambda store: mail.nack(store, BOX, "taken", "no"),
    "sets the policy": lambda store: mail.set_policy(store, BOX, max_retries=5),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS.keys())
def test_an_enqueue_while_another_transaction_holds_the_mailbox_succeeds(stage: Stage, holder: Act) -> None:
    enqueue("taken", sender="eve")(stage.first)
    assert taken(stage.first).message.msg_id == "taken"
    enqueue("waiting", sender="cy")(stage.first)
    held, came = stage.raced(holder, enqueue("new"))
    assert not isinstance(held, Exception)
    assert (came.msg_id, came.queued) == ("new", True)
    pending = [entry.msg_id for entry in mail.peek(stage.first, BOX).messages if entry.state == "pending"]
    assert "new" in pending
    (counts,) = mail.sessions(stage.first).sessions
    assert counts.pending == len(pending) == came.pending
    if "rival" in pending:
        assert pending.index("rival") < pending.index("new"), "who was first in the mailbox is first out of it"


@pytest.mark.parametrize("senders", [["ada"] * 6, ["ada", "bob", "cy", "dee", "eve", "fay"]], ids=["one sender", "six senders"])
@pytest.mark.parametrize("lose", [False, True], ids=["", "the first is lost"])
def test_six_that_send_the_first_message_of_a_mailbox_at_once_are_all_heard(stage: Stage, senders: list[str], *, lose: bool) -> None:
    with stage.before_commit(enqueue("0", sender=senders[0]), lose=lose) as came:
        others = [stage.meanwhile(enqueue(str(nth), sender=senders[nth]), stage.open()) for nth in range(1, 6)]
    acks = [other() for other in others]
    assert all(ack.queued for ack in acks)
    if lose:
        assert isinstance(came[0], StoreUnreachable)
    else:
        acks.append(came[0])
    assert sorted(ack.pending for ack in acks) == list(range(1, len(acks) + 1))
    (counts,) = mail.sessions(stage.second).sessions
    assert (counts.session, counts.pending) == (BOX, len(acks))
    got = []
    for _ in acks:
        got.append(taken(stage.second).message.msg_id)
        mail.ack(stage.second, BOX, got[-1])
    assert sorted(got) == sorted(ack.msg_id for ack in acks)
    assert dequeue(stage.second) is None


# Threads that share one store take turns in it, on every engine.

THREADS = 8


def at_once(store: Store, *acts: Act) -> list[Any]:
    """Let threads of one store act at once; what came of each."""
    barrier = threading.Barrier(len(acts))

    def run(act: Act) -> Any:
        barrier.wait(LONG)
        return act(store)

    started = [in_background(lambda act=act: run(act)) for act in acts]  # type: ignore[misc]
    for thread, _ in started:
        thread.join(LONG)
    return [came[0] for _, came in started]


@pytest.mark.parametrize("boxes", [[BOX], [BOX, OTHER]], ids=["one mailbox", "two mailboxes"])
def test_threads_that_enqueue_one_id_queue_it_once(store: Store, boxes: list[str]) -> None:
    for nth in range(10):
        acks = at_once(store, *[enqueue(str(nth), to=boxes[thread % len(boxes)]) for thread in range(THREADS)])
        assert sum(not isinstance(ack, IdConflict) and ack.queued for ack in acks) == 1
        assert sum(isinstance(ack, IdConflict) for ack in acks) == (0 if len(boxes) == 1 else THREADS // 2)
    assert sum(counts.pending for counts in mail.sessions(store).sessions) == 10


def test_threads_that_dequeue_get_each_message_once(store: Store) -> None:
    for sender in "abcde":
        for nth in range(2):
            enqueue(f"{sender}{nth}", sender=sender)(store)
    got = at_once(store, *[dequeue] * THREADS)
    assert sorted(delivery.message.msg_id for delivery in got if delivery) == [f"{sender}0" for sender in "abcde"]
    assert got.count(None) == THREADS - 5


def test_threads_that_ack_nack_and_sweep_one_message_leave_it_in_one_state(store: Store, clock: Clock) -> None:
    for nth in range(10):
        enqueue(str(nth), sender=f"sender {nth}")(store)
        token = taken(store).delivery_token
        ack, nack = (
            lambda store, nth=nth, token=token: mail.ack(store, BOX, str(nth), delivery_token=token),
            lambda store, nth=nth, token=token: mail.nack(store, BOX, str(nth), "no", delivery_token=token),
        )
        came = at_once(store, ack, nack, mail.sweep, ack, nack)
        state = mail.show(store, str(nth)).state
        changed = [each for each in (*came[:2], *came[3:]) if getattr(each, "changed", False)]
        assert [each.state for each in changed] == [state]
        assert steps(store, str(nth)) == ["stored", "offered", state]
        assert [type(each) for each in came if isinstance(each, Exception)] == ([] if state == "acked" else [InvalidState] * 3)


def test_threads_that_wait_on_one_store_are_given_one_message_each(store: Store) -> None:
    asleep = [threading.Event() for _ in range(4)]
    waiters = [
        in_background(lambda event=event: mail.wait(BlockingStore(store, event.set), BOX, timeout_seconds=LONG))  # type: ignore[misc]
        for event in asleep
    ]
    assert all(event.wait(LONG) for event in asleep)
    for nth in range(4):
        enqueue(str(nth), sender=f"sender {nth}")(store)
    for thread, _ in waiters:
        thread.join(LONG)
    assert sorted(came[0].message.msg_id for _, came in waiters) == ["0", "1", "2", "3"]
