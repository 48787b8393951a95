"""The supervisor of one consumer: holds its lock, runs its handler, and looks for more events when that ends.

It is a process of its own, so that no daemon has to live. The handler is on its leash and never inherits the lock: a crash of
either frees it, and what a handler leaves running in the background does not keep it.

It begins as a fork of whoever dispatched, which starts the handler within a millisecond. A fork must not touch SQLite: what its
parent had open is half there. So, when it needs the database, it becomes a fresh interpreter, lock in hand.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from postroom.core.clock import SECOND
from postroom.core.errors import FilterFailed, NoStore, Refusal, StoreBusy
from postroom.core.jsontext import dumps
from postroom.core.words import digest, file_name
from postroom.leash import let_go, spawn
from postroom.queues.locks import Lock
from postroom.queues.queue import Queue
from postroom.queues.subscriptions import Standing, standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.core.events import Subscription

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
NOT_STARTED = 126  # as a shell says it
_PATIENCE = 20  # looks at a store that is busy
MOST_FRUITLESS = 10  # runs in a row that acked nothing; then the next dispatch may try once more
LARGEST_OUTPUT = 10 << 20
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-")


def become(path: str, now: Standing, lock: Lock, at_once: bool) -> NoReturn:
    """What a forked child does, and all that it does: the first run, unless the handler is to be left alone for a while."""
    consumer, ended = now.subscription.consumer_id, ""
    _detach(lock.file)
    lock.write(**{**lock.read(), "pid": os.getpid(), "resting": not at_once})
    if at_once:
        ended = " ".join(map(str, run_handler(path, now.subscription)))
    os.set_inheritable(lock.file, True)
    code = "from postroom.queues.supervisor import resume; resume()"
    told = (path, consumer, str(lock.file), str(now.acked), str(now.head), now.subscription.handler_cmd, ended)
    os.execv(sys.executable, (sys.executable, "-P", "-c", code, *told))  # noqa: S606


def resume() -> NoReturn:
    """What it then is: a fresh interpreter, told all that it has to know."""
    path, consumer, file, acked, head, handler, ended = sys.argv[1:]
    lock = Lock(int(file))
    os.set_inheritable(lock.file, False)
    try:
        if lock.current(path, consumer):
            with Queue(path) as queue:
                supervisor = Supervisor(queue, consumer, lock, int(acked), int(head), handler)
                if ended:
                    status, seconds, *why = ended.split(" ", 2)
                    supervisor.ended(int(status), float(seconds), " ".join(why))
                supervisor.run()
    except NoStore:
        pass  # the queue is gone, and its consumers with it
    except (Refusal, OSError):
        os._exit(1)  # whoever adopted us looks after the consumer
    os._exit(0)


def rests(lock: Lock, now: Standing, instant: int) -> int:
    """Until when a handler that got nowhere is to be left alone; 0 if it is not."""
    noted = lock.read()
    same = noted.get("acked") == now.acked and noted.get("handler") == digest(now.subscription.handler_cmd)
    until = int(noted.get("not_before") or 0) if noted.get("fruitless") and same else 0
    return until if 0 < until - instant <= LONGEST_WAIT * SECOND else 0


class Supervisor:
    def __init__(self, queue: Queue, consumer: str, lock: Lock, acked: int, head: int, handler: str) -> None:
        self._queue = queue
        self._consumer = consumer
        self._lock = lock
        self._acked = acked
        self._head = head  # the newest event when the last run began
        self._handler = handler
        noted = lock.read()
        same = noted.get("acked") == acked and noted.get("handler") == digest(handler)
        self._fruitless = int(noted.get("fruitless") or 0) if same else 0
        self._not_before = int(noted.get("not_before") or 0) if same else 0
        self._trouble = ""
        self._runs = 0

    def run(self) -> None:
        self._note()
        while self._lock.current(self._queue.path, self._consumer):
            now = self._standing()
            if now is not None and (now.acked > self._acked or now.subscription.handler_cmd != self._handler):
                self._acked, self._handler, self._fruitless, self._not_before = now.acked, now.subscription.handler_cmd, 0, 0
            if now is None or not now.unread or (self._runs and self._fruitless >= MOST_FRUITLESS):
                if self._leave():
                    return
            elif not self._rest():
                self._handle(now)

    def _standing(self) -> Standing | None:
        """How the consumer stands; None if it is not to be started. A store that is busy is asked again."""
        for _ in range(_PATIENCE):
            try:
                return standing(self._queue, self._consumer)
            except StoreBusy:
                sleep(0.1)
            except FilterFailed as refusal:
                self._say(f"filter: {refusal}", "ERROR")
                return None
        return standing(self._queue, self._consumer)

    def _leave(self) -> bool:
        """Let go of the lock, then look again: who pushed in between found it held, and trusted us."""
        self._note(pid=None)
        self._lock.release()
        now = self._standing()
        gave_up = self._runs > 0 and self._fruitless >= MOST_FRUITLESS
        if now is None or not now.unread or (gave_up and now.head == self._head and now.subscription.handler_cmd == self._handler):
            return True
        if not self._lock.retake():
            return True
        self._runs = 0
        self._note()
        return False

    def _rest(self) -> bool:
        """Sleep off what is left of the backoff, unless something happens; whether there was any."""
        left = (self._not_before - self._queue.file.clock()) / SECOND
        if left <= 0 or left > LONGEST_WAIT:
            return False
        self._note(resting=True)
        with self._queue.file.watch("progress") as bell:
            now = self._standing()
            if now is not None and now.acked == self._acked and now.subscription.handler_cmd == self._handler:
                bell.wait(left)
        self._note()
        return True

    def _handle(self, now: Standing) -> None:
        self._say(spawned(now.subscription))
        self._head = now.head
        self.ended(*run_handler(self._queue.path, now.subscription))

    def ended(self, status: int, seconds: float, why: str = "") -> None:
        """What became of one run of the handler; `why` if it could not even be started."""
        self._runs += 1
        self._trouble = why
        if why:
            self._say(f"could not be started: {why}", "ERROR")
        after = self._standing()
        acked = after.acked if after is not None else self._acked
        how = f"exit={status}" if status >= 0 else f"signal={-status}"
        self._say(f"ended {how} seconds={seconds:.2f} acked={acked}", "INFO" if status == 0 else "WARN")
        if acked > self._acked:
            self._acked, self._fruitless, self._not_before = acked, 0, 0
        elif after is not None and after.unread:
            self._back_off()
        self._note()

    def _back_off(self) -> None:
        self._fruitless += 1
        wait = min(first_wait() * 2 ** (min(self._fruitless, 20) - 1), LONGEST_WAIT)
        self._not_before = self._queue.file.clock() + int(wait * SECOND)
        then = f"next run in {wait:g} s" if self._fruitless < MOST_FRUITLESS else "waits for the next dispatch"
        self._say(f"no progress, {then}", "WARN")

    def _note(self, pid: int | None = -1, *, resting: bool = False) -> None:
        self._lock.write(
            pid=os.getpid() if pid == -1 else pid,
            fruitless=self._fruitless,
            acked=self._acked,
            not_before=self._not_before,
            resting=resting,
            trouble=self._trouble,
            handler=digest(self._handler),
        )

    def _say(self, what: str, level: str = "INFO") -> None:
        self._queue.tracks.say(f"dispatch: consumer={logged(self._consumer)} {one_line(what)}", level)


def run_handler(folder: str, subscription: Subscription) -> tuple[int, float, str]:
    """One run, from its start to its end: its exit status, or minus the signal that ended it; how long; why it could not start."""
    began, consumer = monotonic(), subscription.consumer_id
    try:
        process, leash = _start(folder, subscription.handler_cmd, consumer)
    except OSError as error:
        return NOT_STARTED, monotonic() - began, one_line(str(error))
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    let_go(leash)
    return status, monotonic() - began, ""


def _start(folder: str, command: str, consumer: str) -> tuple[int, int]:
    os.chdir(folder)
    environment = {**os.environ, "THREAD_DIR": folder, "THREAD_CONSUMER": consumer, "PATH": path_with_us()}
    output = _output(folder, consumer)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return spawn(command, environment, (nothing, output, output))
        finally:
            os.close(nothing)
    finally:
        os.close(output)


def spawned(subscription: Subscription) -> str:
    return f"spawned handler_cmd={dumps(subscription.handler_cmd)}"


def one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def logged(name: str) -> str:
    """A name in a log line: it cannot pose as another field."""
    return name if _PLAIN.issuperset(name) else dumps(name)


def first_wait() -> float:
    try:
        return max(float(os.environ.get("THREAD_BACKOFF_SECONDS") or FIRST_WAIT), 0.0)
    except ValueError:
        return FIRST_WAIT


def path_with_us() -> str:
    """The search path, and at its end the folder of our own commands: a handler says `thread`."""
    ours = os.path.dirname(sys.executable)
    path = os.environ.get("PATH") or os.defpath
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"


def _output(folder: str, consumer: str) -> int:
    """Where a handler's output goes. One that has grown large is set aside first."""
    try:
        os.mkdir(os.path.join(folder, "logs"))
    except FileExistsError:
        pass
    path = os.path.join(folder, "logs", file_name(consumer) + ".out")
    try:
        if os.stat(path).st_size > LARGEST_OUTPUT:
            os.replace(path, path + ".1")
    except OSError:
        pass
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def _detach(keep: int) -> None:
    """Leave the session, the files and the signals of who forked us."""
    import signal

    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):
        os.dup2(nothing, place)
    os.closerange(3, keep)
    os.closerange(keep + 1, 1 << 16)
