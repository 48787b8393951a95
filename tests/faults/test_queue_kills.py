"""SIGKILL of pushers, runners, supervisors and handlers at any moment: what was accepted is kept and handled, and nothing is wedged."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.cli.notifier_process import adding, runs, tasks
from tests.cli.process import Waiter, eventually, is_alive
from tests.cli.queue_process import UNSCHEDULED, BusyQueueCommands, end, reader
from tests.faults.children import BarrierProcess

FILTERS = {"all": None, "messages": "type = 'message'", "records": "type = 'record' AND source = 'self'"}
COLUMNS = ("id", "created_at", "source", "type", "subtype", "content")
KILLS = 40

# A handler that finds the one before it still running writes that down: one consumer never has two handlers, whoever was killed.
GUARD = """
me=$THREAD_CONSUMER
if read old supervisor 2> /dev/null < owner.$me && tr '\\0' '\\n' < /proc/$old/environ | grep -qx "THREAD_CONSUMER=$me"
then echo "$supervisor" >> "$THREAD_DIR/overlaps"; fi 2> /dev/null
echo "$$ $(cat "$THREAD_DIR/run/$me.lock")" > owner.$me
"""


class Battlefield(BusyQueueCommands):
    """A queue with three consumers, on which anybody may be killed at any time."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.moments = random.Random(seed)
        self.killed: set[int] = set()
        self.accepted: set[str] = set()
        self._pushers: dict[str, Waiter] = {}
        self._names = (f"event-{number}" for number in count())

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"THREAD_BACKOFF_SECONDS": "0.01", "NOTIFIER_IDLE_SECONDS": "2", **more})

    def open(self) -> None:
        self.init()
        for consumer, condition in FILTERS.items():
            line = f"{GUARD.strip()}\n{reader(self.folder / f'handled.{consumer}', limit=7)}"
            script = self.folder / f"handle.{consumer}"
            script.write_text(line)
            self.subscribe(consumer, f". '{script}'", *([] if condition is None else ["--filter", condition]))

    # who is there to be killed

    def kill(self, role: str) -> None:
        """Kill somebody of that role, if there is one just now."""
        pid = {"pusher": self._a_pusher, "runner": self._the_runner, "supervisor": self._a_supervisor, "handler": self._a_handler}[role]()
        if pid is not None and pid in self.processes():
            end(pid)
            self.killed.add(pid)

    def kill_everybody(self) -> None:
        everybody = self.processes()
        self.killed.update(everybody)
        end(*everybody)

    def _a_pusher(self) -> int | None:
        running = [waiter.process.pid for waiter in self._pushers.values() if waiter.alive()]
        return self.moments.choice(running) if running else None

    def _the_runner(self) -> int | None:
        pid: int | None = self.told("notifier", "status")["pid"]
        return pid

    def _a_supervisor(self) -> int | None:
        running = [self.supervisor(consumer) for consumer in FILTERS if self.held(consumer) and self.lock(consumer).read_text()]
        return self.moments.choice(running) if running else None

    def _a_handler(self) -> int | None:
        notes = [file.read_text().split() for file in self.queue.glob("handlers/*/owner.*")]  # a note is empty before it is written
        running = [int(note[0]) for note in notes if note]
        return self.moments.choice(running) if running else None

    # what goes on meanwhile

    def keep_pushing(self, pushers: int = 3) -> None:
        """Let that many pushers be under way."""
        self.collect(finished=True)
        while len(self._pushers) < pushers:
            name = next(self._names)
            words = self.moments.choice([["self", "--type", "record"], ["internal:dm:default:warden", "--type", "message"]])
            self._pushers[name] = self.start("thread", "push", "--thread", str(self.queue), "--source", *words, f"--content={name}")

    def collect(self, *, finished: bool) -> None:
        for name, waiter in list(self._pushers.items()):
            if waiter.alive() and finished:
                continue
            del self._pushers[name]
            ending = waiter.finish()
            if ending.stdout.endswith("\n"):  # it said its id: the event is stored, whatever came of it afterwards
                self.accepted.add(name)
            assert ending.code in (0, -signal.SIGKILL), ending

    def pause(self, seconds: float) -> None:
        """A moment of its own for each kill."""
        threading.Event().wait(self.moments.uniform(0, seconds))

    # what must be true afterwards

    def rows(self) -> list[dict[str, object]]:
        with closing(sqlite3.connect(self.queue / "events.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [dict(zip(COLUMNS, row)) for row in database.execute("SELECT * FROM events ORDER BY id")]

    def handled(self, consumer: str) -> list[int]:
        file = self.folder / f"handled.{consumer}"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line)["id"] for line in text.splitlines()]

    def matching(self, consumer: str) -> list[int]:
        wanted: Callable[[dict[str, object]], bool] = {
            "all": lambda row: True,
            "messages": lambda row: row["type"] == "message",
            "records": lambda row: row["type"] == "record",
        }[consumer]
        return [int(str(row["id"])) for row in self.rows() if wanted(row)]

    def assert_sound(self) -> None:
        """One more push, and all is well: nothing lost, nothing wedged."""
        self.collect(finished=False)
        self.push("the last")
        rows = self.rows()
        assert self.accepted - {str(row["content"]) for row in rows} == set()
        assert (self.queue / "events.jsonl").read_text().splitlines() == [json.dumps(row, ensure_ascii=False) for row in rows]
        for consumer in FILTERS:
            expected = self.matching(consumer)
            eventually(lambda consumer=consumer, expected=expected: set(self.handled(consumer)) == set(expected))  # type: ignore[misc]
            assert list(dict.fromkeys(self.handled(consumer))) == expected  # each first time in order
        eventually(lambda: not any(self.held(consumer) for consumer in FILTERS))
        assert not (self.queue / "overlaps").exists()
        assert self.on_queue("dispatch").stdout == ""


