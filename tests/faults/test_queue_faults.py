"""The faults of the program that event queues come from, each as it was found there. None may be here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom import queues
from postroom.queues import notifier
from tests.cli.notifier_process import add, adding, ended, runs, tasks
from tests.cli.process import eventually
from tests.cli.queue_process import UNSCHEDULED, BusyOffice, acking, lines, reader
from tests.faults.children import Child

SLASHED = "external:telegram:tg-main:group:grp-123/topic-456:alice"  # the document's own example
EVENT = b'{"source": "self", "type": "record", "content": "x"}\n'


@pytest.fixture
def office(tmp_path: Path) -> Iterator[BusyOffice]:
    with BusyOffice(tmp_path) as made:
        made.init()
        yield made


def seen(office: BusyOffice, consumer: str = "") -> list[int]:
    file = office.folder / f"seen{consumer}"
    return [event["id"] for event in lines(file.read_text())] if file.exists() else []


def subscribe_reader(office: BusyOffice, consumer: str = "c", *more: str) -> None:
    office.subscribe(consumer, reader(office.folder / f"seen{'' if consumer == 'c' else consumer}"), *more)


# `run/<consumer>.lock` is never removed: a handler ran once for three dispatches, then never again.


def test_a_handler_runs_for_each_of_three_dispatches(office: BusyOffice) -> None:
    subscribe_reader(office)
    for number in (1, 2, 3):
        office.push(**UNSCHEDULED)
        assert office.on_queue("dispatch").stdout == "c: started\n"
        eventually(lambda number=number: seen(office) == list(range(1, number + 1)) and not office.held("c"))  # type: ignore[misc]


def test_a_handler_runs_for_each_of_three_pushes(office: BusyOffice) -> None:
    subscribe_reader(office)
    for number in (1, 2, 3):
        office.push()
        eventually(lambda number=number: seen(office) == list(range(1, number + 1)))  # type: ignore[misc]


# A `/` in the source crashes the notifier with exit 1, which `push` reads as "already queued": the event is stored and nobody is told.


def test_an_event_whose_source_has_a_slash_is_dispatched(office: BusyOffice) -> None:
    subscribe_reader(office)
    office.push(source=SLASHED)
    eventually(lambda: seen(office) == [1])
    eventually(lambda: [run["outcome"] for run in runs(office) if run["author"] == SLASHED] == ["ok"])


def test_a_notifier_that_crashes_with_exit_1_is_not_taken_for_already_queued(office: BusyOffice) -> None:
    crash = office.folder / "crashing"
    crash.write_text("#!/bin/sh\necho \"Error: ENOENT: open '/x/author/grp-123/topic-456.json'\" >&2\nexit 1\n")
    crash.chmod(0o755)
    finished = office.on_queue("push", "--source", SLASHED, "--type", "message", "--content", "x", THREAD_NOTIFIER=str(crash))
    assert (finished.code, finished.stdout) == (1, "1\n")
    assert "stored" in finished.stderr


# De-duplication is by author + task id, so 24 sources queued 24 dispatches.


def test_twenty_four_sources_queue_one_dispatch(office: BusyOffice) -> None:
    office.start("notifier", "start")
    eventually(lambda: office.told("notifier", "status")["resident"] is True)
    pid = office.runner()
    os.kill(pid, signal.SIGSTOP)
    for number in range(24):
        office.push(source=f"internal:dm:default:agent-{number}")
    assert len(tasks(office)) == 1
    os.kill(pid, signal.SIGCONT)
    ended(office, 1)


# A push while the dispatch runs is lost as a wake-up.


def test_a_task_that_is_added_while_it_runs_is_run_again(office: BusyOffice) -> None:
    command = f"cd '{office.folder}'; echo x >> log; test -e second || {{ touch first; until test -e second; do sleep 0.02; done; }}"
    add(office, command)
    eventually((office.folder / "first").exists)
    add(office, command)
    (office.folder / "second").touch()
    ended(office, 2)
    assert (office.folder / "log").read_text() == "x\nx\n"


def test_no_push_is_lost_as_a_wake_up_however_they_fall(office: BusyOffice) -> None:
    """Each round ends when all is read: a lost wake-up would leave it waiting, for nobody pushes any more."""
    subscribe_reader(office)
    for count in (3, 6, 9):
        pushes = [office.start("thread", "push", "--thread", str(office.queue), "--source", "self", "--type", "record", "--content", "x")]
        pushes += [office.start(*_pushing(office)) for _ in range(2)]
        assert [waiter.finish().code for waiter in pushes] == [0, 0, 0]
        eventually(lambda count=count: seen(office) == list(range(1, count + 1)))  # type: ignore[misc]


def _pushing(office: BusyOffice) -> list[str]:
    return ["thread", "push", "--thread", str(office.queue), "--source", SLASHED, "--type", "message", "--content", "x"]


def test_who_looks_at_a_queue_does_not_make_a_dispatch_pass_its_consumer_by(office: BusyOffice) -> None:
    """To ask whether a handler runs must not itself look like a handler that runs."""
    program = """
