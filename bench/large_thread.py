"""A thread of 21 MB that clients read page by page, and how long `/health` takes beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import postroom
from bench.load import Line, request
from bench.report import Report, milliseconds, percentile
from bench.serving import Served, office, serve
from postroom import work

MESSAGES, BODY_BYTES = 5_000, 4_096
READERS = 4
HEALTH_REQUESTS = 1_000
PAUSE_SECONDS = 0.003  # between two of them, as a monitor would not hurry
BOUND_SECONDS = 0.050


def run(report: Report) -> None:
    report.section(f"Server: /health beside {READERS} clients that read a thread of {MESSAGES * BODY_BYTES >> 20} MiB, page by page")
    with TemporaryDirectory() as folder:
        place, _ = office(folder, "large")
        thread_id = _fill(place)
        with serve(place) as server, serve(office(folder, "idle")[0]) as idle:
            _row(report, "before they begin", _ask_health(server)[0])
            readers = [_start_reader(server, thread_id) for _ in range(READERS)]
            try:
                for reader in readers:
                    assert reader.stdout is not None
                    reader.stdout.readline()
                beside, control = _ask_health(server, idle)
            finally:
                pages = sum(_end_reader(reader) for reader in readers)
            _row(report, f"beside them ({pages:,} pages)", beside, BOUND_SECONDS)
            _row(report, "an idle server, in turns with it: what the machine itself costs", control)


def _fill(place: str) -> str:
    with closing(postroom.open(place)) as store:
        thread_id: str = work.send(store, sender="leader", to="builder", subject="Build").thread.thread_id
        with store.batch() as batch:
            for number in range(1, MESSAGES):
                work.send(batch, sender="leader", thread_id=thread_id, summary=str(number), body="x" * BODY_BYTES)
    return thread_id


def _ask_health(*servers: Served) -> list[list[float]]:
    """The seconds that each server took, asked in turns."""
    lines = [(Line(server.port), request("GET", "/health", server.port)) for server in servers]
    seconds: list[list[float]] = [[] for _ in servers]
    for _ in range(HEALTH_REQUESTS):
        for (line, asked), times in zip(lines, seconds):
            began = perf_counter()
            line.ask(asked)
            times.append(perf_counter() - began)
            sleep(PAUSE_SECONDS)
    for line, _ in lines:
        line.close()
    return seconds


def _row(report: Report, what: str, seconds: list[float], bound: float | None = None) -> None:
    worst = percentile(seconds, 0.99)
    measured = f"{milliseconds(percentile(seconds, 0.5))} ({milliseconds(worst)}; {milliseconds(max(seconds))})"
    if bound is None:
        report.row(f"{what}: median (p99; longest)", measured)
    else:
        report.row(f"{what}: median (p99; longest)", measured, milliseconds(bound), met=worst <= bound)


def _start_reader(server: Served, thread_id: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "bench.large_thread", str(server.port), server.token, thread_id]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _end_reader(reader: subprocess.Popen[str]) -> int:
    """End a reader; the number of pages that it read."""
    counted, _ = reader.communicate("stop\n", timeout=60)
    return int(counted or 0)


def _read(port: int, token: str, thread_id: str) -> int:
    """Read all pages again and again, until standard input has something."""
    from select import select

    line, path, cursor, pages = Line(port), f"/api/threads/{thread_id}", "", 0
    print("reading", flush=True)
    while not select([sys.stdin], [], [], 0)[0]:
        page = json.loads(line.ask(request("GET", path + cursor, port, token)))
        cursor = f"?before_event={page['next_before_event']}" if page["more"] else ""
        pages += 1
    return pages


if __name__ == "__main__":
    print(_read(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
