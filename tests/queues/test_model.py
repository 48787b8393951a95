"""A queue against a small model of it: a list of events, a dict of subscriptions, a dict of cursors.

It cannot find races; it finds what nobody thought of in one process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from postroom import queues
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound
from postroom.core.records.queues import QueueEvent
from postroom.queues import Queue
from tests.conftest import Clock
from tests.queues.conftest import ALICE, SELF, WARDEN, assert_both_tracks_agree


class EventModel(NamedTuple):
    id: int
    source: str
    type: str
    subtype: str | None
    content: str


FILTERS: dict[str | None, Callable[[EventModel], bool]] = {
    None: lambda event: True,
    "type = 'message'": lambda event: event.type == "message",
    "source LIKE 'external:%' OR source = 'self'": lambda event: event.source != WARDEN,
    "NOT source LIKE '%:warden' AND type = 'record'": lambda event: event.source != WARDEN and event.type == "record",
    "subtype IN ('toolcall', 'decision')": lambda event: event.subtype in ("toolcall", "decision"),
    "length(content) > 3": lambda event: len(event.content) > 3,
    "id % 3 = 0": lambda event: event.id % 3 == 0,
    "content = 'a)b' OR content LIKE '%ü%'": lambda event: event.content == "a)b" or "ü" in event.content,
    "0": lambda event: False,
}
BAD_FILTERS = ["", "1) OR (1", "nosuch = 1", "EXISTS (SELECT 1 FROM subscriptions)"]
CONSUMERS = st.sampled_from(["ann", "../bob", "c ü"])
WANTED = st.sampled_from(list(FILTERS))
SOURCES = st.sampled_from([SELF, WARDEN, ALICE])
CONTENTS = st.sampled_from(["", "a)b", "two\nlines", "Grüße", '{"a": "\\u2028"}']) | st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8
)
KINDS = st.sampled_from([("message", None), ("record", None), ("record", "toolcall"), ("record", "other kind")])
DRAFTS = st.tuples(SOURCES, KINDS, CONTENTS)
Draft = tuple[str, tuple[str, str | None], str]
PLACES = st.sampled_from(["nowhere", "the start", "before", "there", "after", "after", "the head", "beyond", "far beyond"])
LIMITS = st.sampled_from([1, 2, 100, 100])


class QueueMachine(RuleBasedStateMachine):
    """Each rule does a verb and says, from the model alone, what must come of it."""

    @initialize(drafts=st.lists(DRAFTS, max_size=4), consumer=CONSUMERS, wanted=WANTED)
    def open(self, drafts: list[Draft], consumer: str, wanted: str | None) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-queue-")
        self.clock = Clock()
        self.path = queues.init_queue(str(Path(self.folder) / "queue"))
        self.queue: Queue = queues.open_queue(self.path, now=self.clock)
        self.other: Queue = queues.open_queue(self.path, now=self.clock)
        self.events: list[EventModel] = []
        self.subscriptions: dict[str, str | None] = {}
        self.progress: dict[str, int] = {}
        self.damaged = False
        self.subscribes(consumer, wanted, None)
        for draft in drafts:
            self.pushes(draft)

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()
            self.other.close()
            shutil.rmtree(self.folder)

    # Expected results

    def stored(self, draft: Draft) -> EventModel:
        source, (kind, subtype), content = draft
        self.events.append(EventModel(len(self.events) + 1, source, kind, subtype, content))
        self.damaged = False
        return self.events[-1]

    def after(self, cursor: int, wanted: str | None, limit: int) -> list[EventModel]:
        return [event for event in self.events if event.id > cursor and FILTERS[wanted](event)][:limit]

    def cursor(self, consumer: str, place: str) -> int | None:
        progress, head = self.progress.get(consumer, 0), len(self.events)
        places = {
            "nowhere": None, "the start": 0, "before": max(progress - 1, 0), "there": progress, "after": min(progress + 1, head),
            "the head": head, "beyond": head + 1, "far beyond": 2**40,
        }  # fmt: skip
        return places[place]

    def plain(self, events: tuple[QueueEvent, ...]) -> list[EventModel]:
        return [EventModel(event.id, event.source, event.type, event.subtype, event.content) for event in events]

    def pushes(self, draft: Draft) -> None:
        source, (kind, subtype), content = draft
        told = queues.push(self.queue, source=source, type=kind, subtype=subtype, content=content)
        assert self.plain((told,)) == [self.stored(draft)]

    def subscribes(self, consumer: str, wanted: str | None, cursor: int | None) -> None:
        told = queues.subscribe(self.queue, consumer, handler=f"run {consumer}", filter=wanted, last_event_id=cursor)
        assert (told.consumer_id, told.handler_cmd, told.filter) == (consumer, f"run {consumer}", wanted)
        self.subscriptions[consumer] = wanted
        if cursor is not None:
            self.progress[consumer] = cursor

    # Rules

    @rule(draft=DRAFTS)
    def push(self, draft: Draft) -> None:
        self.pushes(draft)

    @rule(drafts=st.lists(DRAFTS, max_size=5))
    def push_batch(self, drafts: list[Draft]) -> None:
        batch = [{"source": source, "type": kind, "subtype": subtype, "content": content} for source, (kind, subtype), content in drafts]
        told = queues.push_batch(self.queue, batch)
        assert self.plain(told) == [self.stored(draft) for draft in drafts]

    @rule(drafts=st.lists(DRAFTS, max_size=3), bad=st.sampled_from([{}, {"content": 7}, {"content": "", "colour": "red"}]))
    def push_a_bad_batch(self, drafts: list[Draft], bad: dict[str, object]) -> None:
        batch: list[dict[str, object]] = [{"source": source, "type": kind[0], "content": content} for source, kind, content in drafts]
        with pytest.raises(InvalidInput):
            queues.push_batch(self.queue, [*batch, bad], source=SELF, type="record")

    @rule(consumer=CONSUMERS, place=PLACES, limit=LIMITS)
    def pop(self, consumer: str, place: str, limit: int) -> None:
        cursor = self.cursor(consumer, place)
        if consumer not in self.subscriptions:
            with pytest.raises(NotFound):
                queues.pop(self.queue, consumer, last_event_id=cursor, limit=limit)
            return
        if cursor is not None and cursor > len(self.events):
            with pytest.raises(InvalidState):
                queues.pop(self.queue, consumer, last_event_id=cursor, limit=limit)
            return
        progress = self.progress.get(consumer, 0)
        found = queues.pop(self.queue, consumer, last_event_id=cursor, limit=limit)
        assert self.plain(found) == self.after(progress if cursor is None else cursor, self.subscriptions[consumer], limit)
        if cursor is not None:
            self.progress[consumer] = max(progress, cursor)

    @rule(consumer=CONSUMERS, limit=LIMITS)
    def pop_and_ack_until_empty(self, consumer: str, limit: int) -> None:
        """As a worker does; what it gets is each event that matches and that it had not acked, once and in order."""
        if consumer not in self.subscriptions:
            return
        expected = self.after(self.progress.get(consumer, 0), self.subscriptions[consumer], len(self.events))
        got: list[EventModel] = []
        while found := self.plain(queues.pop(self.queue, consumer, limit=limit)):
            got += found
            assert queues.ack(self.queue, consumer, last_event_id=found[-1].id).last_acked_id == found[-1].id
            self.progress[consumer] = found[-1].id
        assert got == expected

    @rule(consumer=CONSUMERS, place=PLACES)
    def ack(self, consumer: str, place: str) -> None:
        cursor = self.cursor(consumer, place) or 0
        refusals = () if consumer in self.subscriptions and cursor <= len(self.events) else (NotFound, InvalidState)
        if refusals:
            with pytest.raises(refusals):
                queues.ack(self.queue, consumer, last_event_id=cursor)
            return
        told = queues.ack(self.queue, consumer, last_event_id=cursor)
        self.progress[consumer] = max(self.progress.get(consumer, 0), cursor)
        assert (told.consumer_id, told.last_acked_id) == (consumer, self.progress[consumer])

    @rule(consumer=CONSUMERS, place=PLACES, wanted=WANTED, limit=LIMITS)
    def peek(self, consumer: str, place: str, wanted: str | None, limit: int) -> None:
        cursor = self.cursor(consumer, place) or 0
        expected = self.after(cursor, wanted, limit)
        assert self.plain(queues.peek(self.queue, last_event_id=cursor, limit=limit, filter=wanted)) == expected
        if expected:
            assert self.plain(queues.wait_for_events(self.queue, last_event_id=cursor, limit=limit, filter=wanted)) == expected

    @rule(consumer=CONSUMERS, wanted=WANTED, place=PLACES)
    def subscribe(self, consumer: str, wanted: str | None, place: str) -> None:
        cursor = self.cursor(consumer, place)
        if consumer in self.subscriptions:
            with pytest.raises(Conflict):
                queues.subscribe(self.queue, consumer, handler="another", filter=wanted)
        elif cursor is not None and cursor > len(self.events):
            with pytest.raises(InvalidState):
                queues.subscribe(self.queue, consumer, handler="another", filter=wanted, last_event_id=cursor)
        else:
            self.subscribes(consumer, wanted, cursor)

    @rule(consumer=CONSUMERS, bad=st.sampled_from(BAD_FILTERS))
    def subscribe_with_a_bad_filter(self, consumer: str, bad: str) -> None:
        with pytest.raises((InvalidInput, Conflict)):
            queues.subscribe(self.queue, consumer, handler="true", filter=bad)

    @rule(consumer=CONSUMERS)
    def unsubscribe(self, consumer: str) -> None:
        if consumer not in self.subscriptions:
            with pytest.raises(NotFound):
                queues.unsubscribe(self.queue, consumer)
            return
        queues.unsubscribe(self.queue, consumer)
        del self.subscriptions[consumer]

    @rule()
    def open_again(self) -> None:
        self.queue.close()
        self.queue = queues.open_queue(self.path, now=self.clock)

    @rule()
    def go_on_as_another_who_has_it_open(self) -> None:
        self.queue, self.other = self.other, self.queue

    @rule(seconds=st.sampled_from([0.001, 1, 86_400, -5]))
    def let_the_clock_move(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.events)
    @rule(how=st.sampled_from(["torn", "missing", "extra", "deleted", "forgotten"]))
    def damage_the_journal(self, how: str) -> None:
        file = Path(self.path) / "events.jsonl"
        text = file.read_bytes() if file.exists() else b""
        self.damaged = True
        if how == "torn":
            file.write_bytes(text[:-5])
        elif how == "missing":
            file.write_bytes(b"".join(text.splitlines(keepends=True)[:-1]))
        elif how == "extra":
            file.write_bytes(text + b'{"id": 1, "created_at"')
        elif how == "deleted":
            file.unlink(missing_ok=True)
        else:
            shutil.rmtree(Path(self.path) / "run", ignore_errors=True)

    # Invariants

    @invariant()
    def the_queue_is_the_models(self) -> None:
        if not hasattr(self, "queue"):
            return
        told = queues.info(self.queue)
        assert (told.total_events, told.last_event_id) == (len(self.events), len(self.events))
        assert {one["consumer_id"]: (one["filter"], one["last_acked_id"]) for one in told.to_json()["subscriptions"]} == {
            consumer: (wanted, self.progress.get(consumer, 0)) for consumer, wanted in self.subscriptions.items()
        }
        assert {one.consumer_id: one.last_acked_id for one in told.progress if one.last_acked_id} == {
            consumer: cursor for consumer, cursor in self.progress.items() if cursor
        }

    @invariant()
    def the_journal_is_the_rows(self) -> None:
        if hasattr(self, "queue") and not self.damaged:
            assert_both_tracks_agree(self.path)


def test_queues_follow_the_model() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            report_multiple_bugs=False,
        ),
    )
