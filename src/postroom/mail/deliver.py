"""The delivery engine of `mailbox deliver`: runs a command for each message of several mailboxes in parallel.

Exit status 0 acks the message, any other nacks it. If the command cannot be run at all, the engine gives the message back and ends.
The engine wakes when a message arrives or a retry is due. If it is killed, its commands are killed with it, and its messages are delivered
again after the in-flight timeout.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.core import checks, tracing
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound, StoreBusy, StoreUnreachable, TooMany
from postroom.core.records import Record
from postroom.core.records.mail import ACKED, DEAD_LETTER, EXPIRED, IN_FLIGHT, NACKED
from postroom.mail import mailbox, transitions
from postroom.mail.reading import delivery_state
from postroom.mail.settings import policy
from postroom.mail.waiting import next_available
from postroom.processes.child_process import CANNOT_RUN_STATUSES, ChildProcess, last_line
from postroom.processes.wake_pipe import WakePipe
from postroom.store.wait_loop import RETRY_WHEN_UNREACHABLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.core.records.mail import Delivery, MailMessage
    from postroom.store.interface import Store
    from postroom.store.wait_loop import PeriodicTask

    ReportStep = Callable[[str, MailMessage, str], None]

MAX_REASON_CHARS = 2000  # the end of a command's output, recorded as the reason of a nack


class DeliverTotals(Record):
    """The number of messages that a delivery engine acked, nacked or lost to another receiver."""

    acked: int
    nacked: int
    lost: int


class Deliverer:
    """Passes the messages of some mailboxes to a command, one at a time per mailbox.

    With `timeout_seconds`, a command that runs longer is ended with all that it started, and its message is nacked. `report_step`
    is called with each step: its name, the message, and a detail. `periodic` runs before messages are taken. Events of `topics` wake it.
    """

    def __init__(
        self,
        store: Store,
        sessions: Iterable[str],
        *,
        command: str,
        receiver: str | None = None,
        timeout_seconds: float | None = None,
        report_step: ReportStep | None = None,
        periodic: PeriodicTask | None = None,
        topics: Iterable[str] = (),
    ) -> None:
        self._store = store
        self._sessions = tuple(dict.fromkeys(checks.name("session", session) for session in sessions))
        if not self._sessions:
            raise InvalidInput("'session' is missing", field="session", hint="Name at least one mailbox.")
        if not checks.text("command", command).strip():
            raise InvalidInput("command is empty", field="command", hint="For example: --command './handle.sh'")
        self._command = command
        self._timeout_seconds = timeout_seconds if timeout_seconds is None else checks.seconds("timeout_seconds", timeout_seconds)
        self._receiver = receiver if receiver is None else checks.name("receiver", receiver)
        self._report_step = report_step or (lambda step, message, detail: None)
        self._periodic = periodic
        self._topics = tuple(topics)
        self._running: dict[str, _MessageCommand] = {}
        self._counts = {"acked": 0, "nacked": 0, "lost": 0}
        self._wake = WakePipe()
        self._stop_requests = 0
        self._cannot_run: str | None = None

    def stop(self) -> None:
        """Make `run` take no more messages and return when its commands have exited. A second call terminates the commands.

        Safe to call from a signal handler.
        """
        self._stop_requests += 1
        self._wake.notify()

    @property
    def is_stopping(self) -> bool:
        return self._stop_requests > 0

    def run(self, *, once: bool = False, until_empty: bool = False) -> DeliverTotals:
        """Deliver messages until `stop` is called, and return the totals.

        With `until_empty`, return when no message is pending. With `once`, deliver at most one message of each mailbox. If the
        store is unreachable or busy, try again after a pause, or raise the error if one of the two is set. Refuses with
        `InvalidInput` if the command cannot be run at all, after its messages were given back.
        """
        bounded = once or until_empty
        self._sessions = tuple(dict.fromkeys(policy(self._store, name).session for name in self._sessions))  # follows aliases
        open_sessions = set(self._sessions)
        with self._store.watch(*map(transitions.mailbox_topic, self._sessions), *self._topics) as watch:
            while True:
                try:
                    self._reap_finished()
                    self._extend_deliveries()
                    if self._periodic is not None and not self._stop_requests:
                        self._periodic.run()
                    taken = set() if self._stop_requests else self._take_messages(open_sessions)
                    if once:
                        open_sessions.clear()
                    if not self._running and (self._stop_requests or (bounded and not taken)):
                        break
                    due = self._seconds_until_due(open_sessions)
                except (StoreUnreachable, StoreBusy, TooMany):  # finished commands stay in the list and are settled later
                    if bounded:
                        raise
                    due = RETRY_WHEN_UNREACHABLE_SECONDS
                watch.wait(due, self._wake.read_fd)
                self._wake.drain()
        self._wake.close()
        if self._cannot_run is not None:
            hint = "Its messages were given back. Check the command, its interpreter and PATH."
            raise InvalidInput(f"the command cannot be run: {self._cannot_run}", field="command", hint=hint)
        return DeliverTotals(self._counts["acked"], self._counts["nacked"], self._counts["lost"])

    def _take_messages(self, open_sessions: set[str]) -> set[str]:
        """Start a command for each mailbox with a message and without a running command. Returns these mailboxes."""
        taken = set()
        for session in self._sessions:
            if session in open_sessions and session not in self._running and next_available(self._store, session)[0]:
                # Read the policy before the dequeue: an error after it would leave a message in flight without a command.
                seconds = policy(self._store, session).inflight_timeout_secs
                delivery = mailbox.dequeue(self._store, session, receiver=self._receiver)
                if delivery is not None:
                    self._start_command(session, delivery, seconds)
                    taken.add(session)
        return taken

    def _start_command(self, session: str, delivery: Delivery, seconds: float) -> None:
        message = delivery.message
        environment = {
            **os.environ,
            "INBOX_DB": self._store.location,
            "MAILBOX_SESSION": session,
            "MAILBOX_MSG_ID": message.msg_id,
            "MAILBOX_FROM": message.sender,
            "MAILBOX_TO": message.to,
            "MAILBOX_CREATED_AT": str(message.created_at),
            "MAILBOX_ATTEMPT": str(message.attempt),
            "MAILBOX_DELIVERY_TOKEN": delivery.delivery_token,
        }
        if message.traceparent:
            environment[tracing.VARIABLE] = message.traceparent  # the command, and what it sends, belong to the trace of the message
        self._report_step("took", message, f"from {message.sender}, attempt {message.attempt}")
        child = ChildProcess(self._command, environment, message.payload, self._wake)
        self._running[session] = _MessageCommand(delivery, child, seconds, self._timeout_seconds)

    def _reap_finished(self) -> None:
        for session, run in list(self._running.items()):
            if run.child.has_ended:
                self._settle_message(session, run)
                del self._running[session]
                run.child.close()

    def _settle_message(self, session: str, run: _MessageCommand) -> None:
        """Ack, nack or give back a message by the exit status of its command, unless the command or another receiver has done so."""
        message, token = run.delivery.message, run.delivery.delivery_token
        try:
            if run.child.status == 0 and not run.timed_out:
                mailbox.ack(self._store, session, message.msg_id, delivery_token=token)
                self._count_outcome("acked", message, "")
            elif run.child.status in CANNOT_RUN_STATUSES and not run.timed_out:
                self._give_up(session, run)
            else:
                nacked = mailbox.nack(self._store, session, message.msg_id, run.nack_reason(), delivery_token=token)
                self._count_outcome(
                    "acked" if nacked.state == ACKED else "nacked", message, run.nack_reason() if nacked.changed else "by its command"
                )
        except InvalidState as refusal:
            by_command = refusal.facts.get("state") in (NACKED, DEAD_LETTER)
            self._count_outcome("nacked" if by_command else "lost", message, "by its command" if by_command else str(refusal))
        except (Conflict, NotFound) as refusal:
            self._count_outcome("lost", message, str(refusal))

    def _give_up(self, session: str, run: _MessageCommand) -> None:
        """Give the message of a command that cannot be run back, and take no more: the next message would fare no better."""
        message = run.delivery.message
        self._cannot_run = last_line(run.nack_reason())
        self._stop_requests = max(self._stop_requests, 1)
        mailbox.release(self._store, session, message.msg_id, delivery_token=run.delivery.delivery_token)
        self._report_step("gave back", message, self._cannot_run)

    def _count_outcome(self, outcome: str, message: MailMessage, detail: str) -> None:
        self._counts[outcome] += 1
        self._report_step(outcome, message, detail)

    def _extend_deliveries(self) -> None:
        """Extend the deliveries that are due. Stop the commands whose delivery is lost, or all after a second `stop`."""
        for session, run in self._running.items():
            if run.child.kill_at is not None:
                if monotonic() >= run.child.kill_at:
                    run.child.send_signal(SIGKILL)
            elif self._stop_requests > 1:
                run.child.send_signal(SIGTERM)
            elif run.end_at is not None and monotonic() >= run.end_at:
                run.timed_out = True
                run.child.send_signal(SIGTERM)
            elif not self._still_ours(session, run):
                self._report_step("lost", run.delivery.message, "its delivery is over; its command is stopped")
                run.child.send_signal(SIGTERM)

    def _still_ours(self, session: str, run: _MessageCommand) -> bool:
        """Return whether the command's delivery is the current one. Extends it if that is due."""
        msg_id, token = run.delivery.message.msg_id, run.delivery.delivery_token
        state = delivery_state(self._store, session, msg_id, delivery_token=token)
        if state is None or state == EXPIRED:
            return False
        if state == IN_FLIGHT and monotonic() >= run.extend_at:
            try:
                mailbox.extend(self._store, session, msg_id, delivery_token=token)
            except (Conflict, InvalidState, NotFound):
                return False
            run.schedule_extension()
        return True

    def _seconds_until_due(self, open_sessions: set[str]) -> float | None:
        """Return the seconds until a delivery must be extended, a command must be killed, or a retry is due."""
        if any(run.child.has_ended for run in self._running.values()):
            return 0
        moments = [run.next_moment() for run in self._running.values()]
        waits: list[float | None] = [max(moment - monotonic(), 0) for moment in moments]
        if not self._stop_requests:
            waits += [next_available(self._store, session)[1] for session in open_sessions if session not in self._running]
            waits += [] if self._periodic is None else [self._periodic.seconds_until_due()]
        return min((wait for wait in waits if wait is not None), default=None)


