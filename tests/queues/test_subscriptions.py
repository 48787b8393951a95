"""The readers of a queue: subscriptions, their state, and sleeping until an event comes."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postroom import queues
from postroom.core import clock as time
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound
from postroom.queues import Queue
from tests.cli.process import eventually
from tests.conftest import Clock
from tests.faults.children import BarrierProcess
from tests.queues.conftest import ALICE, SELF, assert_both_tracks_agree, assert_intact, dump, fill, ids

LONG = 60.0
NAMES = [
    "worker",
    "../x",
    "a/b",
    "/",
    "..",
    ".hidden",
    "ü",
    "a b",
    "%2E",
    "-",
    "--consumer",
    "'; DROP TABLE events; --",
    "x" * 200,
    "東" * 200,
]


def subscriptions(queue: Queue) -> list[dict[str, Any]]:
    """As `info` tells them."""
    found: list[dict[str, Any]] = queues.info(queue).to_json()["subscriptions"]
    return found


def test_a_subscription_is_returned_as_it_is_kept(queue: Queue) -> None:
    told = queues.subscribe(queue, "worker", handler="pai chat | tee 'a b'", filter="type = 'message'")
    assert (told.consumer_id, told.handler_cmd, told.filter) == ("worker", "pai chat | tee 'a b'", "type = 'message'")
    assert queues.subscribe(queue, "other", handler="true").filter is None
    assert dump(queue.path)["subscriptions"] == [("other", "true", None), ("worker", "pai chat | tee 'a b'", "type = 'message'")]


def test_a_name_that_is_taken_is_refused_and_its_subscription_stays(queue: Queue) -> None:
    queues.subscribe(queue, "worker", handler="first", filter="type = 'message'")
    before = dump(queue.path)
    with pytest.raises(Conflict) as refused:
        queues.subscribe(queue, "worker", handler="second", last_event_id=0)
    assert "unsubscribe" in refused.value.hint
    assert dump(queue.path) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_data_and_stays_inside_the_queue(queue: Queue, tmp_path: Path, name: str) -> None:
    outside = sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(queue.path))
    queues.subscribe(queue, name, handler="true")
    fill(queue, "a", "b")
    assert ids(queues.pop(queue, name, last_event_id=1)) == [2]
    assert [one["consumer_id"] for one in subscriptions(queue)] == [name]
    assert queues.ack(queue, name, last_event_id=2).consumer_id == name
    queues.unsubscribe(queue, name)
    assert sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(queue.path)) == outside


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "a\nb", "a\tb", "\x1b[0m", "nul\0", "half \ud800", "x" * 201])
def test_what_is_not_one_printable_line_is_no_name(queue: Queue, name: str) -> None:
    with pytest.raises(InvalidInput):
        queues.subscribe(queue, name, handler="true")
    assert queues.info(queue).subscriptions == ()


def test_names_that_look_alike_are_two_consumers(queue: Queue) -> None:
    names = ["a/b", "a%2Fb", "a%2fb", "A/B", "a", "a.lock", "x" * 199 + "1", "x" * 199 + "2", "東" * 199 + "京", "東" * 200]
    fill(queue, *map(str, names))
    for number, name in enumerate(names, 1):
        queues.subscribe(queue, name, handler=name, last_event_id=number)
    found = subscriptions(queue)
    assert {one["consumer_id"]: one["last_acked_id"] for one in found} == {name: number for number, name in enumerate(names, 1)}
    assert [one for one in found if one["running"]] == []


def test_a_subscription_may_start_anywhere_up_to_the_newest_event(queue: Queue) -> None:
    fill(queue, *"abc")
    queues.subscribe(queue, "from the start", handler="true")
    queues.subscribe(queue, "later", handler="true", last_event_id=2)
    queues.subscribe(queue, "from now on", handler="true", last_event_id=3)
    assert [ids(queues.pop(queue, one)) for one in ("from the start", "later", "from now on")] == [[1, 2, 3], [3], []]
    with pytest.raises(InvalidState):
        queues.subscribe(queue, "beyond", handler="true", last_event_id=4)
    with pytest.raises(NotFound):
        queues.pop(queue, "beyond")


def test_who_comes_back_resumes_where_it_was_unless_it_says_where(queue: Queue) -> None:
    fill(queue, *"abcd")
    queues.subscribe(queue, "worker", handler="true", filter="content = 'a'")
    queues.ack(queue, "worker", last_event_id=3)
    queues.unsubscribe(queue, "worker")
    with pytest.raises(NotFound):
        queues.pop(queue, "worker")
    queues.subscribe(queue, "worker", handler="true")
    assert ids(queues.pop(queue, "worker")) == [4]
    queues.unsubscribe(queue, "worker")
    queues.subscribe(queue, "worker", handler="true", last_event_id=1)
    assert ids(queues.pop(queue, "worker")) == [2, 3, 4]


def test_unsubscribing_takes_one_away_and_no_other(queue: Queue) -> None:
    for name in ("a", "b"):
        queues.subscribe(queue, name, handler="true")
    queues.unsubscribe(queue, "a")
    assert [one["consumer_id"] for one in subscriptions(queue)] == ["b"]
    for gone in ("a", "B", "never"):
        with pytest.raises(NotFound):
            queues.unsubscribe(queue, gone)


def test_info_tells_the_events_the_subscriptions_and_the_progress_also_of_those_who_left(queue: Queue, clock: Clock) -> None:
    fill(queue, *"abc")
    queues.subscribe(queue, "here", handler="true", filter="type = 'record'")
    queues.subscribe(queue, "left", handler="true")
    clock.advance(5)
    queues.ack(queue, "left", last_event_id=3)
    then = time.format_stamp(clock.instant)[:23]
    clock.advance(5)
    queues.ack(queue, "here", last_event_id=2)
    queues.unsubscribe(queue, "left")
    told = queues.info(queue)
    assert (told.thread, told.total_events, told.last_event_id) == (queue.path, 3, 3)
    (here,) = subscriptions(queue)
    assert here.pop("updated_at") is not None
    assert here == {
        "consumer_id": "here", "handler_cmd": "true", "filter": "type = 'record'", "last_acked_id": 2, "running": False, "trouble": None,
        "waiting_since": None, "waiting_because": None, "running_since": None, "pid": None, "last_run": None, "output": None,
        "dead_events": 0, "timeout_seconds": None, "max_tries": 20,
    }  # fmt: skip
    assert {one.consumer_id: (one.last_acked_id, one.updated_at[:23]) for one in told.progress} == {
        "here": (2, time.format_stamp(clock.instant)[:23]),
        "left": (3, then),
    }


def test_info_of_an_empty_queue_is_nothing(queue: Queue) -> None:
    told = queues.info(queue)
    assert (told.total_events, told.last_event_id, told.subscriptions, told.progress) == (0, 0, (), ())


def test_what_is_there_already_is_not_waited_for(queue: Queue) -> None:
    fill(queue, *"abc")
    assert ids(queues.wait_for_events(queue, last_event_id=1, timeout_seconds=LONG)) == [2, 3]
    assert ids(queues.wait_for_events(queue, last_event_id=0, limit=1)) == [1]
    assert ids(queues.wait_for_events(queue, last_event_id=0, filter="content = 'c'")) == [3]


def test_a_wait_for_nothing_ends_empty_when_its_time_is_over(queue: Queue) -> None:
    fill(queue, "a")
    before = dump(queue.path)
    assert queues.wait_for_events(queue, last_event_id=1, timeout_seconds=0.02) == ()
    assert queues.wait_for_events(queue, last_event_id=0, filter="type = 'record'", timeout_seconds=0.02) == ()
    assert dump(queue.path) == before


# Waits for what comes after the first event, once for each filter that it is given.
WAITER = """
from postroom import queues
with queues.open_queue(sys.argv[1]) as queue:
    say("READY")
    for wanted in sys.argv[2:]:
        events = queues.wait_for_events(queue, last_event_id=1, filter=wanted or None, timeout_seconds=60)
        say(*[event.content for event in events])
