"""The Unix socket of the server. Only its owner can open it, and the owner can open the store too, so requests need no token."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

from starlette.types import Scope

from postroom.core.errors import InvalidInput, InvalidState

DOOR = "unix"
OWNER_ONLY_UMASK = 0o177  # permission bits to clear: only the owner may connect
BACKLOG_CONNECTIONS = 1024
LOCK_ATTEMPTS, LOCK_PAUSE_SECONDS = 40, 0.05


def is_unix_socket(scope: Scope) -> bool:
    """Return whether a request came over the Unix socket. A TCP address has a port, and a client cannot change that."""
    server = scope.get("server")
    return server is not None and server[1] is None


class UnixSocketListener:
    """A listening Unix socket at a path, for its owner only. Closing it removes the file."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        try:
            with _lock_folder(self.path):
                _remove_stale_socket(path)
                self.socket = _bind_socket(path)
                self._created_file = _file_identity(self.path)
        except OSError as error:
            hint = "Name a file in a folder that is there and that you can write; a path may have about 100 bytes."
            reason = error.strerror or str(error)
            raise InvalidInput(f"{path} cannot be a socket: {reason}", field="uds", hint=hint) from None

    def close(self) -> None:
        """Stop listening, and remove the file unless another server has replaced it."""
        try:
            with _lock_folder(self.path):
                if _file_identity(self.path) == self._created_file:
                    os.unlink(self.path)
        except OSError:
            pass  # the file, or its folder, is gone
        self.socket.close()


@contextmanager
def _lock_folder(path: str) -> Iterator[None]:
    """Lock the folder, so that two servers that start at once do not take each other's new socket for a stale one.

    Goes on without the lock after `LOCK_ATTEMPTS`: a holder beyond this limit is not a Postroom process.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                sleep(LOCK_PAUSE_SECONDS)
        yield
    finally:
        os.close(folder)


def _remove_stale_socket(path: str) -> None:
    """Remove a socket that no server listens on. Refuses with `InvalidState` if there is another file, or a live server."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise InvalidState(f"{path} exists and is not a socket", hint="Choose another path, or remove that file.", path=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # a server listens, and is busy
    raise InvalidState(f"another server listens on {path}", hint="Use that server, or choose another path.")


def _bind_socket(path: str) -> socket.socket:
    """Return a socket that listens at the path."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous_umask = os.umask(OWNER_ONLY_UMASK)
    try:
        listener.bind(path)
        listener.listen(BACKLOG_CONNECTIONS)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(previous_umask)
    return listener


def _file_identity(path: str) -> tuple[int, int]:
    """Return the device and the inode of a file."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino
