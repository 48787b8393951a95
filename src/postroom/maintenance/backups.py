"""Backups of a store: a SQLite file, of a store on either engine, with its queues if asked, and the way back."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.retention import BackupResult, RestoreResult
from postroom.maintenance import queue_backups
from postroom.people import entries_mirror
from postroom.store import init_store, open_store, stored_version
from postroom.store.copying import copy_store
from postroom.store.files.private_files import create_draft, make_private_folder
from postroom.store.sqlite import backups
from postroom.store.sqlite.engine import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store


def back_up(store: Store, path: str, *, with_queues: bool = False) -> BackupResult:
    """Write the whole store into a new file, while it stays in use, and verify it. Refuses a file that exists.

    A store on PostgreSQL is copied into a SQLite store. Queues have files of their own: `with_queues` copies those that the store
    watches into the folder FILE.queues. The file appears last, once all is complete.
    """
    target = os.path.abspath(checks.path("file", path))
    if not os.access(os.path.dirname(target), os.W_OK):
        raise InvalidInput(f"{os.path.dirname(target)} is no folder that you can write", field="file", hint="Choose another place.")
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists already", field="file", hint="Choose another name, or move it away.")
    queues = queue_backups.back_up_queues(store, target) if with_queues else ()
    try:
        return BackupResult(target, _write_file(store, target), queues)
    except BaseException:
        if with_queues:
            queue_backups.remove_folders([target + queue_backups.SUFFIX])
        raise


def _write_file(store: Store, target: str) -> int:
    """Write a store on either engine into a new file, and return its size in bytes."""
    if isinstance(store, SqliteStore):
        return backups.write_backup(store, target)
    draft = _new_draft(target)
    try:
        init_store(draft)
        with SqliteStore(draft) as copy:
            copy_store(store, copy)
            return backups.write_backup(copy, target)
    finally:
        _remove_files(draft)


def restore(path: str, location: str, *, replace: bool = False, queues_into: str | None = None) -> RestoreResult:
    """Make a store with the content of a backup, at a new location, or with `replace` in an existing store, which may be in use.

    What an existing store had is first written into a backup beside it. `queues_into` makes the queues of the backup again, each in a new
    folder below this one, which the restored store watches. Refuses an existing store without `replace`, a file that is not an undamaged
    store, a backup without copies of its queues, and a PostgreSQL database with a store.
    """
    if queues_into is None:
        return _restore_store(path, location, replace=replace)
    source = os.path.abspath(checks.path("file", path))
    backups.verify_backup(source)
    planned = queue_backups.plan_restore(source, queues_into)
    folders = tuple([queue.folder for queue in planned])
    try:
        for queue in planned:
            queue_backups.restore_queue(queue)
        result = _restore_store(path, location, replace=replace)
    except BaseException:
        queue_backups.remove_folders(folders)
        raise
    store = open_store(location)
    try:
        queue_backups.watch_restored(store, planned)
    finally:
        store.close()
    return result.replace(queues=folders)


def _restore_store(path: str, location: str, *, replace: bool) -> RestoreResult:
    source = os.path.abspath(checks.path("file", path))
    backups.verify_backup(source)
    exists = stored_version(location) > 0
    if exists and not replace:
        hint = "Pass --replace to overwrite it. What it has is written into a backup first."
        raise InvalidState(f"there is a store at {location} already", hint=hint)
    if "://" in location:
        return _restore_by_copying(source, location, exists=exists)
    make_private_folder(os.path.dirname(os.path.abspath(location)))
    draft = _new_draft(os.path.abspath(location))
    try:
        backups.copy_backup(source, draft)
        init_store(draft)  # a backup of an older version is upgraded
        if exists:
            return RestoreResult(os.path.abspath(location), _replace_content(draft, location))
        _create_with_content(draft, location)
        return RestoreResult(os.path.abspath(location), None)
    finally:
        _remove_files(draft)


def _replace_content(draft: str, location: str) -> str:
    """Overwrite a store in use, and return the path of the backup of what it had."""
    init_store(location)
    with SqliteStore(location) as store:
        with store.read() as tx:
            stamp = clock.format_stamp(tx.now())[:26].replace("-", "").replace(":", "")
        previous = f"{store.location}.before-restore-{stamp}"
        backups.write_backup(store, previous)
        entries_mirror.update_mirror(store)
        # Before the rows go: if this process is killed, the mirror must not have lines of entries that the restore removed. The next reader
        # of such a line would take it for the entry of another program, and store it.
        entries_mirror.set_aside(store, stamp)
        try:
            backups.overwrite_store(store, draft)
        finally:
            entries_mirror.begin_again(store, f"{stamp}-meanwhile")  # another process may have written a mirror of the rows before
    return previous


def _create_with_content(draft: str, location: str) -> None:
    init_store(location)
    with SqliteStore(location) as store:
        backups.overwrite_store(store, draft)
        entries_mirror.update_mirror(store)


def _restore_by_copying(source: str, location: str, *, exists: bool) -> RestoreResult:
    if exists:
        hint = "Restore into a new database or schema, and let its users connect there."
        raise InvalidState("a store on PostgreSQL is not overwritten", hint=hint)
    draft = _new_draft(source)
    try:
        backups.copy_backup(source, draft)
        init_store(draft)
        init_store(location)
        with SqliteStore(draft) as copy:
            target = open_store(location)
            try:
                copy_store(copy, target)
            finally:
                target.close()
    finally:
        _remove_files(draft)
    return RestoreResult(location, None)


def _new_draft(path: str) -> str:
    file, draft = create_draft(path)
    os.close(file)
    os.unlink(draft)  # `init_store` and SQLite create it. The name is random
    return draft


def _remove_files(draft: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
        try:
            os.unlink(draft + suffix)
        except FileNotFoundError:
            pass
