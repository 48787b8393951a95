"""The local door: a Unix socket in the file system. Whoever may open it could open the store, so nobody is asked for a token there."""

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
OTHERS = 0o177  # what is kept from everybody but the owner
BACKLOG = 1024
TRIES, PAUSE = 40, 0.05


def is_local(scope: Scope) -> bool:
    """Whether a request came in here. An address of the network has a port, and no client has a say in that."""
    server = scope.get("server")
    return server is not None and server[1] is None


class LocalDoor:
    """A socket that listens at a path, for its owner alone, until it is closed."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        try:
            with _alone(self.path):
                _make_way(path)
                self.socket = _listening(path)
                self._made = _identity(self.path)
        except OSError as error:
            hint = "Name a file in a folder that is there and that you can write; a path may have about 100 bytes."
            reason = error.strerror or str(error)
            raise InvalidInput(f"{path} cannot be a socket: {reason}", field="uds", hint=hint) from None

    def close(self) -> None:
        """Take the file away, if it is still ours: another may have come into its place."""
        try:
            with _alone(self.path):
                if _identity(self.path) == self._made:
                    os.unlink(self.path)
        except OSError:
            pass  # it, or its folder, is gone
        self.socket.close()


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Two that start at once take turns: else one could take the other's socket for one that was left behind."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):  # who has it for longer is none of us
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                sleep(PAUSE)
        yield
    finally:
        os.close(folder)


def _make_way(path: str) -> None:
    """What somebody left who was killed is taken away. Nothing else is."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidState(f"{path} is there, and is no socket", hint="Choose another path, or take that file away.", path=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # somebody is there, and busy
    raise InvalidState(f"{path} is a socket on which somebody listens", hint="Another server runs there: use it, or choose another path.")


def _listening(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(OTHERS)
    try:
        made.bind(path)
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
