"""The actors that maintain the store while all others use it: they prune, back up and restore, and record it like every other call."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from time import sleep

from postroom import work
from postroom.core.errors import NotFound
from postroom.core.records.retention import BackupResult, PruneResult, RestoreResult
from postroom.maintenance import backups, pruning
from postroom.store.interface import Store
from tests.torture.actors import Actor
from tests.torture.history import Operation, Recorder, read_history, select

PRUNE, BACKUP, RESTORE = "store.prune", "store.backup", "store.restore"
PRUNED_AGE_SECONDS = 1.0  # what ended longer ago than this may go
POLL_SECONDS = 0.05
MAX_REPEATS = 100
MAX_RESTORES = 20  # attempts: the store may be busy


class MaintenanceVerbs:
    """Pruning, backups and restores of a whole store."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.store, self.attempt = store, recorder.attempt

    def prune(self, age_seconds: float) -> PruneResult | None:
        prune = lambda: pruning.prune(self.store, older_than_seconds=age_seconds)  # noqa: E731
        return self.attempt(PRUNE, prune, lambda result: {"removed": dict(result.items())}, age=age_seconds)

    def back_up(self, path: Path) -> BackupResult | None:
        return self.attempt(BACKUP, lambda: backups.back_up(self.store, str(path)), file=str(path))

    def restore(self, path: str) -> RestoreResult | None:
        restore = lambda: backups.restore(path, self.store.location, replace=True)  # noqa: E731
        return self.attempt(RESTORE, restore, file=path)


def request(control: Path, name: str) -> None:
    """Ask the actor of a name to do its work once more."""
    (control / f"request-{name}").touch()


def prune_store(actor: Actor) -> None:
    """Prune whenever it is requested."""
    verbs = MaintenanceVerbs(actor.store, actor.recorder)
    while actor.continues():
        if _takes_request(actor, "prune"):
            verbs.prune(PRUNED_AGE_SECONDS)


def back_up_store(actor: Actor) -> None:
    """Write a new backup whenever it is requested."""
    verbs, numbers = MaintenanceVerbs(actor.store, actor.recorder), count(1)
    while actor.continues():
        if _takes_request(actor, "backup"):
            verbs.back_up(actor.setting.control.parent / "backups" / f"{actor.tag}-{next(numbers)}.db")


def _takes_request(actor: Actor, name: str) -> bool:
    try:
        (actor.setting.control / f"request-{name}").unlink()
    except FileNotFoundError:
        sleep(POLL_SECONDS)
        return False
    return True


def back_up_once(actor: Actor) -> None:
    """Write the backup that is restored later. Try again while the store is busy."""
    verbs = MaintenanceVerbs(actor.store, actor.recorder)
    for number in range(MAX_RESTORES):
        if verbs.back_up(actor.setting.control.parent / "backups" / f"restored-{number}.db") is not None:
            return


def restore_once(actor: Actor) -> None:
    """Restore the backup of `back_up_once` under the running actors. Try again while the store is busy."""
    verbs = MaintenanceVerbs(actor.store, actor.recorder)
    written = [op for op in _read_backups(actor) if "restored-" in op.facts["file"]]
    for _ in range(MAX_RESTORES if written else 0):
        if verbs.restore(written[-1].facts["file"]) is not None:
            return


def _read_backups(actor: Actor) -> list[Operation]:
    return [operation for operation in select(read_history(actor.setting.history), BACKUP) if operation.ok]


def count_pruned(prune: Operation) -> int:
    """Return how many things a prune removed. 0 if it was not told."""
    removed = prune.get("removed") or {}
    return sum(removed.get(name, 0) for name in ("threads", "mail", "tasks", "jobs", "entries", "queue_events"))


def repeat_pruned(actor: Actor) -> None:
    """Send again, with the same key or id, some of what was pruned. All of it has to be refused, or known as a repeat."""
    history = read_history(actor.setting.history)
    sent = [operation for operation in select(history, "work.send") if operation.ok and is_pruned(actor.store, operation.get("thread"))]
    for operation in sent[:MAX_REPEATS]:
        actor.threads.send(operation.facts["body"], operation.facts["key"])
    acked = {operation.facts["message"] for operation in select(history, "mail.ack") if operation.ok}
    mailed = [operation for operation in select(history, "mail.enqueue") if operation.ok and operation.facts["message"] in acked]
    for operation in mailed[:MAX_REPEATS]:
        facts = operation.facts
        actor.mail.enqueue(facts["message"], facts["sender"], facts["box"], facts["payload"])


def is_pruned(store: Store, thread: str) -> bool:
    try:
        work.show(store, thread)
    except NotFound:
        return True
    return False


MAINTAINERS = {"prune_store": prune_store, "back_up_store": back_up_store}
