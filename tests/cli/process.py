"""The real command, as a real process, in a folder of its own and a clean environment."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cli import batch, fork_client

SCRIPTS = Path(sys.executable).parent
SCRIPT = str(SCRIPTS / "inbox")
LIMIT = 60.0  # a bound on what hangs, not on what is slow
_DAC_OVERRIDE, _DAC_READ_SEARCH, _DROP = 1, 2, 24  # <linux/capability.h>, PR_CAPBSET_DROP


class Finished:
    """How a process ended."""

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.raw = stdout
        self.stdout = stdout.decode()
        self.stderr = stderr.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> tuple[int, str, str]:
        """A refusal under --json: its exit code, its code, its message."""
        answer = self.json
        assert answer["ok"] is False, self
        assert self.stderr == "", self.stderr
        return self.code, answer["error"]["code"], answer["error"]["message"]

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.stdout}{self.stderr}"


class Waiter:
    """A process that is still running."""

    def __init__(self, process: subprocess.Popen[bytes] | fork_client.Forked) -> None:
        self.process = process

    def sleeping(self) -> Waiter:
        """Return when it waits: it catches SIGTERM, and watches the wake files.

        Where the system has no more inotify instances to give, it looks at the wake file instead: then it has slept for a while.
        """
        slept = 0

        def waits() -> bool:
            nonlocal slept
            if not self.catches(signal.SIGTERM):
                return False
            slept = slept + 1 if self._status("State") == "S" else 0
            return "anon_inode:inotify" in self._files() or slept > 50

        eventually(waits)
        return self

    def catches(self, number: signal.Signals) -> bool:
        return bool(int(self._status("SigCgt"), 16) >> (number - 1) & 1)

    def _status(self, field: str) -> str:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(line for line in status.splitlines() if line.startswith(f"{field}:")).split()[1]

    def _files(self) -> list[str]:
        found = []
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                found.append(os.readlink(file))
            except FileNotFoundError:  # closed while we looked
                continue
        return found

    def has_opened(self, path: Path) -> bool:
        return str(path.resolve()) in self._files()

    def waits_for(self, database: Path) -> bool:
        """Whether it has come to the front of the writers' line."""
        return str(database.resolve()) + ".lock" in self._files()

    def alive(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> Finished:
        stdout, stderr = self.process.communicate(timeout=LIMIT)
        return Finished(self.process.wait(), stdout, stderr)


def eventually(fact: Callable[[], bool]) -> None:
    """Wait for something that can be observed."""
    looked = time.monotonic()
    deadline = looked + LIMIT
    while not fact():
        now = time.monotonic()
        assert now < deadline, "it never came to be"
        time.sleep(max(0.004, 4 * (now - looked)))  # a look that starts a process takes time from what it waits for
        looked = time.monotonic()


def processes_with(variable: str) -> list[int]:
    """Every process that has `NAME=VALUE` in its environment, as those that came of a command that was run with it."""
    mark, found = variable.encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is somebody else's
            continue
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process exists and has not exited. It may go between the open and the read of its status."""
    try:
        return _state_of(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def suspend(pid: int) -> None:
    """Stop a process, and return once it has stopped: until then it may still handle a signal that is sent after SIGSTOP."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: _state_of(pid) == "T")


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def obey_permissions() -> None:
    """In a child of root: let the permissions of files hold, as they do for everybody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        if libc.prctl(_DROP, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot drop a capability")


def _child(unprivileged: bool) -> Callable[[], None] | None:
    return obey_permissions if unprivileged and os.geteuid() == 0 else None


class ProgramUnderTest:
    """A command of ours. `line` is how it is started; `script` and `path` are what it then finds in `sys.argv[0]` and `sys.path[0]`."""

    def __init__(self, name: str, line: tuple[str, ...], script: str, path: str) -> None:
        self.name = name
        self.line = line
        self._warm = name, script, path

    def run(
        self,
        argv: Sequence[str | bytes],
        *,
        folder: Path,
        environment: dict[str, str],
        stdin: bytes = b"",
        unprivileged: bool = False,
        cold: bool = False,
    ) -> Finished:
        """Run it to its end; `cold` is as a new interpreter, whatever that costs."""
        child = _child(unprivileged)
        if child is None and not cold and fork_client.suits(argv, environment):
            done = fork_client.server(argv).run(self._warm, argv, cwd=folder, env=environment, input=stdin, timeout=LIMIT)
        else:
            line = [*self.line, *argv]
            done = subprocess.run(
                line, input=stdin, capture_output=True, cwd=folder, env=environment, timeout=LIMIT, preexec_fn=child, check=False
            )
        return Finished(done.returncode, done.stdout, done.stderr)

    def run_each(
        self, lines: Sequence[Sequence[str | bytes]], *, folder: Path, environment: dict[str, str], stdin: bytes = b""
    ) -> list[Finished]:
        """Run command lines that are refused, or open no store, one after another in one process. Each reads the same."""
        if not all(fork_client.suits(line, environment) for line in lines):
            return [self.run(line, folder=folder, environment=environment, stdin=stdin) for line in lines]
        program, given = ("-c", batch.PROGRAM, ""), batch.make_input(lines, stdin)
        server = fork_client.server(lines[0])
        done = server.run(program, [self.name], cwd=folder, env=environment, input=given, timeout=LIMIT)
        assert (done.returncode, done.stderr) == (0, b""), done
        ended = [Finished(*answer) for answer in batch.read_answers(done.stdout)]
        assert len(ended) == len(lines)
        return ended

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: dict[str, str], stdout: int, stderr: int
    ) -> subprocess.Popen[bytes] | fork_client.Forked:
        """Start it, with nothing to read, and files to write into."""
        with open(os.devnull) as nothing:
            if fork_client.suits(argv, environment):
                streams = {"stdin": nothing.fileno(), "stdout": stdout, "stderr": stderr}
                return fork_client.server(argv).start(self._warm, argv, cwd=folder, env=environment, **streams)
            return subprocess.Popen([*self.line, *argv], stdin=nothing, stdout=stdout, stderr=stderr, cwd=folder, env=environment)

    def start_heard(self, argv: Sequence[str], *, folder: Path, environment: dict[str, str]) -> Waiter:
        """Start it, with nothing to read. What it writes is read here."""
        if fork_client.suits(argv, environment):
            return Waiter(fork_client.server(argv).start_heard(self._warm, argv, cwd=folder, env=environment))
        pipe = subprocess.PIPE
        return Waiter(
            subprocess.Popen([*self.line, *argv], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=folder, env=environment)
        )


def installed(name: str) -> ProgramUnderTest:
    """A command as people type it."""
    script = str(SCRIPTS / name)
    return ProgramUnderTest(name, (script,), script, str(SCRIPTS))


def module(name: str) -> ProgramUnderTest:
    """A command as `python -m` runs it: it looks for modules where it stands."""
    name_of_module = f"postroom.cli.{name}"
    found = find_spec(name_of_module)
    assert found is not None
    assert found.origin is not None
    return ProgramUnderTest(name, (sys.executable, "-m", name_of_module), found.origin, "")


class Inbox:
    """The command `inbox`, run in a folder; `cold` is as a new interpreter each time, without our short cut."""

    def __init__(self, folder: Path, *, cold: bool = False) -> None:
        self.folder = folder
        self.cold = cold
        self.served: dict[str, str] = {}  # where its store is, if that is behind a server

    @property
    def program(self) -> ProgramUnderTest:
        return installed("inbox")

    @property
    def db(self) -> Path:
        return self.folder / ".agents" / "coord.db"

    def environment(self, **more: str) -> dict[str, str]:
        quiet = {"NOTIFIER_IDLE_SECONDS": "0"}  # a runner that a command starts ends when it has nothing to do
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8", **quiet, **self.served, **more}

    def run(self, *argv: str | bytes, stdin: bytes = b"", unprivileged: bool = False, **environment: str) -> Finished:
        return self.execute(argv, environment, stdin=stdin, unprivileged=unprivileged)

    def execute(
        self,
        argv: Sequence[str | bytes],
        environment: dict[str, str],
        *,
        stdin: bytes = b"",
        unprivileged: bool = False,
        program: str = "inbox",
    ) -> Finished:
        return installed(program).run(
            argv,
            folder=self.folder,
            environment=self.environment(**environment),
            stdin=stdin,
            unprivileged=unprivileged,
            cold=self.cold,
        )

    def run_each(self, *lines: Sequence[str | bytes], stdin: bytes = b"", **environment: str) -> list[Finished]:
        """Run command lines that are refused, or open no store, in one process."""
        return self.program.run_each(lines, folder=self.folder, environment=self.environment(**environment), stdin=stdin)

    def shell(self, script: str, *, unprivileged: bool = False, setup: Callable[[Path], None] | None = None) -> Finished:
        """A line of shell, in which "$0" is the command."""
        if setup is not None:
            setup(self.folder)
        done = subprocess.run(
            ["bash", "-c", script, SCRIPT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self.environment(),
            timeout=LIMIT,
            preexec_fn=_child(unprivileged),
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def ok(self, *argv: str, stdin: bytes = b"", **environment: str) -> Any:
        """Run a command that must succeed, and return its JSON."""
        finished = self.execute([*argv, "--json"], environment, stdin=stdin)
        assert finished.code == 0, finished
        assert finished.stderr == "", finished
        return finished.json

    def says(self, *argv: str, **environment: str) -> str:
        """Run a command that must succeed, and return its text."""
        finished = self.execute(argv, environment)
        assert (finished.code, finished.stderr) == (0, ""), finished
        return finished.stdout

    def start(self, *argv: str, **environment: str) -> Waiter:
        return installed("inbox").start_heard(argv, folder=self.folder, environment=self.environment(**environment))

    def found(self) -> None:
        """A fresh store, if there is none: what `init` makes, which is made once and copied."""
        if not self.db.exists():
            shutil.copytree(_new_store(), self.db.parent)

    def send(self, subject: str = "Add the login page", *more: str) -> str:
        """A new thread from leader to builder; its id."""
        thread: str = self.ok("send", "--from", "leader", "--to", "builder", "--subject", subject, *more)["thread"]["thread_id"]
        return thread

    def everything(self) -> list[str]:
        """Every row of the store."""
        return rows_of(self.db)


def rows_of(place: Path) -> list[str]:
    """Every row of a store. A store whose files are the same bytes has the same rows, and is not read again."""
    files = [place, place.with_name(f"{place.name}-wal")]
    return _read_rows(place, *(file.read_bytes() for file in files if file.exists()))


@lru_cache(maxsize=4)
def _read_rows(place: Path, *content: bytes) -> list[str]:
    with closing(sqlite3.connect(place)) as store:
        return list(store.iterdump())


@cache
def _new_store() -> Path:
    """The folder that `inbox init` makes, to be copied. It is removed when the tests are over."""
    folder = TemporaryDirectory(prefix="postroom-new-")
    atexit.register(folder.cleanup)
    made = Inbox(Path(folder.name))
    made.ok("init")
    with closing(sqlite3.connect(made.db)) as store, store:
        store.execute("DELETE FROM settings WHERE name = 'place'")  # `inbox doctor` would call each copy a copy
    return made.db.parent
