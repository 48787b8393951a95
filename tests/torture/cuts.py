"""Backups and restores: what a backup has is what the store had at one moment of its call, and a restore brings exactly that back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.torture import checker
from tests.torture.checker import DISHONEST, LOST, Violation
from tests.torture.history import NEVER, Operation, select
from tests.torture.pruning_rights import PruningRights
from tests.torture.snapshot import StoreSnapshot, read_backup

QUEUE = "queues."  # a queue has files of its own, and is not part of a backup


def check_backups(history: list[Operation], snapshot: StoreSnapshot) -> Iterator[Violation]:
    """Check every backup that was written."""
    for backup in select(history, "store.backup"):
        if backup.ok:
            yield from check_backup(history, backup, read_backup(backup.facts["file"]))


def check_backup(history: list[Operation], backup: Operation, content: StoreSnapshot) -> Iterator[Violation]:
    """Check that a backup has all that was accepted before its call, and that its rows are those of one moment.

    There is such a moment if no call whose text is in the backup began after the end of a call whose text is not.
    """
    yield from (Violation(checker.DAMAGED, defect, [backup]) for defect in content.defects)
    seen = [operation for operation in history if operation.start < backup.end]
    before = [operation for operation in history if operation.end < backup.start and not operation.name.startswith(QUEUE)]
    rights = PruningRights(seen, content)
    for violation in checker.find_losses(before, content, rights):
        yield Violation(LOST, f"a backup that began later lacks this: {violation.text}", [*violation.history, backup])
    present, absent = _split_texts(history, content, rights)
    last = max(present, key=lambda operation: operation.start, default=None)
    first = min(absent, key=lambda operation: operation.end, default=None)
    if last is not None and last.start > min(backup.end, NEVER if first is None else first.end):
        shown = [operation for operation in (first, last, backup) if operation is not None]
        yield Violation(DISHONEST, "a backup has what was called after its moment", shown)


def _split_texts(history: list[Operation], content: StoreSnapshot, rights: PruningRights) -> tuple[list[Operation], list[Operation]]:
    """Return the first call of each text that is in the content, and the accepted calls of texts that are not, and were not pruned."""
    stored = checker.read_stored_texts(content)
    first: dict[str, Operation] = {}
    absent = []
    for operation in history:
        if operation.name.startswith(QUEUE):
            continue
        for text in checker.texts_of(operation):
            if text in stored:
                first.setdefault(text, operation)
            elif operation.ok and operation.name != "people.reply" and not _may_be_removed(operation, rights):
                absent.append(operation)
    return list(first.values()), absent


def _may_be_removed(operation: Operation, rights: PruningRights) -> bool:
    return rights.cover(operation) or rights.may_be_deleted(operation.get("entry"))


@dataclass(frozen=True)
class RestoreCut:
    """A restore: the calls that ended before the backup began, or that began after the restore ended, count. Those between do not."""

    backup: Operation
    restore_start: int
    restore_end: int

    def keeps(self, operation: Operation) -> bool:
        is_kept = operation.end < self.backup.start or operation.start > self.restore_end
        return is_kept or operation.name.startswith(QUEUE)

    def removes(self, operation: Operation) -> bool:
        return operation.start > self.backup.end and operation.end < self.restore_start and not operation.name.startswith(QUEUE)


def find_cut(history: list[Operation]) -> RestoreCut | None:
    """Return the last restore of a history. The attempts before it, which may have been killed, belong to it."""
    attempts = select(history, "store.restore")
    done = [attempt for attempt in attempts if attempt.ok]
    if not done:
        return None
    file = done[-1].facts["file"]
    backup = next(backup for backup in select(history, "store.backup") if backup.facts["file"] == file and backup.ok)
    return RestoreCut(backup, attempts[0].start, done[-1].end)


def check_restored(history: list[Operation], snapshot: StoreSnapshot) -> list[Violation]:
    """Return every promise that a restore broke. Owners are judged of what was sent after it: its whole history is known."""
    cut = find_cut(history)
    if cut is None:
        return [Violation(checker.UNPROVED, "no store.restore was accepted: the run proves nothing about it")]
    found = [*checker.find_losses([operation for operation in history if cut.keeps(operation)], snapshot, PruningRights(history, snapshot))]
    found += _find_remains(history, snapshot, cut)
    new = _find_new_resources(history, cut)
    found += checker.check_owners(history, snapshot, judged=new)
    found += checker.check_mail_order([operation for operation in history if operation.get("message") in new], snapshot)
    for check_promise in (
        checker.check_repeats,
        checker.check_stranded,
        checker.check_refusals,
        checker.check_words,
        checker.check_watchers,
        checker.check_text,
        checker.check_mirrors,
        checker.check_escapes,
    ):
        found += check_promise(history, snapshot)
    return found + [Violation(checker.DAMAGED, defect) for defect in snapshot.defects]


def _find_remains(history: list[Operation], snapshot: StoreSnapshot, cut: RestoreCut) -> Iterator[Violation]:
    """Messages that were accepted between the backup and the restore, and were not sent again, are gone."""
    stored = checker.read_stored_texts(snapshot)
    others = {text for operation in history if not cut.removes(operation) for text in checker.texts_of(operation)}
    for operation in history:
        if operation.ok and cut.removes(operation) and any(text in stored and text not in others for text in checker.texts_of(operation)):
            yield Violation(DISHONEST, "a restored store has what was accepted after its backup", [cut.backup, operation])


def _find_new_resources(history: list[Operation], cut: RestoreCut) -> set[str]:
    """Return the threads, messages and tasks of which every attempt to send them began after the restore."""
    old = {text for operation in history if operation.start <= cut.restore_end for text in checker.texts_of(operation)}
    created = {"work.send": "thread", "mail.enqueue": "message", "tasks.submit": "task"}
    return {
        operation.get(created[operation.name])
        for operation in select(history, *created)
        if operation.ok and operation.start > cut.restore_end and not old.intersection(checker.texts_of(operation))
    }
