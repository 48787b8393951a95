"""Filters are data from anyone: a fragment reads the columns of events, and does nothing else, however it is written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.process import eventually
from tests.cli.queue_process import COMMANDS, QuietQueueCommands, acks, events, ids

RECORD = ("--source", "self", "--type", "record")
PEEK = ("peek", "--thread", "queue", "--last-event-id", "0")
SUBSCRIBE = ("subscribe", "--thread", "queue", "--consumer", "hostile", "--handler", "touch ran")
MEBIBYTE = 1024  # as `ru_maxrss` counts
COUNT = 160
# From a small process: a child's `ru_maxrss` begins with that of whoever forked it.
MEASURING = """
import resource, subprocess, sys
with open(sys.argv[1], "wb") as said:
    done = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=said)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

BROKEN = [
    "",
    " ",
    "\t\n ",
    "nonsense here",
    "no_such_column = 1",
    "é = 1",
    "type = 'message",
    "(type = 'message'",
    "type = 'message')",
    "type = message",
    "no_such_function(content)",
    "content REGEXP 'x'",
    "sum(id) > 1",
    "row_number() OVER () = 1",
    "'",
    "(",
    "x" * 4001,
    "type = 'message' OR " * 250 + "1",
    "~" * 3900 + "1",
    "(" * 1900 + "1" + ")" * 1900,
]
LEAVES_ITS_BRACKETS = [
    "1) OR (1",
    "1=1) --",
    "1=1 --",
    "1 /*",
    "id = 0) OR 1 OR (id = 0",
    "0) UNION SELECT 1, 2, 3, consumer_id, filter, handler_cmd FROM subscriptions WHERE (1",
    "0 UNION SELECT 1, 2, 3, consumer_id, filter, handler_cmd FROM subscriptions",
    "1 ORDER BY id DESC",
    "1 LIMIT 1",
    "1 GROUP BY type",
    "1 WINDOW w AS ()",
    "id = 1 RETURNING id",
]
STATEMENTS = [
    ";",
    "1;",
    "1; DROP TABLE events",
    "1); DROP TABLE events; --",
    "1; ATTACH 'stolen.db' AS stolen",
    "1; PRAGMA user_version = 7",
    "1; VACUUM INTO 'stolen.db'",
    "DELETE FROM events",
    "(DELETE FROM events)",
    "id IN (DELETE FROM events RETURNING id)",
    "(INSERT INTO events (source, type, content) VALUES ('self', 'record', 'x'))",
    "PRAGMA user_version",
    "RAISE(ABORT, 'x')",
]
PARAMETERS = ["?", "id = ?", "id = ?1", "id = :id", "id = @id", "id = $id", "type = 'message' AND id > ?2"]
READS_ELSEWHERE = [
    "EXISTS (SELECT 1 FROM subscriptions)",
    "(SELECT count(*) FROM consumer_progress) > 0",
    "(SELECT count(*) FROM main.subscriptions) > 0",
    "content = (SELECT handler_cmd FROM subscriptions LIMIT 1)",
    "id IN (SELECT events.id FROM events, subscriptions)",
    "id IN (WITH stolen AS (SELECT handler_cmd FROM subscriptions) SELECT 1 FROM stolen)",
    "EXISTS (SELECT 1 FROM (SELECT * FROM subscriptions))",
    "EXISTS (SELECT sql FROM sqlite_master)",
    "EXISTS (SELECT sql FROM sqlite_schema)",
    "EXISTS (SELECT 1 FROM temp.sqlite_temp_master)",
    "EXISTS (SELECT 1 FROM sqlite_sequence)",
    "EXISTS (SELECT 1 FROM pragma_table_info('subscriptions'))",
    "EXISTS (SELECT file FROM pragma_database_list)",
    "EXISTS (SELECT 1 FROM json_each('[1]'))",
    "id IN (SELECT value FROM json_tree(content))",
    "EXISTS (SELECT 1 FROM generate_series(1, 9))",
    "EXISTS (SELECT 1 FROM dbstat)",
]
FOR_EVER = [
    "id IN (WITH RECURSIVE t(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM t) SELECT n FROM t)",
    "id IN (WITH t(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM t) SELECT n FROM t)",
    "(WITH RECURSIVE t(n) AS (SELECT id FROM events UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t) > 0",
]
FUNCTIONS = [
    "load_extension('evil.so')",
    "load_extension('evil.so', 'entry')",
    "readfile('/etc/passwd') = content",
    "writefile('stolen', content)",
    "edit(content)",
    "fts3_tokenizer('simple') IS NULL",
]
REFUSED = [*BROKEN, *LEAVES_ITS_BRACKETS, *STATEMENTS, *PARAMETERS, *READS_ELSEWHERE, *FOR_EVER, *FUNCTIONS]

