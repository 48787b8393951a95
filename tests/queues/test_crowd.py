"""A crowd at one queue: each consumer gets each event that concerns it, in order, and none again that it has acked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from postroom import queues
from tests.cli.process import eventually
from tests.faults.children import BarrierProcess
from tests.queues.conftest import assert_both_tracks_agree, assert_intact, rows

CONSUMERS, EVENTS, PUSHERS, READERS = 50, 10_000, 4, 5

Row = tuple[object, ...]
# The kinds of filter that take turns among the consumers: as SQL, and as Python on a row. {n} is the consumer's number.
KINDS: list[tuple[str, Callable[[Row, int], bool]]] = [
    ("source LIKE '%:agent-{n}'", lambda row, n: str(row[2]).endswith(f":agent-{n}")),
    ("type = 'record' AND subtype = 'kind-{n}'", lambda row, n: row[3] == "record" and row[4] == f"kind-{n}"),
    ("id % 50 = {n}", lambda row, n: int(str(row[0])) % 50 == n),
    ("source LIKE 'external:%' AND json_extract(content, '$.n') % 50 <= {n}", lambda row, n: external(row) and number(row) % 50 <= n),
    ("type = 'message' OR source = 'self'", lambda row, n: row[3] == "message" or row[2] == "self"),
]


def external(row: Row) -> bool:
    return str(row[2]).startswith("external:")


def number(row: Row) -> int:
    return int(str(row[5]).removeprefix('{"n": ').removesuffix("}"))


# Pushes its share, in batches of all sizes and one by one. What it writes depends on the number of the event alone.
PUSHER = """
from postroom import queues
path, first, step, events = sys.argv[1], *map(int, sys.argv[2:])

def event(n):
    source = ("self", f"internal:dm:default:agent-{n % 50}", f"external:x:y:dm:alice:agent-{n % 50}")[n % 3]
    line = {"source": source, "type": "message" if n % 7 < 3 else "record", "content": '{"n": %d}' % n}
    return line if line["type"] == "message" else {**line, "subtype": f"kind-{n % 50}"}

numbers = list(range(first, events, step))
with queues.open_queue(path) as queue:
    say("READY")
    sys.stdin.readline()
    while numbers:
        size = 1 + len(numbers) % 53
        batch, numbers = [event(n) for n in numbers[:size]], numbers[size:]
        if size == 1:
            queues.push(queue, **batch[0])
        else:
            queues.push_batch(queue, batch)
say("DONE")
"""

# Serves its consumers in turn, as handlers do: reads, says what it got, acks; now and then it loses what it read before the ack,
# and acks by its next pop. It appends whole lines to the file REPORTS, after the verb has returned. Ends when the file CLOSED was
# there before a round that found nothing.
READER = """
import random
from postroom import queues
path, reports, closed, mine = sys.argv[1:5]
chance = random.Random(mine)
file = os.open(reports, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def report(*words):
    os.write(file, (" ".join(map(str, words)) + "\\n").encode())

with queues.open_queue(path) as queue:
    say("READY")
    while True:
        over = os.path.exists(closed)
        found = False
        for consumer in mine.split(","):
            events = queues.pop(queue, consumer, limit=chance.choice([1, 20, 100, 1000]))
            if not events:
                continue
            found = True
            report("got", consumer, *[event.id for event in events])
            luck = chance.random()
            if luck < 0.1:
                continue
            done = events[-1 if luck < 0.9 else len(events) // 2].id
            if luck < 0.4:
                events = queues.pop(queue, consumer, last_event_id=done, limit=50)
                report("acked", consumer, done)
                report("got", consumer, *[event.id for event in events])
            else:
                queues.ack(queue, consumer, last_event_id=done)
                report("acked", consumer, done)
        if over and not found:
            break
        if not found:
            head = queues.info(queue).last_event_id
            queues.wait_for_events(queue, last_event_id=head, timeout_seconds=0.05)
say("DONE")
"""


def wanted(n: int) -> str:
    return KINDS[n % len(KINDS)][0].format(n=n)


def names(reader: int) -> str:
    return ",".join(f"c{n}" for n in range(reader, CONSUMERS, READERS))


def crowd(path: str, folder: Path) -> list[list[str]]:
    """Let pushers and readers at the queue, and kill one reader in the midst of it; all that the readers reported, in order."""
    reports, closed = folder / "reports", folder / "closed"
    reports.touch()
    with ExitStack() as stack:
        pushers = [stack.enter_context(BarrierProcess(PUSHER, path, one, PUSHERS, EVENTS)).ready() for one in range(PUSHERS)]
        readers = [stack.enter_context(BarrierProcess(READER, path, reports, closed, names(one))).ready() for one in range(READERS)]
        for child in pushers:
            child.tell()
        eventually(lambda: "acked c0 " in reports.read_text())
        readers[0].kill()
        readers[0] = stack.enter_context(BarrierProcess(READER, path, reports, closed, names(0)))
        assert [child.rest() for child in pushers] == [["DONE"]] * PUSHERS
        closed.touch()
        readers[0].ready()
        assert [child.rest() for child in readers] == [["DONE"]] * READERS
    return [line.split() for line in reports.read_text().splitlines()]


def test_fifty_consumers_get_each_of_ten_thousand_events_that_concerns_them_in_order_and_none_after_its_ack(
    queue_path: str, tmp_path: Path
) -> None:
    with queues.open_queue(queue_path) as queue:
        for n in range(CONSUMERS):
            queues.subscribe(queue, f"c{n}", handler="true", filter=wanted(n))
    got: dict[str, list[int]] = defaultdict(list)
    acked: dict[str, int] = defaultdict(int)
    for word, consumer, *numbers in crowd(queue_path, tmp_path):
        ids = [int(text) for text in numbers]
        if word == "acked":
            acked[consumer] = max(acked[consumer], *ids)
            continue
        assert ids == sorted(set(ids)), f"{consumer} got them out of order"
        assert [one for one in ids if one <= acked[consumer]] == [], f"{consumer} got again what it had acked"
        got[consumer] += ids
    stored = rows(queue_path)
    assert sorted(number(row) for row in stored) == list(range(EVENTS))
    expected = {f"c{n}": [row[0] for row in stored if KINDS[n % len(KINDS)][1](row, n)] for n in range(CONSUMERS)}
    assert all(expected.values())
    assert {name: sorted(set(got[name])) for name in expected} == expected
    for name, matching in expected.items():
        first = list(dict.fromkeys(got[name]))  # each when it first came
        assert first == matching, f"{name} got a later one first"
    with queues.open_queue(queue_path) as queue:
        assert {one.consumer_id: one.last_acked_id for one in queues.info(queue).progress} == {
            name: matching[-1] for name, matching in expected.items()
        }
    assert_both_tracks_agree(queue_path)
    assert_intact(queue_path)