from postroom import queues
from postroom.queues import notifier
queue = queues.open_queue(sys.argv[1])
say("READY")
while True:
    queues.info(queue)
"""
    subscribe_reader(office)
    with Child(program, office.queue).ready(), Child(program, office.queue).ready():
        for number in range(1, 11):
            office.push(**UNSCHEDULED)
            assert office.on_queue("dispatch").stdout == "c: started\n"
            eventually(lambda number=number: len(seen(office)) == number and not office.held("c"))  # type: ignore[misc]


def test_who_looks_at_the_notifier_does_not_keep_its_runner_from_being_started(office: BusyOffice) -> None:
    program = """
from postroom.queues import notifier
opened = notifier.open_notifier(sys.argv[1])
say("READY")
while True:
    notifier.status(opened)
"""
    log = office.folder / "log"
    with Child(program, office.home).ready(), Child(program, office.home).ready():
        for number in range(1, 31):
            add(office, f"echo {number} >> '{log}'")
            eventually(lambda number=number: log.exists() and f"{number}\n" in log.read_text())  # type: ignore[misc]


def test_the_process_of_the_runner_is_never_told_as_0(office: BusyOffice) -> None:
    """Whoever signals 0 signals everybody around."""
    told: set[int | None] = set()

    def up() -> bool:
        told.add(notifier.status(opened).pid)
        return max(pid or 0 for pid in told) > 1

    with closing(notifier.open_notifier(str(office.home))) as opened:
        for _ in range(3):
            told.clear()
            waiter = office.start("notifier", "start")
            eventually(up)
            assert 0 not in told
            waiter.finish()
            os.kill(office.runner(), signal.SIGKILL)


# One bad filter starves every consumer after it.


def test_one_bad_filter_starves_nobody(office: BusyOffice) -> None:
    subscribe_reader(office, "a-bad", "--filter", "json_extract(content, '$.x') = 1")
    for consumer in ("b", "c", "d"):
        subscribe_reader(office, consumer)
    office.push("not json")
    eventually(lambda: seen(office, "b") == seen(office) == seen(office, "d") == [1])
    assert seen(office, "a-bad") == []


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
def test_a_filter_reads_the_columns_of_events_and_nothing_else(office: BusyOffice, filter: str) -> None:
    office.push(**UNSCHEDULED)
    office.refuses(2, "thread", "peek", "--thread", str(office.queue), "--last-event-id", "0", "--filter", filter)
    office.refuses(2, "thread", "subscribe", "--thread", str(office.queue), "--consumer", "c", "--handler", "true", "--filter", filter)
    assert (office.info()["total_events"], office.info()["subscriptions"]) == (1, [])


# `pop` accepts a cursor beyond the head and moves backwards.


@pytest.mark.parametrize("command", ["pop", "ack"])
def test_a_cursor_beyond_the_head_is_refused_and_moves_nothing(office: BusyOffice, command: str) -> None:
    office.subscribe("c")
    office.push(**UNSCHEDULED)
    office.refuses(1, "thread", command, "--thread", str(office.queue), "--consumer", "c", "--last-event-id", "2")
    assert [event["id"] for event in office.pop("c")] == [1]


def test_a_cursor_never_moves_backwards(office: BusyOffice) -> None:
    office.subscribe("c")
    for _ in range(3):
        office.push(**UNSCHEDULED)
    office.pop("c", "--last-event-id", "2")
    assert [event["id"] for event in office.pop("c", "--last-event-id", "0")] == [1, 2, 3]
    assert office.on_queue("ack", "--consumer", "c", "--last-event-id", "1").stdout == "2\n"
    assert [event["id"] for event in office.pop("c")] == [3]


# `peek` on a wrong path creates a queue.


@pytest.mark.parametrize("command", ["push", "pop", "ack", "peek", "follow", "subscribe", "unsubscribe", "dispatch", "info"])
def test_no_command_creates_a_queue_on_a_wrong_path(office: BusyOffice, command: str) -> None:
    flags = {
        "push": ["--source", "self", "--type", "record", "--content", "x"],
        "peek": ["--last-event-id", "0"],
        "pop": ["--consumer", "c"],
        "ack": ["--consumer", "c", "--last-event-id", "0"],
        "subscribe": ["--consumer", "c", "--handler", "true"],
        "unsubscribe": ["--consumer", "c"],
    }.get(command, [])
    empty = office.folder / "empty"
    empty.mkdir()
    for wrong in (office.folder / "nowhere", empty):
        assert "thread init" in office.refuses(1, "thread", command, "--thread", str(wrong), *flags)["suggestion"]
    assert (list(empty.iterdir()), (office.folder / "nowhere").exists()) == ([], False)


# `push` prints no id; `--json` works only on `info`.


def test_push_prints_the_id_and_every_command_speaks_json(office: BusyOffice) -> None:
    assert office.under(UNSCHEDULED, "push", "--source", "self", "--type", "record", "--content", "x").stdout == "1\n"
    queue = str(office.queue)
    pushed = office.told("thread", "push", "--thread", queue, "--source", "self", "--type", "record", "--content", "x", **UNSCHEDULED)
    assert (pushed["id"], pushed["dispatch"]) == (2, "queued")
    subscribed = office.told("thread", "subscribe", "--thread", queue, "--consumer", "c", "--handler", "true", **UNSCHEDULED)
    assert subscribed == {"consumer_id": "c", "handler_cmd": "true", "filter": None}
    assert office.told("thread", "ack", "--thread", queue, "--consumer", "c", "--last-event-id", "1")["last_acked_id"] == 1
    assert office.told("thread", "pop", "--thread", queue, "--consumer", "c")["id"] == 2
    assert office.told("thread", "peek", "--thread", queue, "--last-event-id", "1")["id"] == 2
    assert office.told("thread", "info", "--thread", queue)["total_events"] == 2
    assert office.told("thread", "init", str(office.folder / "other")) == {"thread": str(office.folder / "other")}
    for command in (["dispatch"], ["unsubscribe", "--consumer", "c"]):
        assert office.on_queue(*command, "--json").code == 0


# A handler that prints 300 KB hangs the notifier.


@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_a_handler_that_prints_much_hangs_nothing(office: BusyOffice, size: int) -> None:
    office.subscribe("c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2; {reader(office.folder / 'seen')} > /dev/null")
    for number in (1, 2):
        office.push()
        eventually(lambda number=number: len(seen(office)) == number and not office.held("c"))  # type: ignore[misc]
    assert (office.queue / "logs" / "c.out").stat().st_size >= 4 * size
    office.runner_gone()


def test_a_task_that_prints_much_hangs_nothing(office: BusyOffice) -> None:
    add(office, "head -c 300000 /dev/zero | tr '\\0' x")
    assert (ended(office)[0]["outcome"], len(ended(office)[0]["output"])) == ("ok", 300_000)


# A newline in a command forges fields.


def test_a_newline_in_a_handler_forges_no_line_of_the_log(office: BusyOffice) -> None:
    forged = "[2026-03-18T10:30:00.123Z] [INFO] push: source=self type=record id=999"
    handler = f"{acking(1)}\n: '\n{forged}\n'"
    if office.on_queue("subscribe", "--consumer", "c", "--handler", handler).code == 0:
        office.push(**UNSCHEDULED)
        office.on_queue("dispatch")
        eventually(lambda: not office.held("c") and " ended " in office.log())
    assert forged not in office.log().splitlines()


def test_a_newline_in_a_command_forges_no_field_of_a_task(office: BusyOffice) -> None:
    command = "true\nauthor=root\ntask_id=other\n"
    add(office, command)
    (run,) = ended(office)
    assert (run["task_id"], run["author"], run["command"]) == ("job", "self", command)


# `../` in a name leaves the folder.


def test_no_name_leaves_its_folder(office: BusyOffice) -> None:
    name = "../../escaped"
    office.subscribe(name, f"echo out; {acking(1)}; touch '{office.folder}/ran'")
    office.push(**UNSCHEDULED)
    office.on_queue("dispatch")
    eventually((office.folder / "ran").exists)
    office.notifier(*adding("true", task=name, author=name))
    office.notifier("timer", "add", "--author", name, "--timer-id", name, "--cron", "0 0 1 1 *", "--command", "true")
    assert list(office.folder.parent.glob("*escaped*")) == []
    found = {file.parent for file in office.folder.rglob("*escaped*")}
    assert found == {office.queue / "run", office.queue / "logs"}


# `push` … reads the whole JSONL to count lines.


def test_a_push_does_not_read_the_journal(office: BusyOffice) -> None:
    batch = [{"source": "self", "type": "record", "content": "x" * 200}] * 9_000
    with closing(queues.open_queue(str(office.queue))) as queue:
        queues.push_batch(queue, batch)
    size = (office.queue / "events.jsonl").stat().st_size
    with closing(queues.open_queue(str(office.queue))) as queue:
        for _ in range(2):
            before = _read_so_far()
            queues.push(queue, source="self", type="record", content="x")
            assert _read_so_far() - before < size / 4


def _read_so_far() -> int:
    """How much this process has read from anywhere."""
    return int(Path("/proc/self/io").read_text().split()[1])


# Its own clients call `thread ack` and `pop` without a cursor, which do not exist.


def test_a_consumer_can_resume_and_ack_without_keeping_its_cursor(office: BusyOffice) -> None:
    office.subscribe("c")
    for _ in range(3):
        office.push(**UNSCHEDULED)
    assert [event["id"] for event in office.pop("c", "--limit", "2")] == [1, 2]
    assert [event["id"] for event in office.pop("c", "--limit", "2")] == [1, 2]
    answer = json.loads(office.on_queue("ack", "--consumer", "c", "--last-event-id", "2", "--json").stdout)
    assert (answer["consumer_id"], answer["last_acked_id"]) == ("c", 2)
    assert [event["id"] for event in office.pop("c")] == [3]
