"""Commands that start warm: forked by a process that has imported them already, instead of by a new interpreter each time.

Starting an interpreter and importing our modules is three quarters of what a command costs, and tests run many thousands. A forked command
is a real process all the same. What it shares with others is what the interpreter itself did when it started: so whatever has an influence
on that is started cold, and so are the transcripts, in which every command acts.
"""

from __future__ import annotations

import atexit
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.cli import fork_server

START = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # what the interpreter itself is started with
READ_AT_IMPORT = "INBOX_LIMITS"  # by a module that a forked command has imported already
OURS = ("INBOX_", "MAILBOX_", "THREAD_", "NOTIFIER_", "POSTROOM_")
READ_LATE = {"PATH", "HOME", "TERM", "COLUMNS", "NO_COLOR"}  # by our own code, each time that they are needed
SERVER = "postroom.server"  # and all that it is built on: only the commands that serve load it
HEAVY = (
    SERVER,
    "pydantic",
    "psycopg",
    "asyncio",
    "textual",
    "rich",
)  # most commands do without: to carry these along doubles what a fork costs
LARGEST = fork_server.LARGEST - 4096  # what is larger than that is for the system to judge


def suits(argv: Sequence[str | bytes], environment: Mapping[str, str]) -> bool:
    """Whether a command would be the same, were it started cold."""
    size = sum(len(os.fsencode(word)) + 1 for word in (*argv, *environment, *environment.values()))
    theirs = {name: value for name, value in environment.items() if not name.startswith(OURS) and name not in READ_LATE}
    return theirs == {"LANG": START["LANG"]} and size < LARGEST and READ_AT_IMPORT not in environment