ALLOWED = {
    "type = 'record'": True,
    "source LIKE 'external:%' OR source = 'self' AND NOT subtype IS NOT NULL": True,
    "content NOT IN (';', '--', '?', ':x', ')', '/*')": True,
    "source = 'self' AND '1) OR (1' <> content": True,
    "json_valid(content) AND json_extract(content, '$.n') IS NOT NULL": True,
    "id = (SELECT max(id) FROM events) OR id <= (SELECT count(*) FROM events AS e WHERE e.type = 'record')": True,
    "length(content) > 0 AND lower(type) = 'record' AND created_at > '2020' AND content GLOB '{*}'": True,
    "CASE WHEN type = 'record' THEN 1 ELSE 0 END": True,
    "EXISTS (SELECT 1 FROM events AS e WHERE e.id = events.id - 1) OR id = 1": True,
    "'ü☃' = '漢字'": False,
    "0": False,
    "NULL": False,
    "source = 'nobody'" + " " * 3000: False,
}
HEAVY = [
    "(SELECT count(*) FROM events a, events b, events c, events d) > 0",
    "id IN (SELECT a.id FROM events a, events b, events c, events d WHERE a.id + b.id + c.id + d.id < 0)",
    "EXISTS (SELECT 1 FROM events a JOIN events b JOIN events c JOIN events d ON d.content = 'nowhere' AND a.id <> events.id)",
]
BOMBS = [
    "length(hex(zeroblob(450000000))) > 0",
    "length(printf('%900000000d', id)) > 0",
    "randomblob(900000000) IS NOT NULL",
    "length(replace(hex(zeroblob(15000)), '0', hex(zeroblob(15000)))) > 0",
    "(SELECT length(group_concat(hex(zeroblob(1000000)))) FROM events) > 0",
    "(SELECT json_group_array(hex(zeroblob(1000000))) FROM events) > 0",
    "(SELECT count(*) FROM (SELECT hex(zeroblob(1000000)) || id AS h FROM events ORDER BY h DESC)) > 0",
]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuietQueueCommands]:
    """One for all: none of these tests changes anything."""
    with QuietQueueCommands(tmp_path_factory.mktemp("office")) as made:
        made.init()
        made.batch(*({"content": f'{{"n": {number}}}'} for number in range(COUNT)), more=RECORD)
        made.subscribe("all", "true", "--last-event-id", str(COUNT))
        yield made


@pytest.fixture
def own(commands: QuietQueueCommands) -> Iterator[QuietQueueCommands]:
    """The same, for a test that subscribes: whoever it adds is sent away again."""
    yield commands
    for table in ("subscriptions", "consumer_progress"):
        commands.change(f"DELETE FROM {table} WHERE consumer_id <> 'all'")


def _peak(commands: QuietQueueCommands, *argv: str) -> tuple[int, str, int]:
    """How a command ended, what it said, and how many kibibytes it held at most."""
    said = commands.folder / "said"
    line = [sys.executable, "-c", MEASURING, str(said), *COMMANDS["thread"], *argv]
    done = subprocess.run(line, stdout=subprocess.PIPE, cwd=commands.folder, env=commands.environment(), timeout=60, check=True)
    code, most = map(int, done.stdout.split())
    text = said.read_text()
    said.unlink()
    return code, text, most


@pytest.mark.parametrize("fragment", REFUSED, ids=range(len(REFUSED)))
def test_a_fragment_that_does_more_than_choose_events_is_refused_where_it_is_given(commands: QuietQueueCommands, fragment: str) -> None:
    with commands.unchanged():
        error = commands.refuses(2, "thread", *PEEK, f"--filter={fragment}")
        assert "filter" in error["error"].lower(), error
        assert len(error["error"]) < 1000, "a refusal does not echo pages"
        subscribed = commands.thread(*SUBSCRIBE, f"--filter={fragment}")
        assert (subscribed.code, subscribed.stdout, subscribed.stderr) == (2, "", f"Error: {error['error']} - {error['suggestion']}\n")


@pytest.mark.parametrize("fragment", [*LEAVES_ITS_BRACKETS[:3], *PARAMETERS[:1], *READS_ELSEWHERE[:1], *FOR_EVER[:1], ""])
def test_follow_refuses_what_peek_refuses(commands: QuietQueueCommands, fragment: str) -> None:
    with commands.unchanged():
        commands.refuses(2, "thread", "follow", "--thread", "queue", "--timeout-seconds", "30", f"--filter={fragment}")


def test_a_fragment_that_is_no_text_is_refused(commands: QuietQueueCommands) -> None:
    with commands.unchanged():
        commands.refuses(2, "thread", *PEEK, b"--filter=content = 'caf\xe9'")
        commands.refuses(2, "thread", *SUBSCRIBE, b"--filter=content = 'caf\xe9'")


@pytest.mark.parametrize("fragment", ALLOWED)
def test_the_documents_fragments_choose_among_events_and_only_after_the_cursor(own: QuietQueueCommands, fragment: str) -> None:
    last = ["--last-event-id", str(COUNT - 2)]
    expected = [COUNT - 1, COUNT] if ALLOWED[fragment] else []
    assert ids(own.on_queue("peek", *last, f"--filter={fragment}")) == expected
    assert own.thread(*SUBSCRIBE, f"--filter={fragment}").stdout == "hostile\n"
    assert ids(own.on_queue("pop", "--consumer", "hostile", *last)) == expected


