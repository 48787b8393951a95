"""The day of 10,000 agents on one PostgreSQL, in compressed time: a share of its work, as fast as it goes.

Each agent gives and finishes 20 threads a day (send, take, two updates, done), sends and receives 10 messages, and asks a person once.
`SHARE` in the environment is the part of the day that is done; its agents are drawn from all of them, so that the tables look alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from time import perf_counter

import psycopg

import postroom
from bench.report import Report
from postroom import mail, work

AGENTS, SECONDS_A_DAY, PEAK = 10_000, 86_400, 5.0
THREADS_A_DAY, MAILS_A_DAY, QUESTIONS_A_DAY = 20, 10, 1
WRITES_OF_THREAD, WRITES_OF_MAIL, WRITES_OF_QUESTION = 5, 3, 2
SHARE = float(os.environ.get("SHARE", "0.002"))
PROCESSES = 8
SCHEMA = "day"
BODY = "What was done, and what was found on the way. " * 10  # 460 characters


def run(report: Report, url: str) -> None:
    """Do a share of the day, and report how much faster than the day it was, and what it left."""
    place = f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}"
    postroom.init(place)
    before = _size(url)
    argv = [sys.executable, "-m", "bench.day", place]
    workers = [subprocess.Popen([*argv, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in range(PROCESSES)]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    start = perf_counter()
    writes = sum(int(worker.communicate("go\n")[0]) for worker in workers)
    took = perf_counter() - start
    size = _size(url) - before
    day = AGENTS * (THREADS_A_DAY * WRITES_OF_THREAD + MAILS_A_DAY * WRITES_OF_MAIL + QUESTIONS_A_DAY * WRITES_OF_QUESTION)
    needed = day / SECONDS_A_DAY * PEAK
    report.section(f"PostgreSQL: {SHARE:.1%} of the day of {AGENTS:,} agents, {day:,} writes a day (load {os.getloadavg()[0]:.0f})")
    report.row(
        f"writes a second; the day needs {day / SECONDS_A_DAY:.0f}, and {needed:.0f} at a peak of {PEAK:g} x", f"{writes / took:.0f}"
    )
    report.row(
        "agents that this rate carries at that peak", f"{AGENTS * writes / took / needed:,.0f}", "10,000", met=writes / took >= needed
    )
    report.row("bytes a write; GB a year for these agents", f"{size / writes:.0f}; {size / writes * day * 365 / 1e9:,.0f}")


def _size(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)",
            (SCHEMA,),
        ).fetchone()
    return int(row[0]) if row else 0


def _agents(place: str, number: int) -> int:
    """Do one process's part, and return the number of writes."""
    store, chance, writes = postroom.open(place), Random(number), 0
    print("READY", flush=True)
    sys.stdin.readline()
    for _ in range(int(AGENTS * SHARE * THREADS_A_DAY / PROCESSES)):
        lead, worker = (f"agent-{chance.randrange(AGENTS)}" for _ in range(2))
        work.send(store, sender=lead, to=worker, subject="Look at the login page", body=BODY, run_id=f"run-{lead}")
        claim = work.take(store, agent=worker)
        writes += 2
        if claim is None:
            continue
        thread_id = claim.thread.thread_id
        work.update(store, thread_id, agent=worker, summary="Started")
        work.update(store, thread_id, agent=worker, summary="Half done", body=BODY)
        work.done(store, thread_id, agent=worker, summary="Done", body=BODY)
        writes += 3
        if chance.random() < MAILS_A_DAY / THREADS_A_DAY:
            mail.enqueue(store, {"from": worker, "to": lead, "payload": BODY})
            delivery = mail.dequeue(store, lead)
            writes += 2
            if delivery is not None:
                mail.ack(store, lead, delivery.message.msg_id, delivery_token=delivery.delivery_token)
                writes += 1
        if chance.random() < QUESTIONS_A_DAY / THREADS_A_DAY:
            asked = work.send(store, sender=worker, to="user", subject="Which of the two?", kind="question")
            work.reply(store, asked.thread.thread_id, sender="user", summary="The first")
            writes += 2
    return writes


if __name__ == "__main__":
    print(_agents(sys.argv[1], int(sys.argv[2])))
