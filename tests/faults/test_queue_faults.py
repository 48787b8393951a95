"""The faults of the program that event queues come from, each as it was found there. None may be here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom.queues import notifier
from postroom.queues.handler_process import KEPT_OUTPUT_BYTES, MAX_OUTPUT_BYTES
from tests.cli.notifier_process import add, adding, ended, runs, tasks
from tests.cli.process import eventually, suspend
from tests.cli.queue_process import UNSCHEDULED, BusyQueueCommands, acking, end, lines, reader
from tests.faults.children import BarrierProcess

SLASHED = "external:telegram:tg-main:group:grp-123/topic-456:alice"  # the document's own example
EVENT = b'{"source": "self", "type": "record", "content": "x"}\n'


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


def seen(commands: BusyQueueCommands, consumer: str = "") -> list[int]:
    file = commands.folder / f"seen{consumer}"
    return [event["id"] for event in lines(file.read_text())] if file.exists() else []


def subscribe_reader(commands: BusyQueueCommands, consumer: str = "c", *more: str) -> None:
    commands.subscribe(consumer, reader(commands.folder / f"seen{'' if consumer == 'c' else consumer}"), *more)


# `run/<consumer>.lock` is never removed: a handler ran once for three dispatches, then never again.


def test_a_handler_runs_for_each_of_three_dispatches(commands: BusyQueueCommands) -> None:
    subscribe_reader(commands)
    for number in (1, 2, 3):
        commands.push(**UNSCHEDULED)
        assert commands.on_queue("dispatch").stdout == "c: started\n"
        eventually(lambda number=number: seen(commands) == list(range(1, number + 1)) and not commands.held("c"))  # type: ignore[misc]


def test_a_handler_runs_for_each_of_three_pushes(commands: BusyQueueCommands) -> None:
    subscribe_reader(commands)
    for number in (1, 2, 3):
        commands.push()
        eventually(lambda number=number: seen(commands) == list(range(1, number + 1)))  # type: ignore[misc]


# A `/` in the source crashes the notifier with exit 1, which `push` reads as "already queued": the event is stored and nobody is told.


def test_an_event_whose_source_has_a_slash_is_dispatched(commands: BusyQueueCommands) -> None:
    subscribe_reader(commands)
    commands.push(source=SLASHED)
    eventually(lambda: seen(commands) == [1])
    eventually(lambda: [run["outcome"] for run in runs(commands) if run["author"] == SLASHED] == ["ok"])


def test_a_notifier_that_crashes_is_not_taken_for_already_queued(commands: BusyQueueCommands) -> None:
    crash = commands.folder / "crashing"
    crash.write_text("#!/bin/sh\necho \"Error: ENOENT: open '/x/author/grp-123/topic-456.json'\" >&2\nexit 2\n")
    crash.chmod(0o755)
    finished = commands.on_queue("push", "--source", SLASHED, "--type", "message", "--content", "x", THREAD_NOTIFIER=str(crash))
    assert (finished.code, finished.stdout) == (1, "1\n")
    assert "stored" in finished.stderr


# De-duplication is by author + task id, so 24 sources queued 24 dispatches.


def test_twenty_four_sources_queue_one_dispatch(commands: BusyQueueCommands) -> None:
    commands.start("notifier", "start")
    eventually(lambda: commands.told("notifier", "status")["resident"] is True)
    pid = commands.runner()
    suspend(pid)
    for number in range(24):
        commands.push(source=f"internal:dm:default:agent-{number}")
    assert len(tasks(commands)) == 1
    os.kill(pid, signal.SIGCONT)
    ended(commands, 1)


# A push while the dispatch runs is lost as a wake-up.


def test_a_task_that_is_added_while_it_runs_is_run_again(commands: BusyQueueCommands) -> None:
    command = f"cd '{commands.folder}'; echo x >> log; test -e second || {{ touch first; until test -e second; do sleep 0.02; done; }}"
    add(commands, command)
    eventually((commands.folder / "first").exists)
    add(commands, command)
    (commands.folder / "second").touch()
    ended(commands, 2)
    assert (commands.folder / "log").read_text() == "x\nx\n"


def test_no_push_is_lost_as_a_wake_up_however_they_fall(commands: BusyQueueCommands) -> None:
    """Each round ends when all is read: a lost wake-up would leave it waiting, for nobody pushes any more."""
    subscribe_reader(commands)
    for count in (3, 6, 9):
        pushes = [
            commands.start("thread", "push", "--thread", str(commands.queue), "--source", "self", "--type", "record", "--content", "x")
        ]
        pushes += [commands.start(*_pushing(commands)) for _ in range(2)]
        assert [waiter.finish().code for waiter in pushes] == [0, 0, 0]
        eventually(lambda count=count: seen(commands) == list(range(1, count + 1)))  # type: ignore[misc]


def _pushing(commands: BusyQueueCommands) -> list[str]:
    return ["thread", "push", "--thread", str(commands.queue), "--source", SLASHED, "--type", "message", "--content", "x"]


def test_who_looks_at_a_queue_does_not_make_a_dispatch_pass_its_consumer_by(commands: BusyQueueCommands) -> None:
    """To ask whether a handler runs must not itself look like a handler that runs."""
    program = """
