"""Making a store, and bringing an older one up to date."""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput, NotAStore, StoreReadOnly, UnsafePlace, WrongVersion
from postroom.store.migrations import scripts
from postroom.store.sqlite.driver import Connection, Error
from postroom.store.sqlite.engine import APPLICATION, VERSION, connection, resolved, touch
from postroom.store.sqlite.faults import refusal
from postroom.store.sqlite.turnstile import Turnstile

# File systems on which other machines write too, so that WAL's shared memory is not shared and locks may lie.
NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "gfs2", "ocfs2")
)
NETWORK_FUSE = ("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse")


def init(path: str) -> bool:
    """Make the store at `path`, or upgrade it. True if it was not there. Safe to call at any time, by any number at once."""
    if not path or "\0" in path:
        raise InvalidInput("the path of a store cannot be empty or hold a NUL character", field="db")
    place = resolved(path)
    folder = os.path.dirname(place)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"the folder {folder} cannot be made: {error.strerror}", hint="Choose a folder that you can write.") from None
    if os.path.isdir(place):
        raise InvalidInput(f"{place} is a folder", field="db", hint=f"Pass a file, for example {os.path.join(path, 'coord.db')}.")
    refuse_network(folder)
    opened = connection(place)
    turnstile = Turnstile(place)
    try:
        if os.path.exists(place) and os.path.getsize(place) and _version(opened, place) == VERSION:
            return False
        turnstile.enter()  # changing the journal mode does not wait for others, so they wait here
        created = _migrate(opened, place)
    except Error as error:
        raise refusal(error, place) from error
    finally:
        opened.close()
        turnstile.leave()
        turnstile.close()
    for suffix in (".bell", ".lock"):
        touch(place + suffix)
    return created


def _migrate(opened: Connection, place: str) -> bool:
    opened.execute("PRAGMA journal_mode=WAL")
    opened.execute("BEGIN IMMEDIATE")
    found = _version(opened, place)  # again, now that nobody else can change it
    for number, script in scripts("sqlite"):
        if number > found:
            for statement in split(script):
                opened.execute(statement)
    opened.execute(f"PRAGMA application_id={APPLICATION}")
    opened.execute(f"PRAGMA user_version={VERSION}")
    opened.execute("COMMIT")
    return found == 0


def _version(opened: Connection, place: str) -> int:
    alone = not opened.in_transaction
    if alone:
        opened.execute("BEGIN")  # one view: another `init` may be at work
    version: int = opened.execute("PRAGMA user_version").fetchone()[0]
    application = opened.execute("PRAGMA application_id").fetchone()[0]
    tables = opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if alone:
        opened.execute("ROLLBACK")
    if tables and application != APPLICATION:
        raise NotAStore(f"{place} is somebody else's database", hint="Choose another path: Postroom keeps a file of its own.")
    if version > VERSION:
        raise WrongVersion(f"{place} has schema {version}; this program knows {VERSION}", hint="Upgrade postroom.")
    return version


def split(script: str) -> list[str]:
    """The statements of a script. Ours hold no semicolon inside a string, and comments stand on lines of their own."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]


def refuse_network(folder: str) -> None:
    kind = filesystem(folder)
    if is_network(kind):
        raise UnsafePlace(
            f"{folder} is on a network file system ({kind}), where SQLite cannot keep its promises",
            hint="Choose a local folder; for more than one machine, use PostgreSQL.",
        )


def is_network(kind: str) -> bool:
    return kind in NETWORK or kind.startswith(NETWORK_FUSE)


def filesystem(folder: str, table: str = "/proc/self/mountinfo") -> str:
    """The kind of file system that holds a folder, or an empty string where the system does not say."""
    best, kind = "", ""
    try:
        with open(table, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                mount = before.split()[4].replace("\\040", " ")
                inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, kind = mount, after.split()[0]
    except OSError:
        pass
    return kind
