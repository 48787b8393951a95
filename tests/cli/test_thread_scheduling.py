"""How `thread push` schedules a dispatch: with the notifier that is built in, or with another."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import Finished, eventually, suspend
from tests.cli.queue_process import UNSCHEDULED, BusyQueueCommands, acking, lines, reader

SOURCE = "external:telegram:tg-main:group:grp-123/topic-456:alice"
PUSH = ("--source", SOURCE, "--type", "message", "--content", "hello")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def short() -> Iterator[BusyQueueCommands]:
    """Queue commands in a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        assert len(folder) <= 30
        with BusyQueueCommands(Path(folder).resolve()) as made:
            yield made


class NotifierRecorder:
    """Another notifier: writes down what it is told, says and does as it was told by the test."""

    def __init__(self, folder: Path, ending: str = "exit 0") -> None:
        self._told = folder / "told"
        self.script = folder / "other-notifier"
        self.script.write_text(f"""#!/bin/sh\nprintf '%s\\0' "$@" >> '{self._told}'\nprintf '\\n' >> '{self._told}'\n{ending}\n""")
        self.script.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"THREAD_NOTIFIER": str(self.script)}

    def told(self) -> list[list[str]]:
        """The arguments of each call."""
        return [call.split("\0")[:-1] for call in self._told.read_text().splitlines()] if self._told.exists() else []


def push(commands: BusyQueueCommands, *more: str, **environment: str) -> Finished:
    return commands.under(environment, "push", *PUSH, *more)


def slug(path: Path) -> str:
    text = re.sub("[^A-Za-z0-9]", "-", str(path)).lstrip("-")
    return text if len(text) <= 40 else f"{text[:32]}-{hashlib.sha1(str(path).encode()).hexdigest()[:6]}"


# another notifier


def test_another_notifier_is_told_author_task_and_command(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(commands.folder)
    finished = push(commands, **other.environment)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "1\n", "")
    path = commands.queue.resolve()
    command = f"thread dispatch --thread {path}"
    expected = ["task", "add", "--author", SOURCE, "--task-id", f"dispatch-{slug(path)}", "--command", command]
    assert other.told() == [expected]
    assert f"] [INFO] push: task=dispatch-{slug(path)} queued\n" in commands.log()
    assert not commands.home.exists()


def test_another_notifier_may_be_a_shell_line(commands: BusyQueueCommands) -> None:
    folder = commands.folder / "with space"
    folder.mkdir()
    other = NotifierRecorder(folder)
    line = f"MARK=1 {shlex.quote(str(other.script))} --first 'a b'"
    assert push(commands, THREAD_NOTIFIER=line).code == 0
    assert other.told()[0][:4] == ["--first", "a b", "task", "add"]


def test_a_path_that_a_shell_would_take_apart_is_quoted(commands: BusyQueueCommands) -> None:
    commands.queue = commands.folder / "it's a $(touch forged) ü; queue"
    commands.init()
    other = NotifierRecorder(commands.folder)
    assert push(commands, **other.environment).code == 0
    assert shlex.split(other.told()[0][-1]) == ["thread", "dispatch", "--thread", str(commands.queue.resolve())]


