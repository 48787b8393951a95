"""Faults on purpose, one for each promise: with one of them planted, the checker must find something, or it cannot see."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from postroom import mail, people, queues, work
from postroom.core import clock
from postroom.core.errors import Conflict
from postroom.core.records.work import Lease
from postroom.mail.transitions import LockedMailbox
from postroom.maintenance import backups, pruning, removal
from postroom.store import event_log
from postroom.store.sqlite import backups as sqlite_backups
from postroom.tasks import Conductor
from postroom.tasks.a2a import rendering
from postroom.work import leases, threads
from tests.torture import checker

Patches = list[Any]
FAR = "9999-01-01T00:00:00.000000Z"


@dataclass(frozen=True)
class Fault:
    """A fault: the kind of violation that it must cause, and what it replaces."""

    kind: str
    patches: Callable[[], Patches]


@contextmanager
def plant(name: str) -> Iterator[None]:
    """Break a promise in this process, and in those that it forks, until the block ends."""
    with ExitStack() as stack:
        for replacement in FAULTS[name].patches():
            stack.enter_context(replacement)
        yield


def _after(owner: Any, name: str, act: Callable[..., Any]) -> Any:
    """Replace a verb by one that calls it, and then does something with its result."""
    real = getattr(owner, name)

    def replaced(store: Any, *args: Any, **options: Any) -> Any:
        result = real(store, *args, **options)
        return act(store, result)

    return patch.object(owner, name, replaced)


def _run(place: str, statement: str, *binds: object) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute(statement, binds)


def _lose_message(store: Any, posted: Any) -> Any:
    _run(store.location, "DELETE FROM messages WHERE message_id = ?", posted.message.message_id)
    return posted


def _lose_event(queue: Any, events: Any) -> Any:
    _run(os.path.join(queue.file.folder, "events.db"), "DELETE FROM events WHERE id = ?", events[-1].id)
    return events


def _lose_mail(store: Any, ack: Any) -> Any:
    _run(store.location, "DELETE FROM deliveries WHERE msg_id = ?", ack.msg_id)
    return ack


def _forget_ack(store: Any, result: Any) -> Any:
    _run(store.location, "UPDATE deliveries SET state = 'dead_letter' WHERE msg_id = ?", result.msg_id)
    return result


def _prune_open_thread(store: Any, result: Any) -> Any:
    """Remove a thread that has not ended, as a prune removes those that have."""
    with store.write() as tx:
        found = tx.fetch_one("SELECT thread_id FROM threads WHERE status <> 'done'")
        if found is not None:
            removal.remove_threads(tx, [found[0]])
    return result


def _forget_removed_ids(store: Any, result: Any) -> Any:
    _run(store.location, "DELETE FROM removed_ids")
    return result


def _lose_in_backup(store: Any, result: Any) -> Any:
    _run(result.file, "DELETE FROM messages WHERE message_id = (SELECT message_id FROM messages ORDER BY event_id LIMIT 1)")
    return result


def _refuse_all_the_same(store: Any, posted: Any) -> Any:
    raise Conflict("it was refused, and is stored")


def _read_by_nobody(store: Any, page: Any) -> Any:
    _run(store.location, "UPDATE entries SET read_at = '2026', read_by = 'user'")
    return page


def _answer_by_nobody(store: Any, asked: Any) -> Any:
    _run(store.location, "UPDATE asks SET state = 'answered', answer = 'maybe' WHERE entry_id = ?", asked.id)
    return asked


def _tell_again(store: Any, result: Any) -> Any:
    return result.replace(events=tuple(event.replace(event_id=1) for event in result.events))


def _tell_nothing(store: Any, result: Any) -> Any:
    return result.replace(events=())


def _ignore_token(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tx, thread_id, *, agent, lease_token: real(tx, thread_id, agent=agent, lease_token=None)


def _never_lapse(real: Callable[..., Any]) -> Callable[..., Any]:
    def accept(tx: Any, row: Any, token: str, lease_seconds: float, job_id: str | None) -> Any:
        return real(tx, row, token, 900_000.0, job_id)

    return accept


def _raise_key_error(*args: Any, **options: Any) -> Any:
    raise KeyError("an error that is no refusal")


def _patch_repository() -> Patches:
    from postroom.tasks import repository

    return [patch.object(repository, "accept_task", _never_lapse(repository.accept_task))]


FAULTS: dict[str, Fault] = {
    "lost message": Fault(checker.LOST, lambda: [_after(work, "send", _lose_message)]),
    "lost mail": Fault(checker.LOST, lambda: [_after(mail, "enqueue", _lose_mail)]),
    "lost event": Fault(checker.LOST, lambda: [_after(queues, "push_batch", _lose_event)]),
    "lost ack": Fault(checker.LOST, lambda: [_after(mail, "ack", _forget_ack)]),
    "lost wake": Fault(checker.LOST, lambda: [_after(work, "watch", _tell_nothing)]),
    "two owners": Fault(checker.DOUBLED, lambda: [patch.object(Lease, "is_live", lambda lease, now: False)]),
    "obeyed after replacement": Fault(
        checker.DOUBLED, lambda: [patch.object(leases, "lock_held_thread", _ignore_token(leases.lock_held_thread))]
    ),
    "two deliveries": Fault(
        checker.DOUBLED, lambda: [patch.object(LockedMailbox, "in_flight_until", lambda locked, seconds=None: clock.now() - 1)]
    ),
    "repeated send": Fault(checker.DOUBLED, lambda: [patch.object(threads, "_message_id_for_key", lambda *_: f"msg_{uuid4().hex}")]),
    "stranded thread": Fault(
        checker.STRANDED,
        lambda: [patch.object(leases, "_expiry_stamp", lambda tx, seconds: FAR), patch.object(Lease, "is_misdated", lambda *_: False)],
    ),
    "stranded task": Fault(checker.STRANDED, _patch_repository),
    "refused and stored": Fault(checker.DISHONEST, lambda: [_after(work, "send", _refuse_all_the_same)]),
    "read by nobody": Fault(checker.DISHONEST, lambda: [_after(people, "history", _read_by_nobody)]),
    "answered by nobody": Fault(checker.DISHONEST, lambda: [_after(people, "ask", _answer_by_nobody)]),
    "told again": Fault(checker.NAGGED, lambda: [_after(work, "watch", _tell_again)]),
    "forged line": Fault(checker.FORGED, lambda: [patch.object(rendering, "_quote_lines", lambda text: text + "\n")]),
    "pruned while open": Fault(checker.LOST, lambda: [_after(pruning, "prune", _prune_open_thread)]),
    "pruned with its id": Fault(checker.LOST, lambda: [_after(pruning, "prune", _forget_removed_ids)]),
    "pruned unnoticed": Fault(checker.LOST, lambda: [patch.object(event_log, "mark_removed", lambda *_: 0)]),
    "incomplete backup": Fault(checker.LOST, lambda: [_after(backups, "back_up", _lose_in_backup)]),
    "restored nothing": Fault(checker.DISHONEST, lambda: [patch.object(sqlite_backups, "overwrite_store", lambda *_: None)]),
    "restored with used ids": Fault(checker.LOST, lambda: [patch.object(sqlite_backups, "_continue_ids", lambda *_: None)]),
    "escaped error": Fault(checker.ESCAPE, lambda: [patch.object(Conductor, "submit", _raise_key_error)]),
}
