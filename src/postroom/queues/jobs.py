"""One command of the notifier's, while it runs. Its output goes to a file, so that no amount of it stops anybody."""

from __future__ import annotations

import os
import tempfile
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.children import GRACE_SECONDS, end_of
from postroom.leash import end_group, let_go, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.chores import NotifierTask


class Job:
    def __init__(self, task: NotifierTask, home: str, environment: dict[str, str]) -> None:
        self.task = task
        self.began = monotonic()
        self.late = False
        self.due = self.began + task.timeout_seconds if task.timeout_seconds is not None else None
        self._output = tempfile.TemporaryFile(dir=home)  # noqa: SIM115 - closed in close()
        with open(os.devnull, "rb") as nothing:
            files = (nothing.fileno(), self._output.fileno(), self._output.fileno())
            self.process, self._leash = spawn(task.command, environment, files)

    def end_if_late(self) -> None:
        """Ask it to end when its time is over, and insist a while later."""
        if self.due is None or monotonic() < self.due:
            return
        end_group(self.process, SIGKILL if self.late else SIGTERM)
        self.late, self.due = True, None if self.late else monotonic() + GRACE_SECONDS

    def close(self) -> str:
        """The end of what it said."""
        let_go(self._leash)
        said = end_of(self._output)
        self._output.close()
        return said
