"""One consumer under supervision: its lock, its running handler, and the pauses between runs. `supervisor.py` calls it.

Its methods never wait. A supervisor calls `advance` whenever something may have happened: a process ended, a pause is over, or half a
second has passed.
"""

from __future__ import annotations

import os
from time import monotonic

from postroom._fastpath.json_text import dumps
from postroom.core import clock
from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.errors import FilterFailed, NoStore, StoreTrouble, StoreUnreachable
from postroom.core.text import sha1_hex
from postroom.queues.dead_events import set_aside
from postroom.queues.handler_process import find_survivor, release_handler, start_handler
from postroom.queues.subscriptions import read_subscription_state
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.handler_process import HandlerProcess
    from postroom.queues.locks import ConsumerLock
    from postroom.queues.queue import Queue
    from postroom.queues.subscriptions import SubscriptionState

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 300.0
CHECK_SECONDS = 0.5  # between looks at the subscription while its handler runs or rests
POLL_SECONDS = 0.02  # between looks at a group that is being killed, or that is no child of this process
TROUBLE_PAUSE_SECONDS = 1.0  # before the next look at a store that is busy or broken
MAX_TROUBLES = 60  # in a row
RUNS_BEFORE_SINGLE_EVENTS = 3  # without an ack. Then `thread pop` returns one event, to find out which one the handler cannot take
EXIT_CODE_NOT_STARTED = 126  # the exit code of a shell for a command that cannot be run
_MAX_TROUBLE_CHARS = 500
_UNQUOTED_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-")


