"""The command `mailbox`, as a real process: what `process.py` is for `inbox`."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.cli.process import LIMIT, Finished, Inbox, ProgramUnderTest, Waiter, eventually, module

MAILBOX = module("mailbox")
COMMAND = MAILBOX.line
LINE = shlex.join(COMMAND)  # the same, for a shell
SESSION = "analyst"
SENDER = "orchestrator"
PAYLOAD = "analyze the auth module"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ENQUEUE = ("enqueue", "--from", SENDER, "--to", SESSION)
LONG = "3600"  # no test takes this long: with it, time moves nothing by itself


def flagged(*identity: str, session: str = SESSION) -> tuple[str, ...]:
    """Flags that name a session and messages in it."""
    return ("--session", session, *(word for one in identity for word in ("--msg-id", one)))


class Mailbox(Inbox):
    """The command `mailbox`, run in a folder. What it started is ended with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._started: list[Waiter] = []

    @property
    def program(self) -> ProgramUnderTest:
        return MAILBOX

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for waiter in self._started:
            if waiter.alive():
                waiter.process.kill()
                waiter.process.communicate(timeout=LIMIT)

    def execute(
        self,
        argv: Sequence[str | bytes],
        environment: dict[str, str],
        *,
        stdin: bytes = b"",
        unprivileged: bool = False,
        program: str = "mailbox",
    ) -> Finished:
        return MAILBOX.run(
            argv,
            folder=self.folder,
            environment=self.environment(**environment),
            stdin=stdin,
            unprivileged=unprivileged,
        )

    def start(self, *argv: str, **environment: str) -> Waiter:
        waiter = MAILBOX.start_heard(argv, folder=self.folder, environment=self.environment(**environment))
        self._started.append(waiter)
        return waiter

    def answers(self, *argv: str, code: int = 0, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        """Return the JSON of a command without the envelope, which is checked here."""
        finished = self.execute([*argv, "--json"], environment, stdin=stdin)
        assert (finished.code, finished.stderr) == (code, ""), finished
        return unwrap(finished, argv[0])

    def refusal(self, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        """How both forms refuse, alike: the error as JSON says it, and the exit code."""
        spoken, written = self.run_each(argv, ["--json", *argv], stdin=stdin, **environment)
        assert "Traceback" not in spoken.stderr + written.stderr, spoken
        assert written.raw.count(b"\n") == 1, written
        assert written.json["schema_version"] == 1
        assert (spoken.code, spoken.stdout) == (written.code, ""), spoken
        assert spoken.stderr.startswith(f"error: {written.error[2]}\n"), spoken
        assert "bug in Postroom" not in spoken.stderr, spoken
        error: dict[str, Any] = written.json["error"]
        assert error["message"]
        assert len(error["message"]) < 1000, "a refusal does not echo pages"
        return {"exit": written.code, **error}

    def enqueue(self, payload: str = PAYLOAD, *more: str, sender: str = SENDER, to: str = SESSION) -> str:
        """A new message; its id."""
        answer = self.answers("enqueue", "--from", sender, "--to", to, f"--payload={payload}", *more)
        assert answer["queued"] is True, answer
        identity: str = answer["msg_id"]
        return identity

    def dequeue(self, session: str = SESSION) -> dict[str, Any]:
        return self.answers("dequeue", "--session", session)

    def set_policy(self, session: str = SESSION, **values: float | str) -> None:
        flags = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        self.answers("policy", "--session", session, *flags)

    def dead(self, reason: str = "no such table", session: str = SESSION) -> str:
        """A message that was nacked once too often; its id."""
        self.set_policy(session, max_retries=0)
        identity = self.enqueue(to=session)
        self.dequeue(session)
        assert self.answers("nack", "--session", session, "--msg-id", identity, f"--reason={reason}")["state"] == "dead_letter"
        return identity

    def state(self, identity: str) -> str:
        state: str = self.answers("show", "--msg-id", identity)["state"]
        return state

    def steps(self, identity: str) -> list[str]:
        return [step["step"] for step in self.answers("show", "--msg-id", identity)["steps"]]

    def reasons(self, identity: str) -> list[str]:
        """Why a message was nacked, each time."""
        steps = self.answers("show", "--msg-id", identity)["steps"]
        return [step["reason"] for step in steps if step["step"] == "nacked"]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing in the store is changed, and nothing is written beside it."""
        before = self.everything(), self.outside()
        yield
        assert (self.everything(), self.outside()) == before

    def outside(self) -> list[str]:
        """Every file and folder here that is not the store's, and of the folders above."""
        here = [str(file) for file in self.folder.rglob("*") if self.db.parent not in (file, *file.parents)]
        return sorted(here) + sorted(str(file) for file in self.folder.parent.iterdir())


def unwrap(finished: Finished, command: str) -> dict[str, Any]:
    """An answer without its envelope."""
    assert finished.raw.count(b"\n") == 1, "not one object on one line"
    answer: dict[str, Any] = finished.json
    assert (answer.pop("ok"), answer.pop("schema_version"), answer.pop("command")) == (True, 1, command)
    return answer


class Gate:
    """Where a command waits until a test lets it go on: `read go < gate`."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self._path = folder / name
        os.mkfifo(self._path)

    def open(self) -> None:
        """Let one command through, once it is there."""
        eventually(self._opened)

    def _opened(self) -> bool:
        try:
            end = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody is there yet
                raise
            return False
        os.write(end, b"go\n")
        os.close(end)
        return True


def written(file: Path) -> str:
    """Return the content of a file, once a command has written it."""
    eventually(lambda: file.exists() and file.read_text().strip() != "")
    return file.read_text().strip()
