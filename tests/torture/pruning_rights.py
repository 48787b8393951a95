"""Check what pruning removed: only what some call may have ended, long enough before a prune, and whose id the store still knows."""

from __future__ import annotations

from collections import defaultdict

from tests.torture.history import REFUSED, UNKNOWN, Operation, select
from tests.torture.snapshot import StoreSnapshot

GRACE_NS = 100_000_000  # the stamps of the store are rounded, and the clocks of machine and database differ
NS = 1_000_000_000
PRUNE = "store.prune"

# The calls after which a thread, a message, a task or an entry may be pruned, and the fact that names it.
_ENDERS = {
    "thread": ("work.done",),
    "message": ("mail.ack",),
    "task": ("tasks.complete", "tasks.fail", "tasks.accept"),  # a task that lapsed too often fails by itself
    "entry": ("people.mark_read", "people.reply"),
}
_ROWS = {"thread": ("threads", "thread_id"), "message": ("deliveries", "msg_id"), "task": ("tasks", "task_id"), "entry": ("entries", "id")}
_KEPT_IDS = {
    "thread": ("removed_ids", "id"),
    "message": ("mail_ids", "msg_id"),
    "task": ("removed_ids", "id"),
    "entry": ("entries_gone", "id"),
}
_FACT_OF_ROOM = {"work": "thread", "mail": "message", "tasks": "task", "people": "entry"}


class PruningRights:
    """Says of a row that is missing whether a prune of this history may have removed it."""

    def __init__(self, history: list[Operation], snapshot: StoreSnapshot) -> None:
        self._snapshot = snapshot
        self._prunes = select(history, PRUNE)
        self._enders: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        self._deleted = {operation.facts["entry"] for operation in select(history, "people.delete") if operation.outcome != REFUSED}
        self._unanswered_takes: list[Operation] = []
        self._read_by_consumer: dict[str, int] = defaultdict(int)
        self.shown_results: set[str] = set()
        for operation in history if self._prunes else ():
            self._collect(operation)

    def _collect(self, operation: Operation) -> None:
        for fact, names in _ENDERS.items():
            if operation.name in names and operation.outcome != REFUSED and operation.get(fact):
                self._enders[fact, operation.get(fact)].append(operation)
        if operation.name == "tasks.begin_sheet" and operation.ok:
            for task in operation.get("tasks"):
                self._enders["task", task].append(operation)
            self.shown_results.update(operation.get("results"))
        if operation.name in ("tasks.begin_sheet", "tasks.accept") and operation.outcome == UNKNOWN:
            self._unanswered_takes.append(operation)
        if operation.name == "queues.ack" and operation.outcome != REFUSED:
            consumer, last = operation.facts["consumer"], operation.facts["last"]
            self._read_by_consumer[consumer] = max(self._read_by_consumer[consumer], last)

    def cover(self, operation: Operation) -> bool:
        """Return whether the subject of a call may be missing: it has no row, its id is kept, and it had ended long enough before."""
        fact = _FACT_OF_ROOM.get(operation.name.split(".")[0])
        subject = None if fact is None else operation.get(fact)
        if fact is None or subject is None or subject in self._snapshot.index(*_ROWS[fact]):
            return False
        if subject not in self._snapshot.index(*_KEPT_IDS[fact]):
            return False
        enders = self._enders[fact, subject] + (self._unanswered_takes if fact == "task" else [])
        return any(self.is_old(ender) for ender in enders)

    def may_be_deleted(self, entry: str | None) -> bool:
        """Return whether a person deleted an entry, or may have."""
        return entry in self._deleted and entry in self._snapshot.index("entries_gone", "id")

    def cover_result(self, task: str) -> bool:
        """Return whether the result of a task may be missing: a sheet showed it, or may have, before some prune."""
        return bool(self._prunes) and (task in self.shown_results or bool(self._unanswered_takes))

    def cover_event(self, number: int, push: Operation) -> bool:
        """Return whether an event of the queue may be missing: every consumer has read it, and it is old."""
        read = self._read_by_consumer
        return bool(read) and number <= min(read.values()) and self.is_old(push)

    def is_old(self, operation: Operation, until: int | None = None) -> bool:
        """Return whether a call may have happened long enough before a prune, by the clocks of both. The prune began before `until`."""
        happened = operation.start + operation.skew * 1000
        prunes = [prune for prune in self._prunes if until is None or prune.start <= until]
        return any(happened < prune.end + prune.skew * 1000 - prune.facts["age"] * NS + GRACE_NS for prune in prunes)
