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

from tests.cli.mailbox_process import Gate, written
from tests.cli.process import eventually, is_alive
from tests.cli.queue_process import OURS, UNSCHEDULED, BusyQueueCommands, acking, lines, reader

BIN = Path(sys.executable).parent
LARGE = {"THREAD_BACKOFF_SECONDS": "250"}  # no test takes this long: whoever is backed off stays so
SMALL = {"THREAD_BACKOFF_SECONDS": "0.001"}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def wait_for(commands: BusyQueueCommands) -> str:
    """The line of a handler that waits at the gate."""
    return f"read go < '{commands.folder}/gate'"


def dispatch(commands: BusyQueueCommands, **environment: str) -> str:
    finished = commands.under(environment, "dispatch")
    assert (finished.code, finished.stderr) == (0, ""), finished
    return finished.stdout


def counted(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def ids(file: Path) -> list[int]:
    return [event["id"] for event in lines(file.read_text())] if file.exists() else []


def progress(commands: BusyQueueCommands, consumer: str = "c") -> int:
    found = [entry["last_acked_id"] for entry in commands.info()["progress"] if entry["consumer_id"] == consumer]
    return int(found[0]) if found else 0


# who is started, and by whom


def test_a_push_alone_starts_the_handler_though_nobody_started_a_daemon(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", reader(commands.folder / "seen"))
    commands.push("hello")
    assert '"content": "hello"' in written(commands.folder / "seen")
    eventually(lambda: not commands.held("c"))
    assert progress(commands) == 1


def test_dispatch_starts_the_handler_of_each_consumer_with_unread_events(commands: BusyQueueCommands) -> None:
    for consumer in ("a", "b"):
        commands.subscribe(consumer, f'{acking(1)}; echo "$THREAD_CONSUMER" > seen.$THREAD_CONSUMER')
    commands.push(**UNSCHEDULED)
    assert sorted(dispatch(commands).splitlines()) == ["a: started", "b: started"]
    assert [written(commands.work(consumer) / f"seen.{consumer}") for consumer in ("a", "b")] == ["a", "b"]


def test_who_has_read_everything_or_has_a_filter_that_nothing_matches_is_left_alone(commands: BusyQueueCommands) -> None:
    commands.subscribe("done", "touch ran")
    commands.subscribe("choosy", "touch ran", "--filter", "type = 'record'")
    commands.push(**UNSCHEDULED)
    commands.pop("done", "--last-event-id", "1")
    assert dispatch(commands) == ""
    assert not (commands.work() / "ran").exists()


def test_dispatch_with_nobody_subscribed_says_nothing(commands: BusyQueueCommands) -> None:
    commands.push(**UNSCHEDULED)
    assert dispatch(commands) == ""


def test_dispatch_does_not_wait_for_the_handler(commands: BusyQueueCommands, gate: Gate) -> None:
    """Nor does a reader of its output: it hands its pipes to nobody."""
    commands.subscribe("c", f"{wait_for(commands)}; {acking(1)}; echo ended")
    commands.push(**UNSCHEDULED)
    assert dispatch(commands) == "c: started\n"
    gate.open()
    eventually(lambda: progress(commands) == 1)


def test_the_log_says_what_was_started_and_how_it_ended(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f'{acking(1)} > "/dev/null"')
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    eventually(lambda: " ended " in commands.log())
    spawned = next(line for line in commands.log().splitlines() if " spawned " in line)
    assert json.loads(spawned.split("handler_cmd=", 1)[1]) == f'{acking(1)} > "/dev/null"'
    assert "] [INFO] dispatch: consumer=c spawned handler_cmd=" in spawned
    ended = next(line for line in commands.log().splitlines() if " ended " in line)
    assert "] [INFO] dispatch: consumer=c ended exit=0 seconds=" in ended
    assert ended.endswith(" acked=1")


# what a handler is given


def test_the_output_of_every_run_is_kept_in_the_folder_for_logs(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f'echo "out $(date +%N)"; echo problem >&2; {reader(commands.folder / "seen")} > /dev/null')
    kept = commands.queue / "logs" / "c.out"
    for number in (1, 2):
        commands.push(**UNSCHEDULED)
        dispatch(commands)
        eventually(lambda number=number: progress(commands) == number and not commands.held("c"))  # type: ignore[misc]
    assert [line.split()[0] for line in kept.read_text().splitlines()] == ["out", "problem"] * 2


def test_a_handler_runs_in_the_queue_with_its_names_in_the_environment(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f"{acking(1)}; env > environment.new; mv environment.new environment")
    commands.push(**UNSCHEDULED)
    dispatch(commands, MARK="of the caller")
    environment = dict(line.split("=", 1) for line in written(commands.work() / "environment").splitlines())
    assert environment["THREAD_DIR"] == str(commands.queue.resolve())
    assert environment["PWD"] == str(commands.work().resolve())
    assert environment["THREAD_CONSUMER"] == "c"
    assert "MARK" not in environment, "it may be a secret of the process that started the runner"
    assert environment["PATH"] == f"{BIN}:/usr/bin:/bin"


def test_a_handler_finds_our_commands(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f'thread ack {OURS} --last-event-id 1 && thread info --json --thread "$THREAD_DIR" > told')
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    assert json.loads(written(commands.work() / "told"))["thread"] == str(commands.queue.resolve())


def test_a_handler_is_a_shell_line_in_a_session_of_its_own(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"printf 'b\\na\\n' | sort | tr '\\n' ' ' > sorted && echo $$ > pid; {wait_for(commands)}; {acking(1)}")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    pid = int(written(commands.work() / "pid"))
    assert (os.getsid(pid), (commands.work() / "sorted").read_text()) == (pid, "a b ")
    gate.open()


def test_a_handler_that_reads_its_input_does_not_hang(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f"cat > got; {acking(1)}")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    eventually(lambda: progress(commands) == 1)
    assert (commands.work() / "got").read_bytes() == b""


# the lock


def test_while_a_handler_runs_its_lock_is_held_and_no_other_is_started(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"echo run >> runs; {wait_for(commands)}; {acking(1)}")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    eventually(lambda: counted(commands.work() / "runs") == 1)
    assert commands.held("c")
    assert is_alive(commands.supervisor("c"))
    assert [entry["running"] for entry in commands.info()["subscriptions"]] == [True]
    assert dispatch(commands) == "c: skipped (lock held)\n"
    assert "] [INFO] dispatch: consumer=c skipped (lock held)\n" in commands.log()
    gate.open()
    eventually(lambda: not commands.held("c"))
    assert counted(commands.work() / "runs") == 1
    assert [entry["running"] for entry in commands.info()["subscriptions"]] == [False]


def test_two_dispatches_at_once_start_one_handler(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"echo run >> runs; {wait_for(commands)}; {acking(1)}")
    commands.push(**UNSCHEDULED)
    command = ("dispatch", "--thread", str(commands.queue))
    said = [waiter.finish().stdout for waiter in [commands.start("thread", *command) for _ in range(6)]]
    assert sorted(said) == ["c: skipped (lock held)\n"] * 5 + ["c: started\n"]
    gate.open()
    eventually(lambda: progress(commands) == 1 and not commands.held("c"))
    assert counted(commands.work() / "runs") == 1


def test_a_lock_file_that_nobody_holds_keeps_nobody_out(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", acking(1))
    commands.push(**UNSCHEDULED)
    commands.lock("c").write_text('{"pid": 1}')
    assert dispatch(commands) == "c: started\n"
    eventually(lambda: progress(commands) == 1)


def test_a_handler_that_is_killed_frees_its_consumer(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f"{acking(1)}; kill -s KILL $$")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    eventually(lambda: progress(commands) == 1 and not commands.held("c"))
    commands.push(**UNSCHEDULED)
    assert dispatch(commands, **LARGE) == "c: started\n"


def test_a_handler_that_was_killed_before_it_acked_is_run_again(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", f"test -e killed || {{ touch killed; kill -s KILL $$; }}; {reader(commands.folder / 'seen')}")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **SMALL)
    eventually(lambda: progress(commands) == 1 and not commands.held("c"))


def test_a_handler_whose_supervisor_is_killed_goes_on_and_no_second_one_is_started(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"echo $$ >> pids; {wait_for(commands)}; {reader(commands.folder / 'seen')}")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    pid = int(written(commands.work() / "pids"))
    os.kill(commands.supervisor("c"), signal.SIGKILL)
    eventually(lambda: not commands.held("c"))
    assert is_alive(pid)
    assert dispatch(commands) == "c: started\n", "a supervisor, which finds the handler"
    eventually(lambda: f"found running, process {pid}" in commands.log())
    gate.open()
    eventually(lambda: ids(commands.folder / "seen") == [1] and not commands.held("c"))
    assert counted(commands.work() / "pids") == 1


@pytest.mark.parametrize("background", ["sleep 60", "setsid sleep 60", "nohup sleep 60 > /dev/null 2>&1"])
def test_a_background_child_lives_on_and_keeps_neither_lock_nor_supervisor(commands: BusyQueueCommands, background: str) -> None:
    commands.subscribe("c", f"{background} & echo $! >> children; {reader(commands.folder / 'seen')}")
    for number in (1, 2):
        commands.push(**UNSCHEDULED)
        assert dispatch(commands) == "c: started\n"
        eventually(lambda number=number: ids(commands.folder / "seen") == list(range(1, number + 1)))  # type: ignore[misc]
        supervisor = commands.supervisor("c")
        eventually(lambda: not commands.held("c"))
        eventually(lambda pid=supervisor: not is_alive(pid))  # type: ignore[misc]
    children = [int(pid) for pid in (commands.work() / "children").read_text().split()]
    assert [is_alive(pid) for pid in children] == [True, True]


def test_a_runner_that_is_stopped_waits_for_its_handlers_and_starts_no_more(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"echo $$ > pid; {wait_for(commands)}; {reader(commands.folder / 'seen', limit=1)}")
    commands.push(**UNSCHEDULED)
    commands.push()
    pid, runner = int(written(commands.work() / "pid")), commands.runner()
    os.kill(runner, signal.SIGTERM)
    gate.open()
    eventually(lambda: not is_alive(runner))
    assert not is_alive(pid)
    assert ids(commands.folder / "seen") == [1]
    commands.push(**UNSCHEDULED)


def test_one_process_runs_for_each_handler_beside_the_runner_and_its_keeper(commands: BusyQueueCommands) -> None:
    gates = [Gate(commands.folder, f"gate-{consumer}") for consumer in ("a", "b", "c")]
    for consumer in ("a", "b", "c"):
        commands.subscribe(consumer, f"echo up; read go < '{commands.folder}/gate-{consumer}'; {acking(1)}")
    commands.push()
    outputs = [commands.queue / "logs" / f"{consumer}.out" for consumer in ("a", "b", "c")]
    eventually(lambda: all(output.exists() and output.read_text() == "up\n" for output in outputs))
    assert len(commands.processes()) == 3 + 2
    for gate in gates:
        gate.open()
    eventually(lambda: progress(commands, "a") + progress(commands, "b") + progress(commands, "c") == 3)


def test_a_handler_that_takes_too_long_is_stopped_with_all_that_it_started(commands: BusyQueueCommands) -> None:
    stay = "sh -c 'echo $$ > child; exec sleep 600'"
    handler = f"test -e child || {{ {stay}; touch survived; }}; {acking(1)}"
    commands.push(**UNSCHEDULED)
    flags = ("--consumer", "c", "--handler", handler, "--timeout-seconds", "0.3")
    assert commands.under(UNSCHEDULED, "subscribe", *flags).code == 0
    dispatch(commands, **SMALL)
    eventually(lambda: "consumer=c stopped: timeout of 0.3 s" in commands.log())
    assert not is_alive(int(written(commands.work() / "child")))
    assert not (commands.work() / "survived").exists()


def test_a_handler_whose_shell_is_killed_has_no_second_one_beside_it(commands: BusyQueueCommands) -> None:
    """The processes that the shell started are killed, and the lock is held until they are gone."""
    stay = "sh -c 'echo $$ >> children; trap : TERM; while :; do sleep 0.01; done'"
    commands.subscribe("c", f"echo $$ > shell; test $(wc -l < children) -gt 1 || {stay}; {acking(1)}")
    (commands.work()).mkdir(parents=True)
    (commands.work() / "children").write_text("0\n")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **SMALL)
    eventually(lambda: counted(commands.work() / "children") == 2)
    child = int((commands.work() / "children").read_text().split()[1])
    os.kill(int(written(commands.work() / "shell")), signal.SIGTERM)
    eventually(lambda: progress(commands) == 1)
    assert not is_alive(child)


# again, while there is something to do


def test_what_arrives_while_a_handler_runs_leads_to_another_run_though_no_dispatch_follows(commands: BusyQueueCommands, gate: Gate) -> None:
    commands.subscribe("c", f"echo run >> runs; {reader(commands.folder / 'seen')}; {wait_for(commands)}")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **LARGE)
    eventually(lambda: progress(commands) == 1)
    commands.push(**UNSCHEDULED)
    gate.open()
    eventually(lambda: ids(commands.folder / "seen") == [1, 2])
    gate.open()
    eventually(lambda: not commands.held("c"))
    assert counted(commands.work() / "runs") == 2


def test_a_handler_that_takes_one_event_a_run_is_run_until_nothing_is_left(commands: BusyQueueCommands) -> None:
    """Each run moves on: none is backed off, whatever its exit status."""
    commands.subscribe("c", f"{reader(commands.folder / 'seen', limit=1)}; exit 3")
    for _ in range(5):
        commands.push(**UNSCHEDULED)
    assert dispatch(commands, **LARGE) == "c: started\n"
    eventually(lambda: ids(commands.folder / "seen") == [1, 2, 3, 4, 5])


def test_a_handler_without_progress_is_backed_off_and_pushes_do_not_hammer_it(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo run >> runs")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **LARGE)
    eventually(lambda: "] dispatch: consumer=c no progress, next run in 250 s\n" in commands.log())
    for _ in range(3):
        commands.push(**UNSCHEDULED)
        assert dispatch(commands, **LARGE) != "c: started\n"
    assert counted(commands.work() / "runs") == 1


def test_the_wait_between_runs_without_progress_grows(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo run >> runs")
    commands.push(**UNSCHEDULED)
    dispatch(commands)
    eventually(lambda: counted(commands.work() / "runs") == 2)
    eventually(lambda: "next run in 2 s" in commands.log())
    assert "next run in 1 s" in commands.log()


def test_an_event_that_no_run_acks_is_set_aside_and_the_next_ones_are_handled(commands: BusyQueueCommands) -> None:
    handler = f"""thread pop > batch; grep -q poison batch && exit 3; cat batch >> '{commands.folder}/seen'; thread ack --events batch"""
    for content in ("one", "two", "poison", "four"):
        commands.push(content, **UNSCHEDULED)
    subscribed = commands.under(UNSCHEDULED, "subscribe", "--consumer", "c", "--handler", handler, "--max-tries", "4")
    assert subscribed.code == 0
    dispatch(commands, **SMALL)
    eventually(lambda: ids(commands.folder / "seen") == [1, 2, 4])
    eventually(lambda: progress(commands) == 4 and not commands.held("c"))
    assert "event=3 set aside after 4 tries: exit 3" in commands.log()
    assert commands.info()["subscriptions"][0]["dead_events"] == 1


@pytest.mark.parametrize("tries", [1, 2])
def test_an_event_is_set_aside_after_exactly_as_many_tries_as_were_allowed(commands: BusyQueueCommands, tries: int) -> None:
    for content in ("poison", "two"):
        commands.push(content, **UNSCHEDULED)
    handler = f"""thread pop > batch; grep -q poison batch && echo run >> '{commands.folder}/runs' && exit 3; thread ack --events batch"""
    assert commands.under(UNSCHEDULED, "subscribe", "--consumer", "c", "--handler", handler, "--max-tries", str(tries)).code == 0
    dispatch(commands, **SMALL)
    eventually(lambda: progress(commands) == 2 and not commands.held("c"))
    assert counted(commands.folder / "runs") == tries
    assert commands.info()["subscriptions"][0]["dead_events"] == 1


def test_progress_begins_the_backoff_anew(commands: BusyQueueCommands) -> None:
    """Three idle runs, one that moves on, three idle ones: nothing is set aside."""
    handler = f"echo run >> runs; case $(wc -l < runs) in 4) {acking(1)};; 8) {acking(2)};; esac"
    commands.push(**UNSCHEDULED)
    commands.push(**UNSCHEDULED)
    assert commands.under(UNSCHEDULED, "subscribe", "--consumer", "c", "--handler", handler, "--max-tries", "4").code == 0
    dispatch(commands, **SMALL)
    eventually(lambda: progress(commands) == 2 and not commands.held("c"))
    assert counted(commands.work() / "runs") == 8


# subscriptions that change


def test_who_unsubscribes_stops_its_handler_with_all_that_it_started(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "sh -c 'echo $$ > child; exec sleep 600'; touch ended")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **SMALL)
    child = int(written(commands.work() / "child"))
    assert commands.on_queue("unsubscribe", "--consumer", "c").code == 0
    eventually(lambda: not is_alive(child) and not commands.held("c"))
    assert not (commands.work() / "ended").exists()
    assert "dispatch: consumer=c stopped: unsubscribed" in commands.log()


def test_a_handler_that_is_replaced_is_stopped_and_the_new_one_runs(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo old >> runs; exec sleep 600")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **SMALL)
    eventually(lambda: counted(commands.work() / "runs") == 1)
    replacement = ("--consumer", "c", "--handler", f"echo new >> runs; {acking(1)}", "--replace")
    assert commands.under(UNSCHEDULED, "subscribe", *replacement).code == 0
    eventually(lambda: progress(commands) == 1 and not commands.held("c"))
    assert (commands.work() / "runs").read_text() == "old\nnew\n"


def test_who_subscribes_to_what_is_there_already_is_started_at_once(commands: BusyQueueCommands) -> None:
    commands.push(**UNSCHEDULED)
    commands.subscribe("c", reader(commands.folder / "seen"))
    eventually(lambda: ids(commands.folder / "seen") == [1])


def test_a_handler_is_stopped_when_its_queue_is_deleted_and_nothing_is_made_again(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", "echo $$ > started; exec sleep 600")
    commands.push(**UNSCHEDULED)
    dispatch(commands, **SMALL)
    handler = int(written(commands.work() / "started"))
    supervisor = commands.supervisor("c")
    shutil.rmtree(commands.queue)
    eventually(lambda: not is_alive(handler) and not is_alive(supervisor))
    assert not commands.queue.exists()


# filters that go bad


def test_a_filter_that_meets_what_it_cannot_read_stops_its_own_consumer_only(commands: BusyQueueCommands) -> None:
    for consumer in ("a", "m", "z"):
        flags = ("--filter", "json_extract(content, '$.urgent') = 1") if consumer == "m" else ()
        commands.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"', *flags)
    commands.push("not json", **UNSCHEDULED)
    bad = _others_go_on(commands, "m")
    assert bad.startswith("m: failed (")
    assert [entry["trouble"] is not None for entry in commands.info()["subscriptions"]] == [False, True, False]


@pytest.mark.parametrize("filter", ["type = ", "1) OR (1", "no_such_column = 1", "EXISTS (SELECT 1 FROM subscriptions)", "", "?", "\x00"])
def test_a_filter_that_somebody_wrote_into_the_database_stops_its_own_consumer_only(commands: BusyQueueCommands, filter: str) -> None:
    for consumer in ("a", "m", "z"):
        commands.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"')
    commands.push(**UNSCHEDULED)
    with closing(sqlite3.connect(commands.queue / "events.db")) as database, database:
        database.execute("UPDATE subscriptions SET filter = ? WHERE consumer_id = 'm'", (filter,))
    assert _others_go_on(commands, "m").startswith("m: failed (")


def test_a_filter_that_would_run_for_ever_stops_its_own_consumer_only(commands: BusyQueueCommands) -> None:
    for consumer in ("a", "m", "z"):
        flags = (
            ("--filter", f"(SELECT count(*) FROM {', '.join(f'events e{number}' for number in range(8))}) > 0") if consumer == "m" else ()
        )
        commands.subscribe(consumer, f'{acking(1)}; touch "ran.$THREAD_CONSUMER"', *flags)
    batch = b'{"source": "self", "type": "record", "content": "x"}\n' * 200
    assert commands.on_queue("push", "--batch", stdin=batch, **UNSCHEDULED).code == 0
    assert _others_go_on(commands, "m").startswith("m: failed (")


def _others_go_on(commands: BusyQueueCommands, consumer: str) -> str:
    """Return the result of a dispatch for one consumer, while the others run."""
    said = dispatch(commands, **LARGE).splitlines()
    assert sorted(line for line in said if not line.startswith(f"{consumer}:")) == ["a: started", "z: started"]
    eventually(lambda: (commands.work("a") / "ran.a").exists() and (commands.work("z") / "ran.z").exists())
    assert f"] [ERROR] dispatch: consumer={consumer} filter: " in commands.log()
    assert not (commands.work(consumer) / f"ran.{consumer}").exists()
    (bad,) = [line for line in said if line.startswith(f"{consumer}:")]
    return bad


# names are data

PATHS = ["../escape", "a/b", "a%2Fb", "a_b", "ü", "%", "..", ".", ".hidden", "/etc", "--flag", "c.lock", "$(id)", "with space"]
NAMES = [*PATHS, "ü" * 200, "ü" * 199 + "u"]


def test_no_name_leaves_its_folder_or_shares_a_lock_with_another(commands: BusyQueueCommands) -> None:
    before = sorted(commands.folder.iterdir())
    for name in NAMES:
        commands.subscribe(name, f'{acking(1)}; printf "%s\\n" "$THREAD_CONSUMER"; echo run >> "{commands.queue}/runs"')
    commands.push(**UNSCHEDULED)
    assert sorted(dispatch(commands).splitlines()) == sorted(f"{name}: started" for name in NAMES)
    eventually(lambda: counted(commands.queue / "runs") == len(NAMES))
    assert sorted(set(commands.folder.iterdir()) - {commands.home}) == before
    for folder, suffix in (("run", ".lock"), ("logs", ".out"), ("handlers", "")):
        files = [file for file in (commands.queue / folder).iterdir() if file.name.endswith(suffix)]
        assert len(files) == len(NAMES)
        assert not any(file.is_symlink() or file.name.startswith(".") for file in files)
    assert all(commands.lock(name).exists() for name in PATHS if not name.startswith("."))
    said = [(file.read_text().splitlines()[-1]) for file in (commands.queue / "logs").glob("*.out")]
    assert sorted(said) == sorted(NAMES)
