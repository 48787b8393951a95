"""Files and folders that only their owner may read. A file is replaced atomically, and a link that somebody planted is never followed.

The mode of a database is the record of how it is shared: SQLite gives it to `-wal` and `-shm`, and this module gives it to all other files
beside it. 0660 is shared with a group (`init --shared GROUP`), and everything else is private.
"""

from __future__ import annotations

import os

PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700
SHARED_FILE_MODE = 0o660
SHARED_FOLDER_MODE = 0o2770  # new files in it get its group


def write_private_file(path: str, text: str, *, mode: int = PRIVATE_FILE_MODE) -> None:
    """Replace a file atomically. Missing folders are created for their owner only. `mode` does not depend on the umask.

    If `path` is a link, the link is replaced and its target stays as it is.
    """
    make_private_folder(os.path.dirname(path) or ".")
    file, draft = create_draft(path, mode=mode)
    try:
        with open(file, "wb") as output:
            output.write(text.encode())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def create_draft(path: str, *, mode: int = PRIVATE_FILE_MODE) -> tuple[int, str]:
    """Create an empty file beside `path`, to be renamed to it. Return its descriptor and its path.

    The name is random and the file must be new, so that nobody can put a link in its place.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    os.fchmod(file, mode)
    return file, draft


def make_private_folder(path: str, *, mode: int = PRIVATE_FOLDER_MODE) -> None:
    """Create a folder and its missing parents, each with `mode`, whatever the umask is. An existing folder is left as it is."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path) or "."
    for folder in reversed(missing):
        try:
            os.mkdir(folder, PRIVATE_FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
            continue  # another process was first
        os.chmod(folder, mode)


def file_mode_beside(database: str) -> int:
    """Return the mode of the files beside a database. They are private, also if there is no such file, unless the database is shared."""
    try:
        return SHARED_FILE_MODE if os.stat(database).st_mode & 0o777 == SHARED_FILE_MODE else PRIVATE_FILE_MODE
    except OSError:
        return PRIVATE_FILE_MODE


def folder_mode_for(file_mode: int) -> int:
    """Return the mode of a folder whose files have `file_mode`."""
    return SHARED_FOLDER_MODE if file_mode == SHARED_FILE_MODE else PRIVATE_FOLDER_MODE


def open_beside(database: str, path: str, flags: int) -> int:
    """Open a file that belongs to a database, and return its descriptor. A missing file is created with the mode that belongs to it."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        mode = file_mode_beside(database)
        file = os.open(path, flags | os.O_CREAT, PRIVATE_FILE_MODE)
    try:
        os.fchmod(file, mode)
        give_to_owner(file, database)
    except OSError:
        pass  # another user of a shared database created it at the same time
    return file


def give_to_owner(file: int | str, database: str) -> None:
    """Give a file or folder that root created to the owner of the database, as SQLite does with its own files. Other users cannot."""
    if os.geteuid() == 0:
        owner = os.stat(database)
        if owner.st_uid != 0:
            os.chown(file, owner.st_uid, owner.st_gid)
