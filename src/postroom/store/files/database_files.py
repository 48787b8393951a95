"""The files of a SQLite database and their permissions: created private, tightened by `init`, or shared with a group.

`init` of a store and of a queue call this module. `private_files.py` says how the mode of a database is the record of its sharing.
"""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput, StoreReadOnly
from postroom.core.text import short_repr
from postroom.store.files.private_files import (
    PRIVATE_FILE_MODE,
    SHARED_FILE_MODE,
    file_mode_beside,
    folder_mode_for,
    make_private_folder,
    write_private_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_FOLDER_NAME = ".agents"
_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock", ".bell", ".bells")  # `.bell`: of stores made before 2026-11-19


class DatabaseFiles:
    """The files of one database, and the permissions that `init` gives to them. `group` shares them with a group, by name or number.

    `companions` are names in the same folder that belong to the database. A new or empty folder, and one that is called `.agents`, gets
    permissions too. Any other folder belongs to the user and stays as it is.
    """

    def __init__(self, location: str, *, group: str | None = None, companions: tuple[str, ...] = ()) -> None:
        self.location = location
        self.folder = os.path.dirname(location)
        self.mode = file_mode_beside(location) if group is None else SHARED_FILE_MODE
        self.folder_mode = folder_mode_for(self.mode)
        self._companions = companions
        self._group_id = -1 if group is None else find_group(group)  # -1 leaves the group as it is
        self._owns_folder = os.path.basename(self.folder) == DEFAULT_FOLDER_NAME or not _has_files(self.folder)

    def make_folder(self) -> None:
        """Create the folder and give it its permissions. Refuses with `StoreReadOnly` if it cannot be made."""
        try:
            make_private_folder(self.folder)
        except OSError as error:
            hint = "Choose a folder that you can write."
            raise StoreReadOnly(f"the folder {self.folder} cannot be made: {error.strerror}", hint=hint) from None
        if self._owns_folder:
            self._set_permissions(self.folder)
        elif self._group_id != -1:
            self._check_shared_folder()

    def create_database(self) -> None:
        """Create an empty database, unless it exists. SQLite would use the umask for it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.close(os.open(self.location, flags, PRIVATE_FILE_MODE))
        except OSError:
            pass  # it exists, or SQLite's own error describes the problem

    def set_permissions(self) -> None:
        """Give every file of the database the right mode, and in a shared one the right group. Files of other users stay as they are."""
        for path in self._existing_files():
            self._set_permissions(path)

    def find_loose_files(self) -> list[str]:
        """Return the files that users outside of the owner, or of the group of a shared database, may use. `init` mends them."""
        forbidden = 0o7 if self.mode == SHARED_FILE_MODE else 0o77
        places = [*([self.folder] if self._owns_folder else []), *self._existing_files()]
        return [path for path in places if os.stat(path).st_mode & forbidden]

    def hide_from_git(self) -> None:
        """In a git work tree, write a `.gitignore` for these files, so that nobody commits messages. An existing one stays."""
        path = os.path.join(self.folder, ".gitignore")
        if self._owns_folder and _is_in_work_tree(self.folder) and not os.path.lexists(path):
            name = os.path.basename(self.location)
            write_private_file(path, f"/{name}\n/{name}[-.]*\n/data/\n/.gitignore\n", mode=self.mode)

    def _check_shared_folder(self) -> None:
        """Refuse a folder of the user in which the group cannot create files, or in which new files would get another group."""
        status = os.stat(self.folder)
        if status.st_mode & 0o2070 != 0o2070 or self._group_id != status.st_gid:
            hint = f"Choose a new folder, or prepare this one: chgrp GROUP {self.folder} && chmod 2770 {self.folder}"
            raise InvalidInput(f"the group cannot create files in {self.folder}", field="shared", hint=hint)

    def _existing_files(self) -> Iterator[str]:
        """Yield the paths of all files and folders that exist. Links are left out."""
        for top in (*(self.location + suffix for suffix in _SUFFIXES), *(os.path.join(self.folder, name) for name in self._companions)):
            if os.path.islink(top) or not os.path.exists(top):
                continue
            yield top
            for folder, folders, names in os.walk(top):
                yield from (path for path in (os.path.join(folder, name) for name in (*folders, *names)) if not os.path.islink(path))

    def _set_permissions(self, path: str) -> None:
        mode = self.folder_mode if os.path.isdir(path) else self.mode
        try:
            if self._group_id != -1:
                os.chown(path, -1, self._group_id)
            current = os.stat(path).st_mode & 0o7777
            wanted = mode & ~0o700 | current & 0o700  # the owner's own permissions stay: a read-only folder is meant to be one
            if current != wanted:
                os.chmod(path, wanted)
        except (FileNotFoundError, PermissionError):
            pass  # SQLite removed one of its files, or it belongs to another user of a shared database


def find_group(group: str) -> int:
    """Return the id of a group, given by name or number. Refuses an unknown group, and one that the user is not in."""
    import grp

    hint = "Name a group that you are in. `id` lists them."
    try:
        group_id = int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise InvalidInput(f"there is no group {short_repr(group)}", field="shared", hint=hint) from None
    if os.geteuid() != 0 and group_id not in (os.getegid(), *os.getgroups()):
        raise InvalidInput(f"you are not in the group {short_repr(group)}", field="shared", hint=hint)
    return group_id


def data_companions(folder: str) -> tuple[str, ...]:
    """Return the names in the folder of a store that belong to it: `data`, unless that folder may be somebody else's."""
    is_ours = os.path.basename(folder) == DEFAULT_FOLDER_NAME or os.path.exists(os.path.join(folder, "data", "inbox", "entries.jsonl"))
    return ("data",) if is_ours else ()


def _has_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _is_in_work_tree(folder: str) -> bool:
    """Return whether a folder or one above it has a `.git`."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
    return True
