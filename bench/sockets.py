"""Mailboxes over the network: a message on its way to an open WebSocket, and each door beside the library, Redis and NATS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count, product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import postroom
from bench import brokers
from bench.commands import INBOX
from bench.report import Report, milliseconds, percentile
from bench.results import OURS, PER_SECOND
from bench.scale import CLIENTS, REPEATS, choose
from bench.serving import RATE, Served
from bench.talk import PAYLOAD, Facts, WireTake, talk
from postroom import mail
from postroom.store.interface import Store

MESSAGES = 300
ROUNDS, BLOCK_SECONDS = REPEATS, choose(0.5, 0.2)
WAITING = choose(60_000, 20_000)
LIBRARY = "the library in its own process, without a network"
GROUP = "mail over the network"
Rates = dict[tuple[str, str, int], list[float]]  # by name, verb and number of clients


def run(report: Report) -> None:
    with TemporaryDirectory() as folder:
        _on_its_way(report, folder)
    with TemporaryDirectory() as folder:
        _side_by_side(report, folder)


def _served(folder: str, name: str) -> tuple[str, Served, Facts, Facts]:
    """A server with both doors; and how each is spoken to."""
    root = Path(folder) / name
    root.mkdir()
    place, path = str(root / "coord.db"), str(root / "s")
    postroom.init(place)
    server = Served(INBOX, "serve", "--json", "--port", "0", "--uds", path, "--db", place, "--rate", RATE)
    return place, server, {"port": server.port, "token": server.token}, {"path": path}


# A message on its way


def _on_its_way(report: Report, folder: str) -> None:
    report.section(f"Sockets: from the start of an enqueue in another process to the delivery on an open WebSocket, {MESSAGES} one by one")
    place, server, tcp, local = _served(folder, "way")
    with server, closing(postroom.open(place)) as store:
        for door, facts in (("TCP", tcp), ("Unix socket", local)):
            line = WireTake({**facts, "session": door.partition(" ")[0], "credit": 1000}, 0)
            line.line.sendall(line.begin())
            waits = [_delivered(store, line) for _ in range(MESSAGES + 20)][20:]
            middle = median(waits)
            report.row(f"{door}: the client has it, median", milliseconds(middle), "under 5 ms", met=middle < 0.005)
            report.row(f"{door}: the same, p99", milliseconds(percentile(waits, 0.99)))
        alone = [_stored(store) for _ in range(MESSAGES)]
        report.row("of which the enqueue itself takes", milliseconds(median(alone)))


def _delivered(store: Store, line: WireTake) -> float:
    sleep(0.003)  # so that the server is asleep again
    before, began = line.done, perf_counter()
    mail.enqueue(store, {"from": "lead", "to": line.facts["session"], "payload": PAYLOAD})
    acked = b""
    while not acked:
        line.came += line.line.recv(65536)
        acked = line.hear()
    spent = perf_counter() - began
    line.line.sendall(acked)
    while line.done == before:
        line.came += line.line.recv(65536)
        assert not line.hear()
    return spent


def _stored(store: Store) -> float:
    sleep(0.003)
    began = perf_counter()
    mail.enqueue(store, {"from": "lead", "to": "nobody", "payload": PAYLOAD})
    return perf_counter() - began


# Side by side


def _side_by_side(report: Report, folder: str) -> None:
    counts = " / ".join(map(str, CLIENTS))
    report.section(f"Sockets: enqueue / dequeue + ack, a second; {counts} clients at once. All on disk before it is answered")
    with ExitStack() as stack:
        clients: dict[str, _Library] = {}
        said: dict[str, tuple[str, Facts]] = {}
        for door, kind in (("keep-alive HTTP", "Http"), ("Unix socket, HTTP", "Http"), ("WebSocket", "Wire")):
            place, server, tcp, local = _served(folder, door.partition(",")[0].replace(" ", "-"))
            stack.enter_context(server)
            _fill(place)
            said[f"postroom: {door}"] = kind, {**(local if door.startswith("Unix") else tcp), "credit": 1}
            url, token = _client(door, tcp, local)
            clients[f"connect: {door}"] = _Library(stack.enter_context(closing(postroom.connect(url, token=token))))
        said["postroom: WebSocket, credit for 50"] = "Wire", {**said["postroom: WebSocket"][1], "credit": 50}
        for name, start in (("Redis streams, appendfsync always", brokers.redis), ("NATS JetStream", brokers.nats)):
            facts = stack.enter_context(start(folder, 4 * WAITING))
            if facts is None:
                report.leave_out(name)
                continue
            label = name if facts.get("always", True) else f"{name}, whose version syncs every 2 min"
            said[label] = name.split()[0].title(), facts
        place = str(Path(folder) / "library.db")
        postroom.init(place)
        _fill(place)
        clients[LIBRARY] = _Library(stack.enter_context(closing(postroom.open(place))))
        rates = _rounds(said, clients)
    for name in reversed(clients):
        report.row(f"postroom: {name}", f"{median(rates[name, 'Put', 1]):.0f} / {median(rates[name, 'Take', 1]):.0f}; -")
    for name in said:
        by_clients = [f"{median(rates[name, 'Put', lines]):.0f} / {median(rates[name, 'Take', lines]):.0f}" for lines in CLIENTS]
        report.row(name, "; ".join(by_clients))
    _record(report, list(said), rates)


def _record(report: Report, names: list[str], rates: Rates) -> None:
    """Record each door of ours, and beside it the same values of the brokers and of the library."""
    doors = [name for name in names if name.startswith("postroom: ")]
    for verb, what in (("Put", "enqueue"), ("Take", "dequeue + ack")):
        for door, lines in product(doors, CLIENTS):
            subjects = {OURS: door, **{name: name for name in names if name not in doors}, **({LIBRARY: LIBRARY} if lines == 1 else {})}
            for subject, name in subjects.items():
                operation = f"{what}, {door.removeprefix('postroom: ')}"
                report.record(GROUP, operation, subject, PER_SECOND, rates[name, verb, lines], clients=lines)


def _client(door: str, tcp: Facts, local: Facts) -> tuple[str, str]:
    """How `connect` is told of a door."""
    if door.startswith("Unix"):
        return f"unix:{local['path']}", ""
    return f"{'ws' if door == 'WebSocket' else 'http'}://127.0.0.1:{tcp['port']}", str(tcp["token"])


def _rounds(said: dict[str, tuple[str, Facts]], clients: dict[str, _Library]) -> Rates:
    """Return the operations a second of each round. All take turns in each of them."""
    found: Rates = {}
    runs = count()
    for _ in range(ROUNDS):
        for name, client in clients.items():
            for verb in ("Put", "Take"):
                found.setdefault((name, verb, 1), []).append(client.rate(verb))
        for name, (kind, facts) in said.items():
            for verb, session in (("Put", "put"), ("Take", "take")):
                for lines in CLIENTS:
                    here = {**facts, "session": session, "run": next(runs)}
                    found.setdefault((name, verb, lines), []).append(talk(kind + verb, here, lines=lines, seconds=BLOCK_SECONDS))
    return found


def _fill(place: str) -> None:
    """Put messages of as many senders: what a client held when it left would hold up the other messages of its sender."""
    with closing(postroom.open(place)) as store:
        for start in range(0, WAITING, 500):
            senders = (f"sender-{number}" for number in range(start, start + 500))
            mail.enqueue_all(store, [{"from": sender, "to": "take", "payload": PAYLOAD} for sender in senders])


class _Library:
    """The same verbs, said in Python: over a store of their own, or over a server's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self) -> None:
        mail.enqueue(self._store, {"from": "lead", "to": "put", "payload": PAYLOAD})

    def take(self) -> None:
        delivery = mail.dequeue(self._store, "take")
        assert delivery is not None
        mail.ack(self._store, "take", delivery.message.msg_id, delivery_token=delivery.delivery_token)

    def rate(self, verb: str) -> float:
        action: Callable[[], None] = {"Put": self.put, "Take": self.take}[verb]
        done, began = 0, perf_counter()
        while perf_counter() - began < BLOCK_SECONDS:
            action()
            done += 1
        return done / (perf_counter() - began)
