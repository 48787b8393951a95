"""The process that our commands are forked from: an interpreter that has imported them once, and has done nothing else.

`fork_client.py` runs it as `python fork_server.py SOCKET WITHOUT…`. Each message on the socket is one command line. The answers are its
process id and its exit code. A program that is called `-c` is the text of one, as it is for Python itself. The forked process is like a
command that was just started: a process of its own with the folder, environment, arguments, standard streams and umask that it was given,
with no other file open, no signal handled, and no store ever opened before the fork.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # our own folder: no command would find its modules there

import gc
import os
import select
import socket
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

LARGEST = 1 << 16  # of a message
FILES = 5  # that come with one: standard input, output and error, the folder, and where the answers go


class CommandRequest:
    """A command line as it was asked for."""

    def __init__(self, message: bytes, files: list[int]) -> None:
        program, script, path, umask, words, *rest = message.split(b"\0")
        self.program, self.script, self.path = os.fsdecode(program), os.fsdecode(script), os.fsdecode(path)
        self.umask = int(umask)
        self.argv = [os.fsdecode(word) for word in rest[: int(words)]]
        self.environment = rest[int(words) :]
        *self.streams, self.folder, self.answer = files

    def become(self) -> Callable[[], object]:
        """In the fork: take on all that a new process would have been given. What is left to do is to call its entry point."""
        os.fchdir(self.folder)
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
        os.closerange(3, 4096)
        os.umask(self.umask)
        os.environb.clear()
        for variable in self.environment:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        sys.path.insert(0, self.path or os.getcwd())
        if self.program == "-c":
            sys.argv = [self.program, *self.argv]
            return partial(run_program, self.script)
        sys.argv = [self.script, *self.argv]
        entry: Callable[[], object] = import_module(f"postroom.cli.{self.program}").main
        return entry

    def forget(self) -> None:
        """In the server: only answers are still to be given."""
        for file in (*self.streams, self.folder):
            os.close(file)


def run_program(text: str) -> None:
    """Run the text of a program, wait for its threads, and end the process.

    An interpreter that ends takes all its modules apart. In a fork, that copies their memory: ten times the work of most programs.
    """
    exec(text, {"__name__": "__main__"})
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def import_all(*without: str) -> None:
    """Import every module that a command might need, except those of the packages that are left out: a command imports these itself.

    To be imported is all that happens to a module: `test_fork_client.py` sees to it.
    """
    for package in without:
        sys.modules[package] = None  # type: ignore[assignment]  # which says that it cannot be imported
    _import_within("postroom")
    for package in without:
        del sys.modules[package]


def _import_within(package: str) -> None:
    for _, name, is_package in iter_modules(import_module(package).__path__, f"{package}."):
        try:
            import_module(name)
        except ImportError:
            continue
        if is_package:
            _import_within(name)


def serve(asked: socket.socket) -> Callable[[], object]:
    """Fork what is asked for, and say how it ended, until nobody can ask any more. Returns in each fork, with what it is to do."""
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for file, _ in poll.poll():
            if file in running:
                poll.unregister(file)
                _bury(file, *running.pop(file))
                continue
            message, files, _, _ = socket.recv_fds(asked, LARGEST, FILES)
            if not message:
                return sys.exit
            command = CommandRequest(message, files)
            process = os.fork()
            if process == 0:
                return command.become()
            command.forget()
            _answer(command.answer, process)
            watched = os.pidfd_open(process)
            running[watched] = process, command.answer
            poll.register(watched, select.POLLIN)


def _bury(watched: int, process: int, answer: int) -> None:
    _answer(answer, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    os.close(watched)
    os.close(answer)


def _answer(answer: int, number: int) -> None:
    try:
        os.write(answer, b"%d\n" % number)
    except BrokenPipeError:  # who asked has gone
        pass


if __name__ == "__main__":
    import_all(*sys.argv[2:])
    gc.freeze()  # else a collection would touch, and so copy, in each fork all that was imported
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1])))())  # type: ignore[arg-type]
