"""1, 100 and 1,000 waiters: what they cost while nothing happens, and how long it takes until the last of them has an event.

In the library, each waiter is a process with a store of its own. On the server, each is a connection to its event stream, beside as many
clients of Redis that wait for a stream. One event is on disk (synchronous=FULL, appendfsync always) before anyone has it.
"""

from __future__ import annotations

import os
import resource
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter_ns, sleep

import postroom
from bench import brokers
from bench.load import Crowd, Line, request, tell
from bench.processes import read_cpu_seconds, read_proportional_bytes, read_resident_bytes
from bench.report import Report, milliseconds
from bench.results import BYTES, CORE_SHARE, OURS, SECONDS
from bench.scale import REPEATS, choose
from bench.serving import COMMENT, office, serve
from bench.talk import Redis
from postroom import work

WAITERS = choose((1, 100, 1_000), (1, 20))
SETTLE_SECONDS, WINDOW_SECONDS = choose(4.0, 1.0), choose(2.0, 0.5)
GROUP, REDIS = "waiters", "Redis streams, appendfsync always"
MIB = 1 << 20
WAKE_LIMIT_SECONDS = 300.0
CONNECTED = b": connected\n\n\r\n"


def run(report: Report) -> None:
    report.section("Waiters: idle CPU and memory of all together, and from the start of a write until the last has it, medians")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the servers inherit it
    for waiters in WAITERS:
        with TemporaryDirectory() as folder:
            _measure_library(report, folder, waiters)
        with TemporaryDirectory() as folder, ExitStack() as stack:
            _measure_servers(report, folder, waiters, stack)


def _measure_library(report: Report, folder: str, waiters: int) -> None:
    place = str(Path(folder) / "coord.db")
    postroom.init(place)
    with waiting_processes(place, waiters) as (pids, read_last), closing(postroom.open(place)) as store:
        sleep(SETTLE_SECONDS)  # until none of them has anything left to look at
        shares = measure_idle(lambda: sum(map(read_cpu_seconds, pids)))
        memory = [float(sum(map(read_proportional_bytes, pids)))] * REPEATS
        waits = []
        for turn in range(REPEATS):
            began = perf_counter_ns()
            work.send(store, sender="leader", to="crowd", subject=f"event {turn}")
            waits.append((read_last() - began) / 1e9)
            sleep(0.5)  # so that they are asleep again
    _record(report, "library", OURS, waiters, shares, memory, waits)


def _measure_servers(report: Report, folder: str, waiters: int, stack: ExitStack) -> None:
    """Measure our server and Redis in turns, each with as many connections that wait."""
    place, registered = office(folder, "room")
    server = stack.enter_context(serve(place))
    listen = server.get("/api/events?types=entry.created")
    push = request("POST", "/api/inbox/push", server.port, registered.token, {"comments": COMMENT})
    first = Crowd(server.port, 1, listen, CONNECTED, b"entry.created")  # what is loaded at the first use is not counted
    tell([first], Line(server.port), push)
    first.close()
    server.quiet()
    fans = {OURS: _FanOut(server.pid, server.port, lambda: Crowd(server.port, waiters, listen, CONNECTED, b"entry.created"), push)}
    facts = stack.enter_context(brokers.redis(folder, 0))
    if facts is None:
        report.leave_out(REDIS)
    else:
        port = facts["port"]
        xread = Redis.command("XREAD", "BLOCK", "0", "STREAMS", "fan", "$")
        xadd = Redis.command("XADD", "fan", "*", "payload", COMMENT)
        fans[REDIS] = _FanOut(facts["pid"], port, lambda: Crowd(port, waiters, xread, b"", COMMENT.encode()), xadd, asks_again=True)
    waits: dict[str, list[float]] = {name: [] for name in fans}
    sleep(SETTLE_SECONDS)
    idle = {name: measure_idle(lambda fan=fan: read_cpu_seconds(fan.pid)) for name, fan in fans.items()}  # type: ignore[misc]
    for _ in range(REPEATS):
        for name, fan in fans.items():
            waits[name].append(fan.time_last())
    for name, fan in fans.items():
        _record(report, "server", name, waiters, idle[name], [float(fan.memory)] * REPEATS, waits[name])
        fan.close()


