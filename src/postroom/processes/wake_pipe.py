"""A pipe that wakes a waiting thread. Workers, the runner and supervisors call it."""

from __future__ import annotations

import os


class WakePipe:
    """A pipe with which signal handlers and other threads wake a thread that waits until `read_fd`, its reading end, is readable."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.write_fd, False)

    def notify(self) -> None:
        """Wake the waiting thread. Safe to call from a signal handler."""
        try:
            os.write(self.write_fd, b".")
        except OSError:
            pass  # the pipe is closed, or so full that the reader will wake anyway

    def drain(self) -> None:
        """Discard the notifications that have arrived so far."""
        try:
            os.read(self.read_fd, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self.write_fd)
