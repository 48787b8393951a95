"""`thread dispatch`: handlers are started, one of each consumer at a time, and again while there is something to do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.mailbox_process import Gate, alive, written
from tests.cli.process import eventually
from tests.cli.queue_process import OURS, THREAD, UNSCHEDULED, BusyOffice, acking, lines, reader

BIN = Path(sys.executable).parent
LARGE = {"THREAD_BACKOFF_SECONDS": "250"}  # no test takes this long: whoever is backed off stays so
SMALL = {"THREAD_BACKOFF_SECONDS": "0.001"}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[BusyOffice]:
    with BusyOffice(tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def wait_for(office: BusyOffice) -> str:
    """The line of a handler that waits at the gate."""
    return f"read go < '{office.folder}/gate'"


def dispatch(office: BusyOffice, **environment: str) -> str:
    finished = office.under(environment, "dispatch")
    assert (finished.code, finished.stderr) == (0, ""), finished
    return finished.stdout


def counted(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def ids(file: Path) -> list[int]:
    return [event["id"] for event in lines(file.read_text())] if file.exists() else []


def progress(office: BusyOffice, consumer: str = "c") -> int:
    found = [entry["last_acked_id"] for entry in office.info()["progress"] if entry["consumer_id"] == consumer]
    return int(found[0]) if found else 0


# who is started, and by whom


def test_a_push_alone_starts_the_handler_though_nobody_started_a_daemon(office: BusyOffice) -> None:
    office.subscribe("c", reader(office.folder / "seen"))
    office.push("hello")
    assert '"content": "hello"' in written(office.folder / "seen")
    eventually(lambda: not office.held("c"))
    assert progress(office) == 1


def test_dispatch_starts_the_handler_of_each_consumer_with_unread_events(office: BusyOffice) -> None:
    for consumer in ("a", "b"):
        office.subscribe(consumer, f'{acking(1)}; echo "$THREAD_CONSUMER" > seen.$THREAD_CONSUMER')
    office.push(**UNSCHEDULED)
    assert sorted(dispatch(office).splitlines()) == ["a: started", "b: started"]
    assert [written(office.queue / f"seen.{consumer}") for consumer in ("a", "b")] == ["a", "b"]


def test_who_has_read_everything_or_has_a_filter_that_nothing_matches_is_left_alone(office: BusyOffice) -> None:
    office.subscribe("done", "touch ran")
    office.subscribe("choosy", "touch ran", "--filter", "type = 'record'")
    office.push(**UNSCHEDULED)
    office.pop("done", "--last-event-id", "1")
    assert dispatch(office) == ""
    assert not (office.queue / "ran").exists()


def test_dispatch_with_nobody_subscribed_says_nothing(office: BusyOffice) -> None:
    office.push(**UNSCHEDULED)
    assert dispatch(office) == ""


def test_dispatch_does_not_wait_for_the_handler(office: BusyOffice, gate: Gate) -> None:
    """Nor does a reader of its output: it hands its pipes to nobody."""
    office.subscribe("c", f"{wait_for(office)}; {acking(1)}; echo ended")
    office.push(**UNSCHEDULED)
    assert dispatch(office) == "c: started\n"
    gate.open()
    eventually(lambda: progress(office) == 1)


def test_the_log_says_what_was_started_and_how_it_ended(office: BusyOffice) -> None:
    office.subscribe("c", f'{acking(1)} > "/dev/null"')
    office.push(**UNSCHEDULED)
    dispatch(office)
    eventually(lambda: " ended " in office.log())
    spawned = next(line for line in office.log().splitlines() if " spawned " in line)
    assert json.loads(spawned.split("handler_cmd=", 1)[1]) == f'{acking(1)} > "/dev/null"'
    assert "] [INFO] dispatch: consumer=c spawned handler_cmd=" in spawned
    ended = next(line for line in office.log().splitlines() if " ended " in line)
    assert "] [INFO] dispatch: consumer=c ended exit=0 seconds=" in ended
    assert ended.endswith(" acked=1")


# what a handler is given


def test_the_output_of_every_run_is_kept_in_the_folder_for_logs(office: BusyOffice) -> None:
    office.subscribe("c", f'echo "out $(date +%N)"; echo problem >&2; {reader(office.folder / "seen")} > /dev/null')
    kept = office.queue / "logs" / "c.out"
    for number in (1, 2):
        office.push(**UNSCHEDULED)
        dispatch(office)
        eventually(lambda number=number: progress(office) == number and not office.held("c"))  # type: ignore[misc]
    assert [line.split()[0] for line in kept.read_text().splitlines()] == ["out", "problem"] * 2


def test_a_handler_runs_in_the_queue_with_its_names_in_the_environment(office: BusyOffice) -> None:
    office.subscribe("c", f"{acking(1)}; env > environment.new; mv environment.new environment")
    office.push(**UNSCHEDULED)
    dispatch(office, MARK="of the caller")
    environment = dict(line.split("=", 1) for line in written(office.queue / "environment").splitlines())
    assert environment["THREAD_DIR"] == environment["PWD"] == str(office.queue.resolve())
    assert environment["THREAD_CONSUMER"] == "c"
    assert environment["MARK"] == "of the caller"
    assert environment["PATH"] == f"/usr/bin:/bin:{BIN}"


def test_a_handler_finds_our_commands(office: BusyOffice) -> None:
    office.subscribe("c", f'thread ack {OURS} --last-event-id 1 && thread info --json --thread "$THREAD_DIR" > told')
    office.push(**UNSCHEDULED)
    dispatch(office)
    assert json.loads(written(office.queue / "told"))["thread"] == str(office.queue.resolve())


def test_a_handler_is_a_shell_line_in_a_session_of_its_own(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"printf 'b\\na\\n' | sort | tr '\\n' ' ' > sorted && echo $$ > pid; {wait_for(office)}; {acking(1)}")
    office.push(**UNSCHEDULED)
    dispatch(office)
    pid = int(written(office.queue / "pid"))
    assert (os.getsid(pid), (office.queue / "sorted").read_text()) == (pid, "a b ")
    gate.open()


def test_a_handler_that_reads_its_input_does_not_hang(office: BusyOffice) -> None:
    office.subscribe("c", f"cat > got; {acking(1)}")
    office.push(**UNSCHEDULED)
    dispatch(office)
    eventually(lambda: progress(office) == 1)
    assert (office.queue / "got").read_bytes() == b""


# the lock


def test_while_a_handler_runs_its_lock_is_held_and_no_other_is_started(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo run >> runs; {wait_for(office)}; {acking(1)}")
    office.push(**UNSCHEDULED)
    dispatch(office)
    eventually(lambda: counted(office.queue / "runs") == 1)
    assert office.held("c")
    assert alive(office.supervisor("c"))
    assert [entry["running"] for entry in office.info()["subscriptions"]] == [True]
    assert dispatch(office) == "c: skipped (lock held)\n"
    assert "] [INFO] dispatch: consumer=c skipped (lock held)\n" in office.log()
    gate.open()
    eventually(lambda: not office.held("c"))
    assert counted(office.queue / "runs") == 1
    assert [entry["running"] for entry in office.info()["subscriptions"]] == [False]


def test_two_dispatches_at_once_start_one_handler(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo run >> runs; {wait_for(office)}; {acking(1)}")
    office.push(**UNSCHEDULED)
    command = ("dispatch", "--thread", str(office.queue))
    said = [waiter.finish().stdout for waiter in [office.start("thread", *command) for _ in range(6)]]
    assert sorted(said) == ["c: skipped (lock held)\n"] * 5 + ["c: started\n"]
    gate.open()
    eventually(lambda: progress(office) == 1 and not office.held("c"))
    assert counted(office.queue / "runs") == 1


def test_a_lock_file_that_nobody_holds_keeps_nobody_out(office: BusyOffice) -> None:
    office.subscribe("c", acking(1))
    office.push(**UNSCHEDULED)
    office.lock("c").write_text('{"pid": 1}')
    assert dispatch(office) == "c: started\n"
    eventually(lambda: progress(office) == 1)


def test_a_handler_that_is_killed_frees_its_consumer(office: BusyOffice) -> None:
    office.subscribe("c", f"{acking(1)}; kill -s KILL $$")
    office.push(**UNSCHEDULED)
    dispatch(office)
    eventually(lambda: progress(office) == 1 and not office.held("c"))
    office.push(**UNSCHEDULED)
    assert dispatch(office, **LARGE) == "c: started\n"


def test_a_handler_that_was_killed_before_it_acked_is_run_again(office: BusyOffice) -> None:
    office.subscribe("c", f"test -e killed || {{ touch killed; kill -s KILL $$; }}; {reader(office.folder / 'seen')}")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: progress(office) == 1 and not office.held("c"))


def test_a_supervisor_that_is_killed_takes_its_handler_with_it_and_frees_the_consumer(office: BusyOffice) -> None:
    stay = "sh -c 'echo $$ > child; exec sleep 60'"
    office.subscribe("c", f"test -e again || {{ touch again; {stay}; touch survived; }}; {reader(office.folder / 'seen')}")
    office.push(**UNSCHEDULED)
    dispatch(office)
    child = int(written(office.queue / "child"))
    os.kill(office.supervisor("c"), signal.SIGKILL)
    eventually(lambda: not alive(child) and not office.held("c"))
    assert dispatch(office) == "c: started\n"
    eventually(lambda: ids(office.folder / "seen") == [1])
    assert not (office.queue / "survived").exists()


@pytest.mark.parametrize("background", ["sleep 60", "setsid sleep 60", "nohup sleep 60 > /dev/null 2>&1"])
def test_a_background_child_lives_on_and_keeps_neither_lock_nor_supervisor(office: BusyOffice, background: str) -> None:
    office.subscribe("c", f"{background} & echo $! >> children; {reader(office.folder / 'seen')}")
    for number in (1, 2):
        office.push(**UNSCHEDULED)
        assert dispatch(office) == "c: started\n"
        eventually(lambda number=number: ids(office.folder / "seen") == list(range(1, number + 1)))  # type: ignore[misc]
        supervisor = office.supervisor("c")
        eventually(lambda: not office.held("c"))
        eventually(lambda pid=supervisor: not alive(pid))  # type: ignore[misc]
    children = [int(pid) for pid in (office.queue / "children").read_text().split()]
    assert [alive(pid) for pid in children] == [True, True]


def test_a_handler_outlives_the_runner_that_started_it(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo $$ > pid; {wait_for(office)}; {reader(office.folder / 'seen')}")
    office.push()
    pid = int(written(office.queue / "pid"))
    assert office.notifier("stop").code == 0
    office.runner_gone()
    assert alive(pid)
    gate.open()
    eventually(lambda: ids(office.folder / "seen") == [1])


# again, while there is something to do


def test_what_arrives_while_a_handler_runs_leads_to_another_run_though_no_dispatch_follows(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo run >> runs; {reader(office.folder / 'seen')}; {wait_for(office)}")
    office.push(**UNSCHEDULED)
    dispatch(office, **LARGE)
    eventually(lambda: progress(office) == 1)
    office.push(**UNSCHEDULED)
    gate.open()
    eventually(lambda: ids(office.folder / "seen") == [1, 2])
    gate.open()
    eventually(lambda: not office.held("c"))
    assert counted(office.queue / "runs") == 2


def test_a_handler_that_takes_one_event_a_run_is_run_until_nothing_is_left(office: BusyOffice) -> None:
    """Each run moves on: none is backed off, whatever its exit status."""
    office.subscribe("c", f"{reader(office.folder / 'seen', limit=1)}; exit 3")
    for _ in range(5):
        office.push(**UNSCHEDULED)
    assert dispatch(office, **LARGE) == "c: started\n"
    eventually(lambda: ids(office.folder / "seen") == [1, 2, 3, 4, 5])


def test_a_handler_without_progress_is_backed_off_and_pushes_do_not_hammer_it(office: BusyOffice) -> None:
    office.subscribe("c", "echo run >> runs")
    office.push(**UNSCHEDULED)
    dispatch(office, **LARGE)
    eventually(lambda: "] dispatch: consumer=c no progress, next run in 250 s\n" in office.log())
    for _ in range(3):
        office.push(**UNSCHEDULED)
        assert dispatch(office, **LARGE) != "c: started\n"
    assert counted(office.queue / "runs") == 1


def test_the_wait_between_runs_without_progress_grows(office: BusyOffice) -> None:
    office.subscribe("c", "echo run >> runs")
    office.push(**UNSCHEDULED)
    dispatch(office)
    eventually(lambda: counted(office.queue / "runs") == 2)
    eventually(lambda: "next run in 2 s" in office.log())
    assert "next run in 1 s" in office.log()


def test_after_ten_runs_without_progress_it_waits_for_the_next_dispatch(office: BusyOffice) -> None:
    office.subscribe("c", "echo run >> runs")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: counted(office.queue / "runs") == 10 and not office.held("c"))
    assert counted(office.queue / "runs") == 10
    assert dispatch(office, **LARGE) == "c: started\n"
    eventually(lambda: counted(office.queue / "runs") == 11)


def test_what_arrives_in_the_last_run_before_it_gives_up_still_leads_to_another(office: BusyOffice) -> None:
    """Its dispatch found the lock held: if the supervisor gave up now, nobody would come."""
    push = f'{THREAD} push --thread "$THREAD_DIR" --source self --type record --content late'
    office.subscribe("c", f"echo run >> runs; test $(wc -l < runs) -ne 10 || {push}; test $(wc -l < runs) -le 10 || {acking(2)}")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: progress(office) == 2)
    assert counted(office.queue / "runs") == 11


def test_progress_begins_the_backoff_anew(office: BusyOffice) -> None:
    """Nine idle runs, one that moves on, nine idle ones: it never gives up."""
    handler = f"echo run >> runs; case $(wc -l < runs) in 10) {acking(1)};; 20) {acking(2)};; esac"
    office.subscribe("c", handler)
    office.push(**UNSCHEDULED)
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: progress(office) == 2 and not office.held("c"))
    assert counted(office.queue / "runs") == 20


# subscriptions that change


def test_who_unsubscribes_while_its_handler_runs_is_not_run_again(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo run >> runs; {wait_for(office)}; touch ended")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: counted(office.queue / "runs") == 1)
    assert office.on_queue("unsubscribe", "--consumer", "c").code == 0
    gate.open()
    eventually(lambda: not office.held("c"))
    assert (office.queue / "ended").exists()
    assert counted(office.queue / "runs") == 1


def test_who_subscribes_anew_while_the_old_handler_runs_gets_the_new_one(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"echo old >> runs; {wait_for(office)}")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    eventually(lambda: counted(office.queue / "runs") == 1)
    assert office.on_queue("unsubscribe", "--consumer", "c").code == 0
    subscribed = office.under(UNSCHEDULED, "subscribe", "--consumer", "c", "--handler", f"echo new >> runs; {acking(1)}")
    assert subscribed.code == 0
    gate.open()
    eventually(lambda: progress(office) == 1 and not office.held("c"))
    assert (office.queue / "runs").read_text() == "old\nnew\n"


def test_who_subscribes_to_what_is_there_already_is_started_at_once(office: BusyOffice) -> None:
    office.push(**UNSCHEDULED)
    office.subscribe("c", reader(office.folder / "seen"))
    eventually(lambda: ids(office.folder / "seen") == [1])


def test_a_queue_that_is_deleted_while_its_handler_runs_stays_deleted(office: BusyOffice, gate: Gate) -> None:
    office.subscribe("c", f"{wait_for(office)}; exit 1")
    office.push(**UNSCHEDULED)
    dispatch(office, **SMALL)
    supervisor = int(written(office.lock("c")) and office.supervisor("c"))
    shutil.rmtree(office.queue)
    gate.open()
    eventually(lambda: not alive(supervisor))
    assert not office.queue.exists()


# filters that go bad


def test_a_filter_that_meets_what_it_cannot_read_stops_its_own_consumer_only(office: BusyOffice) -> None:
    for consumer in ("a", "m", "z"):
        flags = ("--filter", "json_extract(content, '$.urgent') = 1") if consumer == "m" else ()
        office.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"', *flags)
    office.push("not json", **UNSCHEDULED)
    bad = _others_go_on(office, "m")
    assert bad.startswith("m: failed (")
    assert [entry["trouble"] is not None for entry in office.info()["subscriptions"]] == [False, True, False]


@pytest.mark.parametrize("filter", ["type = ", "1) OR (1", "no_such_column = 1", "EXISTS (SELECT 1 FROM subscriptions)", "", "?", "\x00"])
def test_a_filter_that_somebody_wrote_into_the_database_stops_its_own_consumer_only(office: BusyOffice, filter: str) -> None:
    for consumer in ("a", "m", "z"):
        office.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"')
    office.push(**UNSCHEDULED)
    with closing(sqlite3.connect(office.queue / "events.db")) as database, database:
        database.execute("UPDATE subscriptions SET filter = ? WHERE consumer_id = 'm'", (filter,))
    assert _others_go_on(office, "m").startswith("m: failed (")


def test_a_filter_that_would_run_for_ever_stops_its_own_consumer_only(office: BusyOffice) -> None:
    for consumer in ("a", "m", "z"):
        flags = (
            ("--filter", f"(SELECT count(*) FROM {', '.join(f'events e{number}' for number in range(8))}) > 0") if consumer == "m" else ()
        )
        office.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"', *flags)
    batch = b'{"source": "self", "type": "record", "content": "x"}\n' * 200
    assert office.on_queue("push", "--batch", stdin=batch, **UNSCHEDULED).code == 0
    assert _others_go_on(office, "m").startswith("m: failed (")


def _others_go_on(office: BusyOffice, consumer: str) -> str:
    """What the dispatch said of the one, while the others are run."""
    said = dispatch(office, **LARGE).splitlines()
    assert sorted(line for line in said if not line.startswith(f"{consumer}:")) == ["a: started", "z: started"]
    eventually(lambda: (office.queue / "ran.a").exists() and (office.queue / "ran.z").exists())
    assert f"] [ERROR] dispatch: consumer={consumer} filter: " in office.log()
    assert not (office.queue / f"ran.{consumer}").exists()
    (bad,) = [line for line in said if line.startswith(f"{consumer}:")]
    return bad


# names are data

PATHS = ["../escape", "a/b", "a%2Fb", "a_b", "ü", "%", "..", ".", ".hidden", "/etc", "--flag", "c.lock", "$(id)", "with space"]
NAMES = [*PATHS, "ü" * 200, "ü" * 199 + "u"]


def test_no_name_leaves_its_folder_or_shares_a_lock_with_another(office: BusyOffice) -> None:
    before = sorted(office.folder.iterdir())
    for name in NAMES:
        office.subscribe(name, f'{acking(1)}; printf "%s\\n" "$THREAD_CONSUMER"; echo run >> "{office.queue}/runs"')
    office.push(**UNSCHEDULED)
    assert sorted(dispatch(office).splitlines()) == sorted(f"{name}: started" for name in NAMES)
    eventually(lambda: counted(office.queue / "runs") == len(NAMES))
    assert sorted(office.folder.iterdir()) == before
    for folder, suffix in (("run", ".lock"), ("logs", ".out")):
        files = [file for file in (office.queue / folder).iterdir() if file.name.endswith(suffix)]
        assert len(files) == len(NAMES)
        assert all(file.is_file() and not file.name.startswith(".") for file in files)
    assert all(office.lock(name).exists() for name in PATHS if not name.startswith("."))
    said = [(file.read_text().splitlines()[-1]) for file in (office.queue / "logs").glob("*.out")]
    assert sorted(said) == sorted(NAMES)
