"""One hostile agent, in each of five ways that once stopped the server, and how long `/health` and another agent's verbs take beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep

import postroom
from bench.load import HOST, Line, mcp_request, request
from bench.report import Report, milliseconds, percentile
from bench.serving import Served, office, serve
from postroom import people
from postroom.core.rpc.wire import CONTENT_TYPE

HEALTH_BOUND_SECONDS, VERB_BOUND_SECONDS = 0.250, 1.0
MEASURED_SECONDS = 6.0  # of each attack, from its first request on
PAUSE_SECONDS = 0.01
MIB = 1 << 20
ATTACKS = {
    "pushes": "40 pushes, each of 50 links to one file of 64 MiB",
    "mail": "40 mails of 9 MiB to itself, all read by one tool call",
    "lists": "5 subjects of 30 MiB, 500 of 4 KiB, and 15 lists of all of them, unread",
    "frames": "480 WebSocket frames of 50 KB at once",
    "batches": "a batch of 250,000 mails, and 40 of 1,000 at once",
}


def run(report: Report) -> None:
    load = os.getloadavg()[0]
    report.section(f"Server: beside one hostile agent; longest of {MEASURED_SECONDS:g} s (load of the machine before: {load:.1f})")
    _measure_one(report, "", "nobody attacks")
    for name, what in ATTACKS.items():
        _measure_one(report, name, what)


def _measure_one(report: Report, attack: str, what: str) -> None:
    """Measure a fresh server, so that no attack inherits the queue of another."""
    with TemporaryDirectory() as folder:
        place, evil = office(folder, "hostile")
        project = Path(folder) / "hostile" / "project"
        with (project / "large").open("wb") as file:
            file.truncate(64 * MIB)
        for number in range(50):
            (project / f"link{number}").symlink_to("large")
        with closing(postroom.open(place)) as store:
            ada = people.issue_agent_token(store, name="ada")
        with serve(place) as server:
            attacker = _start_attack(attack, server, evil.token, evil.workspace.workspace_id)
            try:
                health, write, read = _measure(server, ada)
            finally:
                attacker.kill()
                attacker.wait()
            memory = server.memory() // MIB
    report.row(f"{what}: /health", milliseconds(max(health)), milliseconds(HEALTH_BOUND_SECONDS), met=max(health) <= HEALTH_BOUND_SECONDS)
    for kind, seconds in (("mail.enqueue", write), ("work.list_threads", read)):
        measured = f"{milliseconds(percentile(seconds, 0.5))} ({milliseconds(max(seconds))})"
        report.row(f"    another agent's {kind}: median (longest)", measured, "1 s", met=max(seconds) <= VERB_BOUND_SECONDS)
    report.row("    memory of the server", f"{memory} MiB")


def _measure(server: Served, token: str) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds of `/health`, of a verb that writes and of one that reads, asked at the same time on a connection each."""
    asked = (
        request("GET", "/health", server.port),
        _call(server.port, token, "mail.enqueue", message={"from": "ada", "to": "ada", "payload": "x"}),
        _call(server.port, token, "work.list_threads", limit=10),
    )
    with ThreadPoolExecutor(len(asked)) as pool:
        health, write, read = pool.map(_ask_until, [server.port] * len(asked), asked, [monotonic() + MEASURED_SECONDS] * len(asked))
    return health, write, read


def _ask_until(port: int, data: bytes, until: float) -> list[float]:
    line = Line(port)
    seconds = []
    while monotonic() < until:
        began = perf_counter()
        line.ask(data)
        seconds.append(perf_counter() - began)
        sleep(PAUSE_SECONDS)
    line.close()
    return seconds


def _call(port: int, token: str, verb: str, **named: object) -> bytes:
    return request("POST", f"/api/verbs/{verb}", port, token, {"named": named}, {"Content-Type": CONTENT_TYPE})


def _start_attack(attack: str, server: Served, token: str, workspace: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "bench.hostile", attack or "none", str(server.port), token, workspace]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


# The attacker, in a process of its own. Refusals are what it deserves, and it does not read them.


def attack(name: str, port: int, token: str, workspace: str) -> None:
    print("begin", flush=True)
    if name == "pushes":
        body = {"docs": [{"path": f"link{number}"} for number in range(50)]}
        _send_all([request("POST", "/api/inbox/push", port, token, body)] * 40)
    elif name == "mail":
        mail = {"message": {"from": "atlas", "to": "atlas", "payload": "x" * (9 * MIB)}}
        for _ in range(40):
            _ask(_call(port, token, "mail.enqueue", **mail))
        _ask(mcp_request("inbox_read", {"limit": 100}, port, workspace, token))
    elif name == "lists":
        for size in [30 * MIB] * 5 + [4000] * 500:
            _ask(_call(port, token, "work.send", sender="atlas", to="atlas", subject="x" * size))
        _send_all([_call(port, token, "work.list_threads", limit=10_000)] * 15)
    elif name == "frames":
        _flood_sockets(port, token)
    elif name == "batches":
        mail_of_many = [{"from": "atlas", "to": "atlas", "payload": "x"}] * 250_000
        _send_all([_call(port, token, "mail.enqueue_all", messages=mail_of_many)])
        _send_all([_call(port, token, "mail.enqueue_all", messages=mail_of_many[:1000])] * 40)
    sleep(MEASURED_SECONDS)


def _ask(data: bytes) -> None:
    line = Line(PORT)
    try:
        line.ask(data)
    except (OSError, ValueError, TimeoutError):
        pass
    line.close()


def _send_all(requests: list[bytes]) -> None:
    """Send each on a connection of its own, at once, and read nothing."""
    with ThreadPoolExecutor(len(requests)) as pool:
        LINES.extend(pool.map(_send_one, requests))


def _send_one(data: bytes) -> Line:
    line = Line(PORT)
    try:
        line.send(data)
    except OSError:
        pass
    return line


def _flood_sockets(port: int, token: str) -> None:
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    from postroom.core.rpc.wire import VERB_PROTOCOL

    call = {"op": "call", "verb": "mail.enqueue", "named": {"message": {"from": "atlas", "to": "atlas", "payload": "x" * 50_000}}}
    for _ in range(30):
        socket = connect(
            f"ws://{HOST}:{port}/api/verbs",
            subprotocols=[Subprotocol(VERB_PROTOCOL)],
            additional_headers={"Authorization": f"Bearer {token}"},
        )
        for number in range(16):
            socket.send(json.dumps({**call, "id": number}))
        LINES.append(socket)


LINES: list[object] = []  # kept open
PORT = 0

if __name__ == "__main__":
    PORT = int(sys.argv[2])
    attack(sys.argv[1], PORT, sys.argv[3], sys.argv[4])
