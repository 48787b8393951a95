"""Our own child interpreters have limits of memory, CPU time and core files. Programs that they start for a person have none."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.core import limits
from postroom.people.agents import ringer_process
from postroom.processes.interpreter import isolated_command, short_environment
from tests.cli.process import eventually
from tests.conftest import fresh_file

LIMITS = "import json, resource; print(json.dumps([resource.getrlimit(one)[0] for one in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]))"
ABOUT_LINUX = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="the limits of a process are read from /proc")


def soft_limits(pid: int | str) -> tuple[str, str, str]:
    """The limits of address space, CPU time and core files, as the kernel knows them."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    names = ("Max address space", "Max cpu time", "Max core file size")
    memory, cpu, core = (next(line.removeprefix(name).split()[0] for line in lines if line.startswith(name)) for name in names)
    return memory, cpu, core


def own_limits() -> list[int]:
    return [resource.getrlimit(one)[0] for one in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]


def run_child(code: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the installation's packages with the limits of a child: `timeit`, which runs a statement once."""
    command = isolated_command("timeit", "-n1", "-r1", code)
    return subprocess.run(command, cwd="/", env=short_environment(), capture_output=True, text=True, timeout=60, check=False)


def test_a_child_has_limits(tmp_path: Path) -> None:
    ran = run_child(LIMITS)
    assert json.loads(ran.stdout.splitlines()[0]) == [limits.MAX_CHILD_MEMORY_BYTES, limits.MAX_CHILD_CPU_SECONDS]


def test_a_child_that_takes_too_much_memory_fails_alone(tmp_path: Path) -> None:
    ran = run_child(f"bytearray({limits.MAX_CHILD_MEMORY_BYTES})")
    assert ran.returncode != 0
    assert "MemoryError" in ran.stderr


def test_the_operator_sets_the_limits_of_children(tmp_path: Path) -> None:
    code = (
        "import subprocess; from postroom.processes.interpreter import isolated_command; "
        f"subprocess.run(isolated_command('timeit', '-n1', '-r1', {LIMITS!r}))"
    )
    environment = {**short_environment(), limits.VARIABLE: "MAX_CHILD_MEMORY_BYTES=600MiB MAX_CHILD_CPU_SECONDS=7"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ran.stdout.splitlines()[0]) == [600 << 20, 7]


def test_a_program_that_a_child_starts_for_a_person_has_no_limits(tmp_path: Path) -> None:
    shown = tmp_path / "limits"
    code = (
        "import os; from postroom.processes.process_group import spawn_group; "
        f"out = os.open({str(shown)!r}, os.O_WRONLY | os.O_CREAT); "
        f"os.waitpid(spawn_group('ulimit -S -v; ulimit -S -t', {{'PATH': os.environ['PATH']}}, (0, out, out))[0], 0)"
    )
    ran = run_child(f"{code}\n{LIMITS}")
    assert json.loads(ran.stdout.splitlines()[0]) == [limits.MAX_CHILD_MEMORY_BYTES, limits.MAX_CHILD_CPU_SECONDS], ran.stderr
    unlimited = ["unlimited" if one == resource.RLIM_INFINITY else str(one) for one in own_limits()]
    assert shown.read_text().split() == unlimited


@ABOUT_LINUX
@pytest.mark.parametrize("starts", ["push", "dispatch"])
def test_what_runs_handlers_has_limits_and_the_handlers_have_none(tmp_path: Path, starts: str) -> None:
    place, shown = str(tmp_path / "queue"), tmp_path / "shown"
    # `push` starts the handler by the runner of the notifier, unless it has another notifier. `dispatch` starts a supervisor.
    environment = {**short_environment(), "NOTIFIER_HOME": str(tmp_path / "notifier"), "NOTIFIER_IDLE_SECONDS": "0.1"}
    if starts == "dispatch":
        environment["THREAD_NOTIFIER"] = "true"

    def thread(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "postroom.cli.thread", *words], env=environment, check=True, timeout=60, capture_output=True)

    thread("init", place)
    handler = (
        f"cat /proc/$PPID/limits > {shown}.parent; cat /proc/self/limits > {shown}.self; thread ack --last-event-id 1; touch {shown}.done"
    )
    thread("subscribe", place, "--consumer", "watcher", "--handler", handler)
    thread("push", place, "--source", "internal:dm:default:warden", "--type", "message", "--content", "Hello")
    if starts == "dispatch":
        thread("dispatch", place)
    eventually(Path(f"{shown}.done").exists)
    assert str(limits.MAX_CHILD_MEMORY_BYTES) in Path(f"{shown}.parent").read_text()
    assert str(limits.MAX_CHILD_MEMORY_BYTES) not in Path(f"{shown}.self").read_text()


@ABOUT_LINUX
def test_a_ringer_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def note(*args: object, **more: object) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **more))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    owner = popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ringer_process.start_ringer(fresh_file(tmp_path), harness="codex", agent="ada", session="s1", owner_pid=owner.pid)
    try:
        eventually(lambda: soft_limits(started[0].pid)[0] == str(limits.MAX_CHILD_MEMORY_BYTES))
        assert soft_limits(started[0].pid)[2] == "0"
    finally:
        owner.communicate(b"\n")
        started[0].kill()
        started[0].wait()