@pytest.fixture
def field(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Battlefield]:
    with Battlefield(tmp_path, seed=getattr(request, "param", 20261116)) as made:
        made.open()
        yield made


@pytest.mark.parametrize("field", [1, 2], indirect=True)
def test_whoever_is_killed_every_accepted_event_is_handled_in_order(field: Battlefield) -> None:
    for _ in range(KILLS):
        field.keep_pushing()
        field.pause(0.15)
        field.kill(field.moments.choice(["pusher", "runner", "supervisor", "handler"]))
    assert len(field.killed) > KILLS / 4
    field.assert_sound()


def test_when_everybody_is_killed_at_once_one_more_push_puts_all_right(field: Battlefield) -> None:
    for _ in range(6):
        field.keep_pushing(4)
        field.pause(0.6)
        field.kill_everybody()
    field.assert_sound()


@pytest.mark.parametrize("role", ["handler", "supervisor"])
def test_a_handler_that_dies_many_times_over_loses_nothing(field: Battlefield, role: str) -> None:
    while len(field.killed) < 8:
        field.push(**UNSCHEDULED)
        field.on_queue("dispatch")
        field.pause(0.2)
        field.kill(role)
    field.assert_sound()


# The pusher as a library: it says what it did only after the verb has returned.
PUSHER = """
from postroom import queues
queue = queues.open_queue(sys.argv[1])
say("READY")
for number in range(1_000_000):
    name = f"{sys.argv[2]}-{number}"
    if number % 3:
        queues.push(queue, source="self", type="record", content=name + "/1")
        say(name, 1)
    else:
        queues.push_batch(queue, [{"content": f"{name}/{part}" + "x" * 5_000} for part in range(9)], source="self", type="record")
        say(name, 9)
"""


def test_what_a_killed_pusher_stored_is_whole_and_in_both_tracks(tmp_path: Path) -> None:
    moments = random.Random(20261116)
    said: dict[str, int] = {}
    with BusyQueueCommands(tmp_path) as commands:
        commands.init()
        for turn in range(8):
            children = [BarrierProcess(PUSHER, commands.queue, f"{turn}.{number}").ready() for number in range(4)]
            for child in children:
                said.update(_size(child.line()))
                threading.Event().wait(moments.uniform(0, 0.03))
                child.kill()
            for child in children:
                with child:
                    for line in child.rest():
                        said.update(_size(line))
            commands.push(**UNSCHEDULED)
            _tracks_agree(commands)
        stored: dict[str, int] = {}
        for event in commands.journal():
            name = event["content"].split("/")[0]
            stored[name] = stored.get(name, 0) + 1
        assert {name: size for name, size in said.items() if stored.get(name) != size} == {}
        assert stored.pop("hello") == 8
        assert set(stored.values()) == {1, 9}
        assert len(stored) - len(said) <= 8 * 4  # each died with at most one verb not yet reported


def _size(line: str) -> dict[str, int]:
    name, size = line.split()
    return {name: int(size)}


def _tracks_agree(commands: BusyQueueCommands) -> None:
    with closing(sqlite3.connect(commands.queue / "events.db")) as database:
        rows = [dict(zip(COLUMNS, row)) for row in database.execute("SELECT * FROM events ORDER BY id")]
    assert commands.journal() == rows


def test_every_task_is_run_though_the_runner_is_killed_again_and_again(tmp_path: Path) -> None:
    moments = random.Random(20261116)
    with BusyQueueCommands(tmp_path) as commands:
        for number in range(24):
            done = commands.notifier(
                *adding(f"echo {number} >> '{tmp_path}/done'; sleep 0.1", task=f"job-{number}"), NOTIFIER_IDLE_SECONDS="2"
            )
            assert (done.code, done.stderr) == (0, "")
            if number % 4 == 0:
                threading.Event().wait(moments.uniform(0, 0.1))
                pid = commands.told("notifier", "status")["pid"]
                if pid is not None and is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: tasks(commands) == [])
        assert {int(line) for line in (tmp_path / "done").read_text().split()} == set(range(24))
        assert {run["outcome"] for run in runs(commands, "--limit", "1000")} <= {"ok", "lost"}
        commands.runner_gone()