def _record(report: Report, door: str, subject: str, waiters: int, shares: list[float], memory: list[float], waits: list[float]) -> None:
    for what, unit, values in (("idle CPU", CORE_SHARE, shares), ("memory", BYTES, memory), ("the last one has an event", SECONDS, waits)):
        report.record(GROUP, f"{door}: {what}", subject, unit, values, clients=waiters)
    idle = median(shares)
    row = f"{idle:.2%}; {median(memory) / MIB:.1f} MiB; {milliseconds(median(waits))}"
    bounded = door == "library" and waiters == 100
    report.row(f"{door}, {waiters:,} waiters: {subject}", row, "under 1 %" if bounded else "", met=idle < 0.01 if bounded else None)


def measure_idle(read_seconds: Callable[[], float]) -> list[float]:
    """Return the share of a core in each of some windows."""
    shares = []
    for _ in range(REPEATS):
        before = read_seconds()
        sleep(WINDOW_SECONDS)
        shares.append((read_seconds() - before) / WINDOW_SECONDS)
    return shares


class _RawLine(Line):
    """A connection whose answer is one line."""

    def answer(self) -> bytes:
        return self.until(b"\r\n")


class _FanOut:
    """Connections that wait for one event of a server."""

    def __init__(self, pid: int, port: int, gather: Callable[[], Crowd], write: bytes, *, asks_again: bool = False) -> None:
        self.pid, self._port, self._write, self._asks_again = pid, port, write, asks_again
        before = read_resident_bytes(pid)
        self._crowd = gather()
        sleep(1)
        self.memory = read_resident_bytes(pid) - before

    def time_last(self) -> float:
        """Return the seconds from the start of a write until the last connection has it."""
        if self._asks_again and self._crowd.told:
            self._crowd.ask()
        self._crowd.forget()
        sleep(0.3)  # until the server has read all of them
        line = _RawLine(self._port) if self._asks_again else Line(self._port)  # a new one: the server closes idle ones
        tell([self._crowd], line, self._write)
        line.close()
        if len(self._crowd.told) < self._crowd.size:
            raise TimeoutError(f"{len(self._crowd.told)} of {self._crowd.size} connections have the event")
        return max(self._crowd.told)

    def close(self) -> None:
        self._crowd.close()


# Waiters of the library: processes that one process has forked, so that a thousand of them start quickly.


@contextmanager
def waiting_processes(place: str, waiters: int) -> Iterator[tuple[list[int], Callable[[], int]]]:
    """Yield the ids of the processes, and how to read the time at which the last one had the event."""
    argv = [sys.executable, "-m", "bench.waiters", place, str(waiters)]
    parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        pids = [int(word) for word in _read_line(parent).split()]
        yield pids, lambda: int(_read_line(parent))
    finally:
        parent.communicate()


def _read_line(parent: subprocess.Popen[bytes]) -> bytes:
    assert parent.stdout is not None
    if not select.select([parent.stdout], [], [], WAKE_LIMIT_SECONDS)[0]:
        raise TimeoutError("not every waiter has the event")
    return parent.stdout.readline()


def _fork_waiters(place: str, waiters: int) -> None:
    """Print the ids once all wait, and then for each event when the last one had it. Ends with its standard input."""
    reading, writing = os.pipe()
    pids = []
    for _ in range(waiters):
        pid = os.fork()
        if pid == 0:
            _wait(place, writing)
        pids.append(pid)
    _read_times(reading, waiters)
    print(*pids, flush=True)
    while reading in select.select([reading, sys.stdin], [], [])[0]:
        print(max(_read_times(reading, waiters)), flush=True)
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _read_times(reading: int, count: int) -> list[int]:
    data = b""
    while len(data) < 8 * count:
        data += os.read(reading, 8 * count - len(data))
    return [number for (number,) in struct.iter_unpack("q", data)]


def _wait(place: str, writing: int) -> None:
    """Write 8 bytes when ready and after each event: the time at which this process had it."""
    store = postroom.open(place)
    cursor = work.watch(store, agent="crowd", timeout_seconds=0.000001).next_event_id
    while True:
        os.write(writing, struct.pack("q", perf_counter_ns()))
        cursor = work.watch(store, agent="crowd", after_event=cursor).next_event_id


if __name__ == "__main__":
    _fork_waiters(sys.argv[1], int(sys.argv[2]))
