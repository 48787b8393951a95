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

from tests.cli.process import Finished, eventually
from tests.cli.queue_process import UNSCHEDULED, BusyOffice, acking, lines, reader

SOURCE = "external:telegram:tg-main:group:grp-123/topic-456:alice"
PUSH = ("--source", SOURCE, "--type", "message", "--content", "hello")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[BusyOffice]:
    with BusyOffice(tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def short() -> Iterator[BusyOffice]:
    """An office in a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        assert len(folder) <= 30
        with BusyOffice(Path(folder).resolve()) as made:
            yield made


class Recorder:
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


def push(office: BusyOffice, *more: str, **environment: str) -> Finished:
    return office.under(environment, "push", *PUSH, *more)


def slug(path: Path) -> str:
    text = re.sub("[^A-Za-z0-9]", "-", str(path)).lstrip("-")
    return text if len(text) <= 40 else f"{text[:32]}-{hashlib.sha1(str(path).encode()).hexdigest()[:6]}"


# another notifier


def test_another_notifier_is_told_author_task_and_command(office: BusyOffice) -> None:
    other = Recorder(office.folder)
    finished = push(office, **other.environment)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "1\n", "")
    path = office.queue.resolve()
    command = f"thread dispatch --thread {path}"
    expected = ["task", "add", "--author", SOURCE, "--task-id", f"dispatch-{slug(path)}", "--command", command]
    assert other.told() == [expected]
    assert f"] [INFO] push: task=dispatch-{slug(path)} queued\n" in office.log()
    assert not office.home.exists()


def test_another_notifier_may_be_a_shell_line(office: BusyOffice) -> None:
    folder = office.folder / "with space"
    folder.mkdir()
    other = Recorder(folder)
    line = f"MARK=1 {shlex.quote(str(other.script))} --first 'a b'"
    assert push(office, THREAD_NOTIFIER=line).code == 0
    assert other.told()[0][:4] == ["--first", "a b", "task", "add"]


def test_a_path_that_a_shell_would_take_apart_is_quoted(office: BusyOffice) -> None:
    office.queue = office.folder / "it's a $(touch forged) ü; queue"
    office.init()
    other = Recorder(office.folder)
    assert push(office, **other.environment).code == 0
    assert shlex.split(other.told()[0][-1]) == ["thread", "dispatch", "--thread", str(office.queue.resolve())]


def test_a_queue_named_by_a_relative_path_or_a_link_is_the_same_task(office: BusyOffice) -> None:
    other = Recorder(office.folder)
    (office.folder / "link").symlink_to(office.queue)
    for path in ("queue", "./link/../queue/", "link", str(office.queue)):
        assert office.run("thread", ["push", "--thread", path, *PUSH], other.environment).code == 0
    assert len(other.told()) == 4
    assert all(call == other.told()[0] for call in other.told())


def test_a_batch_is_one_dispatch_in_the_name_of_its_last_source(office: BusyOffice) -> None:
    other = Recorder(office.folder)
    batch = [{"source": source, "type": "message", "content": "x"} for source in ("self", SOURCE, "internal:dm:default:warden")]
    stdin = "".join(json.dumps(event) + "\n" for event in batch).encode()
    assert office.on_queue("push", "--batch", stdin=stdin, **other.environment).stdout == "1\n2\n3\n"
    assert [call[3] for call in other.told()] == ["internal:dm:default:warden"]


def test_an_empty_batch_schedules_nothing(office: BusyOffice) -> None:
    other = Recorder(office.folder)
    finished = office.on_queue("push", "--batch", "--json", stdin=b"\n\n", **other.environment)
    assert (finished.code, finished.json) == (0, {"ids": [], "count": 0, "dispatch": "none"})
    assert other.told() == []


@pytest.mark.parametrize(("name", "whole"), [("my-project/thread", True), ("x_Y.z", True), ("ü", True), ("deep/" * 8 + "queue", False)])
def test_the_slug_is_the_path_with_hyphens_and_a_hash_when_it_is_long(short: BusyOffice, name: str, whole: bool) -> None:
    short.queue = short.folder / name
    short.init()
    other = Recorder(short.folder)
    assert push(short, **other.environment).code == 0
    task = other.told()[0][5]
    assert task == f"dispatch-{slug(short.queue)}"
    assert (task == "dispatch-" + re.sub("[^A-Za-z0-9]", "-", str(short.queue)[1:])) is whole
    assert len(task) <= len("dispatch-") + 40


@pytest.mark.parametrize(("length", "whole"), [(40, True), (41, False)])
def test_a_slug_of_forty_characters_is_whole_and_of_one_more_is_cut(short: BusyOffice, length: int, whole: bool) -> None:
    short.queue = short.folder / ("q" * (length - len(str(short.folder))))
    short.init()
    other = Recorder(short.folder)
    assert push(short, **other.environment).code == 0
    text = re.sub("[^A-Za-z0-9]", "-", str(short.queue)[1:])
    assert len(text) == length
    cut = f"{text[:32]}-{hashlib.sha1(str(short.queue).encode()).hexdigest()[:6]}"
    assert other.told()[0][5] == f"dispatch-{text if whole else cut}"


# what another notifier answers


def test_what_another_notifier_says_is_kept_from_the_output(office: BusyOffice) -> None:
    other = Recorder(office.folder, "echo said; echo problem >&2; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 0")
    finished = push(office, "--json", **other.environment)
    assert (finished.code, finished.stderr, finished.json["dispatch"]) == (0, "", "queued")
    assert finished.stdout.count("\n") == 1


@pytest.mark.parametrize("ending", ["echo 'Task Already exists' >&2; exit 1", "echo ALREADY QUEUED; exit 1"])
def test_a_genuine_already_queued_is_success(office: BusyOffice, ending: str) -> None:
    other = Recorder(office.folder, ending)
    finished = push(office, **other.environment)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "1\n", "")
    assert push(office, "--json", **other.environment).json["dispatch"] == "already queued"
    assert f"] [INFO] push: task=dispatch-{slug(office.queue.resolve())} already queued\n" in office.log()


FAILURES = {
    "exit 1 without a word": "exit 1",
    "a crash that exits 1": "echo 'Error: ENOENT: no such file or directory, open /x/grp-123/topic' >&2; exit 1",
    "another exit status": "echo already queued; exit 2",
    "storage": "exit 50",
    "killed": "echo already queued; kill -s KILL $$",
    "unknown": "exit 255",
}


@pytest.mark.parametrize("ending", FAILURES.values(), ids=FAILURES.keys())
def test_anything_else_is_reported_and_the_event_is_stored_all_the_same(office: BusyOffice, ending: str) -> None:
    _reported(office, **Recorder(office.folder, ending).environment)


@pytest.mark.parametrize("line", ["no-such-notifier", "./no-such-notifier already", "'unbalanced", "exit 1; already"])
def test_a_notifier_that_is_none_is_reported(office: BusyOffice, line: str) -> None:
    _reported(office, THREAD_NOTIFIER=line)


def test_a_notifier_that_hangs_is_reported_and_ended(office: BusyOffice) -> None:
    pid = office.folder / "pid"
    other = Recorder(office.folder, f"echo already queued; echo $$ > '{pid}'; exec sleep 600")
    finished = push(office, **other.environment, THREAD_NOTIFIER_SECONDS="1")
    assert (finished.code, finished.stdout) == (1, "1\n")
    assert "stored" in finished.stderr
    eventually(lambda: int(pid.read_text()) not in office.processes())


def test_a_notifier_that_starts_its_daemon_and_ends_is_believed(office: BusyOffice) -> None:
    """What it leaves behind has its output, and may keep that open for ever."""
    for ending, said in (("exit 0", "queued"), ("echo already queued; exit 1", "already queued")):
        other = Recorder(office.folder, f"sleep 60 &\n{ending}")
        finished = push(office, "--json", **other.environment, THREAD_NOTIFIER_SECONDS="2")
        assert (finished.code, finished.json["dispatch"]) == (0, said), finished


def _reported(office: BusyOffice, **environment: str) -> None:
    spoken, written = push(office, **environment), push(office, "--json", **environment)
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
    assert len(lines(office.on_queue("peek", "--last-event-id", "0").stdout)) == len(office.journal()) == 2
    assert f"] [WARN] push: task=dispatch-{slug(office.queue.resolve())} failed: " in office.log()


def test_a_batch_whose_dispatch_failed_is_stored_and_says_its_ids(office: BusyOffice) -> None:
    batch = b'{"source": "self", "type": "record", "content": "x"}\n' * 2
    finished = office.on_queue("push", "--batch", "--json", stdin=batch, THREAD_NOTIFIER="false")
    assert (finished.code, finished.json) == (1, {"ids": [1, 2], "count": 2, "dispatch": "failed"})
    assert "stored" in finished.stderr


# the notifier that is built in


@contextmanager
def asleep(office: BusyOffice) -> Iterator[None]:
    """The runner is up, and does nothing in the meantime."""
    office.start("notifier", "start")
    eventually(lambda: office.told("notifier", "status")["resident"] is True)
    pid = office.runner()
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


def queued(office: BusyOffice) -> list[tuple[str, str]]:
    return [(task["task_id"], task["command"]) for task in office.told("notifier", "task", "list")["tasks"]]


def test_the_built_in_notifier_queues_the_task_of_the_document(office: BusyOffice) -> None:
    path = office.queue.resolve()
    with asleep(office):
        assert push(office, "--json").json["dispatch"] == "queued"
        assert queued(office) == [(f"dispatch-{slug(path)}", f"thread dispatch --thread {path}")]
    eventually(lambda: queued(office) == [])


def test_pushes_while_a_dispatch_is_queued_queue_no_other_whoever_pushes(office: BusyOffice) -> None:
    office.subscribe("c", reader(office.folder / "seen"))
    with asleep(office):
        assert push(office, "--json").json["dispatch"] == "queued"
        for source in ("self", SOURCE, "internal:dm:default:warden"):
            finished = office.on_queue("push", "--json", "--source", source, "--type", "message", "--content", "x")
            assert (finished.code, finished.json["dispatch"]) == (0, "already queued")
        assert len(queued(office)) == 1
    seen = office.folder / "seen"
    eventually(lambda: seen.exists() and [event["id"] for event in lines(seen.read_text())] == [1, 2, 3, 4])


def test_two_queues_of_one_slug_are_both_dispatched(short: BusyOffice) -> None:
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
    eventually(lambda: all((queue / "ran").exists() for queue in queues))


def test_a_home_of_the_notifier_that_is_broken_is_reported(office: BusyOffice) -> None:
    office.subscribe("c", f"{acking(2)}; touch ran")
    office.home.write_text("mine")
    _reported(office)
    assert office.home.read_text() == "mine"
    assert office.on_queue("dispatch").stdout == "c: started\n"
    eventually((office.queue / "ran").exists)


def test_a_push_with_nobody_subscribed_leaves_nothing_behind(office: BusyOffice) -> None:
    assert push(office).code == 0
    eventually(lambda: queued(office) == [])
    office.runner_gone()
    assert {line.split()[1] for line in office.log().splitlines()} == {"[INFO]"}


def test_the_dispatch_of_a_queue_that_was_deleted_meanwhile_creates_nothing(office: BusyOffice) -> None:
    with asleep(office):
        assert push(office).code == 0
        shutil.rmtree(office.queue)
    eventually(lambda: queued(office) == [])
    assert not office.queue.exists()


def test_who_subscribes_to_unread_events_has_its_dispatch_scheduled_and_others_have_not(office: BusyOffice) -> None:
    other = Recorder(office.folder)
    office.under(other.environment, "subscribe", "--consumer", "early", "--handler", "true")
    office.push(**UNSCHEDULED)
    office.under(other.environment, "subscribe", "--consumer", "choosy", "--handler", "true", "--filter", "type = 'record'")
    office.under(other.environment, "subscribe", "--consumer", "late", "--handler", "true", "--last-event-id", "1")
    assert other.told() == []
    office.under(other.environment, "subscribe", "--consumer", "new", "--handler", "true")
    assert [call[5] for call in other.told()] == [f"dispatch-{slug(office.queue.resolve())}"]
