"""The server: a page among a million, a push on its way to a listener, a crowd, group commit, and reading beside a constant."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import NamedTuple

import postroom
from bench.blocks import Blocks, interleave, split_medians
from bench.load import Crowd, Line, drive, mcp_request, request, tell
from bench.report import Report, milliseconds, percentile, times
from bench.results import OURS, PER_SECOND
from bench.results import SECONDS as RECORDED_SECONDS
from bench.serving import (
    COMMENT,
    Served,
    fill,
    office,
    serve,
    serve_alone,
    serve_constant,
    serve_forgetful,
    serve_logged,
    serve_single,
    serve_unchecked,
    serve_unobserved,
)
from bench.talk import talk
from postroom import people, work

LARGE, SMALL, PAGE = 1_000_000, 1_000, 100
ROUNDS, PUSHES = 200, 200
LISTENERS, WAITING = 1000, 200
WRITERS, READERS, TURNS, SECONDS = 32, 24, 5, 1.0
VERB_CLIENTS = 16
HISTORY = "/api/inbox/history"
CONNECTED, FRAME = b": connected\n\n\r\n", b"\n\n\r\n"  # ends of chunks


def run(report: Report) -> None:
    with TemporaryDirectory() as folder:
        _push(report, folder)
    with TemporaryDirectory() as folder:
        _crowd(report, folder)
    with TemporaryDirectory() as folder:
        _committing(report, folder)
    with TemporaryDirectory() as folder:
        report_observation(report, folder)
    with TemporaryDirectory() as folder:
        _verbs(report, folder)
    with TemporaryDirectory() as folder:  # last: the disk is busy with its gigabyte for a while
        _flat(report, folder)
        _reading(report, folder)


# A page among a million


def _flat(report: Report, folder: str) -> None:
    report.section(f"Server, flat cost: a page of {PAGE} from {LARGE:,} entries / from {SMALL:,}")
    places, middles = {}, {}
    for name, size in (("small", SMALL), ("large", LARGE)):
        places[name] = office(folder, name)[0]
        middles[name] = fill(places[name], size)
    actions: dict[str, Callable[[], object]] = {}
    for name, place in places.items():
        store = postroom.open(place)
        actions[name] = partial(people.history, store, limit=PAGE)
        actions[f"{name}_middle"] = partial(people.history, store, limit=PAGE, before=middles[name])
    interleave(5, 1, **actions)
    _ratio(report, "library", interleave(ROUNDS, 1, **actions))
    with serve(places["small"]) as small, serve(places["large"]) as large:
        for name, server in (("small", small), ("large", large)):
            line = Line(server.port)
            newest = server.get(f"{HISTORY}?limit={PAGE}")
            middle = server.get(f"{HISTORY}?limit={PAGE}&before={middles[name]}")
            assert len(json.loads(line.ask(middle))["entries"]) == len(json.loads(line.ask(newest))["entries"]) == PAGE
            actions[name] = partial(line.ask, newest)
            actions[f"{name}_middle"] = partial(line.ask, middle)
        # Five in a row: a server of its own costs time only to wake.
        interleave(2, 5, **actions)
        _ratio(report, "HTTP", interleave(ROUNDS // 5, 5, **actions))


def _ratio(report: Report, door: str, measured: Blocks) -> None:
    for what, suffix in (("the newest", ""), ("from the middle on", "_middle")):
        ratio = measured.ratio(f"small{suffix}", f"large{suffix}")
        one = milliseconds(measured.median(f"small{suffix}"))
        for size, name in ((SMALL, "small"), (LARGE, "large")):
            operation = f"entries: a page of {PAGE}, {what}, {door}"
            report.record("size", operation, OURS, RECORDED_SECONDS, measured.seconds(f"{name}{suffix}"), size=size)
        report.row(f"{door}: {what} ({one} at {SMALL:,})", times(ratio), "within 2", met=ratio <= 2)


# Reading beside a constant


def _reading(report: Report, folder: str) -> None:
    """Use the small store that is there already."""
    report.section(
        f"Server: reading a page of 20 over {READERS} keep-alive lines, beside a Starlette endpoint with the same bytes, in turns"
    )
    place, body = str(Path(folder) / "small" / "coord.db"), Path(folder) / "page.json"
    with serve(place) as real:
        page = real.get(f"{HISTORY}?limit=20")
        body.write_bytes(Line(real.port).ask(page))
        with serve_constant(body) as constant, serve_forgetful(place) as anew:
            asked = constant.get(f"{HISTORY}?limit=20")
            assert Line(constant.port).ask(asked) == body.read_bytes()
            found = _turns(READERS, real=(real, page), anew=(anew, anew.get(f"{HISTORY}?limit=20")), constant=(constant, asked))
    share = found["real"].rate / found["constant"].rate
    for name, operation in (("real", "a page of 20 entries"), ("anew", "a page of 20 entries, made anew as after a commit")):
        report.record("server", operation, OURS, PER_SECOND, found[name].rates, clients=READERS)
        report.record("server", operation, "a Starlette endpoint with the same bytes", PER_SECOND, found["constant"].rates, clients=READERS)
    report.row("pages a second: postroom / the constant", f"{found['real'].rate:.0f} / {found['constant'].rate:.0f}")
    report.row("what this client could ask of the constant, a second of its own CPU", f"{found['constant'].capacity:.0f}")
    report.row("CPU a page: postroom / the constant", _costs(found["real"], found["constant"]))
    report.row("postroom / the constant", f"{share:.0%}", "at least 25 %", met=share >= 0.25)
    report.row("the same with every page made anew, as after a commit", f"{found['anew'].rate / found['constant'].rate:.0%}")


class Turns(NamedTuple):
    """Medians of rounds: requests a second, what the client could do, and seconds on a CPU that a request cost the server."""

    rate: float
    capacity: float
    cost: float
    rates: list[float]  # of each round


def _turns(connections: int, **asked: tuple[Served, bytes]) -> dict[str, Turns]:
    rounds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in asked}
    for _ in range(TURNS):
        for name, (server, data) in asked.items():
            before = server.cpu()
            driven = drive(server.port, data, connections=connections, seconds=SECONDS)
            server.quiet()  # what it does afterwards is part of the cost, and must not slow the next
            rounds[name].append((driven.rate, driven.capacity, (server.cpu() - before) / driven.total))
    return {name: _summarise_turns(turns) for name, turns in rounds.items()}


def _summarise_turns(turns: list[tuple[float, float, float]]) -> Turns:
    rates, capacities, costs = (list(values) for values in zip(*turns))
    return Turns(median(rates), median(capacities), median(costs), rates)


def _costs(one: Turns, other: Turns) -> str:
    return f"{one.cost * 1e6:.0f} / {other.cost * 1e6:.0f} µs"


# A push on its way


def _push(report: Report, folder: str) -> None:
    report.section(f"Server: from the start of a push to a listener that has it, {PUSHES} one by one")
    place, registered = office(folder, "room")
    workspace = registered.workspace.workspace_id
    with serve(place) as server:
        listener = Line(server.port)
        listener.send(server.get("/api/events?types=entry.created"))
        listener.until(CONNECTED)
        by = {
            "HTTP": request("POST", "/api/inbox/push", server.port, registered.token, {"comments": COMMENT}),
            "MCP": mcp_request("inbox_push", {"comments": COMMENT}, server.port, workspace, registered.token),
        }
        lines = {door: Line(server.port) for door in by}
        waits: dict[str, list[float]] = {door: [] for door in by}
        whole: dict[str, list[float]] = {door: [] for door in by}
        for turn in range(PUSHES + 10):
            for door, data in by.items():
                told, answered = _pushed(listener, lines[door], data)
                if turn >= 10:  # the first ones warm up
                    waits[door].append(told)
                    whole[door].append(answered)
    for door, found in waits.items():
        operation = f"start of a push by {door} until a listener of the server has it"
        report.record("waking", operation, OURS, RECORDED_SECONDS, split_medians(found))
        report.row(f"by {door}: the listener has it, median", milliseconds(median(found)), "under 10 ms", met=median(found) < 0.01)
        report.row(
            f"by {door}: the same, p99; the push is answered, median", f"{_short(percentile(found, 0.99))}; {_short(median(whole[door]))}"
        )


def _pushed(listener: Line, line: Line, data: bytes) -> tuple[float, float]:
    sleep(0.005)  # so that the server is asleep again
    began = perf_counter()
    line.send(data)
    told = listener.until(FRAME)
    heard = perf_counter() - began
    answer = line.answer()
    answered = perf_counter() - began
    entry = json.loads(answer)
    entry = entry["result"]["structuredContent"] if "result" in entry else entry
    assert entry["entryId"].encode() in told  # it is this push that was heard
    return heard, answered


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


# A crowd


def _crowd(report: Report, folder: str) -> None:
    report.section(f"Server: {LISTENERS:,} listeners and {WAITING} waiting calls at once, told of one event")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a server of ours inherits it
    place, registered = office(folder, "room")
    with serve(place) as server:
        line = Line(server.port)
        call = partial(mcp_request, "inbox_ask", port=server.port, workspace=registered.workspace.workspace_id, token=registered.token)
        asked = json.loads(line.ask(call({"question": "Ship it?", "waitSeconds": 0})))
        entry: str = asked["result"]["structuredContent"]["entryId"]
        listen = partial(Crowd, server.port, data=server.get("/api/events?types=entry.answered"), hello=CONNECTED, mark=b"entry.answered")
        wait = partial(Crowd, server.port, data=call({"entryId": entry, "waitSeconds": 50}), hello=b"", mark=b"answeredBy")
        for gather in (listen, wait):  # a few first: what is loaded at the first use is not counted
            gather(size=5).close()
        server.quiet()
        memory = [server.memory()]
        crowds = []
        for gather, size in ((listen, LISTENERS), (wait, WAITING)):
            crowds.append(gather(size=size))
            server.quiet()
            memory.append(server.memory())
        tell(crowds, line, request("POST", f"/api/inbox/{entry}/reply", server.port, server.token, {"body": "yes"}))
    for name, crowd, before, after in zip(("listeners", "waiting calls"), crowds, memory, memory[1:]):
        last = f"{len(crowd.told)} in {_short(max(crowd.told, default=0))}"
        report.row(f"{name}: told, the last after", last, f"{crowd.size:,}", met=len(crowd.told) == crowd.size)
        report.row(f"{name}: memory of the server for each", f"{(after - before) / crowd.size / 1024:.1f} KiB")
        crowd.close()


# Group commit


def _committing(report: Report, folder: str) -> None:
    report.section(f"Server: durable POSTs over {WRITERS} keep-alive lines, beside the same server with one commit a request, in turns")
    report_group_commit(report, folder)


def report_group_commit(report: Report, folder: str, places: dict[str, str] | None = None) -> None:
    """Measure the servers, each with a store of its own: files in a folder, or the places that are given on a database server.

    A file has one writer. On a database server one commit a request is measured with as many connections as group commit has, and with one.
    """
    asked: dict[str, tuple[Served, bytes]] = {}
    starts = {"together": serve, "alone": serve_alone} | ({} if places is None else {"single": serve_single})
    with ExitStack() as stack:
        for name, start in starts.items():
            place, registered = office(folder, name, (places or {}).get(name, ""))
            server = stack.enter_context(start(place))
            asked[name] = server, request("POST", "/api/inbox/push", server.port, registered.token, {"comments": COMMENT})
        found = _turns(WRITERS, **asked)
    ratio = found["together"].rate / found["alone"].rate
    for name, subject in (("together", OURS), ("alone", "Postroom with one commit a request")) if places is None else ():
        report.record("server", "a durable push", subject, PER_SECOND, found[name].rates, clients=WRITERS)
    report.row("pushes a second: together / one commit a request", f"{found['together'].rate:.0f} / {found['alone'].rate:.0f}")
    report.row("CPU a push: together / one commit a request", _costs(found["together"], found["alone"]))
    report.row("together / one commit a request", times(ratio), "at least 3", met=ratio >= 3)
    if "single" in found:
        report.row("together / one commit a request, on one connection", times(found["together"].rate / found["single"].rate))


# Cost of logs and metrics


def report_observation(report: Report, folder: str) -> None:
    """Measure the same pushes with logs as JSON and metrics, and without either, in turns."""
    report.section(f"Server: durable pushes over {WRITERS} connections, logged and counted / neither")
    asked: dict[str, tuple[Served, bytes]] = {}
    with ExitStack() as stack:
        for name, start in (("logged", serve_logged), ("unobserved", serve_unobserved)):
            place, registered = office(folder, name)
            server = stack.enter_context(start(place))
            asked[name] = server, request("POST", "/api/inbox/push", server.port, registered.token, {"comments": COMMENT})
        found = _turns(WRITERS, **asked)
    ratio = found["logged"].rate / found["unobserved"].rate
    report.row("pushes a second: logged and counted / neither", f"{found['logged'].rate:.0f} / {found['unobserved'].rate:.0f}")
    report.row("CPU a push: logged and counted / neither", _costs(found["logged"], found["unobserved"]))
    report.row("logged and counted / neither", f"{ratio:.1%}", "at least 97 %", met=ratio >= 0.97)


# A message as a verb


def _verbs(report: Report, folder: str) -> None:
    report.section(
        f"Server: the same durable message from {VERB_CLIENTS} clients, as `POST /api/mailbox` and as the verb `mail.enqueue`, in turns"
    )
    rates: dict[str, list[float]] = {"HttpPut": [], "VerbPut": []}
    place, _ = office(folder, "verbs")
    with serve(place) as server:
        for turn in range(TURNS):
            for kind, found in rates.items():
                facts = {"port": server.port, "token": server.token, "session": f"{kind}-{turn}"}
                found.append(talk(kind, facts, lines=VERB_CLIENTS, seconds=SECONDS))
    route, verb = median(rates["HttpPut"]), median(rates["VerbPut"])
    report.row("messages a second: as a verb / by the route", f"{verb:.0f} / {route:.0f}")
    report.row("as a verb / by the route", times(verb / route), "at least 1", met=verb >= route)
    _permissions(report, folder)


def _permissions(report: Report, folder: str) -> None:
    """Measure the permission check of an agent in a thread: the same program with the check and without it, in turns."""
    agent, places = "atlas", [office(folder, name) for name in ("checked", "unchecked")]
    rates: dict[str, list[float]] = {"checked": [], "unchecked": []}
    with serve(places[0][0]) as checked, serve_unchecked(places[1][0]) as unchecked:
        for _ in range(TURNS):
            for name, server, (place, registered) in zip(rates, (checked, unchecked), places):
                with closing(postroom.open(place)) as store:
                    sent = [work.send(store, sender=agent, to="lead", subject="S").thread.thread_id for _ in range(VERB_CLIENTS)]
                facts = {"port": server.port, "token": registered.token, "agent": agent, "threads": sent}
                rates[name].append(talk("VerbReply", facts, lines=VERB_CLIENTS, seconds=SECONDS))
    with_check, without = median(rates["checked"]), median(rates["unchecked"])
    report.row("`work.reply` of an agent a second: with the permission check / without", f"{with_check:.0f} / {without:.0f}")
    report.row(
        "what the check adds to a verb", f"{(without / with_check - 1) * 100:.1f} %", "at most 5 %", met=without <= with_check * 1.05
    )