@pytest.mark.parametrize("fragment", HEAVY)
def test_a_fragment_that_would_run_for_ever_is_stopped_and_changes_nothing(own: QuietQueueCommands, fragment: str) -> None:
    assert own.thread(*SUBSCRIBE, f"--filter={fragment}").code in (0, 1)
    own.change("INSERT OR IGNORE INTO subscriptions VALUES ('hostile', 'touch ran', ?)", fragment)
    with own.unchanged():
        own.refuses(1, "thread", *PEEK, f"--filter={fragment}")
        own.refuses(1, "thread", "pop", "--thread", "queue", "--consumer", "hostile", "--last-event-id", "3")
        own.refuses(1, "thread", "follow", "--thread", "queue", "--last-event-id", "0", f"--filter={fragment}")
    assert own.info()["total_events"] == COUNT


def test_a_function_that_works_for_seconds_in_one_step_does_not_hold_up_a_reader(commands: QuietQueueCommands) -> None:
    """SQLite counts no steps within a function: seconds for each event here, hours for a longer queue."""
    with commands.unchanged():
        finished = commands.thread(*PEEK, "--filter=length(printf('%.*c', 900000000 + id, 'x')) > 0")
    assert finished.code in (1, 2)
    assert finished.stderr.startswith("Error: ")


def test_a_heavy_fragment_costs_no_other_consumer_its_run(own: QuietQueueCommands) -> None:
    own.change("INSERT INTO subscriptions VALUES ('hostile', 'touch ran', ?)", HEAVY[0])
    own.subscribe("reader", acks(COUNT))
    finished = own.on_queue("dispatch")
    said = dict(line.split(": ", 1) for line in finished.stdout.splitlines())
    assert (finished.code, said["reader"]) == (0, "started")
    assert said["hostile"].startswith("failed (")
    eventually(lambda: not any(entry["running"] for entry in own.info()["subscriptions"]))
    assert not (own.queue / "ran").exists()


@pytest.mark.parametrize("fragment", BOMBS)
def test_a_fragment_cannot_fill_the_memory(commands: QuietQueueCommands, fragment: str) -> None:
    with commands.unchanged():
        code, said, kibibytes = _peak(commands, *PEEK, f"--filter={fragment}")
    assert (code, said) == (0, "") or (code in (1, 2) and said.startswith("Error: ") and said.count("\n") == 1), said
    assert kibibytes < 300 * MEBIBYTE


def test_a_bomb_in_a_subscription_is_defused_wherever_it_is_read(own: QuietQueueCommands) -> None:
    own.change("INSERT INTO subscriptions VALUES ('hostile', 'touch ran', ?)", BOMBS[0])
    with own.unchanged():
        ends = {verb: _peak(own, verb, "--thread", "queue") for verb in ("info", "dispatch")}
        ends["pop"] = _peak(own, "pop", "--thread", "queue", "--consumer", "hostile", "--last-event-id", "5")
    assert {verb: end[0] for verb, end in ends.items()} == {"info": 0, "dispatch": 0, "pop": 1}
    assert all(end[2] < 300 * MEBIBYTE for end in ends.values()), ends


@pytest.mark.parametrize("fragment", ["json_extract(content, '$.n') > 1", "content MATCH 'x'", "abs(-9223372036854775807 - id) > 0"])
def test_a_fragment_that_fails_on_an_event_is_a_refusal_and_no_crash(own: QuietQueueCommands, fragment: str) -> None:
    """As `json_extract` does on what is no JSON."""
    own.change("UPDATE events SET content = 'no json' WHERE id = 7")
    with own.unchanged():
        finished = own.thread(*PEEK, f"--filter={fragment}")
        assert finished.code in (1, 2)
        assert (finished.stdout, finished.stderr.count("\n")) == ("", 1)
        assert finished.stderr.startswith("Error: ")
    own.change("UPDATE events SET content = '{\"n\": 6}' WHERE id = 7")


def test_many_wildcards_over_a_long_text_come_to_an_end(own: QuietQueueCommands) -> None:
    pattern = "%" + "a%" * 40 + "b"
    own.change("UPDATE events SET content = ? WHERE id = 7", "a" * 200_000)
    finished = own.thread(*PEEK, f"--filter=content LIKE '{pattern}'")
    assert finished.code == 1 or events(finished) == []
    own.change("UPDATE events SET content = '{\"n\": 6}' WHERE id = 7")


@pytest.mark.parametrize("fragment", [*STATEMENTS[2:4], *READS_ELSEWHERE[:2], *LEAVES_ITS_BRACKETS[:2], *FOR_EVER[:1], "?", ""])
def test_a_fragment_that_got_into_the_database_by_another_way_is_confined_all_the_same(own: QuietQueueCommands, fragment: str) -> None:
    own.change("INSERT INTO subscriptions VALUES ('hostile', 'touch ran', ?)", fragment)
    with own.unchanged():
        own.refuses(1, "thread", "pop", "--thread", "queue", "--consumer", "hostile", "--last-event-id", "3")
        finished = own.on_queue("dispatch")
        assert (finished.code, "hostile: failed (" in finished.stdout) == (0, True), finished
    assert not (own.queue / "ran").exists()
