"""The lease and status machine against a plain dictionary: several agents, stale tokens, takeovers, time that passes.

It cannot find races (tests/faults/test_races.py stages those); it finds what nobody thought of in one process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom import tasks, work
from postroom.core import clock as time
from postroom.core.errors import AmbiguousQuestion, InvalidState, LeaseHeld, LeaseLost, Refusal
from postroom.core.states import HELD_STATUSES, PRIORITIES, TERMINAL_STATUSES
from postroom.store.interface import Store
from tests.conftest import ENGINES, Clock
from tests.contract import machines
from tests.contract.thread_data import events

AGENTS = st.sampled_from(["ada", "bob", "eve"])
SECONDS = st.sampled_from([1.0, 10.0, 900.0])
TOKENS = st.sampled_from(["none", "current", "stale", "invented"])
WHICH = st.integers(0, 5)
FINISHES: dict[str, Callable[..., Any]] = {"done": work.done, "fail": work.fail, "release": work.release}


class ThreadModel:
    """One thread, as the model knows it."""

    def __init__(self, creator: str, assigned: str, priority: str, created: int) -> None:
        self.creator, self.assigned, self.priority, self.created = creator, assigned, priority, created
        self.status = "pending"
        self.holder: str | None = None
        self.tokens: list[str] = []
        self.expires = 0
        self.length = 0.0
        self.kinds = ["task"]
        self.questions: list[tuple[str, str]] = []  # the open ones: who asked, and whom
        self.waiting = False  # whether the lease waits for an answer

    def lapsed(self, now: int) -> bool:
        return self.holder is not None and self.expires <= now

    def other_side(self, agent: str) -> str:
        return self.creator if agent == self.assigned else self.assigned

    def answered(self, receiver: str, *, control: bool) -> None:
        """An answer or a control message to the holder of a blocked thread ends its wait, unless another question of it is open.

        If the holder gave the thread back until then, the thread is pending again.
        """
        asker = self.holder or self.assigned
        if self.status == "blocked" and receiver == asker and (control or not any(name == receiver for name, _ in self.questions)):
            self.waiting = False
            self.status = "blocked" if self.holder else "pending"

    def urgency(self, thread_id: str) -> tuple[int, int, str]:
        return PRIORITIES.index(self.priority), self.created, thread_id


class LeaseMachine(RuleBasedStateMachine):
    """Each rule does a verb and says, from the model alone, what must come of it."""

    fresh: Callable[[str, Clock], Store]

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-model-")
        self.clock = Clock()
        self.store = type(self).fresh(self.folder, self.clock)
        self.lines: dict[str, ThreadModel] = {}
        self.events = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    # Expected results

    def pick(self, which: int) -> tuple[str, ThreadModel]:
        ids = list(self.lines)
        thread_id = ids[which % len(ids)]
        return thread_id, self.lines[thread_id]

    def token(self, line: ThreadModel, choice: str) -> str | None:
        if choice == "none" or (choice == "stale" and len(line.tokens) < 2):
            return None
        return {
            "current": line.tokens[-1] if line.tokens else "lse_none",
            "stale": line.tokens[0] if line.tokens else "",
            "invented": "lse_x",
        }[choice]

    def owning(self, line: ThreadModel, agent: str, token: str | None) -> type[Refusal] | None:
        if line.status in TERMINAL_STATUSES or line.holder is None:
            return InvalidState
        if line.holder != agent:
            return LeaseHeld
        return LeaseLost if token is not None and token != line.tokens[-1] else None

    def expect(self, refusal: type[Refusal] | None, act: Callable[[], Any]) -> Any:
        if refusal is None:
            return act()
        with pytest.raises(refusal):
            act()
        return None

    def granted(self, line: ThreadModel, agent: str, token: str, seconds: float) -> None:
        assert token not in [old for other in self.lines.values() for old in other.tokens]
        self.events += line.lapsed(self.clock.instant)  # taking it tells first that it lapsed
        line.status, line.assigned, line.holder, line.waiting = "claimed", agent, agent, False
        line.tokens.append(token)
        line.length, line.expires = seconds, self.clock.instant + int(seconds * time.MICROSECONDS_PER_SECOND)
        self.events += 1

    def said(self, line: ThreadModel, kind: str, *, by: str, status: str | None = None) -> None:
        line.kinds.append(kind)
        line.status = status or line.status
        line.waiting = line.waiting and line.status == "blocked"
        if line.status in TERMINAL_STATUSES:
            line.questions.clear()
        if line.holder == by:
            line.expires = self.clock.instant + int(line.length * time.MICROSECONDS_PER_SECOND)
        if line.status not in HELD_STATUSES:
            line.holder = None
        self.events += 1

    def available(self, agent: str) -> list[str]:
        now = self.clock.instant
        found = [
            thread_id for thread_id, line in self.lines.items() if line.lapsed(now) or (line.status == "pending" and line.assigned == agent)
        ]
        return sorted(found, key=lambda thread_id: self.lines[thread_id].urgency(thread_id))

    # Rules

    @precondition(lambda self: len(self.lines) < 6)
    @rule(sender=AGENTS, to=AGENTS, priority=st.sampled_from(PRIORITIES))
    def send(self, sender: str, to: str, priority: str) -> None:
        thread = work.send(self.store, sender=sender, to=to, subject="Work", priority=priority).thread
        self.lines[thread.thread_id] = ThreadModel(sender, to, priority, self.clock.instant)
        self.events += 1

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, seconds=SECONDS, takeover=st.booleans())
    def claim(self, which: int, agent: str, seconds: float, takeover: bool) -> None:
        thread_id, line = self.pick(which)
        refusal: type[Refusal] | None = None
        if line.status in TERMINAL_STATUSES:
            refusal = InvalidState
        elif line.holder is not None and not line.lapsed(self.clock.instant) and not (takeover and line.holder == agent):
            refusal = LeaseHeld
        claimed = self.expect(refusal, lambda: work.claim(self.store, thread_id, agent=agent, lease_seconds=seconds, takeover=takeover))
        if claimed is not None:
            self.granted(line, agent, claimed.lease.lease_token, seconds)

    @rule(agent=AGENTS, seconds=SECONDS)
    def take(self, agent: str, seconds: float) -> None:
        claimed = work.take(self.store, agent=agent, lease_seconds=seconds)
        self.took(claimed, agent, seconds)

    def took(self, claimed: Any, agent: str, seconds: float) -> None:
        lines = self.lines
        wanted = [one for one in self.available(agent) if not lines[one].waiting]
        assert (claimed and claimed.thread.thread_id) == (wanted[0] if wanted else None)
        if claimed is not None:
            self.granted(lines[claimed.thread.thread_id], agent, claimed.lease.lease_token, seconds)

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, token=TOKENS, seconds=st.none() | SECONDS)
    def renew(self, which: int, agent: str, token: str, seconds: float | None) -> None:
        thread_id, line = self.pick(which)
        given = self.token(line, token)
        refusal = self.owning(line, agent, given)
        if self.expect(refusal, lambda: work.renew(self.store, thread_id, agent=agent, lease_seconds=seconds, lease_token=given)):
            line.length = seconds or line.length
            line.expires = self.clock.instant + int(line.length * time.MICROSECONDS_PER_SECOND)

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, token=TOKENS, status=st.sampled_from(["in_progress", "blocked"]))
    def update(self, which: int, agent: str, token: str, status: str) -> None:
        thread_id, line = self.pick(which)
        given = self.token(line, token)
        refusal = self.owning(line, agent, given)
        if self.expect(refusal, lambda: work.update(self.store, thread_id, agent=agent, status=status, summary="So", lease_token=given)):
            self.said(line, "question" if status == "blocked" else "progress", by=agent, status=status)
            line.waiting = status == "blocked"
            if line.waiting:
                line.questions.append((agent, line.creator))

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, token=TOKENS, verb=st.sampled_from(["done", "fail", "release"]))
    def finish(self, which: int, agent: str, token: str, verb: str) -> None:
        thread_id, line = self.pick(which)
        given = self.token(line, token)
        refusal = self.owning(line, agent, given)
        act = FINISHES[verb]
        if self.expect(refusal, lambda: act(self.store, thread_id, agent=agent, lease_token=given)):
            status = {"done": "done", "fail": "failed", "release": "pending"}[verb]
            self.said(line, "event" if verb == "release" else "result", by=agent, status=status)

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, token=TOKENS)
    def park(self, which: int, agent: str, token: str) -> None:
        thread_id, line = self.pick(which)
        given = self.token(line, token)
        act = lambda: work.release(self.store, thread_id, agent=agent, lease_token=given, until_answered=True)  # noqa: E731
        if self.expect(self.owning(line, agent, given), act):
            stays = line.status == "blocked" and line.waiting
            self.said(line, "event", by=agent, status="blocked" if stays else "pending")
            line.holder = None

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, token=TOKENS, seconds=SECONDS)
    def done_and_take(self, which: int, agent: str, token: str, seconds: float) -> None:
        thread_id, line = self.pick(which)
        given = self.token(line, token)
        refusal = self.owning(line, agent, given)
        act = lambda: tasks.done_and_take(self.store, thread_id, agent=agent, lease_token=given, lease_seconds=seconds)  # noqa: E731
        if both := self.expect(refusal, act):
            self.said(line, "result", by=agent, status="done")
            self.took(both[1], agent, seconds)

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS)
    def cancel(self, which: int, agent: str) -> None:
        thread_id, line = self.pick(which)
        refusal = InvalidState if line.status in TERMINAL_STATUSES else None
        if self.expect(refusal, lambda: work.cancel(self.store, thread_id, agent=agent)):
            self.said(line, "control", by=agent, status="cancelled")

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, to=AGENTS)
    def reassign(self, which: int, agent: str, to: str) -> None:
        thread_id, line = self.pick(which)
        lapsed = line.lapsed(self.clock.instant)
        refusal = InvalidState if line.status in TERMINAL_STATUSES else LeaseHeld if line.holder is not None and not lapsed else None
        if self.expect(refusal, lambda: work.reassign(self.store, thread_id, agent=agent, to=to)):
            self.events += lapsed
            line.assigned, line.holder = to, None
            self.said(line, "event", by=agent, status="pending")

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS)
    def retry(self, which: int, agent: str) -> None:
        thread_id, line = self.pick(which)
        refusal = None if line.status in ("failed", "cancelled") else InvalidState
        if self.expect(refusal, lambda: work.retry_thread(self.store, thread_id, agent=agent)):
            self.said(line, "event", by=agent, status="pending")

    @precondition(lambda self: self.lines)
    @rule(which=WHICH)
    def take_back(self, which: int) -> None:
        thread_id, line = self.pick(which)
        refusal = InvalidState if line.holder is None else None
        if self.expect(refusal, lambda: work.revoke_lease(self.store, thread_id, person="user")):
            self.events += line.lapsed(self.clock.instant)
            line.questions = [question for question in line.questions if question[0] != line.holder]
            self.said(line, "control", by="user", status="pending")

    @precondition(lambda self: self.lines)
    @rule(which=WHICH, agent=AGENTS, kind=st.sampled_from(["answer", "question", "control"]))
    def reply(self, which: int, agent: str, kind: str) -> None:
        thread_id, line = self.pick(which)
        asked = [question for question in line.questions if kind == "answer" and question[1] == agent != question[0]]
        refusal = InvalidState if line.status in TERMINAL_STATUSES else AmbiguousQuestion if len(asked) > 1 else None
        if not self.expect(refusal, lambda: work.reply(self.store, thread_id, sender=agent, kind=kind, summary="So")):
            return
        self.said(line, kind, by=agent)
        receiver = asked[0][0] if asked else line.other_side(agent)
        if kind == "question":
            line.questions.append((agent, receiver))
        else:
            line.questions = [question for question in line.questions if question not in asked]
            line.answered(receiver, control=kind == "control")

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0, 900.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # Invariants

    @invariant()
    def the_store_and_the_model_agree(self) -> None:
        for thread_id, line in getattr(self, "lines", {}).items():
            shown = work.show(self.store, thread_id)
            assert (shown.thread.status, shown.thread.assigned_to, shown.thread.created_by) == (line.status, line.assigned, line.creator)
            assert [message.kind for message in shown.messages] == line.kinds
            assert shown.thread.latest_message_id == shown.messages[-1].message_id
            holder = shown.lease.agent_id if shown.lease is not None and shown.lease.is_held else None
            assert holder == line.holder
            if line.holder is not None:
                assert shown.lease is not None
                assert (shown.lease.lease_token, shown.lease.expires_at) == (line.tokens[-1], time.format_stamp(line.expires))

    @invariant()
    def every_agent_is_offered_what_it_could_claim(self) -> None:
        for agent in ("ada", "eve"):
            if getattr(self, "lines", None):
                offered = [candidate.thread.thread_id for candidate in work.fetch(self.store, agent=agent).candidates]
                assert offered == self.available(agent)

    @invariant()
    def every_write_has_left_its_event_and_nothing_else_has(self) -> None:
        if hasattr(self, "store"):
            assert len(events(self.store)) == self.events


@pytest.mark.timeout(600)  # hundreds of examples: the default is too short on a loaded machine
@pytest.mark.parametrize("name", ENGINES)
def test_leases_and_statuses_follow_the_model(name: str, request: pytest.FixtureRequest) -> None:
    machines.run(LeaseMachine, name, request)
