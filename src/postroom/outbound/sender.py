"""The loop that sends alerts: it queues what is due, and delivers the mailboxes of all channels by the delivery engine of the mail room."""

from __future__ import annotations

from postroom.core.text import shell_quote
from postroom.mail.deliver import Deliverer, DeliverTotals
from postroom.people.channels import queueing
from postroom.people.channels.planning import ALERTS_TOPIC
from postroom.people.channels.verbs import list_channels
from postroom.people.questions import due_questions
from postroom.processes.interpreter import isolated_command
from postroom.processes.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.mail.deliver import ReportStep
    from postroom.store.interface import Store

SEND_SECONDS = 60.0  # for one message, with all that it needs
SEND_COMMAND = " ".join(map(shell_quote, isolated_command("postroom.outbound")))
RECEIVER = "channel-sender"


class AlertSender:
    """Sends the alerts of a store. Several senders may run: each alert is queued once, and each mail is delivered to one of them.

    `syncs_questions`: also apply the deadlines of questions, which a server does by itself. `report_step` is called with each step.
    """

    def __init__(self, store: Store, *, syncs_questions: bool, report_step: ReportStep | None = None) -> None:
        self._store = store
        self._syncs_questions = syncs_questions
        self._report_step = report_step
        self._sessions: tuple[str, ...] = ()
        self._deliverer: Deliverer | None = None
        self._wake = WakePipe()
        self._is_stopped = False

    def stop(self) -> None:
        """Make `run` return when the messages that are being sent are done. Safe to call from a signal handler."""
        self._is_stopped = True
        self._wake.notify()
        if self._deliverer is not None:
            self._deliverer.stop()

    def run(self, *, until_empty: bool = False) -> DeliverTotals:
        """Send until `stop` is called, or with `until_empty` until nothing more can be sent now. Return the totals."""
        totals = DeliverTotals(0, 0, 0)
        while not self._is_stopped:
            self._sessions = self._find_sessions()
            if self._sessions:
                done = self._deliver(until_empty)
                totals = DeliverTotals(totals.acked + done.acked, totals.nacked + done.nacked, totals.lost + done.lost)
            elif not until_empty:
                self._wait_for_channels()
            if until_empty and self._find_sessions() == self._sessions:
                break
        self._wake.close()
        return totals

    def _deliver(self, until_empty: bool) -> DeliverTotals:
        """Deliver the mailboxes of the channels until one is added or removed, or until `stop`."""
        self._deliverer = Deliverer(
            self._store,
            self._sessions,
            command=SEND_COMMAND,
            receiver=RECEIVER,
            timeout_seconds=SEND_SECONDS,
            report_step=self._report_step,
            periodic=_DueWork(self),
            topics=(ALERTS_TOPIC,),
        )
        if self._is_stopped:  # before the engine existed
            self._deliverer.stop()
        return self._deliverer.run(until_empty=until_empty)

    def _wait_for_channels(self) -> None:
        with self._store.watch(ALERTS_TOPIC) as watch:
            if not self._find_sessions() and not self._is_stopped:
                watch.wait(None, self._wake.read_fd)

    def _find_sessions(self) -> tuple[str, ...]:
        return tuple(channel.session for channel in list_channels(self._store).channels)

    def run_due(self) -> None:
        """Apply deadlines and queue the alerts that are due. End the engine if the channels have changed."""
        if self._syncs_questions:
            due_questions.sync(self._store)
        queueing.queue_due_alerts(self._store)
        if self._deliverer is not None and not self._deliverer.is_stopping and self._find_sessions() != self._sessions:
            self._deliverer.stop()

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the next alert or deadline, or None."""
        waits = [queueing.seconds_until_alert(self._store)]
        if self._syncs_questions:
            with self._store.read() as tx:
                waits.append(due_questions.seconds_until_deadline(tx))
        return min((wait for wait in waits if wait is not None), default=None)


class _DueWork:
    """The periodic work of the delivery engine: that of its sender."""

    def __init__(self, sender: AlertSender) -> None:
        self._sender = sender

    def run(self) -> None:
        self._sender.run_due()

    def seconds_until_due(self) -> float | None:
        return self._sender.seconds_until_due()
