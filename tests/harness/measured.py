"""Measurements that take longer than a scenario: 20 wakes in a row, and 200 messages while sessions are killed at random.

`make bench-harness` runs these. Like the scenarios, each returns a list of (what, whether it held, what was seen).
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable

from postroom.core import clock
from postroom.store import open_store
from tests.harness.harnesses import HARNESSES, Harness
from tests.harness.scenarios import RING, Seen, first_turn, measure_wake, open_terminal
from tests.harness.stage import HarnessStage
from tests.harness.terminal import Terminal

WAKES = 20
MAX_MEDIAN_SECONDS = {"claude": 0.5, "codex": 0.5, "opencode": 0.5, "gemini": 1.0, "qwen": 1.0}
MESSAGES = 200
SECONDS_BETWEEN_MESSAGES = 2.0  # at most; on average half of it
SECONDS_BETWEEN_KILLS = (3.0, 10.0)
END_SECONDS = 180.0  # without progress: what a killed session was handed comes again after two minutes, and holds back what came after it


def wakes(name: str, transport: str) -> Seen:
    """A session at rest in a terminal: 20 messages, one after the other, each of which starts a turn."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        harness.connect()
        entry = stage.pushed()
        stage.script({"say": "ok", "times": 0})
        screen = open_terminal(stage, harness)
        try:
            if not first_turn(stage, screen):
                return [("the first turn", False, "never")]
            load = os.getloadavg()[0]
            came = [one for _ in range(WAKES) if (one := measure_wake(stage, entry, harness, screen)) is not None]
        finally:
            screen.end()
    median = statistics.median(came) if came else 0.0
    times = f"{len(came)} of {WAKES}, median {median:.2f}, most {max(came, default=0):.2f} s; load {load:.0f} to {os.getloadavg()[0]:.0f}"
    return [
        (f"woken {WAKES} times of {WAKES}", len(came) == WAKES, times),
        (f"median under {MAX_MEDIAN_SECONDS[name]} s", bool(came) and median < MAX_MEDIAN_SECONDS[name], f"{median:.2f} s"),
    ]


def kills(name: str, transport: str) -> Seen:
    """200 messages. Each session is killed with its process group, 3 to 10 seconds after its first turn, and another one begins."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        harness.connect()
        read = harness.call("inbox_read", limit=100)  # Gemini and Qwen Code stop a turn after the same call five times in a row
        told = [
            {**read, "if": pattern, "times": 0} for pattern in (r'more\\*": ?true', RING, "BEGIN")
        ]  # the answer says that there is more
        stage.script(*told, {"say": "ok", "times": 0})
        chance = random.Random(22)
        sent: list[str] = []
        sender = threading.Thread(target=_send_all, args=(stage, random.Random(7), sent), daemon=True)
        sender.start()
        killed = 0
        while sender.is_alive() and not stage.over.is_set():
            screen = _begin_session(stage, harness)
            sender.join(chance.uniform(*SECONDS_BETWEEN_KILLS))
            if not sender.is_alive():
                break
            _kill(screen)
            killed += 1
        _wait_until_empty(stage)
        if not harness.is_still_at_rest:
            screen.type("\x1b", enter=False)  # what is typed waits while a hook holds the turn
        time.sleep(5)
        screen.type("BEGIN")  # the next call confirms what the last one handed over
        time.sleep(10)
        screen.end()
        return _count_faults(stage, sent, killed)


def _wait_until_empty(stage: HarnessStage) -> None:
    """Wait until every message was read and confirmed, or none was for `END_SECONDS`. On a busy machine a turn takes long."""
    left, deadline = MESSAGES, time.time() + END_SECONDS
    while left and time.time() < deadline:
        time.sleep(1)
        now = stage.inbox("peek", "--session", stage.agent, command="mailbox")["total"]
        if now < left:
            left, deadline = now, time.time() + END_SECONDS


def _send_all(stage: HarnessStage, chance: random.Random, sent: list[str]) -> None:
    for number in range(MESSAGES):
        word = f"word-{number:04}"
        told = ["enqueue", "--from", "colleague", "--to", stage.agent, "--payload", word]
        sent.append(stage.inbox(*told, command="mailbox")["msg_id"])
        if stage.over.wait(chance.uniform(0, SECONDS_BETWEEN_MESSAGES)):
            return


def _begin_session(stage: HarnessStage, harness: Harness) -> Terminal:
    """A session with a first turn. It may be woken before that, so its screen need not come to rest."""
    argv, ready = harness.terminal()
    screen = Terminal(argv, stage.environment(**harness.env, COLORTERM="truecolor"), stage.work)
    screen.wait(ready, 60)
    last = stage.last
    for _ in range(20):
        time.sleep(1)
        screen.type("BEGIN")
        if stage.asked_with_tools("BEGIN", last, 3):
            break
    return screen


def _kill(screen: Terminal) -> None:
    os.killpg(screen.child.pid, signal.SIGKILL)
    screen.child.wait()


def _count_faults(stage: HarnessStage, sent: list[str], killed: int) -> Seen:
    """Compare the log of each message with the requests to the model."""
    shown = [(record["t"], json.dumps(stage.body(record["n"]))) for record in stage.log.records]
    lost = twice = after_read = unseen = 0
    rings = seen = 0
    store = open_store(str(stage.work / ".agents/coord.db"))
    with store.read() as tx:
        for number, msg_id in enumerate(sent):
            events = list(tx.fetch_all(tx.sql.events_of_subject, message_id=msg_id))
            first_shown = next((at for at, body in shown if f"word-{number:04}" in body), None)
            offers: Counter[tuple[str, str]] = Counter()
            acked_at = None
            for event in events:
                if event.event_type == "mail.acked":
                    acked_at = clock.parse_stamp(event.created_at) / clock.MICROSECONDS_PER_SECOND
                if event.event_type == "wake.offered":
                    facts = json.loads(event.payload_json)
                    offers[(facts["route"], facts["session"])] += 1
                    after_read += acked_at is not None
            rings += sum(offers.values())
            twice += any(number > 1 for number in offers.values())
            lost += first_shown is None or acked_at is None
            seen += acked_at is not None
            unseen += acked_at is not None and (first_shown is None or first_shown > acked_at)
    store.close()
    figures = f"{len(sent)} messages, {seen} seen, {killed} kills, {rings} rings, {len(shown)} requests"
    return [
        ("no message is lost", len(sent) == MESSAGES and lost == 0, f"{lost} lost; {figures}"),
        ("no session is rung twice for a message", twice == 0, f"{twice} rung twice"),
        ("no message is rung for after it was read", after_read == 0, f"{after_read} rung after"),
        ("nothing is recorded as seen before a request had it", unseen == 0, f"{unseen} unseen"),
    ]


MEASURED: dict[str, Callable[[str, str], Seen]] = {one.__name__: one for one in (wakes, kills)}
