"""Checks of a store's file, its folder and the waking of waiters, for `inbox doctor`. Only `repair_file` changes something."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Error
from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.core.records.health import FAIL, OK, WARN, Finding
from postroom.core.text import shell_quote
from postroom.store.files.database_files import DatabaseFiles, data_companions
from postroom.store.sqlite import file_watcher, schema
from postroom.store.sqlite.open_database import map_error, open_connection
from postroom.store.sqlite.writer_queue import WriterQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom._fastpath.sqlite import Connection

MIN_FREE_BYTES, LOW_FREE_BYTES = 16 << 20, 256 << 20
_RECOVER = "Restore a backup, or recover what is left with `sqlite3 FILE .recover`."


def examine_file(location: str) -> list[Finding]:
    """Run all checks and return their findings. A damaged file is a finding, not an error."""
    return [*_examine_content(location), *_examine_folder(location), _examine_space(location), _examine_waking(location)]


def repair_file(location: str) -> None:
    """Set the journal mode to WAL, and note that the store belongs where it is now.

    Refuses with `StoreBusy` while another process uses the file in its old mode.
    """
    connection, writer_queue = open_connection(location), WriterQueue(location)
    try:
        writer_queue.enter()
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        if schema.read_place(connection):  # otherwise `init_database`, which runs next, notes it
            schema.note_place(connection, os.path.realpath(location))
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
        findings += _examine_database(connection, location)
    except Refusal as refusal:
        findings.append(Finding("file", FAIL, str(refusal), "Nothing can be read or stored.", refusal.hint))
    except Error as error:
        findings.append(Finding("file", FAIL, str(error), "What is in the damaged part is lost.", _RECOVER))
    finally:
        if connection is not None:
            connection.close()
    return findings


def _examine_database(connection: Connection, location: str) -> list[Finding]:
    checks = (_examine_journal, _examine_integrity, _examine_references, _examine_clock)
    return [*(check(connection) for check in checks), _examine_place(connection, location)]


def _examine_journal(connection: Connection) -> Finding:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        return Finding("journal", OK, mode)
    return Finding("journal", FAIL, f"{mode}, not wal", "Readers block writers, and waiters wake late.", "inbox doctor --fix")


def _examine_integrity(connection: Connection) -> Finding:
    faults = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    if not faults:
        return Finding("integrity", OK, "no damage found")
    return Finding("integrity", FAIL, "; ".join(faults), "What is in the damaged part is lost.", _RECOVER)


def _examine_references(connection: Connection) -> Finding:
    rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    if not rows:
        return Finding("references", OK, "every message has its thread")
    why = "Another program deleted or wrote them. They are shown nowhere."
    return Finding("references", FAIL, f"{len(rows)} rows refer to a row that does not exist", why, "Restore a backup.")


def _examine_clock(connection: Connection) -> Finding:
    """Compare the newest event with the clock: an event from the future shows that the clock was set back."""
    row = connection.execute("SELECT created_at FROM events ORDER BY event_id DESC LIMIT 1").fetchone()
    try:
        ahead_seconds = 0.0 if row is None else (clock.parse_stamp(row[0]) - clock.now()) / clock.MICROSECONDS_PER_SECOND
    except ValueError:
        ahead_seconds = 0.0  # another program wrote the event, with an instant in a format of its own
    if ahead_seconds <= clock.MAX_CLOCK_STEP_SECONDS:
        return Finding("clock", OK, "not behind the newest event")
    why = "The clock was set back. Leases and deliveries from before count as run out."
    return Finding("clock", WARN, f"the newest event is {ahead_seconds:.0f} s in the future", why, "Correct the clock of this machine.")


def _examine_place(connection: Connection, location: str) -> Finding:
    """Compare the path of the file with the one that was noted in it: another one is that of the original, or an earlier one."""
    place = schema.read_place(connection)
    if place is None or place == schema.place_text(location):
        return Finding("place", OK, "where it belongs" if place else "not noted: `inbox init` does")
    log = place + "-wal"
    if _is_file_of_store(place):
        if os.path.samefile(place, location):
            return Finding("place", OK, f"also known as {place}")
        why = "Both give out the same work and mail, so that it is done twice."
        mend = "Stop using one of them. To keep this one as a store of its own: inbox doctor --fix"
        return Finding("place", WARN, f"a copy of {place}, which is still there", why, mend)
    if os.path.exists(log) and os.path.getsize(log):
        why = "The newest changes are in the log that stayed behind."
        return Finding("place", FAIL, f"moved from {place} without {log}", why, "Restore a backup, or move both files together.")
    why = "The person's token, the server's address and the settings of agents' programs are those of the old place."
    mend = "inbox doctor --fix, then inbox harness connect in each project"
    return Finding("place", WARN, f"moved from {place}", why, mend)


def _is_file_of_store(path: str) -> bool:
    """Return whether there is a store at a path, of any version. One that cannot be looked at counts, as it may be in use."""
    try:
        return schema.read_stored_version(path) > 0
    except Refusal:
        return True


def _examine_space(location: str) -> Finding:
    disk = os.statvfs(os.path.dirname(location))
    free_bytes = disk.f_bavail * disk.f_frsize
    said = f"{free_bytes >> 20} MiB free"
    if free_bytes >= LOW_FREE_BYTES:
        return Finding("disk", OK, said)
    return Finding("disk", FAIL if free_bytes < MIN_FREE_BYTES else WARN, said, "Nothing can be stored on a full disk.", "Make room.")


def _examine_folder(location: str) -> Iterator[Finding]:
    folder = os.path.dirname(location)
    kind = schema.filesystem_type(folder)
    if schema.is_network_filesystem(kind):
        move = "Move the store to a local folder, or use PostgreSQL."
        yield Finding("file system", FAIL, kind, "WAL is not safe on a network file system.", move)
    else:
        yield Finding("file system", OK, kind or "unknown")
    files = (folder, location, location + ".lock")  # the last one is made when it is needed
    locked = [path for path in files if os.path.exists(path) and not os.access(path, os.W_OK)]
    if locked:
        said = f"you cannot write {', '.join(locked)}"
        yield Finding("permissions", FAIL, said, "You can read, and every write is refused.", f"ls -l {shell_quote(folder)}")
    else:
        yield Finding("permissions", OK, "writable")
    loose = DatabaseFiles(location, companions=data_companions(folder)).find_loose_files()
    if loose:
        why = "They can read every message, and write as anybody."
        yield Finding("privacy", WARN, f"other users may use {', '.join(loose[:3])}", why, "inbox doctor --fix")
    else:
        yield Finding("privacy", OK, "for you alone")


def _examine_waking(location: str) -> Finding:
    try:
        watcher = file_watcher.open_watcher([], location)  # the wake file may not be there yet: the first waiter makes it
    except OSError as error:
        return Finding("waking", WARN, f"the wake file cannot be watched: {error.strerror}", "Waiters look once a second.", "inbox init")
    watcher.close()
    if watcher.name != "polling":
        return Finding("waking", OK, f"by {watcher.name}, within milliseconds")
    mend = "sudo sysctl fs.inotify.max_user_instances=1024"
    return Finding("waking", WARN, "no inotify instance is left", "Waiters look up to four times a second instead.", mend)
