"""Fire the notifier's timers. The runner calls it, and only if there are timers."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.processes.process_group import read_start_mark
from postroom.queues.notifier import timer_task_id
from postroom.queues.running.timers import AT_REBOOT, next_fire_time
from postroom.store.sqlite.queues import notifier_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.notifier import NotifierTimer
    from postroom.store.sqlite.engine import SqliteTransaction
    from postroom.store.sqlite.queues.queue_databases import NotifierDatabase


class TimerList:
    """The timers of one notifier. A timer whose next time cannot be computed stops, says why, and stops no other."""

    def __init__(self, notifier: NotifierDatabase) -> None:
        self._notifier = notifier

    def fire_due(self) -> None:
        """Queue the commands of due timers. Times that were missed are queued once."""
        with self._notifier.write() as tx:
            for timer in tx.fetch_all(sql.TIMERS_DUE, now=clock.format_stamp(tx.now())):
                if self._set_next_time(tx, timer):
                    _queue_command(tx, timer)

    def fire_after_reboot(self) -> None:
        """Queue the commands of the timers with `@reboot` if the machine was started since they were added or fired."""
        with self._notifier.write() as tx:
            for timer in tx.fetch_all(sql.TIMERS):
                if timer.cron == AT_REBOOT and tx.fetch_one(sql.SETTING_GET, name=boot_setting(timer.timer_id)) != read_boot_mark():
                    record_boot(tx, timer.timer_id)
                    _queue_command(tx, timer)

    def correct_times(self) -> None:
        """Compute every next time again. The clock may have been set back, or a time zone that was missing may be there again."""
        with self._notifier.write() as tx:
            for timer in tx.fetch_all(sql.TIMERS):
                if timer.next_at > clock.format_stamp(tx.now()):
                    self._set_next_time(tx, timer)

    def _set_next_time(self, tx: SqliteTransaction, timer: NotifierTimer) -> bool:
        """Store the next time of a timer, and return whether it has one."""
        upcoming, trouble = sql.NEVER, None
        try:
            time = next_fire_time(timer.cron, timer.timezone, tx.now())
            upcoming = clock.format_stamp(time) if time is not None else sql.NEVER
        except InvalidInput as refusal:
            trouble = str(refusal)
        if (upcoming, trouble) != (timer.next_at, timer.trouble):
            tx.execute(sql.TIMER_ADVANCE, timer=timer.timer_id, seen=timer.next_at, next=upcoming, trouble=trouble)
        return trouble is None


def record_boot(tx: SqliteTransaction, timer_id: str) -> None:
    """Store that a timer with `@reboot` waits for the next start of the machine."""
    tx.execute(sql.SETTING_SET, name=boot_setting(timer_id), value=read_boot_mark())


def boot_setting(timer_id: str) -> str:
    """Return the name of the setting with the boot at which a timer was added or fired last."""
    return f"boot of {timer_id}"


def read_boot_mark() -> str:
    """Return a text that changes when the machine, or the container, is started."""
    return read_start_mark(1)


def _queue_command(tx: SqliteTransaction, timer: NotifierTimer) -> None:
    task = timer_task_id(timer.timer_id)
    if tx.fetch_one(sql.TASK_QUEUED, task=task, command=timer.command) is None:
        binds = {"author": timer.author, "command": timer.command, "retries": timer.retries, "timeout": timer.timeout_seconds}
        now = clock.format_stamp(tx.now())
        tx.execute(sql.TASK_INSERT, task=task, queue=None, now=now, environment=timer.environment_json, **binds)
