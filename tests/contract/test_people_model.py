"""The people room against a plain dictionary: entries, questions, threads, replies, silence, and a mirror that others write to.

Each rule lets time pass first, so that a verb meets what is due and what nobody has folded in yet. It cannot find races; it finds
what nobody thought of in one process.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom import mail, people, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.store.interface import Store
from tests.conftest import ENGINES, Clock
from tests.contract import machines
from tests.contract.people_data import ADA, FIRED, SILENCES, USER, blocked, id_of, inbox, new_workspace, persons, shown

SECOND = time.MICROSECONDS_PER_SECOND
AGENTS = ("red", "blue")
WORDS = ("apple", "pear", "plum")
WHO = st.sampled_from(AGENTS)
PERSONS = st.sampled_from([USER, ADA])
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
WHICH = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6, 7])
PAUSES = st.just(0) | st.sampled_from([0, 1, SECOND, 10 * SECOND - 1, 10 * SECOND, 60 * SECOND])
CHOICES = ("apple", "no")


class Item:
    """One entry, as the model knows it."""

    def __init__(self, entry_id: str, kind: str, ts: int, agent: str, label: str, text: str, arrival: int) -> None:
        self.entry_id, self.kind, self.ts, self.agent, self.label, self.text, self.arrival = entry_id, kind, ts, agent, label, text, arrival
        self.read: tuple[str | None, str | None] = (None, None)
        self.replies: list[str] = []
        self.state, self.to, self.answer, self.choice = "", USER, None, None  # type: tuple[str, str, str | None, str | None]
        self.answered: tuple[str | None, str | None] = (None, None)
        self.silence, self.deadline, self.escalated = "wait", 0, None  # type: tuple[str, int, str | None]
        self.choices: tuple[str, ...] = ()
        self.thread_id = ""
        self.thread_ended = False
        self.collected = False

    @property
    def open(self) -> bool:
        return self.state == "open"

    def words(self) -> set[str]:
        return set(" ".join([self.text, self.label, *self.replies, *self.choices]).lower().split())

    def fire(self, now: int) -> None:
        """Apply what silence means, as of the deadline."""
        if not self.open or not self.deadline or self.deadline > now:
            return
        at, self.deadline = time.format_stamp(self.deadline), 0
        if self.silence == "escalate":
            self.to, self.escalated, self.read = ADA, at, (None, None)
            return
        self.state, self.answered = FIRED[self.silence], (at, None)
        if self.silence == "default":
            self.answer, self.choice = "no", "no" if "no" in self.choices else None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self.entry_id, "ts": self.ts, "kind": self.kind, "workspaceLabel": self.label, "comments": self.text}
        told |= {"readAt": self.read[0], "readBy": self.read[1], "replies": len(self.replies)}
        if self.state:
            told["question"] = (self.state, self.to, self.answer, self.choice, self.answered[0], self.escalated)
        return told


def compared(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an entry that the model knows."""
    told = {name: entry[name] for name in ("id", "ts", "kind", "workspaceLabel", "comments", "readAt", "replies")}
    told["readBy"] = entry["readBy"] or None
    if "question" in entry:
        names = ("state", "to", "answer", "choice", "answeredAt", "escalatedAt")
        told["question"] = tuple(entry["question"][name] for name in names)
    return told


