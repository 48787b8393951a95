"""Filters: a fragment of SQL says which events concern a consumer. It may do that, and nothing else."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import InvalidInput, Refusal
from postroom.queues import Queue
from tests.cli.process import eventually
from tests.queues.conftest import ALICE, LOGIC, SELF, WARDEN, dump, fill, ids

SECRET = "open-sesame"
RUNAWAY = "(SELECT count(*) FROM events a, events b, events c, events d WHERE a.id + b.id + c.id + d.id > 0) >= 0"

ALLOWED = [
    "type = 'message'",
    "source LIKE 'external:%'",
    "source LIKE 'external:telegram:%'",
    "source LIKE 'internal:%:warden'",
    "source LIKE 'internal:%:warden' AND type = 'message'",
    "source = 'self'",
    "source LIKE '%:alice'",
    "type = 'message' OR type = 'record'",
    "type = 'message' OR 1",
    "NOT type = 'message'",
    "NOT (type = 'message' AND source = 'self')",
    "type IN ('record', 'other')",
    "subtype IS NULL",
    "subtype IS NOT NULL AND subtype <> 'decision'",
    "subtype = 'toolcall' OR content = 'a)b'",
    "content LIKE '%;%' OR content LIKE '%--%'",
    "content LIKE '100\\%' ESCAPE '\\'",
    "content GLOB 'a*'",
    "length(content) > 5",
    "length(content) BETWEEN 1 AND 3",
    "lower(content) = 'loud'",
    "substr(content, 1, 1) = 'a' OR content LIKE '%ü%'",
    "coalesce(subtype, 'none') = 'none'",
    "CASE WHEN json_valid(content) THEN json_extract(content, '$.level') = 'high' ELSE 0 END",
    "json_valid(content) AND json_extract(content, '$.n') > 1",
    "id > 3",
    "id % 2 = 0",
    "created_at >= '2020' AND created_at LIKE '%Z'",
    "id = (SELECT max(id) FROM events)",
    "id IN (SELECT id FROM events WHERE type = 'record')",
    "EXISTS (SELECT 1 FROM events AS later WHERE later.source = events.source AND later.id > events.id)",
    "events.type = 'message'",
    "(type = 'message') AND (id > 1)",
    "type /* which */ = 'record'",
    "  type = 'record'\n",
    "1",
    "0",
    "NULL",
    "content = 'it''s'",
]

HOSTILE = [
    "",
    "   ",
    "type =",
    "type = 'message",
    "nosuch = 1",
    "nosuch(content)",
    "content REGEXP 'a'",
    "SELECT 1",
    "DELETE FROM events",
    "PRAGMA user_version",
    "1; DELETE FROM events",
    "1); DELETE FROM events; --",
    "1) OR (1",
    "type = 'message') OR (type = 'record'",
    "1) --",
    "1) /*",
    "1)",
    "(1",
    "1 ORDER BY id DESC",
    "1 LIMIT 1",
    "1 GROUP BY type",
    "1 UNION SELECT * FROM events",
    "1 UNION ALL SELECT 1, handler_cmd, 'x', 'x', 'x', 'x' FROM subscriptions",
    "id = ?",
    "id = ?1",
    "id = :last",
    "id = @last",
    "id = $last",
    "(SELECT count(*) FROM sqlite_master) > 0",
    "(SELECT count(*) FROM sqlite_schema) > 0",
    "(SELECT count(*) FROM sqlite_temp_master) >= 0",
    "(SELECT count(*) FROM sqlite_sequence) > 0",
    "(SELECT count(*) FROM subscriptions) > 0",
    "(SELECT count(*) FROM main.subscriptions) > 0",
    "(SELECT handler_cmd FROM subscriptions LIMIT 1) LIKE 'open%'",
    "EXISTS (SELECT 1 FROM events JOIN subscriptions)",
    "(SELECT count(*) FROM consumer_progress) >= 0",
    "EXISTS (SELECT 1 FROM pragma_table_info('subscriptions'))",
    "EXISTS (SELECT 1 FROM pragma_database_list)",
    "EXISTS (SELECT 1 FROM json_each(content))",
    "EXISTS (SELECT 1 FROM json_tree(content))",
    "id IN (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n)",
    "(WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT count(*) FROM n) > 0",
    "load_extension('evil') IS NULL",
    "writefile('evil', content) > 0",
    "readfile('events.db') IS NULL",
    "fts3_tokenizer('simple') IS NULL",
    "nul = '\0'",
    "content = '\ud800'",
    "1" + " OR 1" * 1000,
]


@pytest.fixture
def lively(queue: Queue) -> Queue:
    """A queue with events of all sorts, and a subscription that holds a secret."""
    queues.push_batch(
        queue,
        [
            {"source": SELF, "type": "message", "content": "loud"},
            {"source": ALICE, "type": "message", "content": '{"level": "high", "n": 1}'},
            {"source": WARDEN, "type": "message", "content": "a)b"},
            {"source": WARDEN, "type": "record", "content": "100%", "subtype": "toolcall"},
            {"source": SELF, "type": "record", "content": "it's", "subtype": "decision"},
            {"source": ALICE, "type": "record", "content": '{"n": 2}'},
            {"source": SELF, "type": "message", "content": "a; -- ü"},
            {"source": "internal:dm:default:alice", "type": "message", "content": ""},
            {"source": SELF, "type": "message", "content": "LOUD"},
        ],
    )
    queues.subscribe(queue, "keeper", handler=SECRET)
    return queue


def plainly(path: str, fragment: str, after: int) -> list[int]:
    """Return the ids that SQLite itself finds."""
    with closing(sqlite3.connect(Path(path) / "events.db")) as connection:
        found = connection.execute(f"SELECT id FROM events WHERE id > ? AND ({fragment}) ORDER BY id", (after,)).fetchall()
    return [number for (number,) in found]


def plant(path: str, consumer: str, fragment: str) -> None:
    """Put a filter where `subscribe` would not let it."""
    with closing(sqlite3.connect(Path(path) / "events.db")) as connection:
        connection.execute("UPDATE subscriptions SET filter = ? WHERE consumer_id = ?", (fragment, consumer))
        connection.commit()


def logged(log: Path, text: str) -> bool:
    return text in log.read_text()


@pytest.mark.parametrize("fragment", ALLOWED)
def test_a_fragment_finds_what_sqlite_finds_and_nothing_before_the_cursor(lively: Queue, fragment: str) -> None:
    queues.subscribe(lively, "worker", handler="true", filter=fragment)
    for after in (0, 3, 9):
        expected = plainly(lively.path, fragment, after)
        assert ids(queues.peek(lively, last_event_id=after, filter=fragment)) == expected
        assert ids(queues.pop(lively, "worker", last_event_id=after)) == expected


def test_a_fragment_meets_the_limit_after_it_was_applied(lively: Queue) -> None:
    queues.subscribe(lively, "worker", handler="true", filter="type = 'record' OR content = 'LOUD'")
    assert ids(queues.pop(lively, "worker", limit=3)) == [4, 5, 6]
    assert ids(queues.pop(lively, "worker", last_event_id=6, limit=3)) == [9]


def test_json_in_the_content_can_be_asked_for(queue: Queue) -> None:
    fill(queue, *(json.dumps({"level": level, "tags": [level, 7]}) for level in ("high", "low", "high")))
    assert ids(queues.peek(queue, last_event_id=0, filter="json_extract(content, '$.level') = 'high'")) == [1, 3]
    assert ids(queues.peek(queue, last_event_id=1, filter="json_extract(content, '$.tags[1]') = 7")) == [2, 3]


def test_a_fragment_of_4000_characters_is_read_whole(queue: Queue) -> None:
    fill(queue, "a", "x" * 3989)
    fragment = "content='" + "x" * 3989 + "'"
    assert len(fragment) == 3999
    assert ids(queues.peek(queue, last_event_id=0, filter=fragment + " ")) == [2]


@pytest.mark.parametrize("fragment", HOSTILE, ids=lambda one: repr(one[:60]))
def test_a_fragment_that_does_anything_else_is_refused_and_learns_nothing(lively: Queue, fragment: str) -> None:
    before = dump(lively.path)
    for act in (
        lambda: queues.peek(lively, last_event_id=0, filter=fragment),
        lambda: queues.wait_for_events(lively, last_event_id=0, filter=fragment, timeout_seconds=0.01),
        lambda: queues.subscribe(lively, "worker", handler="true", filter=fragment),
    ):
        with pytest.raises(InvalidInput) as refused:
            act()
        assert SECRET not in f"{refused.value} {refused.value.hint} {refused.value.facts}"
        assert "\n" not in f"{refused.value} {refused.value.hint}"
    assert dump(lively.path) == before


@pytest.mark.parametrize("fragment", [one for one in HOSTILE if "\0" not in one and "\ud800" not in one], ids=lambda one: repr(one[:60]))
def test_a_fragment_that_got_into_the_database_anyhow_stops_its_own_consumer_alone(lively: Queue, fragment: str) -> None:
    queues.subscribe(lively, "bad", handler="true")
    plant(lively.path, "bad", fragment)
    before = dump(lively.path)
    with pytest.raises(Refusal) as refused:
        queues.pop(lively, "bad")
    assert SECRET not in f"{refused.value} {refused.value.hint} {refused.value.facts}"
    assert dump(lively.path) == before
    assert len(queues.pop(lively, "keeper")) == 9
    assert fill(lively, "more") == [10]
    assert {one["consumer_id"] for one in queues.info(lively).to_json()["subscriptions"]} == {"bad", "keeper"}
    queues.unsubscribe(lively, "bad")


def test_a_fragment_that_an_event_breaks_stops_its_own_consumer_until_it_is_past_it(queue: Queue) -> None:
    queues.subscribe(queue, "json", handler="true", filter="json_extract(content, '$.level') = 'high'")
    queues.subscribe(queue, "other", handler="true")
    fill(queue, '{"level": "high"}')
    assert ids(queues.pop(queue, "json", last_event_id=0)) == [1]
    fill(queue, "this is not JSON", '{"level": "high"}')
    with pytest.raises(LOGIC):
        queues.pop(queue, "json")
    assert ids(queues.pop(queue, "other", last_event_id=0)) == [1, 2, 3]
    assert fill(queue, '{"level": "low"}') == [4]
    queues.ack(queue, "json", last_event_id=2)
    assert ids(queues.pop(queue, "json")) == [3]


@pytest.mark.parametrize("count", [5, 2000])
def test_a_fragment_about_other_events_is_asked_again_when_there_are_more(queue: Queue, count: int) -> None:
    fragment = "content <> 'go' AND EXISTS (SELECT 1 FROM events AS other WHERE other.content = 'go')"
    queues.subscribe(queue, "worker", handler="true", filter=fragment)
    queues.push_batch(queue, [{"content": "wait"}] * count, source=SELF, type="message")
    assert queues.pop(queue, "worker") == queues.peek(queue, last_event_id=0, filter=fragment) == ()
    fill(queue, "go")
    expected = list(range(1, count + 1))
    assert ids(queues.peek(queue, last_event_id=0, filter=fragment, limit=10_000)) == expected
    assert ids(queues.pop(queue, "worker", limit=10_000)) == expected


def test_dispatch_says_whose_fragment_is_bad_and_starts_the_others(lively: Queue) -> None:
    queues.unsubscribe(lively, "keeper")
    ack = f"{sys.executable} -m postroom.cli.thread ack --consumer"
    for name in ("a-bad", "b-good", "c-bad", "d-good"):
        queues.subscribe(lively, name, handler=f"{ack} {name} --last-event-id 9")
    plant(lively.path, "a-bad", "nosuch = 1")
    plant(lively.path, "c-bad", "(SELECT count(*) FROM subscriptions) > 0")
    found = {start.consumer_id: start.outcome for start in queues.dispatch(lively)}
    assert {name: outcome for name, outcome in found.items() if "good" in name} == {"b-good": "started", "d-good": "started"}
    assert {outcome for name, outcome in found.items() if "bad" in name} <= {"failed"}
    log = Path(lively.path) / "logs" / "thread.log"
    for name in ("a-bad", "c-bad"):
        assert f"[ERROR] dispatch: consumer={name} filter: " in log.read_text()
    for name in ("b-good", "d-good"):
        eventually(partial(logged, log, f"dispatch: consumer={name} ended exit=0"))
        assert queues.pop(lively, name) == ()


def test_a_scan_over_very_many_events_that_do_not_match_finds_the_one_that_does(queue: Queue) -> None:
    fragment = "content LIKE '%needle%' AND source LIKE 'external:%' AND length(content) < 10"
    queues.subscribe(queue, "worker", handler="true", filter=fragment)
    for _ in range(5):
        queues.push_batch(queue, [{"content": "a straw, one of many"}] * 10_000, source=SELF, type="record")
    fill(queue, "needle", source=ALICE)
    assert ids(queues.pop(queue, "worker", last_event_id=0)) == [50_001]
    assert ids(queues.peek(queue, last_event_id=0, filter=fragment)) == [50_001]
    fill(queue, "needle 2", source=ALICE)
    assert ids(queues.wait_for_events(queue, last_event_id=50_001, filter=fragment, timeout_seconds=60)) == [50_002]


def test_a_fragment_that_would_run_for_ever_is_stopped_and_the_others_go_on(queue: Queue) -> None:
    queues.subscribe(queue, "runaway", handler="true", filter=RUNAWAY)
    queues.subscribe(queue, "other", handler="true")
    queues.push_batch(queue, [{"content": "x"}] * 3000, source=SELF, type="record")
    before = dump(queue.path)
    with pytest.raises(LOGIC):
        queues.pop(queue, "runaway")
    with pytest.raises(LOGIC):
        queues.peek(queue, last_event_id=0, filter=RUNAWAY)
    assert dump(queue.path) == before
    assert len(queues.pop(queue, "other", last_event_id=0)) == 100
    assert fill(queue, "next") == [3001]
    assert queues.ack(queue, "runaway", last_event_id=3001).last_acked_id == 3001


@pytest.mark.parametrize(
    "fragment", ["\"typo\" = 'x'", 'type = "message"', "instr(content, content || 'b') > 0", "trim(content, content) = ''"]
)
def test_what_misleads_or_takes_for_ever_in_one_step_is_refused(queue: Queue, fragment: str) -> None:
    with pytest.raises(InvalidInput):
        queues.peek(queue, last_event_id=0, filter=fragment)


def test_names_may_stand_in_double_quotes_and_texts_may_hold_them(queue: Queue) -> None:
    fill(queue, 'say "hi"')
    assert len(queues.peek(queue, last_event_id=0, filter='"content" = \'say "hi"\'')) == 1
