"""One side of `python -m bench.compare`: does blocks of operations with the `postroom` that PYTHONPATH names, and says how long they took.

It uses only public names, so that it runs with older commits too. Protocol: a line `OPERATION CALLS` comes, a line of JSON goes back.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import postroom
from postroom import mail, queues, work

PAYLOAD = "analyze the auth module"
SERVER_CONNECTIONS, SERVER_SECONDS = 4, 0.3
Times = tuple[float, float | None]  # elapsed and CPU seconds of a call
Measure = Callable[[int], Times]


def _time_calls(action: Callable[[], object], prepare: Callable[[int], object] = lambda calls: None) -> Measure:
    def measure(calls: int) -> Times:
        prepare(calls)
        cpu, start = _read_cpu_seconds(), perf_counter()
        for _ in range(calls):
            action()
        return (perf_counter() - start) / calls, (_read_cpu_seconds() - cpu) / calls

    return measure


def _read_cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def open_operations(folder: str, stack: ExitStack) -> dict[str, Callable[[], Measure]]:
    """Return what can be measured, until the stack ends. Each is opened at its first use, because an older commit may not have it."""
    place = str(Path(folder) / "coord.db")
    postroom.init(place)
    store = postroom.open(place)
    threads: list[str] = []
    numbers = count()

    def send() -> str:
        return work.send(store, sender="leader", to="w", subject=f"thread {next(numbers)}").thread.thread_id

    def claim_and_end() -> None:
        thread_id = threads.pop()
        work.claim(store, thread_id, agent="w")
        work.done(store, thread_id, agent="w", summary="ok")

    def put() -> object:
        return mail.enqueue(store, {"from": "lead", "to": "put", "payload": PAYLOAD})

    def take() -> None:
        delivery = mail.dequeue(store, "take")
        assert delivery is not None
        mail.ack(store, "take", delivery.message.msg_id, delivery_token=delivery.delivery_token)

    def fill(calls: int) -> None:
        mail.enqueue_all(store, [{"from": f"s{number % 20}", "to": "take", "payload": PAYLOAD} for number in range(calls)])

    shown = send()
    for _ in range(200):
        send()
    return {
        "thread: send": lambda: _time_calls(send),
        "thread: claim + done": lambda: _time_calls(claim_and_end, lambda calls: threads.extend(send() for _ in range(calls))),
        "thread: fetch": lambda: _time_calls(lambda: work.fetch(store, agent="w")),
        "thread: list of 20": lambda: _time_calls(lambda: work.list_threads(store, limit=20)),
        "thread: show": lambda: _time_calls(lambda: work.show(store, shown)),
        "mail: enqueue": lambda: _time_calls(put),
        "mail: dequeue + ack": lambda: _time_calls(take, fill),
        "event queue: push": lambda: _open_queue(folder),
        "task: submit + accept + complete": lambda: _open_tasks(folder),
        "waking: commit until a waiter has the row": lambda: _open_waiter(folder),
        "command: inbox send": lambda: _open_command("inbox", "send", place, "--subject", "more"),
        "command: mailbox enqueue": lambda: _open_command("mailbox", "enqueue", place, "--payload", PAYLOAD),
        "server: POST /api/mailbox, 4 connections": lambda: _open_server(folder, stack),
    }


def _open_queue(folder: str) -> Measure:
    queue = queues.open_queue(queues.init_queue(str(Path(folder) / "queue")))
    return _time_calls(lambda: queues.push(queue, source="bench", type="message", content=PAYLOAD))


def _open_tasks(folder: str) -> Measure:
    from postroom.tasks import Conductor

    place = str(Path(folder) / "tasks.db")
    postroom.init(place)
    conductor = Conductor(postroom.open(place))
    for name in ("forge", "canyon"):
        conductor.register(name)

    def finish_one() -> None:
        task = conductor.submit("forge", "canyon", PAYLOAD)
        taken = conductor.accept(task.task_id, agent="canyon")
        conductor.complete(task.task_id, agent="canyon", artifacts={"review": "fine"}, lease_token=taken.lease_token)

    return _time_calls(finish_one)


def _open_waiter(folder: str) -> Measure:
    from bench.waking import time_wakes

    place = str(Path(folder) / "waking.db")
    postroom.init(place)
    store = postroom.open(place)
    thread = work.send(store, sender="leader", to="w", subject="wake").thread.thread_id
    work.claim(store, thread, agent="w")

    def measure(calls: int) -> Times:
        return median(time_wakes(["echo", place], lambda: work.update(store, thread, agent="w", summary="ring"), wakes=20)), None

    return measure


def _open_command(program: str, command: str, place: str, *flags: str) -> Measure:
    argv = [str(Path(sys.executable).parent / program), command, "--db", place, "--from", "lead", "--to", "x", *flags, "--json"]
    return _time_calls(lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, check=True))


def _open_server(folder: str, stack: ExitStack) -> Measure:
    from bench.load import drive, request
    from bench.serving import serve

    place = str(Path(folder) / "server.db")
    postroom.init(place)
    server = stack.enter_context(serve(place))
    data = request("POST", "/api/mailbox", server.port, server.token, {"to": "put", "payload": PAYLOAD})

    def measure(calls: int) -> Times:
        before = server.cpu()
        driven = drive(server.port, data, connections=SERVER_CONNECTIONS, seconds=SERVER_SECONDS)
        return 1 / driven.rate, (server.cpu() - before) / driven.total

    return measure


def main() -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        operations = open_operations(folder, stack)
        opened: dict[str, Measure] = {}
        print(json.dumps({"package": os.path.dirname(postroom.__file__), "operations": list(operations)}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            name = asked["operation"]
            try:
                if name not in opened:
                    opened[name] = operations[name]()
                answer: dict[str, object] = {"times": opened[name](asked["calls"])}
            except Exception as error:  # of an older commit, which may lack what is measured: the other operations go on
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
