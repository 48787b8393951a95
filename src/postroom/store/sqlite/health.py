"""Checks of a store's file, its folder and the waking of waiters, for `inbox doctor`. They change nothing."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Error
from postroom.core.text import shell_quote
from postroom.store.database_files import DatabaseFiles, data_companions
from postroom.store.sqlite import file_watcher, schema
from postroom.store.sqlite.open_database import open_connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom._fastpath.sqlite import Connection

    Finding = tuple[str, str, str]  # the subject; ok, warn or fail; a sentence for a person


def examine_file(location: str) -> list[Finding]:
    """Run all checks and return their findings."""
    connection = open_connection(location)
    try:
        return [*_examine_database(connection), *_examine_folder(location), _examine_waking(location)]
    except Error as error:
        return [("file", "fail", str(error))]
    finally:
        connection.close()


def _examine_database(connection: Connection) -> Iterator[Finding]:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        yield ("journal", "ok", mode)
    else:
        yield ("journal", "fail", f"{mode}, not wal: run `inbox init` again")
    faults = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    yield ("integrity", "fail" if faults else "ok", "; ".join(faults) or "no damage found")
    dangling_rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    if dangling_rows:
        yield ("references", "fail", f"{len(dangling_rows)} rows refer to a row that does not exist")
    else:
        yield ("references", "ok", "every message has its thread")


def _examine_folder(location: str) -> Iterator[Finding]:
    folder = os.path.dirname(location)
    kind = schema.filesystem_type(folder)
    unsafe = schema.is_network_filesystem(kind)
    yield ("file system", "fail" if unsafe else "ok", f"{kind or 'unknown'}{': WAL is not safe here' if unsafe else ''}")
    writable = all(os.access(path, os.W_OK) for path in (folder, location, location + ".bell", location + ".lock"))
    yield ("permissions", "ok" if writable else "warn", "writable" if writable else "something in the folder cannot be written by you")
    loose = DatabaseFiles(location, companions=data_companions(folder)).find_loose_files()
    said = f"other users may use {', '.join(loose[:3])}: run `inbox init --db {shell_quote(location)}`" if loose else "for you alone"
    yield ("privacy", "warn" if loose else "ok", said)


def _examine_waking(location: str) -> Finding:
    try:
        watcher = file_watcher.open_watcher([location + ".bell"], location)
    except OSError as error:
        return ("waking", "warn", f"the wake file cannot be watched: {error.strerror}; waiters look once a second")
    watcher.close()
    if watcher.name == "polling":
        return ("waking", "warn", "no inotify instance is left (fs.inotify.max_user_instances); waiters look up to four times a second")
    return ("waking", "ok", f"by {watcher.name}, within milliseconds")
