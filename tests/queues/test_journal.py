"""Both tracks agree: events.jsonl and its rotated files are exactly the rows, whoever pushes at once and whatever befell them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import InvalidInput
from postroom.queues import Queue
from tests.conftest import Clock
from tests.faults.children import BarrierProcess
from tests.queues.conftest import (
    ALICE,
    ROTATED,
    SELF,
    WARDEN,
    assert_both_tracks_agree,
    assert_intact,
    fill,
    ids,
    journal_files,
    journal_of,
    rows,
)

MOST = 10_000  # lines of a file; one more, and the next to come begins a new one


def many(queue: Queue, count: int) -> None:
    """One batch of so many."""
    queues.push_batch(queue, [{"content": f"{number}"} for number in range(count)], source=SELF, type="record")


def sizes(path: str) -> list[int]:
    """The number of lines in each file of the journal, oldest first."""
    return [file.read_bytes().count(b"\n") for file in journal_files(path)]


def test_each_event_is_a_line_of_json_with_its_columns_in_order(queue: Queue) -> None:
    first = queues.push(queue, source=ALICE, type="message", content='Grüße "東京"\n\\ \u2028 \x7f 👩‍🚀')
    second = queues.push(queue, source=WARDEN, type="record", subtype="toolcall", content="")
    assert (Path(queue.path) / "events.jsonl").read_bytes().decode() == (
        f'{{"id": 1, "created_at": "{first.created_at}", "source": "{ALICE}", "type": "message", "subtype": null, '
        '"content": "Grüße \\"東京\\"\\n\\\\ \u2028 \x7f 👩‍🚀"}\n'
        f'{{"id": 2, "created_at": "{second.created_at}", "source": "{WARDEN}", "type": "record", "subtype": "toolcall", "content": ""}}\n'
    )
    assert_both_tracks_agree(queue.path)


def test_a_refused_push_leaves_no_line(queue: Queue) -> None:
    fill(queue, "a")
    with pytest.raises(InvalidInput):
        queues.push(queue, source="nobody", type="message", content="b")
    with pytest.raises(InvalidInput):
        queues.push_batch(queue, [{"content": "b"}, {"content": 7}], source=SELF, type="message")
    assert_both_tracks_agree(queue.path)
    fill(queue, "c")
    assert_both_tracks_agree(queue.path)


def test_the_journal_can_be_pushed_again(queue: Queue, tmp_path: Path) -> None:
    fill(queue, "a", "b\nc")
    queues.push(queue, source=SELF, type="record", subtype="decision", content="d")
    lines = (Path(queue.path) / "events.jsonl").read_text().split("\n")[:-1]
    with queues.open_queue(queues.init_queue(str(tmp_path / "copy"))) as copy:
        queues.push_batch(copy, map(json.loads, lines))
        assert [row[2:] for row in rows(copy.path)] == [row[2:] for row in rows(queue.path)]


# Many at once

PUSHER = """
from postroom import queues
with queues.open_queue(sys.argv[1]) as queue:
    say("READY")
    for number, _ in enumerate(sys.stdin):
        event = queues.push(queue, source="self", type="message", content=f"{sys.argv[2]} ü\\n" + "x" * (number * 997 % 9000))
        batch = [{"content": f"{sys.argv[2]} {number}/{nth}"} for nth in range(1 + number % 7)]
        say(event.id, *[event.id for event in queues.push_batch(queue, batch, source="self", type="record")])
