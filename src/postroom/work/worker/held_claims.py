"""The threads that a worker holds: with a running command, waiting for an answer, or pausing before the command is run again."""

from __future__ import annotations

from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from postroom.core.records.work import Claim

    class Run(Protocol):
        """One run for a thread: a `ChildProcess`, or something that behaves like one."""

        status: int
        has_ended: bool
        kill_at: float | None

        @property
        def exit_description(self) -> str: ...

        def wait(self, seconds: float | None) -> bool: ...

        def send_signal(self, signal: int) -> None: ...

        def read_output(self) -> str: ...

        def read_errors(self) -> str: ...

        def close(self) -> None: ...


class HeldClaim:
    """A thread that the worker holds, and the time (monotonic seconds) to renew its lease: after a third of its length."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.schedule_renewal()

    def schedule_renewal(self) -> None:
        self.renew_at = monotonic() + self.claim.lease.lease_seconds / 3


class ParkedThread(HeldClaim):
    """A blocked thread whose command has exited, and the event id of its question."""

    def __init__(self, claim: Claim, question_event_id: int) -> None:
        super().__init__(claim)
        self.question_event_id = question_event_id


class PausedThread(HeldClaim):
    """A thread whose command failed, and the time (monotonic seconds) to run it again."""

    def __init__(self, claim: Claim, attempt: int, resume_at: float) -> None:
        super().__init__(claim)
        self.attempt = attempt
        self.resume_at = resume_at


class ThreadCommand(HeldClaim):
    """A command that runs for one thread. `started_after_event` is the latest event id before its start.

    `attempt` counts from 1. `ends_at` is the time (monotonic seconds) at which the command is stopped, or None.
    """

    def __init__(self, claim: Claim, child: Run, started_after_event: int, attempt: int, ends_at: float | None) -> None:
        super().__init__(claim)
        self.child = child
        self.started_after_event = started_after_event
        self.attempt = attempt
        self.ends_at = ends_at
        self.timed_out = False

    @property
    def due_at(self) -> float:
        """The time (monotonic seconds) at which the worker has to look after the command."""
        if self.child.kill_at is not None:
            return self.child.kill_at
        return self.renew_at if self.ends_at is None else min(self.renew_at, self.ends_at)
