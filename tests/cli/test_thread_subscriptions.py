"""The readers of a queue: subscribe, unsubscribe, dispatch and info, as people and programs see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Gate
from tests.cli.process import eventually
from tests.cli.queue_process import QuietQueueCommands, acks, ids

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
HELD = "timeout 60 sh -c 'read go < ../../../gate'"  # a handler that runs until a test opens its gate
ODD_NAMES = [
    "../x",
    "../../../../tmp/x",
    "/etc/passwd",
    "..",
    ".",
    "a/b",
    "x'; DROP TABLE events; --",
    "漢字 ü ☃",
    "$(touch x)",
    "%2e",
    "~",
]
ATTACK = "\x1b[2Jred\x9b31m\rover \u202eright\u2028line\x07"
HARMFUL = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"} - {
    "\n"
}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[QuietQueueCommands]:
    with QuietQueueCommands(tmp_path) as made:
        made.init()
        yield made


def _idle(commands: QuietQueueCommands) -> None:
    """Wait until no handler runs."""
    eventually(lambda: not any(entry["running"] for entry in commands.info()["subscriptions"]))


# subscribe and unsubscribe


def test_subscribe_prints_the_name_and_tells_programs_the_whole(commands: QuietQueueCommands) -> None:
    finished = commands.on_queue("subscribe", "--consumer", "worker 1", "--handler", "true | cat")
    assert (finished.code, finished.stdout, finished.stderr) == (0, "worker 1\n", "")
    flags = ("--consumer", "warden", "--handler", "echo 'x'", "--filter", "source LIKE 'internal:%:warden'")
    told = commands.on_queue("subscribe", *flags, "--json").json
    assert list(told.items()) == [("consumer_id", "warden"), ("handler_cmd", "echo 'x'"), ("filter", "source LIKE 'internal:%:warden'")]
    assert [entry["filter"] for entry in commands.info()["subscriptions"]] == ["source LIKE 'internal:%:warden'", None]


def test_a_name_that_is_subscribed_is_refused_and_told_to_unsubscribe_first(commands: QuietQueueCommands) -> None:
    commands.three()
    with commands.unchanged():
        error = commands.refuses(1, "thread", "subscribe", "--thread", "queue", "--consumer", "all", "--handler", "other")
    assert "thread unsubscribe" in error["suggestion"]


def test_a_new_subscription_starts_at_the_beginning_or_where_it_is_told(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.subscribe("late", "true", "--last-event-id", "2")
    commands.subscribe("head", "true", "--last-event-id", "3")
    assert [event["id"] for event in commands.pop("all")] == [1, 2, 3]
    assert [event["id"] for event in commands.pop("late")] == [3]
    assert commands.pop("head") == []


def test_subscribing_again_resumes_where_the_name_was(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.pop("all", "--last-event-id", "2")
    finished = commands.on_queue("unsubscribe", "--consumer", "all")
    assert (finished.code, finished.stderr) == (0, "")
    assert commands.on_queue("pop", "--consumer", "all").code == 1
    assert (commands.progress("all"), [entry["consumer_id"] for entry in commands.info()["subscriptions"]]) == (2, ["messages"])
    commands.subscribe("all")
    assert [event["id"] for event in commands.pop("all")] == [3]


def test_subscribing_again_with_a_cursor_starts_there(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.pop("all", "--last-event-id", "3")
    assert commands.on_queue("unsubscribe", "--consumer", "all").code == 0
    commands.subscribe("all", "true", "--last-event-id", "1")
    assert [event["id"] for event in commands.pop("all")] == [2, 3]


def test_unsubscribe_answers_programs_in_json_or_not_at_all(commands: QuietQueueCommands) -> None:
    commands.three()
    finished = commands.on_queue("unsubscribe", "--consumer", "all", "--json")
    assert (finished.code, finished.stderr) == (0, "")
    assert all(json.loads(line) for line in finished.stdout.splitlines())


@pytest.mark.parametrize("command", ["unsubscribe", "pop", "ack"])
def test_a_name_that_is_not_subscribed_is_refused(commands: QuietQueueCommands, command: str) -> None:
    commands.three()
    more = ("--last-event-id", "0") if command == "ack" else ()
    with commands.unchanged():
        error = commands.refuses(1, "thread", command, "--thread", "queue", "--consumer", "nobody", *more)
    assert "nobody" in error["error"]


def test_subscribing_schedules_a_dispatch_if_there_is_something_to_read(commands: QuietQueueCommands) -> None:
    told, environment = commands.teller()
    commands.on_queue("subscribe", "--consumer", "early", "--handler", "true", **environment)
    commands.push("x")
    commands.on_queue("subscribe", "--consumer", "others", "--handler", "true", "--filter", "source = 'self'", **environment)
    commands.on_queue("subscribe", "--consumer", "head", "--handler", "true", "--last-event-id", "1", **environment)
    assert not told.exists()
    assert commands.on_queue("subscribe", "--consumer", "late", "--handler", "true", **environment).stdout == "late\n"
    assert told.read_text().splitlines()[:2] == ["task", "add"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_looks_like_a_path_or_a_statement_is_a_name(commands: QuietQueueCommands, name: str) -> None:
    commands.push("x")
    outside = {file for file in commands.files() if not file.startswith("queue/")} | {
        str(file) for file in commands.folder.parent.iterdir()
    }
    commands.subscribe(name, acks(1))
    finished = commands.on_queue("dispatch")
    assert (finished.code, finished.stdout, finished.stderr) == (0, f"{name}: started\n", "")
    _idle(commands)
    assert [event["id"] for event in commands.pop(name, "--last-event-id", "0")] == [1]
    assert [entry["consumer_id"] for entry in commands.info()["subscriptions"]] == [name]
    assert all(file.is_file() for folder in ("run", "logs") for file in (commands.queue / folder).iterdir())
    assert commands.on_queue("unsubscribe", f"--consumer={name}").code == 0
    after = {file for file in commands.files() if not file.startswith("queue/")} | {str(file) for file in commands.folder.parent.iterdir()}
    assert after == outside


# dispatch


def test_dispatch_names_who_was_started_and_nobody_who_has_nothing_to_read(commands: QuietQueueCommands) -> None:
    commands.three(acks(3))
    commands.subscribe("nothing matches", "true", "--filter", "source = 'nobody'")
    commands.subscribe("head", "true", "--last-event-id", "3")
    finished = commands.on_queue("dispatch")
    assert (finished.code, sorted(finished.stdout.splitlines()), finished.stderr) == (0, ["all: started", "messages: started"], "")
    _idle(commands)


def test_dispatch_with_nothing_to_do_prints_nothing(commands: QuietQueueCommands) -> None:
    finished = commands.on_queue("dispatch")
    assert (finished.code, finished.stdout, finished.stderr) == (0, "", "")
    commands.push("for nobody")
    finished = commands.on_queue("dispatch")
    assert (finished.code, finished.stdout, finished.stderr) == (0, "", "")


def test_dispatch_skips_whose_handler_is_running_and_info_says_that_it_runs(commands: QuietQueueCommands) -> None:
    gate = Gate(commands.folder)
    commands.subscribe("busy", f"{HELD}; touch done")
    commands.push("x")
    assert [entry["running"] for entry in commands.info()["subscriptions"]] == [False]
    assert commands.on_queue("dispatch").stdout == "busy: started\n"
    assert commands.on_queue("dispatch").stdout == "busy: skipped (lock held)\n"
    eventually(lambda: [entry["running"] for entry in commands.info()["subscriptions"]] == [True])
    commands.on_queue("ack", "--consumer", "busy", "--last-event-id", "1")
    gate.open()
    eventually((commands.work("busy") / "done").exists)
    _idle(commands)
    assert commands.on_queue("dispatch").stdout == ""


def test_a_filter_that_went_bad_fails_its_own_consumer_and_no_other(commands: QuietQueueCommands) -> None:
    commands.push("x")
    for name in ("a", "bad", "z"):
        commands.subscribe(name, acks(1))
    commands.change("UPDATE subscriptions SET filter = 'no_such_column = 1' WHERE consumer_id = 'bad'")
    finished = commands.on_queue("dispatch")
    said = dict(line.split(": ", 1) for line in finished.stdout.splitlines())
    assert finished.code == 0
    assert (said["a"], said["z"]) == ("started", "started")
    assert re.fullmatch(r"failed \(.+\)", said["bad"])
    assert re.search(r"\[ERROR\] dispatch: consumer=bad filter: ", commands.log())
    assert commands.on_queue("pop", "--consumer", "bad").code == 1
    assert [event["id"] for event in commands.pop("z", "--last-event-id", "0")] == [1]
    trouble = {entry["consumer_id"]: entry["trouble"] for entry in commands.info()["subscriptions"]}
    assert (bool(trouble["bad"]), trouble["a"]) == (True, None)
    _idle(commands)


def test_dispatch_answers_programs_in_json(commands: QuietQueueCommands) -> None:
    commands.three(acks(3))
    finished = commands.on_queue("dispatch", "--json")
    assert (finished.code, finished.stderr) == (0, "")
    assert all(json.loads(line) for line in finished.stdout.splitlines())
    assert "messages" in finished.stdout
    _idle(commands)


# info


def test_info_tells_programs_everything(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.pop("messages", "--last-event-id", "1")
    commands.on_queue("ack", "--consumer", "all", "--last-event-id", "2")
    commands.on_queue("unsubscribe", "--consumer", "all")
    info = commands.told("thread", "info", "--thread", "queue")
    (progress,) = (entry for entry in info["progress"] if entry["consumer_id"] == "messages")
    (gone,) = (entry for entry in info["progress"] if entry["consumer_id"] == "all")
    assert STAMP.fullmatch(progress["updated_at"])
    assert STAMP.fullmatch(gone["updated_at"])
    subscription = {
        "consumer_id": "messages",
        "handler_cmd": "true",
        "filter": "type = 'message'",
        "last_acked_id": 1,
        "updated_at": progress["updated_at"],
        "running": False,
        "trouble": None,
        "waiting_since": commands.journal()[2]["created_at"],
        "waiting_because": "nothing has dispatched it: the notifier of THREAD_NOTIFIER does that, or `thread dispatch`",
        "running_since": None,
        "pid": None,
        "last_run": None,
        "output": None,
        "dead_events": 0,
        "timeout_seconds": None,
        "max_tries": 20,
    }
    assert info == {
        "thread": str(commands.queue.resolve()),
        "total_events": 3,
        "last_event_id": 3,
        "subscriptions": [subscription],
        "progress": [{"consumer_id": "all", "last_acked_id": 2, "updated_at": gone["updated_at"]}, progress],
    }


def test_info_of_an_empty_queue(commands: QuietQueueCommands) -> None:
    expected = {"thread": str(commands.queue.resolve()), "total_events": 0, "last_event_id": 0, "subscriptions": [], "progress": []}
    assert commands.told("thread", "--json", "info", "--thread", "queue") == expected


def test_info_tells_people_what_there_is(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.pop("messages", "--last-event-id", "1")
    finished = commands.on_queue("info")
    assert (finished.code, finished.stderr) == (0, "")
    for words in (str(commands.queue.resolve()), "3", "all", "messages", "type = 'message'", "true"):
        assert words in finished.stdout, words


def test_info_shows_people_nothing_that_steers_the_terminal(commands: QuietQueueCommands) -> None:
    commands.subscribe("worker", f"echo '{ATTACK}'", f"--filter=content = '{ATTACK}'")
    commands.change("INSERT INTO subscriptions VALUES (?, ?, ?)", f"by\n{ATTACK}", ATTACK, ATTACK)
    finished = commands.on_queue("info")
    assert (finished.code, finished.stderr) == (0, "")
    assert not HARMFUL & set(finished.stdout), finished.stdout
    assert [entry["handler_cmd"] for entry in commands.info()["subscriptions"] if entry["consumer_id"] == "worker"] == [f"echo '{ATTACK}'"]


# every command


def test_json_stands_before_or_after_the_command(commands: QuietQueueCommands) -> None:
    commands.three()
    for argv in (
        ("info", "--thread", "queue"),
        ("peek", "--thread", "queue", "--last-event-id", "0"),
        ("pop", "--thread=queue", "--consumer=all"),
    ):
        before, after = commands.thread("--json", *argv), commands.thread(*argv, "--json")
        assert (before.code, before.stdout, before.stderr) == (after.code, after.stdout, after.stderr)
        assert all(json.loads(line) for line in before.stdout.splitlines())
    assert ids(commands.thread("--json", "peek", "--thread", "queue", "--last-event-id", "2")) == [3]
