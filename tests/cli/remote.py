"""The commands, told that their store is behind a server: a real one, over the store that lies in their folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import postroom
from postroom import people
from postroom.cli.inbox.spec import INBOX
from postroom.cli.mailbox.spec import MAILBOX
from postroom.core import clock
from tests.cli.process import Finished, Inbox

if TYPE_CHECKING:
    from tests.server_in_thread import ServerInThread

PROGRAMS = {"inbox": INBOX, "mailbox": MAILBOX}
FORBIDDEN = 30
_DOOR = re.compile(rb'(?m)("door": "|^  \S+Z  \w+ +\S+  )(?:unix|relay|http)("|$|  \S+$)')


@contextmanager
def served(relay: ServerInThread, wire: str, db: Path) -> Iterator[dict[str, str]]:
    """Return the variables that a command needs while the server has this store. Over TCP it needs a person's token."""
    with relay.serving(str(db), clock.now):
        variables = {"INBOX_DB": relay.url(wire)}
        if wire == "http":
            with closing(postroom.open(str(db))) as store:
                variables["INBOX_TOKEN"] = people.issue_bearer(store, person="user")
        yield variables


def named(program: str, argv: Sequence[str | bytes]) -> str:
    """Which command a line is."""
    words = [str(word) for word in argv if not str(word).startswith("-")]
    table = PROGRAMS[program]
    return " ".join(words[:2]) if words[:1] and words[0] in table.groups else "".join(words[:1])


def like_here(finished: Finished) -> Finished:
    """With the door by which it would have come in here: that is the one thing that has to differ everywhere."""
    return Finished(finished.code, _DOOR.sub(rb"\1cli\2", finished.raw), finished.stderr.encode())


class Remote(Inbox):
    """`inbox`, from afar. `here`: commands that concern the server's machine, and which the server must refuse: they are then run there."""

    def __init__(self, folder: Path, relay: ServerInThread, wire: str, here: frozenset[str]) -> None:
        super().__init__(folder)
        self._relay, self._wire, self._here = relay, wire, here
        self._ending = ExitStack()
        self._served: dict[str, str] = {}
        self.refused: list[str] = []

    def execute(
        self,
        argv: Sequence[str | bytes],
        environment: dict[str, str],
        *,
        stdin: bytes = b"",
        unprivileged: bool = False,
        program: str = "inbox",
    ) -> Finished:
        name = named(program, argv) if program in PROGRAMS else None
        if name == "init" and not self._served:
            done = super().execute(argv, environment, stdin=stdin, program=program)
            self._served = self._ending.enter_context(served(self._relay, self._wire, self.db))
            return done
        if name is None:
            return super().execute(argv, environment, stdin=stdin, program=program)
        afar = super().execute(argv, {**self._served, **environment}, stdin=stdin, program=program)
        if name not in self._here or "--help" in argv:
            return like_here(afar)
        there = super().execute(argv, environment, stdin=stdin, program=program)
        if there.code == 0:  # what is refused by itself may be refused anywhere
            assert afar.code == FORBIDDEN, f"{name} was not refused over the network: {afar}"
            assert "--db PATH" in afar.stdout + afar.stderr, afar
            self.refused.append(name)
        return there

    def close(self) -> None:
        self._ending.close()
