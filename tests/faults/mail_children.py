"""The mail room's children: real processes, forked by one nursery, so that hundreds can be started, killed and replaced.

The nursery opens no store of its own; each child opens one, does what its role says, and says what came of it by one whole line at once,
appended to the file REPORTS after the verb has returned: what was said before a kill stays said. When the nursery's standard input ends, it
ends its children and itself.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import postroom
from postroom import mail
from postroom.core.errors import DeliveryLost, InvalidState
from postroom.core.records.mail import Delivery
from postroom.store.interface import Store
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import open_connection
from tests.contract.blocking_store import BlockingStore
from tests.faults import inspection
from tests.faults.children import LONG, BarrierProcess
from tests.faults.inspection import follows_commit

BOX = "box"
KILLED = -signal.SIGKILL
AT_MOST = 40  # pending messages that an endless producer lets pile up

Say = Callable[..., None]


class MailProcesses(BarrierProcess):
    """The test's end of it."""

    PROGRAM = "from tests.faults import mail_children\nmail_children.nursery(*sys.argv[1:])"

    def __init__(self, place: str, folder: Path) -> None:
        self.reports = folder / "reports"
        super().__init__(self.PROGRAM, place, self.reports)
        self.ready()

    def start(self, role: str, *arguments: object) -> int:
        """The id of a new child."""
        return self._asked("start", role, *arguments)

    def end(self, child: int) -> int:
        """Kill it, and see it dead; its exit code."""
        os.kill(child, signal.SIGKILL)  # its number is its own until the nursery has buried it
        return self.bury(child)

    def bury(self, child: int) -> int:
        """Wait until it has ended; its exit code."""
        return self._asked("bury", child)

    def stopped(self, child: int) -> None:
        """Wait until it is stopped."""
        assert self._asked("stopped", child) == signal.SIGSTOP

    def said(self, *words: str) -> list[list[str]]:
        """Every line that the children said, in order, as its words; only those that begin with one of `words`, if given."""
        text = self.reports.read_text() if self.reports.exists() else ""
        lines = [line.split(" ") for line in text.splitlines()]
        return [line for line in lines if not words or line[0] in words]

    def kill(self) -> None:
        """All of them with it."""
        self.stdin.close()
        self.process.wait(LONG)

    def _asked(self, *words: object) -> int:
        self.tell(" ".join(map(str, words)))
        return int(self.line())


