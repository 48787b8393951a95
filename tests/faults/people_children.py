"""The people room's children: racers at a barrier, and a nursery of workers that push and delete until they are killed.

That is the mail room's nursery, with a role of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import postroom
from postroom import people
from postroom.core.errors import NotFound
from postroom.store.interface import Store
from tests.contract.people_data import USER, Plain, id_of, inbox
from tests.faults import mail_children
from tests.faults.children import BarrierProcess
from tests.faults.mail_children import Say

# Each line that it is told is a Python expression to be run at once; it says what came of it.
RACER = """
from postroom import people, mail
store = postroom.open(sys.argv[1])
me = sys.argv[2]
people.history(store)
say("READY")
for line in sys.stdin:
    try:
        say(eval(line))
    except Refusal as refusal:
        say(type(refusal).__name__)
"""


@contextmanager
def racers(place: str, names: list[str]) -> Iterator[list[BarrierProcess]]:
    with ExitStack() as stack:
        children = [stack.enter_context(BarrierProcess(RACER, place, name)) for name in names]
        for child in children:
            child.ready()
        yield children


class PeopleProcesses(mail_children.MailProcesses):
    """The test's end of it."""

    PROGRAM = "from tests.faults import people_children\npeople_children.nursery(*sys.argv[1:])"


# Looking at a mirror


def mirror_of(store: Store) -> Path:
    assert store.data_folder is not None
    return Path(store.data_folder) / "inbox" / "entries.jsonl"


def lines(store: Store) -> list[bytes]:
    """Its lines, whole."""
    content = mirror_of(store).read_bytes()
    assert content == b"" or content.endswith(b"\n")
    return content.split(b"\n")[:-1]


def as_line(entry: Plain) -> Plain:
    """The mirror's line of an entry."""
    line: Plain = {name: entry[name] for name in ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments") if name in entry}
    return {**line, "kind": "question"} if entry["kind"] == "question" else line


def sync(store: Store) -> None:
    assert store.data_folder is not None
    people.EntriesMirror(store, store.data_folder).sync()


def assert_exact(store: Store, **wanted: Any) -> None:
    """The mirror tells what the inbox does: one line an entry, and nothing else."""
    entries = inbox(store, **wanted)
    told = {entry["id"]: as_line(entry) for entry in entries}
    theirs = {entry["id"] for entry in entries if entry["door"] == "file"}  # lines of others stay, without what defaults to empty
    kept = [{name: value for name, value in json.loads(line).items() if name != "title"} for line in lines(store)]
    assert sorted(line["id"] for line in kept) == sorted(told)
    empty = {"workspaceId": "", "workspaceLabel": ""}
    assert {line["id"]: {**empty, **line} if line["id"] in theirs else line for line in kept} == told


# The work of each child


def worker(place: str, say: Say, name: str, desk: str, rounds: str) -> None:
    """In each round pushes two, and deletes one of those that it pushed before. Says what it is about to delete, and what it has done."""
    mine: list[str] = []
    with closing(postroom.open(place)) as store:
        say("begun", name)
        for number in range(int(rounds)) if int(rounds) else count():
            for _ in range(2):
                mine.append(id_of(people.push(store, desk, comments=f"{name}/{number}\n" + "x" * (10, 3000)[number % 2])))
                say("accepted", mine[-1])
            delete(store, say, mine.pop(number % len(mine)))


def delete(store: Store, say: Say, entry_id: str) -> None:
    say("deleting", entry_id)
    try:
        people.delete_entry(store, entry_id, person=USER)
        say("deleted", entry_id)
    except NotFound:
        say("failed", "it", "was", "not", "there", entry_id)


def nursery(place: str, reports: str) -> None:
    mail_children.ROLES["worker"] = worker
    mail_children.nursery(place, reports)
