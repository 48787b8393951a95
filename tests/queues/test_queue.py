"""The verbs of a queue, from Python: what they store and return, and how they refuse."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from postroom import queues
from postroom.core import addresses
from postroom.core import clock as time
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NoStore, NotFound
from postroom.queues import Queue
from tests.conftest import Clock
from tests.queues.conftest import ALICE, LOGIC, SELF, WARDEN, assert_both_tracks_agree, assert_intact, dump, fill, ids, rows

MIB = 2**20
MILLISECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LONG = 60.0


def subscribed(queue: Queue, consumer: str = "worker", *contents: str) -> str:
    """A consumer of everything."""
    queues.subscribe(queue, consumer, handler="true")
    fill(queue, *contents)
    return consumer


def progress(queue: Queue) -> dict[str, int]:
    return {one.consumer_id: one.last_acked_id for one in queues.info(queue).progress}


# The directory


def test_init_makes_the_folders_an_empty_journal_and_the_tables_of_the_document(tmp_path: Path) -> None:
    path = Path(queues.init_queue(str(tmp_path / "deep" / "down" / "queue")))
    assert path == (tmp_path / "deep" / "down" / "queue").resolve()
    assert (path / "run").is_dir()
    assert (path / "logs").is_dir()
    assert (path / "events.jsonl").read_bytes() == b""
    with closing(sqlite3.connect(path / "events.db")) as connection:
        kinds = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        columns = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for kind, name in kinds if kind == "table"}
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert sorted(name for kind, name in kinds if kind == "index") == ["idx_events_source", "idx_events_type"]
    assert {name: [(row[1], row[2], row[3], row[5]) for row in found] for name, found in columns.items()} == DOCUMENT


# Name, type, NOT NULL, primary key.
DOCUMENT = {
    "events": [
        ("id", "INTEGER", 0, 1), ("created_at", "TEXT", 1, 0), ("source", "TEXT", 1, 0), ("type", "TEXT", 1, 0), ("subtype", "TEXT", 0, 0),
        ("content", "TEXT", 1, 0),
    ],
    "subscriptions": [("consumer_id", "TEXT", 1, 1), ("handler_cmd", "TEXT", 1, 0), ("filter", "TEXT", 0, 0)],
    "consumer_progress": [("consumer_id", "TEXT", 1, 1), ("last_acked_id", "INTEGER", 1, 0), ("updated_at", "TEXT", 1, 0)],
}  # fmt: skip


def test_init_of_a_queue_is_refused_and_leaves_it_as_it_was(queue: Queue) -> None:
    fill(queue, "kept")
    before = dump(queue.path)
    with pytest.raises(Conflict):
        queues.init_queue(queue.path)
    assert dump(queue.path) == before


def test_init_in_a_folder_that_is_no_queue_keeps_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with queues.open_queue(queues.init_queue(str(tmp_path))) as queue:
        assert fill(queue, "first") == [1]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_init_where_a_file_is_is_refused_and_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LOGIC):
        queues.init_queue(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["missing", "folder", "file", "folder/missing"])
def test_opening_what_is_no_queue_points_to_init_and_creates_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NoStore) as refused:
        queues.open_queue(str(tmp_path / name))
    assert "thread init" in refused.value.hint
    assert sorted(tmp_path.rglob("*")) == before


def test_a_queue_is_one_under_all_its_names(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(queue.path)
    monkeypatch.chdir(tmp_path)
    fill(queue, "first")
    for name in ("link", "./queue", "queue/../queue/"):
        with queues.open_queue(name) as other:
            assert other.path == queue.path
            assert ids(queues.peek(other, last_event_id=0)) == [1]


# Push


def test_push_returns_the_event_as_it_is_stored(queue: Queue, clock: Clock) -> None:
    event = queues.push(queue, source=ALICE, type="record", subtype="toolcall", content="hello")
    assert rows(queue.path) == [(event.id, event.created_at, event.source, event.type, event.subtype, event.content)]
    assert (event.id, event.source, event.type, event.subtype, event.content) == (1, ALICE, "record", "toolcall", "hello")
    assert MILLISECONDS.fullmatch(event.created_at)
    assert event.created_at[:23] == time.format_stamp(clock.instant)[:23]
    assert queues.push(queue, source=SELF, type="message", content="hello").id == 2


def test_push_logs_a_line_in_the_documents_format_and_schedules_nothing(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFIER_HOME", str(tmp_path / "notifier"))
    fill(queue, "first", source=WARDEN)
    queues.push_batch(queue, [{"content": "second"}, {"content": "third"}], source=SELF, type="message")
    lines = (Path(queue.path) / "logs" / "thread.log").read_text().splitlines()
    assert [re.sub(r"^\[[^]]*\]", "", line) for line in lines] == [
        f" [INFO] push: source={WARDEN} type=message id=1",
        " [INFO] push: count=2 id=2-3",
    ]
    assert all(MILLISECONDS.fullmatch(line[1 : line.index("]")]) for line in lines)
    assert not (tmp_path / "notifier").exists()


CONTENTS = ["", " ", "two\nlines\r\n", "\t\x01\x1b[31m\x7f", '"quoted" \\ {}', "Grüße 東京 👩‍🚀", "\u2028\u2029\u0085\ufeff", "x" * MIB]


@pytest.mark.parametrize("content", CONTENTS, ids=[repr(content[:12]) for content in CONTENTS])
def test_any_text_comes_back_as_it_went_in(queue: Queue, content: str) -> None:
    fill(queue, content)
    (event,) = queues.peek(queue, last_event_id=0)
    assert event.content == content
    assert_both_tracks_agree(queue.path)


@pytest.mark.parametrize("content", ["nul \0", "half \ud800", "x" * (64 * MIB + 1), None, b"bytes", 7], ids=lambda one: repr(one)[:9])
def test_what_is_not_text_or_too_long_is_refused_and_not_stored(queue: Queue, content: object) -> None:
    with pytest.raises(InvalidInput):
        queues.push(queue, source=SELF, type="message", content=content)  # type: ignore[arg-type]
    assert rows(queue.path) == []


@pytest.mark.parametrize("type", ["", "event", "Message", "messages", " record", None])
def test_a_type_is_message_or_record(queue: Queue, type: str) -> None:
    with pytest.raises(InvalidInput):
        queues.push(queue, source=SELF, type=type, content="")
    assert rows(queue.path) == []


@pytest.mark.parametrize("subtype", [None, "toolcall", "decision", "artifact made ü", "x" * 200])
def test_a_record_may_have_any_subtype_of_one_line(queue: Queue, subtype: str | None) -> None:
    assert queues.push(queue, source=SELF, type="record", subtype=subtype, content="").subtype == subtype


@pytest.mark.parametrize(
    ("type", "subtype"), [("message", "toolcall"), ("record", "two\nlines"), ("record", "\x1b"), ("record", "x" * 201)]
)
def test_a_subtype_of_a_message_or_of_more_than_a_line_is_refused(queue: Queue, type: str, subtype: str) -> None:
    with pytest.raises(InvalidInput):
        queues.push(queue, source=SELF, type=type, subtype=subtype, content="")
    assert rows(queue.path) == []


# Addresses


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (ALICE, ("external", "telegram", "tg-main", "dm", "alice", "alice")),
        ("external:telegram:tg-main:group:grp-123:bob", ("external", "telegram", "tg-main", "group", "grp-123", "bob")),
        ("external:x:y:group:grp-123/topic-456:ünal", ("external", "x", "y", "group", "grp-123/topic-456", "ünal")),
        ("internal:dm:default:warden", ("internal", None, None, "dm", "default", "warden")),
        ("internal:dm:a/b/c:warden", ("internal", None, None, "dm", "a/b/c", "warden")),
        ("self", ("self", None, None, None, None, None)),
    ],
)
def test_an_address_is_taken_apart_and_accepted_at_push(queue: Queue, text: str, parts: tuple[str | None, ...]) -> None:
    found = addresses.parse_address(text)
    names = ("kind", "channel_type", "channel_id", "session_type", "session_id", "peer")
    assert tuple(getattr(found, name) or None for name in names) == parts
    assert queues.push(queue, source=text, type="message", content="").source == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("external:Telegram:tg:dm:a:a", "channel_type"),
        ("external::tg:dm:a:a", "channel_type"),
        ("external:telegram::dm:a:a", "channel_id"),
        ("external:telegram:t g:dm:a:a", "channel_id"),
        ("external:telegram:tg/1:dm:a:a", "channel_id"),
        ("external:telegram:tg:DM:a:a", "session_type"),
        ("external:telegram:tg:dm:Alice:alice", "session_id"),
        ("external:telegram:tg:dm::alice", "session_id"),
        ("external:telegram:tg:dm:alice:", "peer_id"),
        ("external:telegram:tg:dm:alice:al/ice", "peer_id"),
        ("external:telegram:tg:dm:alice:ali\nce", "peer_id"),
        ("external:telegram:tg:dm:alice:ÜNAL", "peer_id"),
        ("external:telegram:tg:dm:alice", "6"),
        ("external:telegram:tg:dm:alice:alice:more", "6"),
        ("internal:d/m:default:warden", "session_type"),
        ("internal:dm:de\u00a0fault:warden", "session_id"),
        ("internal:dm:default:\x1b", "agent_id"),
        ("internal:dm:default:Warden", "agent_id"),
        ("internal:dm:warden", "4"),
        ("internal:dm:default:warden:more", "4"),
        ("self:me", "self"),
        ("", "source"),
        ("Self", "self"),
        ("alice", "external"),
        ("mail:dm:default:warden", "internal"),
        (" self", "self"),
        ("external:telegram:tg:dm:alice:" + "x" * 471, "500"),
    ],
)
def test_a_wrong_address_is_refused_with_the_part_that_is_wrong(queue: Queue, text: str, named: str) -> None:
    for act in (lambda: addresses.parse_address(text), lambda: queues.push(queue, source=text, type="message", content="")):
        with pytest.raises(InvalidInput) as refused:
            act()
        assert named in f"{refused.value} {refused.value.hint}"
        assert "\n" not in f"{refused.value} {refused.value.hint}"
    assert rows(queue.path) == []


def test_an_address_of_500_characters_is_accepted() -> None:
    assert addresses.parse_address("external:telegram:tg:dm:alice:" + "x" * 470).peer == "x" * 470


# Batches


def test_a_batch_fills_in_what_its_lines_lack_and_returns_them_in_order(queue: Queue) -> None:
    fill(queue, "before")
    batch: Iterator[Mapping[str, object]] = iter(
        [
            {"content": "a"},
            {"content": "b", "source": ALICE, "type": "message", "subtype": None},
            {"content": "c", "subtype": "decision"},
            {"content": "", "id": 1, "created_at": "1999", "source": SELF},
        ]
    )
    events = queues.push_batch(queue, batch, source=WARDEN, type="record")
    assert [(event.id, event.source, event.type, event.subtype, event.content) for event in events] == [
        (2, WARDEN, "record", None, "a"),
        (3, ALICE, "message", None, "b"),
        (4, WARDEN, "record", "decision", "c"),
        (5, SELF, "record", None, ""),
    ]
    assert [event.created_at for event in events] == [row[1] for row in rows(queue.path)[1:]]
    assert "1999" not in events[3].created_at
    assert_both_tracks_agree(queue.path)


def test_a_batch_of_nothing_changes_nothing(queue: Queue) -> None:
    assert queues.push_batch(queue, []) == ()
    assert rows(queue.path) == []


GOOD: dict[str, object] = {"source": SELF, "type": "record", "content": "good"}
BAD: list[object] = [
    {**GOOD, "colour": "red"}, {**GOOD, "content": 7}, {**GOOD, "content": None}, {**GOOD, "content": "\0"}, {**GOOD, "source": "me"},
    {**GOOD, "type": "event"}, {**GOOD, "type": "message", "subtype": "toolcall"}, {**GOOD, "subtype": 1},
    {"source": SELF, "type": "record"}, {"source": SELF, "content": ""}, {"type": "record", "content": ""}, {}, "text", None, ["a", "list"],
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_batch_with_a_bad_line_is_refused_by_its_number_and_none_of_it_is_stored(queue: Queue, bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"\b3\b"):
        queues.push_batch(queue, [GOOD, GOOD, bad, GOOD])  # type: ignore[list-item]
    assert rows(queue.path) == []
    assert fill(queue, "next") == [1]
    assert_both_tracks_agree(queue.path)


def test_a_batch_whose_source_breaks_off_is_not_stored(queue: Queue) -> None:
    def broken() -> Iterator[Mapping[str, object]]:
        yield GOOD
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queues.push_batch(queue, broken())
    assert rows(queue.path) == []
    assert_intact(queue.path)


# Pop and ack


def test_pop_hands_out_in_order_what_comes_after_the_cursor_and_remembers_it(queue: Queue) -> None:
    subscribed(queue, "worker", *"abcde")
    assert ids(queues.pop(queue, "worker", last_event_id=0)) == [1, 2, 3, 4, 5]
    assert ids(queues.pop(queue, "worker", last_event_id=2, limit=2)) == [3, 4]
    assert progress(queue) == {"worker": 2}
    assert queues.pop(queue, "worker", last_event_id=5) == ()
    assert progress(queue) == {"worker": 5}


def test_a_lower_cursor_reads_again_and_never_lowers_the_progress(queue: Queue) -> None:
    subscribed(queue, "worker", *"abcde")
    before = queues.ack(queue, "worker", last_event_id=4)
    assert ids(queues.pop(queue, "worker", last_event_id=1)) == [2, 3, 4, 5]
    assert queues.ack(queue, "worker", last_event_id=2) == before
    assert ids(queues.pop(queue, "worker")) == [5]


def test_pop_without_a_cursor_resumes_and_changes_nothing(queue: Queue, clock: Clock) -> None:
    subscribed(queue, "worker", *"abc")
    queues.ack(queue, "worker", last_event_id=1)
    before = dump(queue.path)
    clock.advance(5)
    assert ids(queues.pop(queue, "worker")) == [2, 3]
    assert ids(queues.pop(queue, "worker")) == [2, 3]
    assert dump(queue.path) == before


@pytest.mark.parametrize("beyond", [4, 99, 2**62])
def test_a_cursor_beyond_the_newest_event_is_refused_and_changes_nothing(queue: Queue, beyond: int) -> None:
    subscribed(queue, "worker", *"abc")
    queues.ack(queue, "worker", last_event_id=1)
    before = dump(queue.path)
    for verb in (queues.pop, queues.ack):
        with pytest.raises(InvalidState):
            verb(queue, "worker", last_event_id=beyond)
    assert dump(queue.path) == before


def test_the_cursor_of_an_empty_queue_is_0(queue: Queue) -> None:
    subscribed(queue)
    assert queues.pop(queue, "worker", last_event_id=0) == ()
    assert queues.ack(queue, "worker", last_event_id=0).last_acked_id == 0
    with pytest.raises(InvalidState):
        queues.pop(queue, "worker", last_event_id=1)


def test_ack_says_where_the_consumer_is_and_since_when(queue: Queue, clock: Clock) -> None:
    subscribed(queue, "worker", *"abc")
    clock.advance(5)
    told = queues.ack(queue, "worker", last_event_id=3)
    assert (told.consumer_id, told.last_acked_id) == ("worker", 3)
    assert told.updated_at[:23] == time.format_stamp(clock.instant)[:23]
    clock.advance(5)
    assert queues.ack(queue, "worker", last_event_id=1) == told


def test_consumers_do_not_move_each_other(queue: Queue) -> None:
    subscribed(queue, "a", *"xyz")
    subscribed(queue, "A")
    queues.pop(queue, "a", last_event_id=2)
    assert ids(queues.pop(queue, "A")) == [1, 2, 3]
    assert ids(queues.pop(queue, "a")) == [3]


def test_who_is_not_subscribed_neither_pops_nor_acks(queue: Queue) -> None:
    subscribed(queue, "worker", "a")
    before = dump(queue.path)
    for act in (
        lambda: queues.pop(queue, "other"),
        lambda: queues.pop(queue, "Worker", last_event_id=0),
        lambda: queues.ack(queue, "other", last_event_id=1),
    ):
        with pytest.raises(NotFound):
            act()
    assert dump(queue.path) == before


def test_a_limit_is_from_1_to_10000_and_100_if_unsaid(queue: Queue) -> None:
    subscribed(queue)
    queues.push_batch(queue, [GOOD] * 150)
    assert len(queues.pop(queue, "worker")) == len(queues.peek(queue, last_event_id=0)) == 100
    assert len(queues.pop(queue, "worker", limit=10_000)) == len(queues.peek(queue, last_event_id=0, limit=10_000)) == 150
    for limit in (0, -1, 10_001):
        with pytest.raises(InvalidInput):
            queues.pop(queue, "worker", limit=limit)
        with pytest.raises(InvalidInput):
            queues.peek(queue, last_event_id=0, limit=limit)


def test_a_negative_cursor_is_refused_everywhere(queue: Queue) -> None:
    subscribed(queue, "worker", "a")
    for act in (
        lambda: queues.pop(queue, "worker", last_event_id=-1),
        lambda: queues.ack(queue, "worker", last_event_id=-1),
        lambda: queues.peek(queue, last_event_id=-1),
        lambda: queues.wait_for_events(queue, last_event_id=-1, timeout_seconds=LONG),
        lambda: queues.subscribe(queue, "other", handler="true", last_event_id=-1),
    ):
        with pytest.raises(InvalidInput):
            act()


# Peek


def test_peek_reads_and_leaves_no_trace(queue: Queue) -> None:
    subscribed(queue, "worker", *"abcd")
    before = dump(queue.path)
    assert ids(queues.peek(queue, last_event_id=1, limit=2)) == [2, 3]
    assert ids(queues.peek(queue, last_event_id=0, filter="content = 'd'")) == [4]
    assert queues.peek(queue, last_event_id=4) == queues.peek(queue, last_event_id=99) == ()
    assert dump(queue.path) == before