from postroom import queues
from postroom.queues import notifier
queue = queues.open_queue(sys.argv[1])
say("READY")
while True:
    queues.info(queue)
"""
    subscribe_reader(commands)
    with BarrierProcess(program, commands.queue).ready(), BarrierProcess(program, commands.queue).ready():
        for number in range(1, 11):
            commands.push(**UNSCHEDULED)
            assert commands.on_queue("dispatch").stdout == "c: started\n"
            eventually(lambda number=number: len(seen(commands)) == number and not commands.held("c"))  # type: ignore[misc]


def test_who_looks_at_the_notifier_does_not_keep_its_runner_from_being_started(commands: BusyQueueCommands) -> None:
    program = """
from postroom.queues import notifier
opened = notifier.open_notifier(sys.argv[1])
say("READY")
while True:
    notifier.status(opened)
"""
    log = commands.folder / "log"
    with BarrierProcess(program, commands.home).ready(), BarrierProcess(program, commands.home).ready():
        for number in range(1, 31):
            add(commands, f"echo {number} >> '{log}'")
            eventually(lambda number=number: log.exists() and f"{number}\n" in log.read_text())  # type: ignore[misc]


def test_the_process_of_the_runner_is_never_told_as_0(commands: BusyQueueCommands) -> None:
    """A signal to process 0 goes to the whole group."""
    told: set[int | None] = set()

    def up() -> bool:
        told.add(notifier.status(opened).pid)
        return max(pid or 0 for pid in told) > 1

    with closing(notifier.open_notifier(str(commands.home))) as opened:
        for _ in range(3):
            told.clear()
            waiter = commands.start("notifier", "start", NOTIFIER_IDLE_SECONDS="3600")  # it must not end before it is killed
            eventually(up)
            assert 0 not in told
            waiter.finish()
            end(commands.runner())


# One bad filter starves every consumer after it.


def test_one_bad_filter_starves_nobody(commands: BusyQueueCommands) -> None:
    subscribe_reader(commands, "a-bad", "--filter", "json_extract(content, '$.x') = 1")
    for consumer in ("b", "c", "d"):
        subscribe_reader(commands, consumer)
    commands.push("not json")
    eventually(lambda: seen(commands, "b") == seen(commands) == seen(commands, "d") == [1])
    assert seen(commands, "a-bad") == []


# Filters can read other tables.


@pytest.mark.parametrize(
    "filter",
    [
        "EXISTS (SELECT 1 FROM subscriptions)",
        "(SELECT max(last_acked_id) FROM consumer_progress) >= 0",
        "(SELECT count(*) FROM sqlite_master) > 0",
        "(SELECT count(*) FROM sqlite_schema) > 0",
        "(SELECT count(*) FROM pragma_table_info('events')) > 0",
        "id IN (SELECT value FROM json_each('[1]'))",
        "1) UNION SELECT 1, consumer_id, handler_cmd, filter, '', '' FROM subscriptions WHERE (1",
        "1; DELETE FROM events",
        "1) --",
        "load_extension('x') IS NULL",
    ],
)
def test_a_filter_reads_the_columns_of_events_and_nothing_else(commands: BusyQueueCommands, filter: str) -> None:
    commands.push(**UNSCHEDULED)
    commands.refuses(2, "thread", "peek", "--thread", str(commands.queue), "--last-event-id", "0", "--filter", filter)
    commands.refuses(2, "thread", "subscribe", "--thread", str(commands.queue), "--consumer", "c", "--handler", "true", "--filter", filter)
    assert (commands.info()["total_events"], commands.info()["subscriptions"]) == (1, [])


# `pop` accepts a cursor beyond the head and moves backwards.


@pytest.mark.parametrize("command", ["pop", "ack"])
def test_a_cursor_beyond_the_head_is_refused_and_moves_nothing(commands: BusyQueueCommands, command: str) -> None:
    commands.subscribe("c")
    commands.push(**UNSCHEDULED)
    commands.refuses(1, "thread", command, "--thread", str(commands.queue), "--consumer", "c", "--last-event-id", "2")
    assert [event["id"] for event in commands.pop("c")] == [1]


def test_a_cursor_never_moves_backwards(commands: BusyQueueCommands) -> None:
    commands.subscribe("c")
    for _ in range(3):
        commands.push(**UNSCHEDULED)
    commands.pop("c", "--last-event-id", "2")
    assert [event["id"] for event in commands.pop("c", "--last-event-id", "0")] == [1, 2, 3]
    assert commands.on_queue("ack", "--consumer", "c", "--last-event-id", "1").stdout == "2\n"
    assert [event["id"] for event in commands.pop("c")] == [3]


# `peek` on a wrong path creates a queue.


@pytest.mark.parametrize("command", ["push", "pop", "ack", "peek", "follow", "subscribe", "unsubscribe", "dispatch", "info"])
def test_no_command_creates_a_queue_on_a_wrong_path(commands: BusyQueueCommands, command: str) -> None:
    flags = {
        "push": ["--source", "self", "--type", "record", "--content", "x"],
        "peek": ["--last-event-id", "0"],
        "pop": ["--consumer", "c"],
        "ack": ["--consumer", "c", "--last-event-id", "0"],
        "subscribe": ["--consumer", "c", "--handler", "true"],
        "unsubscribe": ["--consumer", "c"],
    }.get(command, [])
    empty = commands.folder / "empty"
    empty.mkdir()
    for wrong in (commands.folder / "nowhere", empty):
        assert "thread init" in commands.refuses(1, "thread", command, "--thread", str(wrong), *flags)["suggestion"]
    assert (list(empty.iterdir()), (commands.folder / "nowhere").exists()) == ([], False)


# `push` prints no id; `--json` works only on `info`.


def test_push_prints_the_id_and_every_command_speaks_json(commands: BusyQueueCommands) -> None:
    assert commands.under(UNSCHEDULED, "push", "--source", "self", "--type", "record", "--content", "x").stdout == "1\n"
    queue = str(commands.queue)
    pushed = commands.told("thread", "push", "--thread", queue, "--source", "self", "--type", "record", "--content", "x", **UNSCHEDULED)
    assert (pushed["id"], pushed["dispatch"]) == (2, "queued")
    subscribed = commands.told("thread", "subscribe", "--thread", queue, "--consumer", "c", "--handler", "true", **UNSCHEDULED)
    assert subscribed == {"consumer_id": "c", "handler_cmd": "true", "filter": None}
    assert commands.told("thread", "ack", "--thread", queue, "--consumer", "c", "--last-event-id", "1")["last_acked_id"] == 1
    assert commands.told("thread", "pop", "--thread", queue, "--consumer", "c")["id"] == 2
    assert commands.told("thread", "peek", "--thread", queue, "--last-event-id", "1")["id"] == 2
    assert commands.told("thread", "info", "--thread", queue)["total_events"] == 2
    assert commands.told("thread", "init", str(commands.folder / "other")) == {"thread": str(commands.folder / "other")}
    for command in (["dispatch"], ["unsubscribe", "--consumer", "c"]):
        assert commands.on_queue(*command, "--json").code == 0


# A handler that prints 300 KB hangs the notifier.


@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_a_handler_that_prints_much_hangs_nothing(commands: BusyQueueCommands, size: int) -> None:
    commands.subscribe("c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2; {reader(commands.folder / 'seen')} > /dev/null")
    for number in (1, 2):
        commands.push()
        eventually(lambda number=number: len(seen(commands)) == number and not commands.held("c"))  # type: ignore[misc]
    assert min(4 * size, KEPT_OUTPUT_BYTES) <= (commands.queue / "logs" / "c.out").stat().st_size <= MAX_OUTPUT_BYTES
    commands.runner_gone()


def test_a_task_that_prints_much_hangs_nothing(commands: BusyQueueCommands) -> None:
    add(commands, "head -c 60000 /dev/zero | tr '\\0' x")
    assert (ended(commands)[0]["outcome"], len(ended(commands)[0]["output"])) == ("ok", 60_000)


# A newline in a command forges fields.


def test_a_newline_in_a_handler_forges_no_line_of_the_log(commands: BusyQueueCommands) -> None:
    forged = "[2026-03-18T10:30:00.123Z] [INFO] push: source=self type=record id=999"
    handler = f"{acking(1)}\n: '\n{forged}\n'"
    if commands.on_queue("subscribe", "--consumer", "c", "--handler", handler).code == 0:
        commands.push(**UNSCHEDULED)
        commands.on_queue("dispatch")
        eventually(lambda: not commands.held("c") and " ended " in commands.log())
    assert forged not in commands.log().splitlines()


def test_a_newline_in_a_command_forges_no_field_of_a_task(commands: BusyQueueCommands) -> None:
    command = "true\nauthor=root\ntask_id=other\n"
    add(commands, command)
    (run,) = ended(commands)
    assert (run["task_id"], run["author"], run["command"]) == ("job", "self", command)


# `../` in a name leaves the folder.


def test_no_name_leaves_its_folder(commands: BusyQueueCommands) -> None:
    name = "../../escaped"
    commands.subscribe(name, f"echo out; {acking(1)}; touch '{commands.folder}/ran'")
    commands.push(**UNSCHEDULED)
    commands.on_queue("dispatch")
    eventually((commands.folder / "ran").exists)
    commands.notifier(*adding("true", task=name, author=name))
    commands.notifier("timer", "add", "--author", name, "--timer-id", name, "--cron", "0 0 1 1 *", "--command", "true")
    assert list(commands.folder.parent.glob("*escaped*")) == []
    found = {file.parent for file in commands.folder.rglob("*escaped*")}
    assert found == {commands.queue / "run", commands.queue / "logs", commands.queue / "handlers"}


# Its own clients call `thread ack` and `pop` without a cursor, which do not exist.


def test_a_consumer_can_resume_and_ack_without_keeping_its_cursor(commands: BusyQueueCommands) -> None:
    commands.subscribe("c")
    for _ in range(3):
        commands.push(**UNSCHEDULED)
    assert [event["id"] for event in commands.pop("c", "--limit", "2")] == [1, 2]
    assert [event["id"] for event in commands.pop("c", "--limit", "2")] == [1, 2]
    answer = json.loads(commands.on_queue("ack", "--consumer", "c", "--last-event-id", "2", "--json").stdout)
    assert (answer["consumer_id"], answer["last_acked_id"]) == ("c", 2)
    assert [event["id"] for event in commands.pop("c")] == [3]