class _MessageCommand:
    """A command that runs for one message, and the time (monotonic seconds) to extend its delivery.

    `seconds` is the in-flight timeout. The delivery is extended after a third of it. `end_at` is the time at which the command has to end.
    """

    def __init__(self, delivery: Delivery, child: ChildProcess, seconds: float, timeout_seconds: float | None) -> None:
        self.delivery = delivery
        self.child = child
        self.timed_out = False
        self.end_at = None if timeout_seconds is None else monotonic() + timeout_seconds
        self._seconds = seconds
        self._timeout_seconds = timeout_seconds
        self.schedule_extension()

    def schedule_extension(self) -> None:
        self.extend_at = monotonic() + self._seconds / 3

    def next_moment(self) -> float:
        """Return the time at which to look at this command again."""
        if self.child.kill_at is not None:
            return self.child.kill_at
        return self.extend_at if self.end_at is None else min(self.extend_at, self.end_at)

    def nack_reason(self) -> str:
        status = self.child.status
        exit_text = f"signal {-status}" if status < 0 else f"exit {status}"
        if self.timed_out:
            exit_text = f"timed out after {self._timeout_seconds:g} s"
        output = self.child.read_errors() or self.child.read_output()
        return f"{exit_text}: {output[-MAX_REASON_CHARS:]}" if output else exit_text
