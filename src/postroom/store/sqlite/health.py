"""Checks of a store's file, its folder and the waking of waiters, for `inbox doctor`. Only `repair_file` changes something."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Error
from postroom.core.errors import Refusal
from postroom.core.text import shell_quote
from postroom.store.database_files import DatabaseFiles, data_companions
from postroom.store.sqlite import file_watcher, schema
from postroom.store.sqlite.open_database import map_error, open_connection
from postroom.store.sqlite.writer_queue import WriterQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom._fastpath.sqlite import Connection

    Finding = tuple[str, str, str]  # the subject; ok, warn or fail; a sentence for a person


MIN_FREE_BYTES, LOW_FREE_BYTES = 16 << 20, 256 << 20


def examine_file(location: str) -> list[Finding]:
    """Run all checks and return their findings. A damaged file is a finding, not an error."""
    return [*_examine_content(location), *_examine_folder(location), _examine_space(location), _examine_waking(location)]


def repair_file(location: str) -> None:
    """Set the journal mode to WAL. Refuses with `StoreBusy` while another process uses the file in its old mode."""
    connection, writer_queue = open_connection(location), WriterQueue(location)
    try:
        writer_queue.enter()
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
    except Error as error:
        raise map_error(error, location) from None
    finally:
        connection.close()
        writer_queue.leave()
        writer_queue.close()


def _examine_content(location: str) -> list[Finding]:
    findings: list[Finding] = []
    connection = None
    try:
        connection = open_connection(location)
        for finding in _examine_database(connection):
            findings.append(finding)
    except Refusal as refusal:
        findings.append(("file", "fail", f"{refusal}. {refusal.hint}"))
    except Error as error:
        findings.append(("file", "fail", f"{error}. Restore it from a backup, or recover what is left with `sqlite3 FILE .recover`."))
    finally:
        if connection is not None:
            connection.close()
    return findings


def _examine_database(connection: Connection) -> Iterator[Finding]:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        yield ("journal", "ok", mode)
    else:
        yield ("journal", "fail", f"{mode}, not wal: readers block writers, and waiters wake late; run `inbox doctor --fix`")
    faults = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    advice = "; restore a backup, or recover what is left with `sqlite3 FILE .recover`"
    yield ("integrity", "fail" if faults else "ok", "; ".join(faults) + advice if faults else "no damage found")
    dangling_rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    if dangling_rows:
        yield ("references", "fail", f"{len(dangling_rows)} rows refer to a row that does not exist")
    else:
        yield ("references", "ok", "every message has its thread")


def _examine_space(location: str) -> Finding:
    disk = os.statvfs(os.path.dirname(location))
    free_bytes = disk.f_bavail * disk.f_frsize
    said = f"{free_bytes >> 20} MiB free"
    if free_bytes < MIN_FREE_BYTES:
        return ("disk", "fail", f"{said}: nothing can be stored on a full disk; make room")
    return ("disk", "ok", said) if free_bytes >= LOW_FREE_BYTES else ("disk", "warn", f"{said}: make room before it is full")


def _examine_folder(location: str) -> Iterator[Finding]:
    folder = os.path.dirname(location)
    kind = schema.filesystem_type(folder)
    unsafe = schema.is_network_filesystem(kind)
    advice = ": WAL is not safe here; move the store to a local folder, or use PostgreSQL" if unsafe else ""
    yield ("file system", "fail" if unsafe else "ok", f"{kind or 'unknown'}{advice}")
    files = (folder, location, location + ".bell", location + ".lock")  # the last two are made when they are needed
    locked = [path for path in files if os.path.exists(path) and not os.access(path, os.W_OK)]
    said = f"you cannot write {', '.join(locked)}: check the owner with `ls -l`" if locked else "writable"
    yield ("permissions", "warn" if locked else "ok", said)
    loose = DatabaseFiles(location, companions=data_companions(folder)).find_loose_files()
    said = f"other users may use {', '.join(loose[:3])}: run `inbox init --db {shell_quote(location)}`" if loose else "for you alone"
    yield ("privacy", "warn" if loose else "ok", said)


def _examine_waking(location: str) -> Finding:
    try:
        watcher = file_watcher.open_watcher([], location)  # the wake file may not be there yet: the first waiter makes it
    except OSError as error:
        return ("waking", "warn", f"the wake file cannot be watched: {error.strerror}; waiters look once a second")
    watcher.close()
    if watcher.name == "polling":
        return ("waking", "warn", "no inotify instance is left (fs.inotify.max_user_instances); waiters look up to four times a second")
    return ("waking", "ok", f"by {watcher.name}, within milliseconds")
