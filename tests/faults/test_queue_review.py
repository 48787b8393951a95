"""What a reviewer with fresh eyes found: each was seen to go wrong once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import InvalidInput
from postroom.queues.notifier import open_notifier
from tests.cli.process import LIMIT, eventually
from tests.cli.queue_process import COMMANDS, UNSCHEDULED, BusyOffice

RECORD = ("--source", "self", "--type", "record", "--content", "x")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[BusyOffice]:
    with BusyOffice(tmp_path) as office:
        office.init()
        yield office


def test_a_runner_keeps_no_file_of_whoever_started_it_open(office: BusyOffice) -> None:
    with open(office.folder / "lock", "w") as lock:
        argv = [*COMMANDS["notifier"], "task", "add", "--author", "a", "--task-id", "t", "--command", "ls -l /proc/self/fd"]
        subprocess.run(argv, env=office.environment(), pass_fds=(lock.fileno(),), check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    eventually(lambda: bool(office.told("notifier", "task", "runs")["runs"]))
    (run,) = office.told("notifier", "task", "runs")["runs"]
    assert str(office.folder / "lock") not in run["output"]


def test_a_queue_that_is_deleted_while_its_handler_rests_stays_deleted_and_its_successor_is_left_alone(office: BusyOffice) -> None:
    office.subscribe("c", "echo run >> runs; exit 1")
    office.push(**UNSCHEDULED)
    office.on_queue("dispatch", THREAD_BACKOFF_SECONDS="0.3")
    eventually(lambda: (office.queue / "runs").exists() and "no progress" in office.log())
    supervisor = office.supervisor("c")
    shutil.rmtree(office.queue)
    eventually(lambda: supervisor not in office.processes())
    assert not office.queue.exists()
    office.init()
    assert not (office.queue / "runs").exists()


def test_a_note_about_events_that_are_gone_hides_no_others(office: BusyOffice) -> None:
    with queues.open_queue(str(office.queue)) as queue:
        queues.push_batch(queue, [{"content": "x"}] * 2000, source="self", type="record")
        queues.subscribe(queue, "c", handler="true", filter="type = 'message'")
        assert queues.pop(queue, "c") == ()
    assert (office.queue / "run" / "c.clear").exists()
    for file in office.queue.glob("events.db*"):
        file.unlink() if file.is_file() else shutil.rmtree(file)
    office.init()
    with queues.open_queue(str(office.queue)) as queue:
        queues.push_batch(queue, [{"content": "x"}] * 2500, source="self", type="message")
        queues.subscribe(queue, "c", handler="true", filter="type = 'message'")
        assert [event.id for event in queues.pop(queue, "c", limit=2)] == [1, 2]


def test_a_follower_whose_reader_has_gone_ends(office: BusyOffice) -> None:
    office.push("one", **UNSCHEDULED)
    follow = [*COMMANDS["thread"], "follow", "--thread", str(office.queue), "--last-event-id", "0"]
    process = subprocess.Popen(follow, env=office.environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    office.push("two", **UNSCHEDULED)
    assert process.wait(LIMIT) == 0


def test_a_runner_that_was_to_stay_is_brought_back_by_whoever_looks(office: BusyOffice) -> None:
    first = office.told("notifier", "start")["pid"]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: office.told("notifier", "status")["pid"] not in (first, None))


def test_a_supervisor_that_is_killed_while_nothing_else_happens_is_followed_by_another(office: BusyOffice) -> None:
    handler = "echo run >> runs; test $(wc -l < runs) -gt 1 || sleep 600; thread ack --last-event-id 1"
    office.subscribe("c", handler)
    office.push()
    eventually(lambda: (office.queue / "runs").exists() and office.held("c"))
    os.kill(office.supervisor("c"), signal.SIGKILL)
    eventually(lambda: office.info()["subscriptions"][0]["last_acked_id"] == 1)


def test_a_handler_that_cannot_be_started_is_told_in_the_log_and_in_info(office: BusyOffice) -> None:
    office.subscribe("c", "true")
    (office.queue / "logs" / "c.out").mkdir()
    office.push(**UNSCHEDULED)
    office.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "could not be started" in office.log())
    eventually(lambda: "c.out" in (office.info()["subscriptions"][0]["trouble"] or ""))


def test_a_handler_that_was_mended_does_not_wait_for_the_broken_ones_pause(office: BusyOffice) -> None:
    office.subscribe("c", "exit 1")
    office.push(**UNSCHEDULED)
    office.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "no progress" in office.log())
    assert office.on_queue("unsubscribe", "--consumer", "c").code == 0
    office.subscribe("c", "thread ack --last-event-id 1")
    eventually(lambda: office.info()["subscriptions"][0]["last_acked_id"] == 1)


def test_one_who_rests_is_not_called_running_and_info_says_until_when(office: BusyOffice) -> None:
    office.subscribe("c", "exit 1")
    office.push(**UNSCHEDULED)
    office.on_queue("dispatch", THREAD_BACKOFF_SECONDS="600")
    eventually(lambda: "the next is at" in (office.info()["subscriptions"][0]["trouble"] or ""))
    assert office.info()["subscriptions"][0]["running"] is False
    os.kill(office.supervisor("c"), signal.SIGKILL)


@pytest.mark.parametrize(
    "fragment", ["\"typo\" = 'x'", 'type = "message"', "instr(content, content || 'b') > 0", "trim(content, content) = ''"]
)
def test_what_misleads_or_takes_for_ever_in_one_step_is_refused(office: BusyOffice, fragment: str) -> None:
    with queues.open_queue(str(office.queue)) as queue, pytest.raises(InvalidInput):
        queues.peek(queue, last_event_id=0, filter=fragment)


def test_names_may_stand_in_double_quotes_and_texts_may_hold_them(office: BusyOffice) -> None:
    office.push('say "hi"', **UNSCHEDULED)
    with queues.open_queue(str(office.queue)) as queue:
        assert len(queues.peek(queue, last_event_id=0, filter='"content" = \'say "hi"\'')) == 1


def test_a_batch_may_begin_with_the_mark_that_some_editors_write(office: BusyOffice) -> None:
    lines = b'\xef\xbb\xbf{"content": "x"}\n'
    assert office.on_queue("push", "--batch", *RECORD[:4], stdin=lines, **UNSCHEDULED).stdout == "1\n"


def test_what_is_open_does_not_grow(office: BusyOffice) -> None:
    with queues.open_queue(str(office.queue)) as queue:
        for _ in range(3):
            queues.push(queue, source="self", type="record", content="x")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            (office.queue / "run" / ".tracks").unlink()
            queues.push(queue, source="self", type="record", content="x")
            queues.peek(queue, last_event_id=0, filter="id > 1")
        assert len(os.listdir("/proc/self/fd")) <= before + 5  # the connection for filters, and its files


def test_a_queue_that_is_gone_is_called_so_by_one_who_follows_it(office: BusyOffice) -> None:
    follower = office.start("thread", "follow", "--thread", str(office.queue))
    eventually((office.queue / "events.db.bells").exists)
    shutil.rmtree(office.queue)
    follower.process.send_signal(signal.SIGTERM)
    assert "fault of ours" not in follower.finish().stderr


def test_a_notifier_whose_lock_cannot_be_opened_is_trouble_with_storage(office: BusyOffice) -> None:
    with open_notifier(str(office.home)):
        pass
    (office.home / "runner.lock").mkdir()
    office.refuses(50, "notifier", "status")
    (office.home / "runner.lock").rmdir()


def test_commands_and_their_output_are_nobody_elses_business(office: BusyOffice) -> None:
    with open_notifier(str(office.home)):
        assert (office.home.stat().st_mode & 0o777) == 0o700
