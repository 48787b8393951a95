"""What can be told about a store's file, its folder and its bell without changing anything."""

from __future__ import annotations

import os

from postroom.store.sqlite import bell, schema
from postroom.store.sqlite.driver import Error
from postroom.store.sqlite.engine import connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.store.sqlite.driver import Connection

    Finding = tuple[str, str, str]  # what was looked at; ok, warn or fail; what was found


def examine(place: str) -> list[Finding]:
    opened = connection(place)
    try:
        return [*_file(opened), *_folder(place), _bell(place)]
    except Error as error:
        return [("file", "fail", str(error))]
    finally:
        opened.close()


def _file(opened: Connection) -> Iterator[Finding]:
    mode = opened.execute("PRAGMA journal_mode").fetchone()[0]
    yield ("journal", "ok" if mode == "wal" else "fail", mode if mode == "wal" else f"{mode}, not wal: run `inbox init` again")
    faults = [row[0] for row in opened.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    yield ("integrity", "fail" if faults else "ok", "; ".join(faults) or "no damage found")
    strays = opened.execute("PRAGMA foreign_key_check").fetchall()
    yield ("references", "fail" if strays else "ok", f"{len(strays)} rows refer to nothing" if strays else "every message has its thread")


def _folder(place: str) -> Iterator[Finding]:
    folder = os.path.dirname(place)
    kind = schema.filesystem(folder)
    unsafe = schema.is_network(kind)
    yield ("file system", "fail" if unsafe else "ok", f"{kind or 'unknown'}{': WAL is not safe here' if unsafe else ''}")
    writable = all(os.access(path, os.W_OK) for path in (folder, place, place + ".bell", place + ".lock"))
    yield ("permissions", "ok" if writable else "warn", "writable" if writable else "something in the folder cannot be written by you")


def _bell(place: str) -> Finding:
    try:
        ear = bell.hear([place + ".bell"])
    except OSError as error:
        return ("waking", "warn", f"the bell cannot be watched: {error.strerror}; waiters look once a second")
    ear.close()
    if ear.name == "polling":
        return ("waking", "warn", "no inotify instance is left (fs.inotify.max_user_instances); waiters look up to four times a second")
    return ("waking", "ok", f"by {ear.name}, within milliseconds")
