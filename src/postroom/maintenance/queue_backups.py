"""Backups of the queues that a store watches: a folder FILE.queues beside the backup FILE, with one folder for each queue."""

from __future__ import annotations

import os
import shutil

from postroom.core import checks
from postroom.core.errors import InvalidInput, Refusal, StorageFailure
from postroom.core.records import Record
from postroom.core.records.watched_queues import WatchedQueue
from postroom.core.text import sha1_hex, shell_quote
from postroom.people.watched_queues import list_queues
from postroom.queues.queue import init_queue, open_queue
from postroom.store.files.private_files import make_private_folder
from postroom.store.sqlite import backups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postroom.store.interface import Store

SUFFIX = ".queues"
DATABASE = "events.db"


class QueueCopy(Record):
    """A queue of a backup: as the store watched it, the copy of its database, and the folder in which it is made again."""

    queue: WatchedQueue
    file: str
    folder: str


def back_up_queues(store: Store, backup: str) -> tuple[str, ...]:
    """Copy the database of every watched queue beside a backup, while it stays in use, verify it, and return the folders.

    Each copy is of one moment, and not of the same moment as the others. Refuses if a queue is missing, and then leaves nothing behind.
    """
    parent = backup + SUFFIX
    if os.path.lexists(parent):
        raise InvalidInput(f"{parent} exists already", field="file", hint="Choose another name, or move it away.")
    paths = [queue.path for queue in list_queues(store)]
    make_private_folder(parent)
    try:
        return tuple([_back_up_queue(path, os.path.join(parent, name_folder(path))) for path in paths])
    except BaseException:
        remove_folders([parent])
        raise


def _back_up_queue(path: str, folder: str) -> str:
    try:
        opened = open_queue(path)
    except Refusal as refusal:
        hint = f"Stop watching it with `inbox queue remove {shell_quote(path)}`, or leave --with-queues out."
        raise InvalidInput(f"the queue {path} cannot be backed up: {refusal}", field="with-queues", hint=hint) from None
    with opened as queue:
        make_private_folder(folder)
        backups.write_backup(queue.file, os.path.join(folder, DATABASE), verify=backups.verify_queue_backup)
    return folder


def name_folder(path: str) -> str:
    """Return the name of a queue's folder in a backup: that of its own folder, and a mark of its path, as two may have the same name."""
    return f"{os.path.basename(path)}-{sha1_hex(path)[:8]}"


def plan_restore(backup: str, parent: str) -> list[QueueCopy]:
    """Return the queues of a backup, each with a new folder below `parent`.

    Refuses a copy that is missing or damaged, and a folder that exists.
    """
    parent = os.path.abspath(checks.path("with-queues", parent))
    return [_plan_queue(queue, backup, parent) for queue in backups.list_watched_queues(backup)]


def _plan_queue(queue: WatchedQueue, backup: str, parent: str) -> QueueCopy:
    name = name_folder(queue.path)
    planned = QueueCopy(queue, os.path.join(backup + SUFFIX, name, DATABASE), os.path.join(parent, name))
    if not os.path.isfile(planned.file):
        hint = "It was written without --with-queues. Leave the flag out."
        raise InvalidInput(f"the backup has no copy of the queue {queue.path}", field="with-queues", hint=hint)
    backups.verify_queue_backup(planned.file)
    if os.path.lexists(planned.folder):
        raise InvalidInput(f"{planned.folder} exists already", field="with-queues", hint="Choose another folder.")
    return planned


def restore_queue(planned: QueueCopy) -> None:
    """Make a queue from a copy of its database, in a new folder, and write its journal."""
    folder = init_queue(planned.folder)
    with open_queue(folder) as queue:
        backups.overwrite_queue(queue.file, planned.file)
        problem = queue.journal.append_missing_events()
    if problem:
        raise StorageFailure(f"events.jsonl of {folder} cannot be written: {problem}", hint="Check the disk and the permissions.")


def watch_restored(store: Store, restored: Sequence[QueueCopy]) -> None:
    """Let a restored store watch the new folders of its queues instead of those that they had."""
    with store.write() as tx:
        for each in restored:
            tx.execute(tx.sql.queue_delete, path=each.queue.path)
            tx.execute(tx.sql.queue_insert, **dict(each.queue.replace(path=each.folder).items()))


def remove_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
