"""The delivery engine: any command line, run for one message after another, of many mailboxes side by side.

Exit 0 acks, anything else nacks. It wakes when a message comes or a retry falls due. If it is killed, its commands die with it, and
what was in flight comes again when its time is over.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.children import Child, Wake
from postroom.core import checks
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound, StoreAway, StoreBusy, TooMany
from postroom.core.letters import ACKED, DEAD_LETTER, EXPIRED, IN_FLIGHT, NACKED
from postroom.core.records import Record
from postroom.mail import boxes, mailbox
from postroom.mail.reading import standing
from postroom.mail.settings import policy
from postroom.mail.waiting import outlook
from postroom.store.waking import LOOK_WHEN_AWAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.core.letters import Delivery, MailMessage
    from postroom.store.port import Store

    Tell = Callable[[str, MailMessage, str], None]

TAIL = 2000  # characters of what a command said, as the reason of a nack


class Delivered(Record):
    """What a delivery engine did."""

    acked: int
    nacked: int
    lost: int


class Deliverer:
    """Hands the messages of some mailboxes to a command, one at a time of each."""

    def __init__(
        self, store: Store, sessions: Iterable[str], *, command: str, receiver: str | None = None, tell: Tell | None = None
    ) -> None:
        self._store = store
        self._sessions = tuple(dict.fromkeys(checks.name("session", session) for session in sessions))
        if not self._sessions:
            raise InvalidInput("'session' is missing", field="session", hint="Name at least one mailbox.")
        if not checks.text("command", command).strip():
            raise InvalidInput("command is empty", field="command", hint="For example: --command './handle.sh'")
        self._command = command
        self._receiver = receiver if receiver is None else checks.name("receiver", receiver)
        self._tell = tell or (lambda what, message, says: None)
        self._running: dict[str, _Run] = {}
        self._counts = {"acked": 0, "nacked": 0, "lost": 0}
        self._wake = Wake()
        self._stops = 0

    def stop(self) -> None:
        """Take nothing more, and end when what is in hand is finished. Said again, commands are ended. Safe in a signal handler."""
        self._stops += 1
        self._wake.ring()

    def run(self, *, once: bool = False, until_empty: bool = False) -> Delivered:
        """Deliver until told to stop; with `until_empty`, until nothing is pending; with `once`, one message of each mailbox."""
        bounded = once or until_empty
        open_to = set(self._sessions)
        with self._store.watch(*map(boxes.of_mailbox, self._sessions)) as bell:
            while True:
                try:
                    self._reap()
                    self._keep()
                    taken = set() if self._stops else self._take(open_to)
                    if once:
                        open_to.clear()
                    if not self._running and (self._stops or (bounded and not taken)):
                        break
                    due = self._due(open_to)
                except (StoreAway, StoreBusy, TooMany):  # what could not be written down is, when the store is back
                    if bounded:
                        raise
                    due = LOOK_WHEN_AWAY
                bell.wait(due, self._wake.woken)
                self._wake.drain()
        self._wake.close()
        return Delivered(self._counts["acked"], self._counts["nacked"], self._counts["lost"])

    def _take(self, open_to: set[str]) -> set[str]:
        """Start a command for each mailbox that has a message and no command at work; for which ones."""
        taken = set()
        for session in self._sessions:
            if session in open_to and session not in self._running and outlook(self._store, session)[0]:
                # Asked before the message is taken: once its command runs, nothing may come between it and our list.
                seconds = policy(self._store, session).inflight_timeout_secs
                delivery = mailbox.dequeue(self._store, session, receiver=self._receiver)
                if delivery is not None:
                    self._start(session, delivery, seconds)
                    taken.add(session)
        return taken

    def _start(self, session: str, delivery: Delivery, seconds: float) -> None:
        message = delivery.message
        environment = {
            **os.environ,
            "INBOX_DB": self._store.place,
            "MAILBOX_SESSION": session,
            "MAILBOX_MSG_ID": message.msg_id,
            "MAILBOX_FROM": message.sender,
            "MAILBOX_TO": message.to,
            "MAILBOX_CREATED_AT": str(message.created_at),
            "MAILBOX_ATTEMPT": str(message.attempt),
            "MAILBOX_DELIVERY_TOKEN": delivery.delivery_token,
        }
        self._tell("took", message, f"from {message.sender}, attempt {message.attempt}")
        child = Child(self._command, environment, message.payload, self._wake)
        self._running[session] = _Run(delivery, child, seconds)

    def _reap(self) -> None:
        for session, run in list(self._running.items()):
            if run.child.over:
                self._conclude(session, run)
                del self._running[session]
                run.child.close()

    def _conclude(self, session: str, run: _Run) -> None:
        """Ack or nack a message by how its command ended, unless the command, or somebody else, has decided."""
        message, token = run.delivery.message, run.delivery.delivery_token
        try:
            if run.child.status == 0:
                mailbox.ack(self._store, session, message.msg_id, delivery_token=token)
                self._count("acked", message, "")
            else:
                nacked = mailbox.nack(self._store, session, message.msg_id, run.reason(), delivery_token=token)
                self._count("acked" if nacked.state == ACKED else "nacked", message, run.reason() if nacked.changed else "by its command")
        except InvalidState as refusal:
            by_command = refusal.facts.get("state") in (NACKED, DEAD_LETTER)
            self._count("nacked" if by_command else "lost", message, "by its command" if by_command else str(refusal))
        except (Conflict, NotFound) as refusal:
            self._count("lost", message, str(refusal))

    def _count(self, what: str, message: MailMessage, says: str) -> None:
        self._counts[what] += 1
        self._tell(what, message, says)

    def _keep(self) -> None:
        """Extend what is due, and end the commands whose delivery is over."""
        for session, run in self._running.items():
            if run.child.kill_at is not None:
                if monotonic() >= run.child.kill_at:
                    run.child.end(SIGKILL)
            elif self._stops > 1:
                run.child.end(SIGTERM)
            elif not self._still_ours(session, run):
                self._tell("lost", run.delivery.message, "its delivery is over; its command is stopped")
                run.child.end(SIGTERM)

    def _still_ours(self, session: str, run: _Run) -> bool:
        msg_id, token = run.delivery.message.msg_id, run.delivery.delivery_token
        state = standing(self._store, session, msg_id, delivery_token=token)
        if state is None or state == EXPIRED:
            return False
        if state == IN_FLIGHT and monotonic() >= run.extend_at:
            try:
                mailbox.extend(self._store, session, msg_id, delivery_token=token)
            except (Conflict, InvalidState, NotFound):
                return False
            run.extended()
        return True

    def _due(self, open_to: set[str]) -> float | None:
        """Seconds until something must be done, unless the bell rings first."""
        if any(run.child.over for run in self._running.values()):
            return 0
        moments = [run.extend_at if run.child.kill_at is None else run.child.kill_at for run in self._running.values()]
        waits: list[float | None] = [max(moment - monotonic(), 0) for moment in moments]
        if not self._stops:
            waits += [outlook(self._store, session)[1] for session in open_to if session not in self._running]
        return min((wait for wait in waits if wait is not None), default=None)


class _Run:
    """One command at work on one message, and when to extend its time."""

    def __init__(self, delivery: Delivery, child: Child, seconds: float) -> None:
        self.delivery = delivery
        self.child = child
        self._seconds = seconds
        self.extended()

    def extended(self) -> None:
        self.extend_at = monotonic() + self._seconds / 3

    def reason(self) -> str:
        status = self.child.status
        how = f"signal {-status}" if status < 0 else f"exit {status}"
        said = self.child.errors() or self.child.output()
        return f"{how}: {said[-TAIL:]}" if said else how
