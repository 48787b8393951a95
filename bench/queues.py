"""Event queues beside the same rows and lines by hand, when they are full, and from a push to the handler that it starts."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, strftime

from bench.blocks import interleave
from bench.commands import FLOOR
from bench.library import BY_HAND
from bench.report import Report, milliseconds, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import SIZES, choose
from postroom import queues
from postroom.queues.queue import Queue

THREAD = str(Path(sys.executable).parent / "thread")
NOTIFIER = str(Path(sys.executable).parent / "notifier")
ROUNDS, BATCHES, STARTS = choose(600, 100), choose(60, 10), choose(25, 5)
SOURCE, CONTENT = "internal:dm:default:warden", "disk is full on build-3"
INSERT = "INSERT INTO events (created_at, source, type, subtype, content) VALUES (?, ?, ?, ?, ?)"


def run(report: Report) -> None:
    with TemporaryDirectory() as folder:
        _command(report, folder)
    with TemporaryDirectory() as folder:
        _by_hand(report, folder)
    with TemporaryDirectory() as folder:
        _flat(report, folder)
    with TemporaryDirectory() as folder:
        _starts(report, folder)


def _command(report: Report, folder: str) -> None:
    report.section("A push as a command, its dispatch scheduled, beside `python -c pass` of the same environment")
    subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], check=True)
    environment, path = _office(folder)
    up = {**environment, "NOTIFIER_IDLE_SECONDS": "600"}
    push = _push_command(path)
    measured = interleave(60, floor=lambda: _run(up, sys.executable, "-c", "pass"), push=lambda: _run(up, *push))
    _run(up, NOTIFIER, "stop")
    ratio = measured.ratio("floor", "push")
    for name, subject in (("push", OURS), ("floor", FLOOR)):
        report.record("commands", "thread push, while a runner is up", subject, SECONDS, measured.seconds(name))
    report.row("thread push, while a runner is up", times(ratio), "at most 2.5", met=ratio <= 2.5)
    cold = {**environment, "NOTIFIER_IDLE_SECONDS": "0"}
    floors, pushes = [], []
    for _ in range(40):
        floors.append(_timed(cold, sys.executable, "-c", "pass"))
        pushes.append(_timed(cold, *push))
        sleep(0.1)  # until the runner that it started has ended
    ratio = median(pushes) / median(floors)
    report.row("thread push, starting a runner", times(ratio), "at most 2.5", met=ratio <= 2.5)


def _by_hand(report: Report, folder: str) -> None:
    report.section("Events: a transaction each, on disk (synchronous=FULL), with their line in the journal; in turns")
    queue = queues.open_queue(queues.init_queue(str(Path(folder) / "ours")))
    hand = Hand(str(Path(folder) / "hand"))
    one = interleave(ROUNDS, hand=hand.push, ours=lambda: queues.push(queue, source=SOURCE, type="message", content=CONTENT))
    share = one.ratio("ours", "hand")
    report.row("push, a second: by hand / postroom", f"{one.rate('hand'):.0f} / {one.rate('ours'):.0f}")
    for name, subject in (("ours", OURS), ("hand", BY_HAND)):
        report.record("rooms on SQLite", "event queue: push, with its line in the journal", subject, PER_SECOND, one.rates(name))
    report.row("push: postroom / a bare insert plus an append", f"{share:.0%}", "at least 60 %", met=share >= 0.6)
    lines = [{"source": SOURCE, "type": "message", "content": CONTENT} for _ in range(1000)]
    many = interleave(BATCHES, hand=lambda: hand.push_batch(lines), ours=lambda: queues.push_batch(queue, lines))
    share = many.ratio("ours", "hand")
    report.row(
        "events in batches of 1,000, a second: by hand / postroom", f"{1000 * many.rate('hand'):.0f} / {1000 * many.rate('ours'):.0f}"
    )
    for name, subject in (("ours", OURS), ("hand", BY_HAND)):
        rates = [1000 * rate for rate in many.rates(name)]
        report.record("rooms on SQLite", "event queue: events in batches of 1,000", subject, PER_SECOND, rates)
    report.row("batch: postroom / a bare executemany plus one append", f"{share:.0%}", "at least 60 %", met=share >= 0.6)


def _flat(report: Report, folder: str) -> None:
    report.section(f"Events, flat cost: at {SIZES[-1]:,} events / at {SIZES[0]}")
    filled = {size: _filled(str(Path(folder) / str(size)), size) for size in SIZES}
    verbs: dict[str, Callable[[Queue], object]] = {
        "push, pop and ack": _round,
        "push": lambda queue: queues.push(queue, source=SOURCE, type="message", content=CONTENT),
        "pop of a consumer whose filter fits nothing": lambda queue: queues.pop(queue, "picky"),
    }
    for name, verb in verbs.items():
        actions: dict[str, Callable[[], object]] = {str(size): partial(verb, queue) for size, queue in filled.items()}
        interleave(5, 1, **actions)  # to warm up
        measured = interleave(100, 1, **actions)
        for size in SIZES:
            report.record("size", f"event queue: {name}", OURS, SECONDS, measured.seconds(str(size)), size=size)
        ratio = measured.ratio(str(SIZES[0]), str(SIZES[-1]))
        small = milliseconds(measured.median(str(SIZES[0])))
        report.row(f"{name} ({small} at {SIZES[0]})", times(ratio), "within 1.5", met=ratio <= 1.5)


def _round(queue: Queue) -> None:
    event = queues.push(queue, source=SOURCE, type="message", content=CONTENT)
    assert queues.pop(queue, "reader")[-1] == event
    queues.ack(queue, "reader", last_event_id=event.id)


def _filled(path: str, size: int) -> Queue:
    """A queue with events that others put there, and two consumers."""
    queues.init_queue(path)
    with sqlite3.connect(f"{path}/events.db") as database:
        database.execute("PRAGMA synchronous=OFF")
        database.execute(
            "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)"
            " INSERT INTO events (created_at, source, type, content) SELECT '2026-03-18T10:30:00.123Z', 'self', 'record', n FROM counted",
            (size,),
        )
    queue = queues.open_queue(path)
    # As a queue is that has lived: a journal that was rotated before the newest line.
    newest = queues.peek(queue, last_event_id=size - 1)[0]
    Path(path, "events.jsonl").write_text(json.dumps(newest.to_json()) + "\n")
    queues.subscribe(queue, "reader", handler="true", last_event_id=size)
    queues.subscribe(queue, "picky", handler="true", filter="source LIKE 'external:%'")
    return queue


def _starts(report: Report, folder: str) -> None:
    report.section("From the start of `thread push` to the first step of the handler that it starts")
    environment, path = _office(folder)
    fifo = Path(folder) / "started"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR)
    newest = "$(tail -1 $THREAD_DIR/events.jsonl | cut -d: -f2 | tr -dc 0-9)"
    handler = f"echo started > {fifo}; thread ack --last-event-id {newest}"
    _run(environment, THREAD, "subscribe", "--thread", path, "--consumer", "c", "--handler", handler)
    cold = [_time_start({**environment, "NOTIFIER_IDLE_SECONDS": "0"}, path, reader) for _ in range(STARTS)]
    report.row("with nothing running beforehand, median", milliseconds(median(cold)), "under 80 ms", met=median(cold) < 0.08)
    _run({**environment, "NOTIFIER_IDLE_SECONDS": "600"}, NOTIFIER, "start")
    _measure_warm_starts(report, environment, folder, reader)
    _processes(report, environment, folder)
    _run(environment, NOTIFIER, "stop")
    os.close(reader)


def _measure_warm_starts(report: Report, environment: dict[str, str], folder: str, reader: int) -> None:
    """Report the time to a handler while a runner is up, beside an interpreter and beside a push that starts nothing, taken in turns."""
    quiet = str(Path(folder) / "quiet")
    _run(environment, THREAD, "init", quiet)
    floors, pushes, starts = [], [], []
    for _ in range(STARTS):
        floors.append(_timed(environment, sys.executable, "-c", "pass"))
        pushes.append(_timed(environment, *_push_command(quiet)))
        starts.append(_time_start(environment, str(Path(folder) / "queue"), reader))
    floor, push, start = median(floors), median(pushes), median(starts)
    report.row("while a runner is up, median", milliseconds(start), "under 20 ms", met=start < 0.02)
    report.row("the same / `python -c pass`", times(start / floor), "at most 2.5", met=start / floor <= 2.5)
    report.row("beyond a push that starts nothing", milliseconds(max(start - push, 0.0)), "under 8 ms", met=start - push < 0.008)
    report.row("the same / `python -c pass`", times((start - push) / floor), "at most 0.8", met=start - push <= 0.8 * floor)


def _processes(report: Report, environment: dict[str, str], folder: str) -> None:
    """How many processes there are for handlers that run at the same time."""
    path, running = str(Path(folder) / "many"), 20
    _run(environment, THREAD, "init", path)
    for number in range(running):
        _run(environment, THREAD, "subscribe", "--thread", path, "--consumer", f"c{number}", "--handler", "exec sleep 60")
    before = _count_processes(environment)
    _run(environment, *_push_command(path))
    sleep(2)
    each = round((_count_processes(environment) - before) / running)
    report.row(f"processes for each of {running} running handlers", str(each), "1", met=each == 1)
    for number in range(running):
        _run(environment, THREAD, "unsubscribe", "--thread", path, "--consumer", f"c{number}")


def _count_processes(environment: dict[str, str]) -> int:
    """Return how many processes of this machine have the notifier of this environment. Others come and go on a busy machine."""
    mark, found = f"NOTIFIER_HOME={environment['NOTIFIER_HOME']}".encode(), 0
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            found += mark in variables.read_bytes().split(b"\0")
    return found


def _time_start(environment: dict[str, str], path: str, reader: int) -> float:
    """Return the seconds from the start of a push command to the first step of the handler."""
    began = perf_counter()
    pushing = subprocess.Popen(_push_command(path), env=environment, stdout=subprocess.DEVNULL)
    os.read(reader, 100)
    waited = perf_counter() - began
    pushing.wait()
    sleep(0.3)  # until the handler, its supervisor and a runner that is not to stay have ended
    return waited


def _push_command(path: str) -> tuple[str, ...]:
    return (THREAD, "push", "--thread", path, "--source", SOURCE, "--type", "message", "--content", CONTENT)


class Hand:
    """The least that does the same: a row in a transaction, and a line at the end of a file."""

    def __init__(self, path: str) -> None:
        queues.init_queue(path)
        self._database = sqlite3.connect(f"{path}/events.db", isolation_level=None)
        self._database.execute("PRAGMA synchronous=FULL")
        self._journal = open(f"{path}/events.jsonl", "ab", buffering=0)  # noqa: SIM115 - lives as long as we do

    def push(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        values = (strftime("%Y-%m-%dT%H:%M:%S.000Z"), SOURCE, "message", None, CONTENT)
        number = self._database.execute(INSERT, values).lastrowid
        self._database.execute("COMMIT")
        self._journal.write((_line(number or 0, values) + "\n").encode())

    def push_batch(self, lines: list[dict[str, str]]) -> None:
        at = strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows = [(at, line["source"], line["type"], None, line["content"]) for line in lines]
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(INSERT, rows)
        last: int = self._database.execute("SELECT last_insert_rowid()").fetchone()[0]
        self._database.execute("COMMIT")
        first = last - len(rows) + 1
        self._journal.write("".join([_line(first + place, row) + "\n" for place, row in enumerate(rows)]).encode())


def _line(number: int, values: tuple[str, str, str, None, str]) -> str:
    return json.dumps(dict(zip(("id", "created_at", "source", "type", "subtype", "content"), (number, *values))))


def _office(folder: str) -> tuple[dict[str, str], str]:
    path = str(Path(folder) / "queue")
    environment = {**os.environ, "NOTIFIER_HOME": str(Path(folder) / "notifier")}
    _run(environment, THREAD, "init", path)
    return environment, path


def _run(environment: dict[str, str], *argv: str) -> None:
    subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False)


def _timed(environment: dict[str, str], *argv: str) -> float:
    began = perf_counter()
    _run(environment, *argv)
    return perf_counter() - began