class ForkServer:
    """The test's end of a process that forks commands, and has not imported what is left out. Threads may share it."""

    def __init__(self, *without: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, fork_server.__file__, str(theirs.fileno()), *without],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=START,
                pass_fds=(theirs.fileno(),),
            )

    def run(
        self,
        program: tuple[str, str, str],
        argv: Sequence[str | bytes],
        *,
        cwd: Path,
        env: Mapping[str, str],
        input: bytes,
        timeout: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """Do what `subprocess.run` does. A program is its name, its path as it sees it, and where it looks for modules first."""
        talk = Talk(input)
        self._ask(program, argv, cwd, env, talk.theirs, talk.answer)
        code, stdout, stderr = talk.finish([program[0], *argv], timeout)
        return subprocess.CompletedProcess([program[0], *argv], code, stdout, stderr)

    def start(
        self,
        program: tuple[str, str, str],
        argv: Sequence[str | bytes],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Forked:
        """Do what `subprocess.Popen` does. The files that it is given stay the caller's."""
        heard, answer = os.pipe()
        self._ask(program, argv, cwd, env, [os.dup(stdin), os.dup(stdout), os.dup(stderr)], answer)
        return Forked([program[0], *argv], heard)

    def start_heard(self, program: tuple[str, str, str], argv: Sequence[str | bytes], *, cwd: Path, env: Mapping[str, str]) -> Forked:
        """Start a command with nothing to read, whose output and errors are read here."""
        stdout, stderr = os.pipe(), os.pipe()
        try:
            with open(os.devnull) as nothing:
                forked = self.start(program, argv, cwd=cwd, env=env, stdin=nothing.fileno(), stdout=stdout[1], stderr=stderr[1])
        finally:
            os.close(stdout[1])
            os.close(stderr[1])
        forked.stdout, forked.stderr = (open(pipe[0], "rb", buffering=0) for pipe in (stdout, stderr))  # noqa: SIM115 # until it has ended
        return forked

    def _ask(
        self,
        program: tuple[str, str, str],
        argv: Sequence[str | bytes],
        cwd: Path,
        env: Mapping[str, str],
        streams: list[int],
        answer: int,
    ) -> None:
        """Send a command line, with the files that it is given, which are closed here."""
        words = [*program, str(_umask()), str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
        given = [*streams, answer]
        try:
            given.insert(len(streams), os.open(cwd, os.O_PATH | os.O_DIRECTORY))
            socket.send_fds(self._socket, [b"\0".join(map(os.fsencode, words))], given)
        finally:
            for file in given:
                os.close(file)

    def close(self) -> None:
        self._socket.close()
        self.process.communicate(timeout=60)


def wait_until_readable(files: Sequence[IO[Any]], timeout: float | None) -> list[IO[Any]]:
    """Return the files that can be read. By poll: `select` takes no descriptor above 1023, and a worker of pytest may have more."""
    with selectors.PollSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(timeout)]  # type: ignore[misc]


class Forked:
    """A forked command that runs: as much of `subprocess.Popen` as is used of one that has nothing to read."""

    def __init__(self, line: Sequence[str | bytes], heard: int) -> None:
        self._line = list(line)
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self._heard = open(heard, "rb", buffering=0)  # noqa: SIM115 # until it has ended
        self.pid = int(self._heard.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not wait_until_readable([self._heard], timeout):
                raise subprocess.TimeoutExpired(self._line, timeout or 0)
            self.returncode = int(self._heard.readline())
            self._heard.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """What it has written since it was last read, once it has ended."""
        assert self.stdout is not None, "its streams are the caller's"
        assert self.stderr is not None
        deadline = None if timeout is None else time.monotonic() + timeout
        heard: dict[IO[bytes], bytes] = {self.stdout: b"", self.stderr: b""}
        left = [stream for stream in heard if not stream.closed]
        while left:
            ready = wait_until_readable(left, None if deadline is None else max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(self._line, timeout or 0)
            for stream in ready:
                read = stream.read(1 << 16)
                heard[stream] += read
                if not read:
                    left.remove(stream)
                    stream.close()
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return heard[self.stdout], heard[self.stderr]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Talk:
    """The input of a command and its output, until it has ended and all its pipes are closed."""

    def __init__(self, said: bytes) -> None:
        listens, self._tells = os.pipe()
        pipes = [os.pipe() for _ in range(3)]
        self.theirs = [listens, pipes[0][1], pipes[1][1]]
        self.answer = pipes[2][1]
        self._heard = {ours: bytearray() for ours, _ in pipes}
        self._said = memoryview(said)
        self._poll = select.poll()
        for ours in self._heard:
            self._poll.register(ours, select.POLLIN)
        os.set_blocking(self._tells, False)
        self._poll.register(self._tells, select.POLLOUT)
        self._open = {*self._heard, self._tells}

    def finish(self, line: Sequence[str | bytes], timeout: float) -> tuple[int, bytes, bytes]:
        """Its exit code, its output and its errors."""
        deadline = time.monotonic() + timeout
        stdout, stderr, answer = self._heard.values()
        try:
            while self._open:
                if time.monotonic() > deadline:
                    self._give_up(bytes(answer))
                    raise subprocess.TimeoutExpired(list(line), timeout, bytes(stdout), bytes(stderr))
                for file, _ in self._poll.poll(1000):
                    self._tell(file) if file == self._tells else self._hear(file)
        finally:
            for file in list(self._open):
                self._shut(file)
        assert answer.count(b"\n") == 2, "the process that forks commands has gone"
        return int(answer.split()[1]), bytes(stdout), bytes(stderr)

    def _tell(self, file: int) -> None:
        try:
            self._said = self._said[os.write(file, self._said[: select.PIPE_BUF]) :] if self._said else self._said
        except BrokenPipeError:  # it does not listen any more
            self._said = self._said[:0]
        if not self._said:
            self._shut(file)

    def _hear(self, file: int) -> None:
        heard = os.read(file, 1 << 16)
        self._heard[file] += heard
        if not heard:
            self._shut(file)

    def _shut(self, file: int) -> None:
        self._poll.unregister(file)
        self._open.remove(file)
        os.close(file)

    def _give_up(self, answer: bytes) -> None:
        if answer.count(b"\n") == 1:  # it was started, and has not ended
            os.kill(int(answer), 9)


def _umask() -> int:
    """Ours, without changing it for a moment, as asking the system does."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Umask:")[2].split()[0], 8)


def server(argv: Sequence[str | bytes]) -> ForkServer:
    """The one that a command is best forked from. A wrong guess costs time, and nothing else."""
    if any(word in ("serve", "mcp") for word in argv[:2]):
        return _started()
    heavy = not {"task", "job", "sheet"}.isdisjoint(argv[:2]) or any(word.startswith("postgres") for word in map(os.fsdecode, argv))
    return _started(SERVER) if heavy else _started(*HEAVY)


def python(program: str, *argv: str, cwd: Path, stdin: int, stdout: int) -> Forked:
    """Run a program as `python -c` does, with this environment, and with all modules of ours but the server imported already."""
    named = "-c", program, ""
    return _started(SERVER).start(named, argv, cwd=cwd, env=os.environ, stdin=stdin, stdout=stdout, stderr=2)


@cache
def _started(*without: str) -> ForkServer:
    """One for each process that runs tests, started when it is first needed."""
    started = ForkServer(*without)
    atexit.register(started.close)
    return started