def test_a_queue_named_by_a_relative_path_or_a_link_is_the_same_task(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(commands.folder)
    (commands.folder / "link").symlink_to(commands.queue)
    for path in ("queue", "./link/../queue/", "link", str(commands.queue)):
        assert commands.run("thread", ["push", "--thread", path, *PUSH], other.environment).code == 0
    assert len(other.told()) == 4
    assert all(call == other.told()[0] for call in other.told())


def test_a_batch_is_one_dispatch_in_the_name_of_its_last_source(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(commands.folder)
    batch = [{"source": source, "type": "message", "content": "x"} for source in ("self", SOURCE, "internal:dm:default:warden")]
    stdin = "".join(json.dumps(event) + "\n" for event in batch).encode()
    assert commands.on_queue("push", "--batch", stdin=stdin, **other.environment).stdout == "1\n2\n3\n"
    assert [call[3] for call in other.told()] == ["internal:dm:default:warden"]


def test_an_empty_batch_schedules_nothing(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(commands.folder)
    finished = commands.on_queue("push", "--batch", "--json", stdin=b"\n\n", **other.environment)
    assert (finished.code, finished.json) == (0, {"ids": [], "count": 0, "dispatch": "none"})
    assert other.told() == []


@pytest.mark.parametrize(("name", "whole"), [("my-project/thread", True), ("x_Y.z", True), ("ü", True), ("deep/" * 8 + "queue", False)])
def test_the_slug_is_the_path_with_hyphens_and_a_hash_when_it_is_long(short: BusyQueueCommands, name: str, whole: bool) -> None:
    short.queue = short.folder / name
    short.init()
    other = NotifierRecorder(short.folder)
    assert push(short, **other.environment).code == 0
    task = other.told()[0][5]
    assert task == f"dispatch-{slug(short.queue)}"
    assert (task == "dispatch-" + re.sub("[^A-Za-z0-9]", "-", str(short.queue)[1:])) is whole
    assert len(task) <= len("dispatch-") + 40


@pytest.mark.parametrize(("length", "whole"), [(40, True), (41, False)])
def test_a_slug_of_forty_characters_is_whole_and_of_one_more_is_cut(short: BusyQueueCommands, length: int, whole: bool) -> None:
    short.queue = short.folder / ("q" * (length - len(str(short.folder))))
    short.init()
    other = NotifierRecorder(short.folder)
    assert push(short, **other.environment).code == 0
    text = re.sub("[^A-Za-z0-9]", "-", str(short.queue)[1:])
    assert len(text) == length
    cut = f"{text[:32]}-{hashlib.sha1(str(short.queue).encode()).hexdigest()[:6]}"
    assert other.told()[0][5] == f"dispatch-{text if whole else cut}"


# what another notifier answers


def test_what_another_notifier_says_is_kept_from_the_output(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(
        commands.folder, "echo said; echo problem >&2; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 0"
    )
    finished = push(commands, "--json", **other.environment)
    assert (finished.code, finished.stderr, finished.json["dispatch"]) == (0, "", "queued")
    assert finished.stdout.count("\n") == 1


@pytest.mark.parametrize("ending", ["echo 'Task Already exists' >&2; exit 1", "echo 任务已存在; exit 1", "exit 1"])
def test_exit_1_of_another_notifier_is_success_in_any_language(commands: BusyQueueCommands, ending: str) -> None:
    other = NotifierRecorder(commands.folder, ending)
    finished = push(commands, **other.environment)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "1\n", "")
    assert push(commands, "--json", **other.environment).json["dispatch"] == "already queued"
    assert f"] [INFO] push: task=dispatch-{slug(commands.queue.resolve())} already queued\n" in commands.log()


FAILURES = {
    "another exit status": "echo already queued; exit 2",
    "storage": "exit 50",
    "killed": "echo already queued; kill -s KILL $$",
    "unknown": "exit 255",
}


@pytest.mark.parametrize("ending", FAILURES.values(), ids=FAILURES.keys())
def test_anything_else_is_reported_and_the_event_is_stored_all_the_same(commands: BusyQueueCommands, ending: str) -> None:
    _reported(commands, **NotifierRecorder(commands.folder, ending).environment)


@pytest.mark.parametrize("line", ["no-such-notifier", "./no-such-notifier already", "'unbalanced"])
def test_a_notifier_that_is_none_is_reported(commands: BusyQueueCommands, line: str) -> None:
    _reported(commands, THREAD_NOTIFIER=line)


def test_a_notifier_that_hangs_is_reported_and_ended(commands: BusyQueueCommands) -> None:
    pid = commands.folder / "pid"
    other = NotifierRecorder(commands.folder, f"echo already queued; echo $$ > '{pid}'; exec sleep 600")
    finished = push(commands, **other.environment, THREAD_NOTIFIER_SECONDS="1")
    assert (finished.code, finished.stdout) == (1, "1\n")
    assert "stored" in finished.stderr
    eventually(lambda: int(pid.read_text()) not in commands.processes())


def test_a_notifier_that_starts_its_daemon_and_ends_is_believed(commands: BusyQueueCommands) -> None:
    """A process that it leaves behind inherits its output, and may keep that open for ever."""
    for ending, said in (("exit 0", "queued"), ("echo already queued; exit 1", "already queued")):
        other = NotifierRecorder(commands.folder, f"sleep 60 &\n{ending}")
        finished = push(commands, "--json", **other.environment, THREAD_NOTIFIER_SECONDS="2")
        assert (finished.code, finished.json["dispatch"]) == (0, said), finished


def _reported(commands: BusyQueueCommands, **environment: str) -> None:
    spoken, written = push(commands, **environment), push(commands, "--json", **environment)
    assert (spoken.code, written.code) == (1, 1), (spoken, written)
    assert spoken.stdout == "1\n"
    assert (written.json["id"], written.json["content"], written.json["dispatch"]) == (2, "hello", "failed")
    error = json.loads(written.stderr)
    assert set(error) == {"error", "suggestion"}
    for text in (spoken.stderr, error["error"] + error["suggestion"]):
        assert "stored" in text
        assert "thread dispatch" in text
    assert spoken.stderr.startswith("Error: ")
    assert spoken.stderr.count("\n") == written.stderr.count("\n") == 1
    assert len(lines(commands.on_queue("peek", "--last-event-id", "0").stdout)) == len(commands.journal()) == 2
    assert f"] [WARN] push: task=dispatch-{slug(commands.queue.resolve())} failed: " in commands.log()


def test_a_batch_whose_dispatch_failed_is_stored_and_says_its_ids(commands: BusyQueueCommands) -> None:
    batch = b'{"source": "self", "type": "record", "content": "x"}\n' * 2
    finished = commands.on_queue("push", "--batch", "--json", stdin=batch, THREAD_NOTIFIER="exit 2;")
    assert (finished.code, finished.json) == (1, {"ids": [1, 2], "count": 2, "dispatch": "failed"})
    assert "stored" in finished.stderr


# the notifier that is built in


@contextmanager
def asleep(commands: BusyQueueCommands) -> Iterator[None]:
    """The runner is up, and does nothing in the meantime."""
    commands.start("notifier", "start")
    eventually(lambda: commands.told("notifier", "status")["resident"] is True)
    pid = commands.runner()
    suspend(pid)
    yield
    os.kill(pid, signal.SIGCONT)


def queued(commands: BusyQueueCommands) -> list[tuple[str, str]]:
    return [(task["task_id"], task["command"]) for task in commands.told("notifier", "task", "list")["tasks"]]


def test_the_built_in_notifier_queues_the_task_of_the_document(commands: BusyQueueCommands) -> None:
    path = commands.queue.resolve()
    with asleep(commands):
        assert push(commands, "--json").json["dispatch"] == "queued"
        assert queued(commands) == [(f"dispatch-{slug(path)}", f"thread dispatch --thread {path}")]
    eventually(lambda: queued(commands) == [])


def test_pushes_while_a_dispatch_is_queued_queue_no_other_whoever_pushes(commands: BusyQueueCommands) -> None:
    commands.subscribe("c", reader(commands.folder / "seen"))
    with asleep(commands):
        assert push(commands, "--json").json["dispatch"] == "queued"
        for source in ("self", SOURCE, "internal:dm:default:warden"):
            finished = commands.on_queue("push", "--json", "--source", source, "--type", "message", "--content", "x")
            assert (finished.code, finished.json["dispatch"]) == (0, "already queued")
        assert len(queued(commands)) == 1
    seen = commands.folder / "seen"
    eventually(lambda: seen.exists() and [event["id"] for event in lines(seen.read_text())] == [1, 2, 3, 4])


def test_two_queues_of_one_slug_are_both_dispatched(short: BusyQueueCommands) -> None:
    queues = [short.folder / "a-b", short.folder / "a_b", short.folder / "a" / "b"]
    for queue in queues:
        short.queue = queue
        short.init()
        short.subscribe("c", f"{acking(1)}; touch ran")
    with asleep(short):
        for queue in queues:
            short.queue = queue
            assert push(short, "--json").json["dispatch"] == "queued"
        assert len(queued(short)) == 3
        assert len({task for task, _ in queued(short)}) == 1
    eventually(lambda: all((queue / "handlers" / "c" / "ran").exists() for queue in queues))


def test_a_home_of_the_notifier_that_is_broken_is_reported(commands: BusyQueueCommands) -> None:
    commands.home.write_text("mine")
    commands.subscribe("c", f"{acking(2)}; touch ran")
    _reported(commands)
    assert commands.home.read_text() == "mine"
    assert commands.on_queue("dispatch").stdout == "c: started\n"
    eventually((commands.work() / "ran").exists)


def test_a_push_with_nobody_subscribed_leaves_nothing_behind(commands: BusyQueueCommands) -> None:
    assert push(commands).code == 0
    eventually(lambda: queued(commands) == [])
    commands.runner_gone()
    assert {line.split()[1] for line in commands.log().splitlines()} == {"[INFO]"}


def test_the_dispatch_of_a_queue_that_was_deleted_meanwhile_creates_nothing(commands: BusyQueueCommands) -> None:
    with asleep(commands):
        assert push(commands).code == 0
        shutil.rmtree(commands.queue)
    eventually(lambda: queued(commands) == [])
    assert not commands.queue.exists()


def test_who_subscribes_to_unread_events_has_its_dispatch_scheduled_and_others_have_not(commands: BusyQueueCommands) -> None:
    other = NotifierRecorder(commands.folder)
    commands.under(other.environment, "subscribe", "--consumer", "early", "--handler", "true")
    commands.push(**UNSCHEDULED)
    commands.under(other.environment, "subscribe", "--consumer", "choosy", "--handler", "true", "--filter", "type = 'record'")
    commands.under(other.environment, "subscribe", "--consumer", "late", "--handler", "true", "--last-event-id", "1")
    assert other.told() == []
    commands.under(other.environment, "subscribe", "--consumer", "new", "--handler", "true")
    assert [call[5] for call in other.told()] == [f"dispatch-{slug(commands.queue.resolve())}"]