class AtCommit:
    """A real connection that does something just before it commits what was written, when all of that is done and held."""

    def __init__(self, connection: Any, act: Callable[[], object]) -> None:
        self._connection = connection
        self._act = act
        self._writing = False

    def execute(self, statement: str, *binds: object) -> Any:
        if statement.startswith("BEGIN"):
            self._writing = "IMMEDIATE" in statement or "READ WRITE" in statement
        if statement == "COMMIT" and self._writing:
            arrived(self._connection)
            self._act()
        return self._connection.execute(statement, *binds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Fatal:
    """A real connection before whose nth statement the process dies, of those up to COMMIT."""

    def __init__(self, connection: Any, nth: int) -> None:
        self._connection = connection
        self._left = nth

    def execute(self, statement: str, *binds: object) -> Any:
        if not follows_commit(statement):
            self._left -= 1
            if self._left == 0:
                arrived(self._connection)
                die()
        return self._connection.execute(statement, *binds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def arrived(connection: Any) -> None:
    """Statements to a server travel together, when somebody asks: now they have."""
    if hasattr(connection, "receive"):
        connection.receive()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def message(msg_id: str, *, sender: str = "ada", to: str = BOX, payload: str = "Hello") -> dict[str, object]:
    return {"msg_id": msg_id, "from": sender, "to": to, "payload": payload}


# Looking at a store from outside.

STATES = ("pending", "in_flight", "nacked", "acked", "dead_letter", "expired")
CONTRADICTIONS = {
    **inspection.CONTRADICTIONS,
    "an event without its message": inspection.CONTRADICTIONS["an event without its message"] + " AND e.thread_id != ''",
    "a mailbox that counts wrong": "SELECT count(*) FROM mailboxes b WHERE "
    + " OR ".join(f"{state} != (SELECT count(*) FROM deliveries d WHERE d.session = b.session AND state = '{state}')" for state in STATES),
    "a message without its mailbox": "SELECT count(*) FROM deliveries WHERE session NOT IN (SELECT session FROM mailboxes)",
    "a message that was never stored": """
        SELECT count(*) FROM deliveries d WHERE NOT EXISTS
        (SELECT 1 FROM events e WHERE e.message_id = d.msg_id AND e.thread_id = '' AND e.event_type = 'mail.stored')""",
    "a pair without one head": """
        SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE ended_at IS NULL GROUP BY session, sender HAVING sum(head) != 1) AS pairs""",
    "a head that is not the first": """
        SELECT count(*) FROM deliveries d JOIN deliveries e ON e.session = d.session AND e.sender = d.sender
        WHERE e.delivery_id < d.delivery_id AND d.head = 1 AND d.ended_at IS NULL AND e.ended_at IS NULL""",
    "a state that contradicts its end": """
        SELECT count(*) FROM deliveries WHERE (state IN ('pending', 'in_flight', 'nacked')) != (ended_at IS NULL)""",
    "a delivery that never ends": "SELECT count(*) FROM deliveries WHERE state IN ('in_flight', 'nacked') AND due_at IS NULL",
    "an id that is there and gone": "SELECT count(*) FROM deliveries JOIN mail_ids USING (msg_id)",
}


def assert_sound(place: str) -> None:
    """The file is intact, and what it says of mail does not contradict itself."""
    if "://" in place:
        with closing(open_connection(parse_url(place))) as server:
            rows = {what: server.execute(query).fetchone() for what, query in CONTRADICTIONS.items()}
        found = {what: row[0] for what, row in rows.items() if row}
    else:
        with closing(sqlite3.connect(place)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            found = {what: connection.execute(query).fetchone()[0] for what, query in CONTRADICTIONS.items()}
    assert found == dict.fromkeys(CONTRADICTIONS, 0)


def everything(place: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    if "://" not in place:
        return inspection.dump(place)
    with closing(open_connection(parse_url(place))) as server:
        names = server.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()").fetchall()
        return {name: sorted(server.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for (name,) in names}


# The functions that the children run. Their arguments are words.


def producer(place: str, say: Say, name: str, senders: str, rounds: str) -> None:
    """In each round, one message of each of its senders."""
    with closing(postroom.open(place)) as store:
        for number in range(int(rounds)):
            for sender in senders.split(","):
                msg_id = f"{name}/{sender}/{number}"
                mail.enqueue(store, message(msg_id, sender=sender))
                say("accepted", msg_id)


def consumer(place: str, say: Say, name: str, closed: str, nacks: str) -> None:
    """Takes until the file `closed` is there and nothing is left, nacking some."""
    chance = random.Random(name)
    with closing(postroom.open(place)) as store:
        while True:
            over = os.path.exists(closed)  # before the look: what was sent before it was made is found
            got = mail.wait(store, BOX, timeout_seconds=0.5, receiver=name)
            if got is None and over:
                return
            if got is not None:
                say("got", got.message.msg_id, got.message.attempt, name)
                settle(store, say, got, nack=chance.random() < float(nacks))


def settle(store: Store, say: Say, got: Delivery, *, nack: bool) -> None:
    msg_id, attempt = got.message.msg_id, got.message.attempt
    if nack:
        say(mail.nack(store, BOX, msg_id, "not now", delivery_token=got.delivery_token).state, msg_id, attempt)
    else:
        say(mail.ack(store, BOX, msg_id, delivery_token=got.delivery_token).state, msg_id, attempt)


def endless_producer(place: str, say: Say, name: str, sender: str) -> None:
    """Sends for ever, as four senders in turn, small ones and ones of many pages.

    While enough are pending, it sends the same again and again, which changes nothing.
    """
    with closing(postroom.open(place)) as store:
        say("begun", name)
        for number in count():
            sent = message(f"{name}/{number}", sender=f"{sender}-{number % 4}", payload="x" * (10, 3000, 100_000)[number % 3])
            pending = mail.enqueue(store, sent).pending
            say("accepted", f"{name}/{number}")
            while pending > AT_MOST:
                pending = mail.enqueue(store, sent).pending


def endless_consumer(place: str, say: Say, name: str) -> None:
    """Takes for ever. Most it acks, some after more time, some it nacks."""
    chance = random.Random(name)
    with closing(postroom.open(place)) as store:
        while True:
            got = mail.wait(store, BOX, timeout_seconds=1, receiver=name)
            if got is None:
                continue
            luck = chance.random()
            try:
                if luck < 0.2:
                    mail.extend(store, BOX, got.message.msg_id, delivery_token=got.delivery_token)
                settle(store, say, got, nack=luck > 0.8)
            except (DeliveryLost, InvalidState):
                say("lost", got.message.msg_id, got.message.attempt)  # the machine was slow, and its time is over


def waiter(place: str, say: Say, name: str) -> None:
    """Says when it goes to sleep; takes one, and ends."""
    with BlockingStore(postroom.open(place), lambda: say("asleep", name)) as store:
        got = mail.wait(store, BOX, timeout_seconds=LONG, receiver=name)
        say("got", "nothing" if got is None else got.message.msg_id, name)
        if got is not None:
            mail.ack(store, BOX, got.message.msg_id, delivery_token=got.delivery_token)


def stopping_producer(place: str, say: Say, msg_id: str) -> None:
    """Stops itself inside its transaction, just before the COMMIT."""
    with closing(postroom.open(place)) as store:
        opened: Any = store
        opened.connection = AtCommit(opened.connection, lambda: os.kill(os.getpid(), signal.SIGSTOP))
        mail.enqueue(store, message(msg_id, sender="stopped"))
        say("accepted", msg_id)


VERBS: dict[str, Callable[[Store, str], object]] = {
    "enqueue": lambda s, m: mail.enqueue(s, message("new")),
    "enqueue_first": lambda s, m: mail.enqueue(s, message("new", to="another box")),
    "dequeue": lambda s, m: mail.dequeue(s, BOX),
    "ack": lambda s, m: mail.ack(s, BOX, m),
    "nack": lambda s, m: mail.nack(s, BOX, m, "no"),
    "extend": lambda s, m: mail.extend(s, BOX, m),
    "purge": lambda s, m: mail.purge(s, BOX),
    "set_policy": lambda s, m: mail.set_policy(s, BOX, ttl_secs=60),
}


def victim(place: str, say: Say, verb: str, msg_id: str, nth: str) -> None:
    """Dies before the nth statement of a verb, or, of nth 0, after the verb has returned."""
    with closing(postroom.open(place)) as store:
        opened: Any = store
        opened.connection = Fatal(opened.connection, int(nth))
        VERBS[verb](store, msg_id)
        if nth == "0":
            die()


ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role for role in (producer, consumer, endless_producer, endless_consumer, waiter, stopping_producer, victim)
}


def nursery(place: str, reports: str) -> None:
    import_module("postroom.store.postgres.engine" if "://" in place else "postroom.store.sqlite.engine")  # once, for all children
    children: set[int] = set()
    answer("READY")
    for line in sys.stdin:
        order, *words = line.split()
        if order == "start":
            child = born(place, reports, *words)
            children.add(child)
            answer(child)
        elif order == "bury":
            _, status = os.waitpid(int(words[0]), 0)
            children.discard(int(words[0]))
            answer(os.waitstatus_to_exitcode(status))
        else:
            _, status = os.waitpid(int(words[0]), os.WUNTRACED)
            answer(os.WSTOPSIG(status) if os.WIFSTOPPED(status) else 0)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def born(place: str, reports: str, role: str, *arguments: str) -> int:
    child = os.fork()
    if child != 0:
        return child
    code = 1
    file = os.open(reports, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    try:
        ROLES[role](place, say, *arguments)
        code = 0
    except BaseException as error:
        say("failed", role, *arguments, *repr(error).split())
    finally:
        os._exit(code)


def answer(word: object) -> None:
    os.write(1, f"{word}\n".encode())
