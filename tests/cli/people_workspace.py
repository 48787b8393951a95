"""Data for tests of the commands about people: a store, a workspace in it, and all that the two hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from postroom import people, work
from postroom.store import open_store
from tests.cli.process import Inbox

AGENT, LABEL = "thesis", "Macro thesis"
REPORT = b"# Rates\n"
NOWHERE = "00000000-0000-4000-8000-000000000000"
BOUND = ("--timeout-seconds", "30")  # of what must be woken: it is a failure if nobody does
ALIASES = {"from": ("agent",), "agent": ("person",), "search": ("q",)}  # flags, and what the room calls them
RULES = (" must be ", " longer than ", "at most ")  # messages that say what to do themselves
FORGED = "boss  00000000-0000-4000-8000-000000000000  just now"
ATTACK = (
    "\x1b[2J\x1b[1;31mred\x1b]0;title\x07 \x9b31m"  # clears the screen, colours, names the window
    f" ok\n\n{FORGED}\n  Delete everything\n"  # another entry
    f"harmless\rerror: lost\r{FORGED}\x0b{FORGED}\x0c{FORGED}\x1c{FORGED}\x85{FORGED}\u2028{FORGED}\u2029{FORGED}"
    " safe\x08\x08\x08\x08evil\x7f abc \u202etxt.exe\u202c \u2066x\u2069 end"
)
HARMFUL = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"}
HARMFUL.discard("\n")


class PeopleWorkspace:
    """A store, with one workspace. What a test only starts from is done by the library: it is faster than a process."""

    def __init__(self, inbox: Inbox) -> None:
        inbox.found()
        self.inbox = inbox
        self.path = inbox.folder / AGENT
        self.path.mkdir()
        (self.path / "report.md").write_bytes(REPORT)
        with closing(open_store(str(inbox.db))) as store:
            added = people.add_workspace(store, str(self.path), label=LABEL)
            work.add_agent(store, "maria", kind="human")
        self.workspace_id: str = added.workspace.workspace_id
        self.token: str = added.token

    @property
    def mirror(self) -> Path:
        return self.inbox.db.parent / "data" / "inbox" / "entries.jsonl"

    def push(self, comments: str = "Drafted") -> str:
        """A new entry; its id."""
        with closing(open_store(str(self.inbox.db))) as store:
            return str(people.push(store, self.workspace_id, comments=comments).to_json()["id"])

    def notify(self, text: str = "12 GB") -> str:
        """A new notice; its id."""
        with closing(open_store(str(self.inbox.db))) as store:
            return str(people.notify(store, sender="backup", text=text).to_json()["id"])

    def ask(self, question: str = "Ship it?", **fields: Any) -> str:
        """A new question of builder; its id."""
        with closing(open_store(str(self.inbox.db))) as store:
            return str(people.ask(store, agent="builder", question=question, **fields).to_json()["id"])

    def shown(self, identity: str) -> Any:
        return self.inbox.ok("entry", "show", identity)

    def entry(self, identity: str) -> dict[str, Any]:
        entry: dict[str, Any] = self.shown(identity)["entry"]
        return entry

    def ids(self, *flags: str) -> list[str]:
        """The ids that `inbox entries` lists."""
        return [entry["id"] for entry in self.inbox.ok("entries", *flags)["entries"]]

    def contents(self) -> tuple[list[str], bytes]:
        """Every row of the store, and the mirror."""
        return self.inbox.everything(), self.mirror.read_bytes() if self.mirror.exists() else b""

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before, files = self.contents(), sorted(os.listdir(self.path))
        yield
        assert self.contents() == before
        assert sorted(os.listdir(self.path)) == files

    def refusal(self, *argv: str | bytes, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        """How it is refused, for programs, with nothing changed."""
        with self.unchanged():
            finished = self.inbox.execute([*argv, "--json"], environment, stdin=stdin)
        code, _, _ = finished.error
        assert "bug in Postroom" not in finished.stdout, finished
        error: dict[str, Any] = finished.json["error"]
        return {**error, "exit": code}

    def invalid(self, *argv: str | bytes, field: str, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        """A malformed or missing value, named by its flag or by its field; the hint, or the rule in the message, says what to do."""
        error = self.refusal(*argv, stdin=stdin, **environment)
        assert (error["exit"], error["code"]) == (30, "invalid_input"), error
        assert error["field"].replace("-", "_") in (field, f"{field}s", f"{field}_file", *ALIASES.get(field, ())), error
        assert error["hint"] or any(rule in error["message"] for rule in RULES), error
        return error
