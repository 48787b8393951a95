"""The commands `thread` and `notifier`, as real processes: what `process.py` is for `inbox`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from tests.cli.process import LIMIT, Finished, Waiter, eventually, is_alive, module, processes_with
from tests.queues.conftest import journal_files

PROGRAMS = {name: module(name) for name in ("thread", "notifier")}
COMMANDS = {name: program.line for name, program in PROGRAMS.items()}
THREAD = shlex.join(COMMANDS["thread"])  # the same, for a shell
KEYS = ["id", "created_at", "source", "type", "subtype", "content"]  # of an event, in the document's order
WARDEN = "internal:dm:default:warden"
ALICE = "external:telegram:tg-main:group:grp-123/topic-456:alice"
OURS = '--thread "$THREAD_DIR" --consumer="$THREAD_CONSUMER"'  # inside a handler
UNSCHEDULED = {"THREAD_NOTIFIER": "true"}  # a notifier that takes everything and does nothing


class QueueCommands:
    """Both commands, in a folder with a notifier's home of its own. The runner that they start ends when it has nothing to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "notifier-home"
        self.queue = folder / "queue"
        self._started: list[Waiter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for waiter in self._started:
            if waiter.alive():
                waiter.process.kill()
                waiter.process.communicate(timeout=LIMIT)
        if self.home.exists():
            self.notifier("stop")
        self.end_all()

    def processes(self) -> list[int]:
        """Every process that came of a command of this folder: each has inherited the home of its notifier."""
        return processes_with(f"NOTIFIER_HOME={self.home}")

    def end_all(self) -> None:
        """End what would outlive the test: supervisors that wait, handlers, and what those left behind."""
        while left := self.processes():
            end(*left)

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "NOTIFIER_HOME": str(self.home),
            "NOTIFIER_IDLE_SECONDS": "0",
            **more,
        }

    def run(
        self, program: str, argv: Sequence[str | bytes], environment: dict[str, str], *, stdin: bytes = b"", unprivileged: bool = False
    ) -> Finished:
        return PROGRAMS[program].run(
            argv,
            folder=self.folder,
            environment=self.environment(**environment),
            stdin=stdin,
            unprivileged=unprivileged,
        )

    def thread(self, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> Finished:
        """`thread` as it is typed."""
        return self.run("thread", argv, environment, stdin=stdin)

    def notifier(self, *argv: str | bytes, **environment: str) -> Finished:
        return self.run("notifier", argv, environment)

    def start(self, program: str, *argv: str, **environment: str) -> Waiter:
        waiter = PROGRAMS[program].start_heard(argv, folder=self.folder, environment=self.environment(**environment))
        self._started.append(waiter)
        return waiter

    def init(self) -> None:
        assert self.thread("init", str(self.queue)).code == 0

    def on_queue(self, command: str, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> Finished:
        """A command on the queue of this folder."""
        return self.thread(command, "--thread", str(self.queue), *argv, stdin=stdin, **environment)

    def push(self, content: str = "hello", *more: str, source: str = "internal:dm:default:warden", **environment: Any) -> int:
        """A new message; its id."""
        finished = self.on_queue("push", "--source", source, "--type", "message", f"--content={content}", *more, **environment)
        assert (finished.code, finished.stderr) == (0, ""), finished
        return int(finished.stdout)

    def subscribe(self, consumer: str, handler: str = "true", *more: str) -> None:
        finished = self.on_queue("subscribe", f"--consumer={consumer}", f"--handler={handler}", *more)
        assert (finished.code, finished.stderr) == (0, ""), finished

    def pop(self, consumer: str, *more: str) -> list[dict[str, Any]]:
        finished = self.on_queue("pop", f"--consumer={consumer}", *more)
        assert (finished.code, finished.stderr) == (0, ""), finished
        return lines(finished.stdout)

    def info(self) -> dict[str, Any]:
        finished = self.on_queue("info", "--json")
        assert finished.code == 0, finished
        answer: dict[str, Any] = finished.json
        return answer

    def log(self) -> str:
        return (self.queue / "logs" / "thread.log").read_text()

    def work(self, consumer: str = "c") -> Path:
        """The folder in which the handler of a consumer runs."""
        return self.queue / "handlers" / quote(consumer, safe="")

    def journal(self) -> list[dict[str, Any]]:
        """The events of all its files: on a busy machine, processes that push until they are killed fill more than one."""
        return [event for file in journal_files(str(self.queue)) for event in lines(file.read_text())]

    def told(self, program: str, *argv: str, **environment: str) -> Any:
        """Run a command that must succeed, and return its JSON."""
        finished = self.run(program, [*argv, "--json"], environment)
        assert (finished.code, finished.stderr) == (0, ""), finished
        return finished.json

    def refuses(self, code: int, program: str, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> dict[str, str]:
        """How both forms refuse, alike: what went wrong, and what to do."""
        spoken, written = PROGRAMS[program].run_each(
            [argv, [*argv, "--json"]], folder=self.folder, environment=self.environment(**environment), stdin=stdin
        )
        assert (spoken.code, written.code) == (code, code), (spoken, written)
        assert (spoken.stdout, written.stdout) == ("", ""), (spoken, written)
        assert written.stderr.count("\n") == 1, written
        error: dict[str, str] = json.loads(written.stderr)
        assert set(error) == {"error", "suggestion"}
        assert all(error.values()), error
        assert spoken.stderr == f"Error: {error['error']} - {error['suggestion']}\n"
        return error

    def runner_gone(self) -> None:
        """Wait until the runner that was started on demand has ended."""
        eventually(lambda: self.told("notifier", "status")["running"] is False)


class QuietQueueCommands(QueueCommands):
    """Commands whose pushes notify nobody unless a test names a notifier: nothing runs but what the test started."""

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"THREAD_NOTIFIER": "true", **more})

    def batch(self, *events: dict[str, Any], more: Sequence[str] = ()) -> list[int]:
        """New events; their ids."""
        finished = self.on_queue("push", "--batch", *more, stdin=ndjson(*events))
        assert (finished.code, finished.stderr) == (0, ""), finished
        return [int(line) for line in finished.stdout.splitlines()]

    def three(self, handler: str = "true") -> None:
        """A message, a record and another message, and two that have read none of them."""
        self.batch(
            {"source": WARDEN, "type": "message", "content": "one"},
            {"source": "self", "type": "record", "subtype": "decision", "content": "two"},
            {"source": ALICE, "type": "message", "content": "three"},
        )
        self.subscribe("all", handler)
        self.subscribe("messages", handler, "--filter", "type = 'message'")

    def progress(self, consumer: str) -> int | None:
        found = [entry["last_acked_id"] for entry in self.info()["progress"] if entry["consumer_id"] == consumer]
        return found[0] if found else None

    def teller(self) -> tuple[Path, dict[str, Any]]:
        """Where another notifier writes down what it is told, a word a line, and the environment that names it."""
        told = self.folder / "told"
        return told, {"THREAD_NOTIFIER": f"printf '%s\\n' >>{shlex.quote(str(told))}"}

    def rows(self) -> list[list[tuple[Any, ...]]]:
        """All that the queue's database holds, read without our code."""
        with closing(sqlite3.connect(self.queue / "events.db")) as db:
            return [list(db.execute(f"SELECT * FROM {table}")) for table in ("events", "subscriptions", "consumer_progress")]

    def change(self, statement: str, *values: object) -> None:
        """Change the queue's database as another program would."""
        with closing(sqlite3.connect(self.queue / "events.db")) as db, db:
            db.execute(statement, values)

    def files(self) -> dict[str, bytes]:
        """Every file and folder here but the database, which SQLite rewrites at will, and what running leaves behind."""
        found = {file: str(file.relative_to(self.folder)) for file in self.folder.rglob("*")}
        kept = {file: name for file, name in found.items() if not name.startswith(("queue/events.db", "queue/logs", "queue/run"))}
        return {name: file.read_bytes() if file.is_file() else b"" for file, name in kept.items()}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing in the queue is changed, and nothing is written beside it."""
        before = self.rows(), self.files()
        yield
        assert (self.rows(), self.files()) == before


def acks(last: int) -> str:
    """A handler that has read all up to there: it is not run again."""
    return f'{THREAD} ack --thread "$THREAD_DIR" --consumer "$THREAD_CONSUMER" --last-event-id {last}'


def events(finished: Finished) -> list[dict[str, Any]]:
    """Return the output of a command that must succeed: one event a line, and nothing else."""
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.stdout == "" or finished.stdout.endswith("\n")
    found: list[dict[str, Any]] = [json.loads(line) for line in finished.stdout.split("\n")[:-1]]
    assert all(list(event) == KEYS for event in found), found
    return found


def ids(finished: Finished) -> list[int]:
    return [event["id"] for event in events(finished)]


def ndjson(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


class BusyQueueCommands(QueueCommands):
    """Commands whose handlers run. Every process that they started is ended with them."""

    def __exit__(self, *exc: object) -> None:
        self.end_all()
        for waiter in self._started:
            waiter.process.wait(LIMIT)

    def under(self, environment: dict[str, str], command: str, *argv: str) -> Finished:
        """A command on the queue of this folder, in that environment."""
        return self.run("thread", [command, "--thread", str(self.queue), *argv], environment)

    def runner(self) -> int:
        """The process of the runner, once it is up. Never 0: a signal to that goes to everybody here."""
        told: list[int] = []

        def is_up() -> bool:
            pid = self.told("notifier", "status")["pid"]
            told.extend([pid] if pid else [])
            return bool(told)

        eventually(is_up)
        assert told[0] > 1
        return told[0]

    def lock(self, consumer: str) -> Path:
        return self.queue / "run" / f"{quote(consumer, safe='')}.lock"

    def held(self, consumer: str) -> bool:
        """Whether someone holds the lock of a consumer. The lock is not touched: a probe would itself keep others out."""
        file = self.lock(consumer)
        if not file.exists():
            return False
        held = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return str(file.stat().st_ino) in [words[5].rsplit(":", 1)[1] for words in held if (words[1], words[3]) == ("FLOCK", "WRITE")]

    def supervisor(self, consumer: str) -> int:
        pid: int = json.loads(self.lock(consumer).read_text())["pid"]
        return pid


def end(*pids: int) -> None:
    """Kill processes, and wait until they are gone: a dying process has no environment any more, and may still hold its locks."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it was quicker
            pass
    eventually(lambda: not any(is_alive(pid) for pid in pids))


def reader(seen: Path, *, limit: int = 100) -> str:
    """A handler that writes down what is unread, and acks it."""
    last = """$(printf '%s\\n' "$out" | tail -n 1 | cut -d: -f2 | cut -d, -f1 | tr -d ' ')"""
    read = f"out=$({THREAD} pop {OURS} --limit {limit})"
    keep = f"""printf '%s\\n' "$out" >> '{seen}'"""
    return f'{read} && test -n "$out" && {keep} && {THREAD} ack {OURS} --last-event-id "{last}"'


def acking(event: int | str) -> str:
    """A line of a handler that acks an event."""
    return f"{THREAD} ack {OURS} --last-event-id {event}"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
