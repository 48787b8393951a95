"""Creation of a store in a file, and upgrades of an older one. `init_store` calls it."""

from __future__ import annotations

import os
from sqlite3 import complete_statement

from postroom._fastpath.sqlite import Connection, Error
from postroom.core.errors import InvalidInput, UnsafePlace, WrongVersion
from postroom.store.files.database_files import DatabaseFiles, data_companions
from postroom.store.migrations import read_scripts
from postroom.store.sqlite.engine import APPLICATION_ID, create_file, resolve_path
from postroom.store.sqlite.errors import map_error
from postroom.store.sqlite.open_database import open_connection
from postroom.store.sqlite.writer_queue import WriterQueue
from postroom.store.statements.retention import PLACE_SETTING, SETTINGS
from postroom.store.tables import SCHEMA_VERSION

# On these, processes of other machines may write too. They do not share the memory that WAL needs, and locks are unreliable.
NETWORK_FILESYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "gfs2", "ocfs2")
)
# Folders of another system, shared with a virtual machine or a container by WSL, Docker Desktop, VirtualBox or VMware.
HOST_FILESYSTEMS = frozenset(("9p", "drvfs", "virtiofs", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "fuse.grpcfuse", "fakeowner", "osxfs"))
NETWORK_FUSE_PREFIXES = ("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse")


def init_database(path: str, *, shared: str | None = None) -> bool:
    """Create or upgrade the store at `path`, and return whether it was created. Any number of processes may call it at the same time.

    Its files are for their owner only, or for the group `shared`. Loose permissions of an existing store are tightened.
    Refuses a folder that cannot be written, a network file system, and a file that is not a store.
    """
    if not path or "\0" in path:
        raise InvalidInput("the path of a store cannot be empty or hold a NUL character", field="db")
    location = resolve_path(path)
    if os.path.isdir(location):
        raise InvalidInput(f"{location} is a folder", field="db", hint=f"Pass a file, for example {os.path.join(path, 'coord.db')}.")
    files = DatabaseFiles(location, group=shared, companions=data_companions(os.path.dirname(location)))
    files.make_folder()
    refuse_network_filesystem(files.folder)
    files.create_database()
    created = _create_or_upgrade(location)
    create_file(location + ".lock", location)
    files.set_permissions()
    files.hide_from_git()
    return created


def read_stored_version(location: str) -> int:
    """Return the version of the schema of a store, or 0 if there is none."""
    if not os.path.isfile(location) or not os.path.getsize(location):
        return 0
    connection = open_connection(location)
    try:
        return _read_version(connection, location)
    except Error as error:
        raise map_error(error, location) from None
    finally:
        connection.close()


def _create_or_upgrade(location: str) -> bool:
    connection = open_connection(location)
    writer_queue = WriterQueue(location)
    try:
        is_current = os.path.exists(location) and os.path.getsize(location) and _read_version(connection, location) == SCHEMA_VERSION
        if is_current and read_place(connection):
            return False
        writer_queue.enter()  # SQLite does not wait for other processes when it changes the journal mode
        created = not is_current and _run_migrations(connection, location)
        if not read_place(connection):
            note_place(connection, location)
    except Error as error:
        raise map_error(error, location) from error
    finally:
        connection.close()
        writer_queue.leave()
        writer_queue.close()
    return created


def read_place(connection: Connection) -> str | None:
    """Return the path that was noted in a store, where it belongs. It differs from the path of a store that was moved or copied."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'settings'").fetchone():
        return None  # a store of an older version
    row = connection.execute("SELECT value FROM settings WHERE name = :name", {"name": PLACE_SETTING}).fetchone()
    return None if row is None else str(row[0])


def note_place(connection: Connection, location: str) -> None:
    """Note in a store where it belongs, so that `inbox doctor` recognizes a copy of it elsewhere."""
    connection.execute(SETTINGS.upsert_statement(), {"name": PLACE_SETTING, "value": place_text(location)})


def place_text(location: str) -> str:
    """Return the path of a file as a text that SQLite can store, also if its name is not UTF-8."""
    return os.fsencode(location).decode(errors="backslashreplace")


def _run_migrations(connection: Connection, location: str) -> bool:
    if not count_tables(connection):
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # lets pruning return free pages. Only a new file, or VACUUM, can set it
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=OFF")  # a script that rebuilds a table drops the one that others reference
    connection.execute("BEGIN IMMEDIATE")
    previous_version = _read_version(connection, location)  # again, now that no other process can change it

    def run_scripts() -> None:
        for number, script in read_scripts("sqlite"):
            if number > previous_version:
                for statement in split_statements(script):
                    connection.execute(statement)

    if previous_version or not count_tables(connection):
        run_scripts()
    else:
        from postroom.store.sqlite.adoption import adopt_database

        adopt_database(connection, run_scripts)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")
    return previous_version == 0


def _read_version(connection: Connection, location: str) -> int:
    """Return the version of the schema, or 0 if there is none yet.

    Refuses another program's database, unless it can be adopted, and a version that is too new.
    """
    own_transaction = not connection.in_transaction
    if own_transaction:
        connection.execute("BEGIN")  # one view: another `init_database` may be running
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    try:
        if application != APPLICATION_ID and count_tables(connection):
            from postroom.store.sqlite.adoption import refuse_unless_adoptable

            refuse_unless_adoptable(connection, location, version=version, application=application)
    finally:
        if own_transaction:
            connection.execute("ROLLBACK")
    if version > SCHEMA_VERSION:
        raise WrongVersion(f"{location} has schema {version}; this program knows {SCHEMA_VERSION}", hint="Upgrade postroom.")
    return version


def count_tables(connection: Connection) -> int:
    """Return the number of tables, indexes and other objects of a database."""
    count: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return count


def split_statements(script: str) -> list[str]:
    """Return the statements of a script. Semicolons inside a string or a trigger do not end one."""
    statements, pending = [], ""
    for part in script.split(";"):
        pending += part + ";"
        if complete_statement(pending):
            statements.append(pending)
            pending = ""
    return [statement for statement in statements if any(map(_is_code, statement.splitlines()))]


def _is_code(line: str) -> bool:
    return line.strip() not in ("", ";") and not line.lstrip().startswith("--")


def refuse_network_filesystem(folder: str) -> None:
    """Raise `UnsafePlace` if a folder is on a network file system."""
    kind = filesystem_type(folder)
    if is_network_filesystem(kind):
        raise UnsafePlace(
            f"{folder} is on a network file system ({kind}), where SQLite cannot keep its promises",
            hint="Choose a local folder; for more than one machine, use PostgreSQL.",
        )


def is_network_filesystem(kind: str) -> bool:
    return kind in NETWORK_FILESYSTEMS or kind in HOST_FILESYSTEMS or kind.startswith(NETWORK_FUSE_PREFIXES)


def filesystem_type(folder: str, table: str = "/proc/self/mountinfo") -> str:
    """Return the type of the file system of a folder, or "" if the system has no table of mounts."""
    best_mount, kind = "", ""
    try:
        with open(table, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                mount = before.split()[4].replace("\\040", " ")
                inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best_mount):
                    best_mount, kind = mount, after.split()[0]
    except OSError:
        pass
    return kind