"""


def asleep(child: BarrierProcess) -> bool:
    """Whether it sleeps: it holds the listener on the wake files, and the system says so."""
    folder = Path(f"/proc/{child.process.pid}")
    files = []
    for file in (folder / "fd").iterdir():
        try:
            files.append(os.readlink(file))
        except FileNotFoundError:  # closed while we looked
            continue
    state = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("State:"))
    return "anon_inode:inotify" in files and state.split()[1] == "S"


def test_another_process_that_sleeps_is_woken_by_a_push_that_it_waits_for(queue: Queue) -> None:
    fill(queue, "old")
    with BarrierProcess(WAITER, queue.path, "", "type = 'record'") as child:
        child.ready()
        eventually(lambda: asleep(child))
        fill(queue, "new")
        assert child.line() == "new"
        eventually(lambda: asleep(child))
        fill(queue, "not-wanted", source=ALICE)
        queues.push_batch(queue, [{"content": "wanted"}, {"content": "too"}], source=SELF, type="record")
        assert child.rest() == ["wanted too"]
        assert child.process.returncode == 0


def test_one_who_sleeps_is_woken_by_an_event_that_makes_an_older_one_match(queue: Queue) -> None:
    fill(queue, "old", "question")
    wanted = "content = 'question' AND EXISTS (SELECT 1 FROM events AS other WHERE other.content = 'answer')"
    with BarrierProcess(WAITER, queue.path, wanted) as child:
        child.ready()
        eventually(lambda: asleep(child))
        fill(queue, "something else")
        eventually(lambda: asleep(child))
        fill(queue, "answer")
        assert ids(queues.peek(queue, last_event_id=1, filter=wanted)) == [2]
        eventually(lambda: child.process.poll() is not None)
        assert child.rest() == ["question"]


def test_a_thread_that_waits_on_the_same_queue_is_woken_too(queue: Queue) -> None:
    got: list[int] = []
    waiting = threading.Thread(
        target=lambda: got.extend(ids(queues.wait_for_events(queue, last_event_id=0, timeout_seconds=LONG))), daemon=True
    )
    waiting.start()
    fill(queue, "new")
    waiting.join(LONG)
    assert got == [1]


def test_two_who_have_it_open_see_each_others_writes_at_once(queue: Queue) -> None:
    with closing(queues.open_queue(queue.path)) as other:
        queues.subscribe(other, "worker", handler="true")
        assert fill(queue, "a") + fill(other, "b") + fill(queue, "c") == [1, 2, 3]
        assert ids(queues.pop(queue, "worker", last_event_id=1)) == [2, 3]
        assert ids(queues.pop(other, "worker")) == [2, 3]


# Four threads push, read by filters and ack, on one open queue. The alarm ends a process whose threads wait for each other.
SHARERS = """
import signal, threading
from postroom import queues
signal.alarm(60)
queue = queues.open_queue(sys.argv[1])