class SupervisedConsumer:
    """Runs the handler of one consumer again and again, with a backoff that doubles while it acknowledges nothing."""

    def __init__(self, queue: Queue, state: SubscriptionState, lock: ConsumerLock) -> None:
        self.queue = queue
        self.consumer = state.subscription.consumer_id
        self._lock = lock
        self._run: HandlerProcess | None = None
        self._stopping = False
        self._look_at = monotonic()  # when to look at the subscription next
        self._rest_until = 0.0
        self._poll_at = 0.0
        self._troubles = 0
        self._start_error = ""
        self._start_failures = 0  # in a row
        self._had_single_event = False
        self._restore(state)

    def _restore(self, state: SubscriptionState) -> None:
        """Continue with the counts that the last supervisor stored, if they are about the same event and handler."""
        stored = self._lock.read_state()
        self._handler, self._acked = state.subscription.handler_cmd, state.acked
        applies = stored.get("acked") == state.acked and stored.get("handler") == sha1_hex(self._handler)
        self._fruitless = int(stored.get("fruitless") or 0) if applies else 0
        self._not_before = int(stored.get("not_before") or 0) if applies else 0
        self._single_until = int(stored.get("single_until") or 0)
        self._last_run = str(stored.get("last_run") or "")
        self._run = find_survivor(self.queue.path, state, stored)

    @property
    def pid(self) -> int | None:
        return self._run.pid if self._run is not None else None

    def begin(self, state: SubscriptionState, *, at_once: bool) -> str:
        """Start the handler, unless it rests or still runs. Return what is to be said about that, or an empty text."""
        if self._run is not None:
            self._append_log(f"found running, process {self._run.pid}")
            self._write_lock_state()
            return f"still running, process {self._run.pid}"
        left = (self._not_before - self.queue.file.clock()) / MICROSECONDS_PER_SECOND
        if not at_once and 0 < left <= MAX_BACKOFF_SECONDS:
            self._rest_until = monotonic() + left
            self._write_lock_state()
            return f"no progress before: rests until {clock.format_stamp(self._not_before)}"
        self._start(state)
        return ""

    def check_soon(self) -> None:
        """Look at the subscription with the next `advance`."""
        self._look_at = 0.0

    def stop_after_run(self) -> None:
        """Start no more runs."""
        if not self._stopping:
            self._stopping, self._look_at = True, 0.0

    def record_exit(self, status: int) -> None:
        if self._run is not None:
            self._run.record_exit(status)
            self._poll_at = 0.0

    def next_due(self) -> float:
        """Return the monotonic time at which `advance` has something to do."""
        if self._run is None:
            return min(self._rest_until, self._look_at)
        if self._run.needs_polling:
            return self._poll_at
        signal_at = self._run.next_due()
        return self._look_at if signal_at is None else min(self._look_at, signal_at)

    def advance(self) -> bool:
        """Do what is due. Return whether this consumer still needs a supervisor. If not, its lock is released and closed."""
        try:
            keeps = self._advance()
            self._troubles = 0
        except (StoreTrouble, OSError) as trouble:
            keeps = self._survive(trouble)
        if not keeps:
            self._lock.close()
        return keeps

    def _advance(self) -> bool:
        is_current = self._lock.is_current(self.queue.path, self.consumer)
        if self._run is not None:
            if not is_current:
                self._run.request_stop("the queue was deleted")
            self._run.advance()
            if not self._run.is_over:
                self._poll_at = monotonic() + POLL_SECONDS
                self._stop_if_unsubscribed()
                return True
            self._finish_run(is_current)
        if not is_current:
            return False
        return self._continue()

    def _survive(self, trouble: Exception) -> bool:
        """Keep a consumer whose store is busy or broken for a while, and as long as its handler runs."""
        if self._run is None and (isinstance(trouble, NoStore | StoreUnreachable) or self._troubles >= MAX_TROUBLES):
            return False
        self._troubles += 1
        self._look_at = self._rest_until = monotonic() + TROUBLE_PAUSE_SECONDS
        return True

    def _continue(self) -> bool:
        """Start the handler if it has unread events and does not rest. Return whether this consumer still needs a supervisor."""
        if monotonic() < min(self._look_at, self._rest_until):
            return True
        self._look_at = monotonic() + CHECK_SECONDS
        state = self._read_state()
        if state is not None and (state.acked > self._acked or state.subscription.handler_cmd != self._handler):
            self._acked, self._handler = state.acked, state.subscription.handler_cmd
            self._fruitless, self._not_before, self._rest_until = 0, 0, 0.0
        if state is None or not state.unread or self._stopping:
            return not self._release_lock()
        if monotonic() >= self._rest_until:
            self._start(state)
        return True

    def _read_state(self) -> SubscriptionState | None:
        """Return the consumer's state, or None if its handler must not be started."""
        try:
            return read_subscription_state(self.queue, self.consumer)
        except FilterFailed as refusal:
            self._append_log(f"filter: {refusal}", "ERROR")
            return None

    def _release_lock(self) -> bool:
        """Release the lock, and return whether this consumer is done.

        A dispatch may have found the lock held just before, and skipped this consumer. So read the state once more after the release,
        and acquire the lock again if there are unread events.
        """
        self._write_lock_state(pid=None)
        self._lock.release()
        if self._stopping:
            return True
        state = self._read_state()
        if state is None or not state.unread or not self._lock.try_acquire():
            return True
        self._write_lock_state()
        self._look_at = 0.0
        return False

    def _stop_if_unsubscribed(self) -> None:
        """Stop a handler whose subscription was removed or has another command now."""
        assert self._run is not None
        if self._run.stop_reason or monotonic() < self._look_at:
            return
        self._look_at = monotonic() + CHECK_SECONDS
        with self.queue.file.read() as tx:
            subscription = tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=self.consumer)
        if subscription is None:
            self._run.request_stop("unsubscribed")
        elif subscription.handler_cmd != self._handler:
            self._run.request_stop("subscribed with another handler")

    def _start(self, state: SubscriptionState) -> None:
        self._append_log(f"spawned handler_cmd={dumps(state.subscription.handler_cmd)}")
        self._handler, self._head = state.subscription.handler_cmd, state.head
        self._event_id = state.next_event.id if state.next_event is not None else 0
        # The last try gets its event alone, so that only this one is set aside. With one try, that is the first run.
        patience = min(RUNS_BEFORE_SINGLE_EVENTS, state.max_tries - 1) if state.max_tries else RUNS_BEFORE_SINGLE_EVENTS
        self._had_single_event = state.is_retrying or self._fruitless >= patience or state.acked < self._single_until
        try:
            self._run, held = start_handler(self.queue.path, state, limit=1 if self._had_single_event else None)
        except OSError as error:
            self._start_error, self._start_failures = one_line(str(error))[:_MAX_TROUBLE_CHARS], self._start_failures + 1
            self._append_log(f"could not be started: {self._start_error}", "ERROR")
            self._record_end(f"exit {EXIT_CODE_NOT_STARTED}", f"exit={EXIT_CODE_NOT_STARTED}", 0.0, is_failure=True)
            return
        self._start_error, self._start_failures = "", 0
        self._look_at = monotonic() + CHECK_SECONDS
        # The state names the group before its command begins: the next supervisor finds it even if this one dies now.
        self._write_lock_state()
        release_handler(held)

    def _finish_run(self, is_current: bool) -> None:
        run, self._run = self._run, None
        assert run is not None
        self._look_at = 0.0
        if not is_current:
            return
        status = run.status
        if run.stop_reason:
            self._append_log(f"stopped: {run.stop_reason}", "WARN")
        ending = "exit=unknown" if status is None else f"exit={status}" if status >= 0 else f"signal={-status}"
        self._record_end(run.describe_end(), ending, run.seconds, is_failure=status != 0)

    def _record_end(self, description: str, ending: str, seconds: float, *, is_failure: bool) -> None:
        """Log how a run ended. Begin a backoff if it acknowledged nothing, and set its event aside after too many tries."""
        self._last_run = f"{description} at {clock.format_stamp_milliseconds(self.queue.file.clock())}"
        after = self._read_state()
        acked = after.acked if after is not None else self._acked
        self._append_log(f"ended {ending} seconds={seconds:.2f} acked={acked}", "WARN" if is_failure else "INFO")
        next_id = after.next_event.id if after is not None and after.next_event is not None else 0
        if acked > self._acked or (next_id and next_id != self._event_id):
            self._acked, self._fruitless, self._not_before = acked, 0, 0
        elif after is not None and next_id:
            self._fruitless += not self._start_error  # a handler that cannot be started says nothing about its event
            if after.max_tries and self._fruitless >= after.max_tries and self._had_single_event and not self._start_error:
                self._set_aside(next_id, description)
            else:
                self._back_off()
        self._write_lock_state()

    def _set_aside(self, event_id: int, description: str) -> None:
        set_aside(self.queue, self.consumer, event_id, tries=self._fruitless, reason=description)
        self._append_log(f"event={event_id} set aside after {self._fruitless} tries: {description}", "WARN")
        self._fruitless, self._not_before = 0, 0

    def _back_off(self) -> None:
        failures = min(self._fruitless + self._start_failures, 20)
        wait_seconds = min(first_backoff_seconds() * 2 ** (failures - 1), MAX_BACKOFF_SECONDS)
        self._not_before = self.queue.file.clock() + int(wait_seconds * MICROSECONDS_PER_SECOND)
        self._rest_until = monotonic() + wait_seconds
        if self._fruitless >= RUNS_BEFORE_SINGLE_EVENTS:
            self._single_until = max(self._single_until, self._head)
        self._append_log(f"no progress, next run in {wait_seconds:g} s", "WARN")

    def _write_lock_state(self, pid: int | None = -1) -> None:
        run = self._run
        self._lock.write_state(
            pid=os.getpid() if pid == -1 else pid,
            group=run.pid if run is not None else None,
            group_mark=run.mark if run is not None else None,
            started_at=run.started_at if run is not None else None,
            fruitless=self._fruitless,
            acked=self._acked,
            not_before=self._not_before,
            resting=run is None and pid == -1,
            single_until=self._single_until,
            last_run=self._last_run,
            trouble=self._start_error,
            handler=sha1_hex(self._handler),
        )

    def _append_log(self, text: str, level: str = "INFO") -> None:
        self.queue.journal.append_log(f"dispatch: consumer={quote_for_log(self.consumer)} {one_line(text)}", level)


def one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def quote_for_log(name: str) -> str:
    """Return a name for a log line, quoted if it could be read as another field."""
    return name if _UNQUOTED_CHARS.issuperset(name) else dumps(name)


def first_backoff_seconds() -> float:
    try:
        return max(float(os.environ.get("THREAD_BACKOFF_SECONDS") or FIRST_BACKOFF_SECONDS), 0.0)
    except ValueError:
        return FIRST_BACKOFF_SECONDS
