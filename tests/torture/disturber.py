"""The disturber: kills, stops, fills, jumps, restarts, checkpoints, vacuums, tears, prunes, backs up. A seed decides the order."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from random import Random
from time import monotonic, sleep

import psycopg

from tests.torture import maintenance
from tests.torture.history import Recorder
from tests.torture.stage import SQLITE, TortureStage

SETTLE_SECONDS = 3.0
RESTORE_SECONDS = 0.5  # about as long as one takes
ROOM_BYTES = 200_000  # for the history of an actor. The store is larger
SKEWS_SECONDS = (3600, -3600, 86_400, 45, -45, 4, -4)
UPKEEP = ("prune", "backup")
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class Disturber:
    """Does one disturbance after the other until the time is over, and then undoes what lasts: stops, limits and clocks."""

    def __init__(self, stage: TortureStage) -> None:
        self._stage = stage
        self._random = Random(stage.seed)
        self._later: list[tuple[float, Callable[[], None]]] = []  # when to undo what
        self._recorder = Recorder(stage.history / "disturber.jsonl", "disturber")
        self.counts: Counter[str] = Counter()
        common = {"kill": (14, self.kill), "stop": (5, self.stop), "server": (1, self.restart_server), "tear": (2, self.tear)}
        if stage.engine == SQLITE:
            own = {"full": (3, self.fill), "clock": (1, self.jump), "checkpoint": (2, self.checkpoint), "vacuum": (1, self.vacuum)}
        else:
            own = {"postgres": (1, self.crash_postgres), "hang up": (2, self.hang_up), "vacuum": (1, self.vacuum_postgres)}
        upkeep = {name: (3, lambda name=name: maintenance.request(stage.control, name)) for name in UPKEEP}
        self._acts = {**common, **own, **upkeep}

    def run(self, seconds: float, *, pause_seconds: float = 0.1, without: Collection[str] = ()) -> None:
        until = monotonic() + seconds
        names = [name for name in self._acts if name not in without]
        weights = [self._acts[name][0] for name in names]
        while monotonic() < until:
            sleep(self._random.uniform(0, 2 * pause_seconds))
            name = self._random.choices(names, weights)[0]
            self._acts[name][1]()
            self.counts[name] += 1
            self._undo_due()
            self._stage.bury()
        self._undo_due(everything=True)

    def maintain(self) -> None:
        """Request all upkeep once, so that also a short run has it."""
        for name in UPKEEP:
            self._acts[name][1]()
            self.counts[name] += 1

    def _undo_due(self, *, everything: bool = False) -> None:
        while due := [item for item in self._later if everything or item[0] <= monotonic()]:
            for item in due:
                self._later.remove(item)
                item[1]()

    def _undo_after(self, seconds: float, undo: Callable[[], None]) -> None:
        self._later.append((monotonic() + seconds, undo))

    def _victim(self) -> str:
        return self._random.choice(sorted(self._stage.actors))

    def kill(self) -> None:
        self._stage.restart(self._victim())

    def stop(self) -> None:
        """Stop an actor for longer than its lease, wherever it is: also inside of a transaction."""
        process_id = self._stage.actors[self._victim()]
        os.kill(process_id, signal.SIGSTOP)
        self._undo_after(self._random.uniform(0.5, 2.5), lambda: _signal(process_id, signal.SIGCONT))

    def interrupt_restores(self, number: int) -> None:
        """Begin restores, and kill each at some moment. The next one has to make up for it."""
        for _ in range(number):
            process_id = self._stage.fork("restore_once", maintenance.restore_once)
            sleep(self._random.uniform(0, 2 * RESTORE_SECONDS))
            _signal(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            self.counts["killed restore"] += 1

    def restart_server(self) -> None:
        self._stage.kill_server()
        self._stage.start_server(ready=False)

    def fill(self) -> None:
        """Let the files of some processes not grow, as on a full disk. The server may be one of them. Their histories still fit."""
        victims = {name: self._stage.actors[name] for name in (self._victim() for _ in range(4))}
        if self._stage.server is not None and self._random.random() < 0.3:
            victims["server"] = self._stage.server.pid
        for name, process_id in victims.items():
            written = self._stage.history / f"{name}.jsonl"
            limit = ROOM_BYTES + (written.stat().st_size if written.exists() else 0)
            with suppress(ProcessLookupError):
                resource.prlimit(process_id, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            self._undo_after(0.5, lambda process_id=process_id: _lift_limit(process_id))  # type: ignore[misc]

    def jump(self) -> None:
        """Set the clock of one actor forward or back."""
        victim, skew = self._victim(), self._random.choice(SKEWS_SECONDS)
        path = self._stage.control / f"skew-{victim}"
        end = self._recorder.begin("clock.jump", victim=victim, seconds=skew)
        path.write_text(str(skew * 1_000_000))

        def set_right() -> None:
            path.unlink(missing_ok=True)
            self._undo_after(SETTLE_SECONDS, end)  # the victim may be in a call that began with the wrong clock

        self._undo_after(self._random.uniform(0.2, 1), set_right)

    def checkpoint(self) -> None:
        _run_sql(self._stage.location, "PRAGMA wal_checkpoint(TRUNCATE)")

    def vacuum(self) -> None:
        _run_sql(self._stage.location, "VACUUM")

    def tear(self) -> None:
        """Cut the end of each JSONL file, as a crash of the machine does that kept only a part of the last page.

        Nobody appends to a file at the instant at which the machine crashes and goes on afterwards, so the lock of the file is held.
        """
        locked_by = {self._stage.mirror: self._stage.mirror.with_name(".entries")}
        locked_by[self._stage.queue / "events.jsonl"] = self._stage.queue / "run" / ".tracks"
        for path, lock in locked_by.items():
            if path.exists() and lock.exists() and path.stat().st_size > 60:
                with open(lock, "rb") as file, suppress(BlockingIOError):  # a stopped process may hold it
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.truncate(path, path.stat().st_size - self._random.randrange(1, 60))

    def crash_postgres(self) -> None:
        """End the server at once, without flushing anything, and start it again: what it acknowledged is in its log."""
        postgres = self._stage.postgres
        assert postgres is not None
        postgres.crash()

    def hang_up(self) -> None:
        """Cut every connection to PostgreSQL."""
        assert self._stage.postgres is not None
        with suppress(psycopg.Error), psycopg.connect(self._stage.postgres.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def vacuum_postgres(self) -> None:
        assert self._stage.postgres is not None
        with suppress(psycopg.Error), psycopg.connect(self._stage.postgres.url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            connection.execute("VACUUM")


def _signal(process_id: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, number)


def _lift_limit(process_id: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, UNLIMITED)


def _run_sql(location: str, statement: str) -> None:
    """Run a statement with a connection that is not ours, in a process of its own: ours must not wait for a stopped writer."""
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=1, isolation_level=None).execute(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, location, statement], check=False, capture_output=True)
