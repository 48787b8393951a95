"""Peers of a mailbox over the network: Redis streams and NATS JetStream, where the machine has them."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bench.load import HOST
from bench.talk import PAYLOAD, Nats, Redis

PATIENCE = 20.0
Facts = dict[str, Any]


def _port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _running(argv: list[str], port: int) -> Iterator[int]:
    """Run a server until the block ends. Yields its process id, or 0 if it did not start."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until, there = monotonic() + PATIENCE, False
        while not there and process.poll() is None and monotonic() < until:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                there = True
            except OSError:
                sleep(0.02)
        yield process.pid if there else 0
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def redis(folder: str, waiting: int) -> Iterator[Facts | None]:
    """With every write on disk before it is answered; None if there is none here."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port, place = _port(), Path(folder) / "redis"
    place.mkdir()
    flags = {"port": str(port), "bind": HOST, "dir": str(place), "save": "", "appendonly": "yes", "appendfsync": "always"}
    with _running([program, *(word for name, value in flags.items() for word in (f"--{name}", value))], port) as pid:
        if not pid:
            raise RuntimeError("redis-server did not start")
        facts = {"port": port, "pid": pid}
        line = _Loader(facts, 0)
        line.asked(line.command("XGROUP", "CREATE", "take", "workers", "0", "MKSTREAM"), 1)
        for start in range(0, waiting, 1000):
            line.asked(line.command("XADD", "take", "*", "from", f"sender-{start}", "payload", PAYLOAD) * 1000, 1000)
        yield facts


class _Loader(Redis):
    def asked(self, said: bytes, answers: int) -> None:
        self.line.sendall(said)
        while answers:
            if self.reply() is None:
                self.came += self.line.recv(1 << 20)
            else:
                answers -= 1


@contextmanager
def nats(folder: str, waiting: int) -> Iterator[Facts | None]:
    """With every write on disk before it is answered, if its version can do that; `always` says so. None if there is none here."""
    program = shutil.which("nats-server")
    if program is None:
        yield None
        return
    for always in (True, False):
        port, place = _port(), Path(folder) / f"nats-{always}"
        place.mkdir()
        sync = "sync_interval: always" if always else ""
        settings = f'host: "{HOST}"\nport: {port}\njetstream {{ store_dir: "{place}"\n {sync} }}\n'
        (place / "nats.conf").write_text(settings)
        with _running([program, "-c", str(place / "nats.conf")], port) as pid:
            if pid:
                facts = {"port": port, "pid": pid, "always": always, "run": 0}
                _streams(facts, waiting)
                yield facts
                return
    raise RuntimeError("nats-server did not start")


def _streams(facts: Facts, waiting: int) -> None:
    line = _Asker(facts, 0)
    line.line.sendall(line.connect())
    for name in ("put", "take"):
        line.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [name], "storage": "file", "retention": "workqueue"})
    consumer = {"durable_name": "workers", "ack_policy": "explicit", "max_ack_pending": 10_000}
    line.ask("$JS.API.CONSUMER.DURABLE.CREATE.take.workers", {"stream_name": "take", "config": consumer})
    for _ in range(0, waiting, 500):
        line.line.sendall(line.publish("take", PAYLOAD) * 500)
        line.wait(500)


class _Asker(Nats):
    def ask(self, subject: str, body: Facts) -> None:
        self.line.sendall(self.publish(subject, json.dumps(body)))
        self.wait(1)

    def wait(self, answers: int) -> None:
        while answers:
            told = self.messages()
            for _, text in told:
                if b'"error"' in text:
                    raise ValueError(text)
            answers -= len(told)
            if answers:
                self.came += self.line.recv(1 << 20)