def work(name):
    for number in range(40):
        queues.push(queue, source="self", type="message", content=f"{name} {number}")
        queues.push_batch(queue, [{"content": f"{name} {number}/{nth}"} for nth in range(3)], source="self", type="record")
        found = queues.pop(queue, name)
        queues.ack(queue, name, last_event_id=found[-1].id if found else 0)
    say("DONE")

threads = [threading.Thread(target=work, args=(name,)) for name in "abab"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_share_a_queue_push_and_pop_without_harm(queue: Queue) -> None:
    for name in ("a", "b"):
        queues.subscribe(queue, name, handler="true", filter=f"content LIKE '%{name}%'")
    with BarrierProcess(SHARERS, queue.path) as child:
        assert child.rest() == ["DONE"] * 4
        assert child.process.returncode == 0
    assert queues.info(queue).total_events == 4 * 40 * 4
    assert_both_tracks_agree(queue.path)
    assert_intact(queue.path)


def test_a_note_about_events_that_are_gone_hides_no_others(queue_path: str) -> None:
    with queues.open_queue(queue_path) as queue:
        queues.push_batch(queue, [{"content": "x"}] * 2000, source="self", type="record")
        queues.subscribe(queue, "c", handler="true", filter="type = 'message'")
        assert queues.pop(queue, "c") == ()
    assert (Path(queue_path) / "run" / "c.clear").exists()
    for file in Path(queue_path).glob("events*"):  # `init` would take the ids of a journal that stays
        file.unlink() if file.is_file() else shutil.rmtree(file)
    queues.init_queue(queue_path)
    with queues.open_queue(queue_path) as queue:
        queues.push_batch(queue, [{"content": "x"}] * 2500, source="self", type="message")
        queues.subscribe(queue, "c", handler="true", filter="type = 'message'")
        assert [event.id for event in queues.pop(queue, "c", limit=2)] == [1, 2]