class PeopleMachine(RuleBasedStateMachine):
    """Each rule does a verb and says, from the model alone, what must come of it."""

    fresh: Callable[[str, Clock], Store]

    @initialize(pushed=st.lists(st.tuples(WHO, TEXTS), min_size=1, max_size=3))
    def open(self, pushed: list[tuple[str, str]]) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-model-")
        self.clock = Clock()
        self.store = type(self).fresh(self.folder, self.clock)
        persons(self.store)
        self.desks = {agent: new_workspace(self.store, Path(self.folder), agent) for agent in AGENTS}
        self.items: dict[str, Item] = {}
        self.gone: list[str] = []
        self.waiting: dict[str, list[tuple[str, str, str]]] = {agent: [] for agent in AGENTS}  # kind, from, body
        self.arrivals = 0
        for agent, text in pushed:
            self.push(agent, text, 0)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    # Expected results

    def passes(self, pause: int) -> None:
        self.clock.instant += pause
        for item in self.items.values():
            item.fire(self.clock.instant)

    def now(self) -> str:
        return time.format_stamp(self.clock.instant)

    def add(self, entry_id: str, kind: str, agent: str, label: str, text: str, ts: int | None = None) -> Item:
        assert entry_id not in self.items
        assert entry_id not in self.gone
        self.arrivals += 1
        item = Item(entry_id, kind, self.clock.instant // 1000 if ts is None else ts, agent, label, text, self.arrivals)
        self.items[entry_id] = item
        return item

    def newest(self, *kinds: str) -> list[Item]:
        """Those of some kinds, or all, as a page has them."""
        found = [item for item in self.items.values() if not kinds or item.kind in kinds]
        return sorted(found, key=lambda item: (item.ts, item.arrival), reverse=True)

    def pick(self, which: int, *, first: Callable[[Item], bool] = lambda item: item.open) -> Item:
        found = sorted(self.items.values(), key=lambda item: not first(item))
        return found[which % len(found)]

    def uncollected(self, agent: str) -> list[Item]:
        states = ("answered", "default", "refused")
        mine = [item for item in self.items.values() if item.agent == agent and not item.thread_id]
        return [item for item in mine if item.state in states and not item.collected]

    # Rules

    @precondition(lambda self: len(self.items) < 9)
    @rule(agent=WHO, text=TEXTS, pause=PAUSES)
    def push(self, agent: str, text: str, pause: int) -> None:
        self.passes(pause)
        entry = people.push(self.store, self.desks[agent], comments=text, docs=["report.md"])
        self.add(id_of(entry), "push", agent, f"The {agent} desk", text)

    @precondition(lambda self: len(self.items) < 9)
    @rule(agent=WHO, text=TEXTS, pause=PAUSES)
    def notify(self, agent: str, text: str, pause: int) -> None:
        self.passes(pause)
        self.add(id_of(people.notify(self.store, sender=agent, text=text)), "notice", agent, agent, text)

    @precondition(lambda self: len(self.items) < 9)
    @rule(agent=WHO, text=TEXTS, silence=st.sampled_from(["wait", *SILENCES, *SILENCES]), choose=st.booleans(), pause=PAUSES)
    def ask(self, agent: str, text: str, silence: str, choose: bool, pause: int) -> None:
        self.passes(pause)
        choices = CHOICES if choose else ()
        timed = {} if silence == "wait" else {"deadline_seconds": 10, **SILENCES[silence]}
        item = self.add(
            id_of(people.ask(self.store, agent=agent, question=text, choices=choices, **timed)),
            "question",
            agent,
            f"The {agent} desk",
            text,
        )
        item.state, item.silence, item.choices = "open", silence, choices
        item.deadline = 0 if silence == "wait" else self.clock.instant + 10 * SECOND

    @precondition(lambda self: len(self.items) < 9)
    @rule(agent=WHO, text=TEXTS, pause=PAUSES)
    def block_a_thread(self, agent: str, text: str, pause: int) -> None:
        self.passes(pause)
        thread_id = blocked(self.store, text, agent=agent)
        (entry_id,) = [entry["id"] for entry in inbox(self.store) if entry.get("threadId") == thread_id]
        item = self.add(entry_id, "question", agent, f"The {agent} desk", text)
        item.state, item.thread_id = "open", thread_id

    @precondition(lambda self: any(item.thread_id and not item.thread_ended for item in self.items.values()))
    @rule(which=WHICH, how=st.sampled_from(["reply", "done", "cancel"]), text=TEXTS, pause=PAUSES)
    def act_in_a_thread(self, which: int, how: str, text: str, pause: int) -> None:
        self.passes(pause)
        going = [item for item in self.items.values() if item.thread_id and not item.thread_ended]
        item = going[which % len(going)]
        if how == "reply":
            work.reply(self.store, item.thread_id, sender=USER, summary=text)
            self.closes(item, USER, text)
            return
        if how == "done":
            work.done(self.store, item.thread_id, agent=item.agent)
        else:
            work.cancel(self.store, item.thread_id, agent="leader")
        item.thread_ended = True
        if item.open:
            item.state = "ended"
            item.answered = (shown(self.store, item.entry_id)["question"]["answeredAt"], None)  # whether an end has a time is not decided

    def closes(self, item: Item, person: str, body: str) -> None:
        if item.open:
            item.state, item.answer, item.answered = "answered", body, (self.now(), person)
            item.choice = body if body in item.choices else None

    @precondition(lambda self: self.items)
    @rule(which=WHICH, person=PERSONS, text=TEXTS | st.just("no"), pause=PAUSES)
    def reply(self, which: int, person: str, text: str, pause: int) -> None:
        self.passes(pause)
        item = self.pick(which)
        if item.thread_ended or not item.agent:
            with pytest.raises(InvalidState):
                people.reply(self.store, item.entry_id, person=person, body=text)
            return
        via = "thread" if item.thread_id else "answer" if item.open else "mailbox"
        if item.open and item.choices and text not in item.choices:
            with pytest.raises(InvalidInput):
                people.reply(self.store, item.entry_id, person=person, body=text)
        told = people.reply(self.store, item.entry_id, person=person, body=text, comment=True)
        assert (told.reply.via, told.reply.body, told.reply.person) == (via, text, person)
        self.closes(item, person, text)
        item.replies.append(text)
        if item.read[0] is None:
            item.read = (self.now(), person)
        if via == "mailbox":
            self.waiting[item.agent].append(("reply", person, text))

    @rule(agent=WHO, text=TEXTS, pause=PAUSES)
    def write_to_an_agent(self, agent: str, text: str, pause: int) -> None:
        self.passes(pause)
        mail.enqueue(self.store, {"from": "leader", "to": agent, "payload": text})
        self.waiting[agent].append(("mail", "leader", text))

    @rule(agent=WHO, pause=PAUSES)
    def read_messages(self, agent: str, pause: int) -> None:
        self.passes(pause)
        told = people.read_messages(self.store, agent=agent, limit=100)
        asked = self.uncollected(agent)
        expected = [(item.state.replace("answered", "answer"), item.answer) for item in asked]
        assert sorted(
            (one.kind, one.body or None) for one in told if one.entry_id in {item.entry_id for item in asked} and one.kind != "reply"
        ) == (sorted(expected))
        rest = [(one.kind, one.from_, one.body) for one in told if one.kind in ("reply", "mail")]
        for sender in (USER, ADA, "leader"):  # among senders, mail goes by the second
            assert [one for one in rest if one[1] == sender] == [one for one in self.waiting[agent] if one[1] == sender]
        assert len(told) == len(asked) + len(self.waiting[agent])
        self.waiting[agent] = []
        for item in asked:
            item.collected = True
        assert people.read_messages(self.store, agent=agent) == ()

    @precondition(lambda self: any(item.silence and item.state and not item.thread_id for item in self.items.values()))
    @rule(which=WHICH, pause=PAUSES)
    def wait_answer(self, which: int, pause: int) -> None:
        self.passes(pause)
        asked = [item for item in self.items.values() if item.state and not item.thread_id]
        item = asked[which % len(asked)]
        told = people.wait_answer(self.store, item.entry_id, timeout_seconds=0.001)
        assert (told.state, told.answer, told.choice, told.to) == (item.state, item.answer, item.choice, item.to)
        item.collected = item.collected or not item.open

    @precondition(lambda self: self.items)
    @rule(which=WHICH, person=PERSONS, read=st.booleans(), pause=PAUSES)
    def mark(self, which: int, person: str, read: bool, pause: int) -> None:
        self.passes(pause)
        item = self.pick(which, first=lambda item: item.read[0] is None)
        act = people.mark_read if read else people.mark_unread
        act(self.store, item.entry_id, person=person)
        if not read:
            item.read = (None, None)
        elif item.read[0] is None:
            item.read = (self.now(), person)

    @precondition(lambda self: self.items)
    @rule(which=WHICH, pause=PAUSES)
    def delete(self, which: int, pause: int) -> None:
        self.passes(pause)
        item = self.pick(which, first=lambda item: item.read[0] is not None)
        people.delete_entry(self.store, item.entry_id, person=USER)
        del self.items[item.entry_id]
        self.gone.append(item.entry_id)
        with pytest.raises(NotFound):
            people.show_entry(self.store, item.entry_id)

    @precondition(lambda self: len(self.items) < 9)
    @rule(text=TEXTS, deleted=st.booleans(), early=st.sampled_from([0, 0, 5000, -5000]), pause=PAUSES)
    def others_append_to_the_mirror(self, text: str, deleted: bool, early: int, pause: int) -> None:
        self.passes(pause)
        mirror = self.mirror()
        entry_id = self.gone[-1] if deleted and self.gone else str(uuid4())
        ts = self.clock.instant // 1000 - early
        line = {"id": entry_id, "ts": ts, "comments": text, "workspaceLabel": "pear"}
        with mirror.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
        self.sync()
        if entry_id not in self.gone:
            self.add(entry_id, "push", "", "pear", text, ts)

    @rule(pause=PAUSES)
    def look_at_the_mirror(self, pause: int) -> None:
        self.passes(pause)
        lines = [json.loads(line) for line in self.mirror().read_bytes().splitlines()]
        kept = sorted(self.newest("push", "question"), key=lambda item: item.arrival)
        assert [(line["id"], line["ts"], line["comments"]) for line in lines] == [(item.entry_id, item.ts, item.text) for item in kept]
        assert [line.get("kind") for line in lines] == ["question" if item.kind == "question" else None for item in kept]

    def mirror(self) -> Path:
        self.sync()
        return Path(self.folder, "data", "inbox", "entries.jsonl")

    def sync(self) -> None:
        people.EntriesMirror(self.store, str(Path(self.folder, "data"))).sync()

    @rule(pause=PAUSES)
    def look_at_the_notices(self, pause: int) -> None:
        self.passes(pause)
        assert [compared(entry) for entry in inbox(self.store, section="notices")] == [item.to_json() for item in self.newest("notice")]

    @rule(words=TEXTS, whole=st.booleans(), pause=PAUSES)
    def search(self, words: str, whole: bool, pause: int) -> None:
        self.passes(pause)
        wanted = [word if whole else word[:2] for word in words.split()]
        by_arrival = sorted(self.items.values(), key=lambda item: item.arrival, reverse=True)
        found = [item.entry_id for item in by_arrival if all(any(word.startswith(want) for word in item.words()) for want in wanted)]
        assert [id_of(entry) for entry in people.search(self.store, " ".join(wanted)).entries] == found

    @rule(limit=st.integers(1, 4), wanted=st.sampled_from(["all", "unread", "open", *AGENTS]), pause=PAUSES)
    def turn_the_pages(self, limit: int, wanted: str, pause: int) -> None:
        self.passes(pause)
        filters: dict[str, Any] = {"unread": {"unread": True}, "open": {"open_only": True}, "all": {}}.get(wanted, {})
        if wanted in AGENTS:
            filters = {"workspace_id": self.desks[wanted]}
        kept = [item for item in self.newest("push", "question") if self.wanted(item, wanted)]
        paged: list[str] = []
        while True:
            page = people.history(self.store, limit=limit, before=paged[-1] if paged else None, **filters)
            paged += map(id_of, page.entries)
            assert page.has_more == (len(paged) < len(kept))
            if not page.has_more:
                break
        assert paged == [item.entry_id for item in kept]

    def wanted(self, item: Item, wanted: str) -> bool:
        return {"all": True, "unread": item.read[0] is None, "open": item.open}.get(wanted, item.agent == wanted)

    # Invariants

    @invariant()
    def the_inbox_is_the_models(self) -> None:
        if hasattr(self, "store"):
            assert [compared(entry) for entry in inbox(self.store)] == [item.to_json() for item in self.newest("push", "question")]


@pytest.mark.timeout(600)  # hundreds of examples: the default is too short on a loaded machine
@pytest.mark.parametrize("name", ENGINES)
def test_entries_follow_the_model(name: str, request: pytest.FixtureRequest) -> None:
    machines.run(PeopleMachine, name, request)
