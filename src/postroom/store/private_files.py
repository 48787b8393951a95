"""Files and folders that only their owner may read. A file is replaced atomically, and a link that somebody planted is never followed."""

from __future__ import annotations

import os

PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700


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