"""


@contextmanager
def pushers(path: str, count: int) -> Iterator[Callable[[], list[list[int]]]]:
    """So many processes, which each push one and then a batch whenever they are told to, all at once; the ids that each was given."""
    with ExitStack() as stack:
        children = [stack.enter_context(BarrierProcess(PUSHER, path, f"p{number}")) for number in range(count)]

        def all_at_once() -> list[list[int]]:
            for child in children:
                child.tell()
            return [[int(word) for word in child.line().split()] for child in children]

        for child in children:
            child.ready()
        yield all_at_once


def test_sixteen_who_push_at_once_write_each_event_once_in_the_order_of_the_ids(queue_path: str) -> None:
    with pushers(queue_path, 16) as all_at_once:
        pushed: list[int] = []
        for number in range(25):
            for single, *batch in all_at_once():
                assert batch == list(range(batch[0], batch[0] + 1 + number % 7))
                pushed += [single, *batch]
            assert_both_tracks_agree(queue_path)  # each time: a later push would right what is wrong
    assert sorted(pushed) == list(range(1, len(pushed) + 1))
    contents = [str(row[5]).split()[0] for row in rows(queue_path)]
    assert {contents.count(f"p{number}") for number in range(16)} == {len(pushed) // 16}
    assert_intact(queue_path)


def test_those_who_find_it_damaged_at_once_right_it_together(queue_path: str) -> None:
    with queues.open_queue(queue_path) as queue:
        many(queue, 4000)  # so that it takes a while
    with pushers(queue_path, 8) as all_at_once:
        for damage in ("its first line is missing", "it was deleted", "the folder run was deleted and the journal emptied") * 2:
            DAMAGES[damage](queue_path)
            all_at_once()
            assert_both_tracks_agree(queue_path)
    assert_intact(queue_path)


def test_those_who_push_at_once_over_the_edge_of_a_file_rotate_it_once(queue_path: str) -> None:
    with queues.open_queue(queue_path) as queue:
        many(queue, MOST - 20)
    with pushers(queue_path, 8) as all_at_once:
        for _ in range(4):
            all_at_once()
            assert_both_tracks_agree(queue_path)
    first, second = sizes(queue_path)
    # The process that holds the lock appends, in one write, what the other seven have committed: at most a batch of four each.
    assert MOST < first <= MOST + 8 * 4
    assert first + second == len(rows(queue_path))
    assert_intact(queue_path)


def test_threads_that_share_an_open_queue_write_each_event_once_in_the_order_of_the_ids(queue: Queue) -> None:
    threads = [threading.Thread(target=fill, args=(queue, *[f"{name} {number}" for number in range(60)])) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(queue.path)) == 360
    assert_both_tracks_agree(queue.path)


# Damage to the journal


def edit(path: str, change: Callable[[bytes], bytes]) -> None:
    file = Path(path) / "events.jsonl"
    file.write_bytes(change(file.read_bytes()))


def without(*numbers: int) -> Callable[[bytes], bytes]:
    """The text without some of its lines."""
    return lambda text: b"".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in numbers)


def swapped(text: bytes) -> bytes:
    first, second, *rest = text.splitlines(keepends=True)
    return b"".join([second, first, *rest])


def run_deleted(path: str, change: Callable[[bytes], bytes]) -> None:
    shutil.rmtree(Path(path) / "run")
    edit(path, change)


LINE = b'{"id": 9, "created_at": "2026-03-18T10:30:00.123Z", "source": "self", "type": "message", "subtype": null, "content": "never"}\n'
DAMAGES: dict[str, Callable[[str], object]] = {
    "its last line is torn": lambda path: edit(path, lambda text: text[:-30]),
    "its last newline is missing": lambda path: edit(path, lambda text: text[:-1]),
    "its last line is torn inside a letter": lambda path: edit(path, lambda text: text[: text.rindex("ü".encode()) + 1]),
    "its last line was never written": lambda path: edit(path, without(5)),
    "its last lines were never written": lambda path: edit(path, without(3, 4, 5)),
    "its first line is missing": lambda path: edit(path, without(0)),
    "a line in the middle is missing": lambda path: edit(path, without(2)),
    "all its lines are missing": lambda path: edit(path, lambda text: b""),
    "it has a line of no row": lambda path: edit(path, lambda text: text + LINE.replace(b"9", b"7", 1)),
    "it has lines of no rows": lambda path: edit(path, lambda text: text + LINE.replace(b"9", b"7", 1) + LINE.replace(b"9", b"8", 1)),
    "it has half a line of no row": lambda path: edit(path, lambda text: text + LINE[:40]),
    "its last line is there twice": lambda path: edit(path, lambda text: text + text.splitlines(keepends=True)[-1]),
    "it ends with something else": lambda path: edit(path, lambda text: text + b"\xff\x00 not a line of ours\n\n"),
    "it was edited in the middle": lambda path: edit(path, lambda text: text.replace(b"second", b"2nd")),
    "it was edited in the middle to the same length": lambda path: edit(path, lambda text: text.replace(b"second", b"SECOND")),
    "two of its lines changed places": lambda path: edit(path, swapped),
    "it was deleted": lambda path: os.unlink(Path(path) / "events.jsonl"),
    "the folder run was deleted": lambda path: shutil.rmtree(Path(path) / "run"),
    "the folder logs was deleted": lambda path: shutil.rmtree(Path(path) / "logs"),
    "the folder run was deleted and the journal emptied": lambda path: run_deleted(path, lambda text: b""),
    "the folder run was deleted and the last line is torn": lambda path: run_deleted(path, lambda text: text[:-30]),
    "nothing": lambda path: None,
}


@pytest.fixture(params=["by one who has it open", "by one who opens it then"])
def pusher(request: pytest.FixtureRequest, queue: Queue, clock: Clock) -> Iterator[Callable[[], Queue]]:
    """Return a function that gives the queue to the next pusher."""
    if request.param == "by one who has it open":
        yield lambda: queue
        return
    with ExitStack() as stack:
        yield lambda: stack.enter_context(queues.open_queue(queue.path, now=clock))


@pytest.mark.parametrize("batch", [False, True], ids=["push", "push_batch"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_befell_the_journal_is_made_right_by_the_next_push(
    queue: Queue, pusher: Callable[[], Queue], damage: Callable[[str], object], batch: bool
) -> None:
    fill(queue, "first", "second", "third")
    queues.push_batch(queue, [{"content": "fourth"}, {"content": "fifth"}], source=SELF, type="record")
    fill(queue, "sixth, with an ü")
    damage(queue.path)
    if batch:
        many(pusher(), 3)
    else:
        fill(pusher(), "next")
    assert_both_tracks_agree(queue.path)
    fill(queue, "and the one after")
    assert_both_tracks_agree(queue.path)
    assert_intact(queue.path)


def test_rows_of_one_who_died_before_it_wrote_its_lines_are_written_by_the_next(queue: Queue, pusher: Callable[[], Queue]) -> None:
    fill(queue, "first")
    with closing(sqlite3.connect(Path(queue.path) / "events.db")) as connection:
        for content in ("second", "third"):
            connection.execute("INSERT INTO events (source, type, content) VALUES ('self', 'message', ?)", (content,))
        connection.commit()
    assert fill(pusher(), "fourth") == [4]
    assert_both_tracks_agree(queue.path)


# Rotation


def test_a_file_is_rotated_by_the_push_that_finds_more_than_10000_lines_in_it(queue: Queue) -> None:
    many(queue, MOST)
    fill(queue, "the last of the first file")
    assert sizes(queue.path) == [MOST + 1]
    fill(queue, "the first of the second")
    assert sizes(queue.path) == [MOST + 1, 1]
    fill(queue, "the second of the second")
    assert sizes(queue.path) == [MOST + 1, 2]
    assert_both_tracks_agree(queue.path)
    assert ids(queues.peek(queue, last_event_id=0, limit=1)) == [1]
    assert len(rows(queue.path)) == MOST + 3


def test_a_batch_goes_whole_into_one_file(queue: Queue) -> None:
    fill(queue, "before")
    many(queue, MOST + 500)
    assert sizes(queue.path) == [MOST + 501]
    many(queue, 30)
    assert sizes(queue.path) == [MOST + 501, 30]
    assert_both_tracks_agree(queue.path)


def test_several_rotations_within_a_second_get_names_of_their_own_in_order(queue: Queue, clock: Clock) -> None:
    for _ in range(4):
        many(queue, MOST + 1)
    assert sizes(queue.path) == [MOST + 1] * 4
    assert_both_tracks_agree(queue.path)
    names = [file.name for file in journal_files(queue.path)[:-1]]
    matches = [ROTATED.fullmatch(name) for name in names]
    stamps = {match[1] for match in matches if match}
    if len(stamps) == 1:  # the second is the clock's, or the machine was fast
        assert [match[2] for match in matches if match] == [None, "2", "3"]
    clock.advance(3600)
    many(queue, 1)
    assert sizes(queue.path) == [MOST + 1] * 4 + [1]
    assert_both_tracks_agree(queue.path)


def test_one_who_died_between_renaming_and_beginning_anew_harms_nothing(queue: Queue, pusher: Callable[[], Queue]) -> None:
    many(queue, MOST + 1)
    (Path(queue.path) / "events.jsonl").rename(Path(queue.path) / "events-20260318-103000.jsonl")
    fill(pusher(), "next")
    assert sizes(queue.path) == [MOST + 1, 1]
    assert_both_tracks_agree(queue.path)


def test_a_journal_that_is_deleted_after_a_rotation_is_written_again_from_where_it_began(queue: Queue, pusher: Callable[[], Queue]) -> None:
    many(queue, MOST + 1)
    fill(queue, "a", "b", "c")
    (rotated, current) = journal_files(queue.path)
    before = rotated.read_bytes()
    current.unlink()
    fill(pusher(), "d")
    assert rotated.read_bytes() == before
    assert current.read_bytes() == journal_of(rows(queue.path)[MOST + 1 :])


def test_a_log_of_more_than_10000_lines_is_rotated_and_loses_none(queue: Queue) -> None:
    log = Path(queue.path) / "logs" / "thread.log"
    old = "".join(f"[2026-03-18T10:30:00.123Z] [INFO] push: source=self type=record id={number}\n" for number in range(MOST - 1))
    log.write_text(old)
    fill(queue, "the 10,000th", "the 10,001st", "the first of the next")
    (rotated,) = log.parent.glob("thread-*.log")
    text = rotated.read_text()
    assert text.startswith(old)
    assert [line.split("id=")[1] for line in text[len(old) :].splitlines()] == ["1", "2"]
    assert [line.split("id=")[1] for line in log.read_text().splitlines()] == ["3"]


def test_logs_that_are_rotated_within_a_second_do_not_collide(queue: Queue) -> None:
    log = Path(queue.path) / "logs" / "thread.log"
    for number in range(1, 4):
        log.write_text(f"{number}\n" * (MOST + 1))
        fill(queue, "next")
        assert log.read_text().endswith(f" id={number}\n")
        assert log.read_text().count("\n") == 1
    rotated = sorted(file.read_text()[:2] for file in log.parent.glob("thread-*.log"))
    assert rotated == ["1\n", "2\n", "3\n"]


def read_so_far() -> int:
    """How many bytes this process has read, by the system's count."""
    return int(next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar:")).split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_a_push_does_not_read_the_journal(queue: Queue) -> None:
    queues.push_batch(queue, [{"content": "x" * 1000}] * 9000, source=SELF, type="record")
    fill(queue, "one, that whatever is read once is read")
    size = (Path(queue.path) / "events.jsonl").stat().st_size
    before = read_so_far()
    fill(queue, *["y" * 100] * 20)
    with queues.open_queue(queue.path) as opened_again:
        fill(opened_again, "z")
    assert read_so_far() - before < size / 2
    assert_both_tracks_agree(queue.path)


def test_what_is_open_does_not_grow(queue_path: str) -> None:
    with queues.open_queue(queue_path) as queue:
        for _ in range(3):
            queues.push(queue, source="self", type="record", content="x")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            (Path(queue_path) / "run" / ".tracks").unlink()
            queues.push(queue, source="self", type="record", content="x")
            queues.peek(queue, last_event_id=0, filter="id > 1")
        assert len(os.listdir("/proc/self/fd")) <= before + 5  # the connection for filters, and its files
