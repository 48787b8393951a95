"""Old events are found by the summaries of their blocks: a watch from an old cursor returns the same as a look at each event."""

from __future__ import annotations

import json
from itertools import cycle, product

import pytest

from postroom import work
from postroom.core.records import Event
from postroom.store.event_log import append_event
from postroom.store.interface import Store
from postroom.work import messages


def _fill_log(store: Store) -> None:
    """Two and a half blocks of events: a busy leader and runs, and agents, statuses and a run that are rare."""
    opened = [
        work.send(store, sender="leader", to=to, subject="x", run_id=run).thread
        for to, run in (("busy", "R1"), ("quiet", "R1"), ("busy", "rare"), ("quiet", ""))
    ]
    with store.write() as tx:
        for number in range(1300):
            thread = opened[3 if number == 700 else 2 if number == 1290 else 1 if number in (400, 1000) else 0]
            status = "failed" if number in (5, 1295) else "done" if number % 7 == 0 else "in_progress"
            kind = "thread.lapsed" if number == 600 else "thread.updated"
            source = "leader" if number % 3 == 0 else thread.assigned_to
            to = "guest" if number == 530 else "leader"
            messages.append_thread_event(tx, thread.replace(status=status), event_type=kind, source=source, to=to)


def _expected(event: Event, agent: str | None, run: str | None, statuses: tuple[str, ...] | None) -> bool:
    facts = json.loads(event.payload_json)
    shown = {facts["status"], "lapsed"} if event.event_type == "thread.lapsed" else {facts["status"]}
    about = {facts["assigned_to"], facts["created_by"], facts.get("to")} - {event.source}
    return (agent is None or agent in about) and run in (None, event.run_id) and (statuses is None or bool(shown & set(statuses)))


def test_every_filter_finds_from_every_cursor_what_a_look_at_each_event_finds(store: Store) -> None:
    _fill_log(store)
    with store.read() as tx:
        log = tx.fetch_all(tx.sql.events_after, after=0, limit=10_000)
        assert (tx.fetch_one(tx.sql.cursor_find, name="work.events") or 0) >= 1023
    filters = product((None, "leader", "quiet", "guest"), (None, "R1", "rare"), (None, ("failed", "lapsed")))
    for (agent, run, statuses), cursor in zip(filters, cycle((0, 800, 511))):
        found: list[Event] = []
        after, woke = cursor, True
        while woke:
            seen = work.watch(store, agent=agent, run_id=run, statuses=statuses, after_event=after, timeout_seconds=0.0001)
            found += seen.events
            after, woke = seen.next_event_id, seen.woke
        expected = [event for event in log if event.event_id > cursor and _expected(event, agent, run, statuses)]
        assert found == expected, (agent, run, statuses, cursor)
        assert after == log[-1].event_id


def test_mail_is_passed_over_without_a_look_at_each_message(store: Store) -> None:
    thread = work.send(store, sender="leader", to="builder", subject="x").thread
    _append_mail_events(store)
    work.cancel(store, thread.thread_id, agent="leader")
    seen = work.watch(store, after_event=1, timeout_seconds=1)
    assert [event.event_type for event in seen.events] == ["thread.cancelled"]


def test_the_summary_of_a_block_that_was_rolled_back_is_made_by_later_writes(store: Store) -> None:
    _fill_log(store)
    with store.read() as tx:
        latest = tx.fetch_one(tx.sql.event_latest)
    with pytest.raises(RuntimeError):
        _append_mail_events(store, fail=True)
    for _ in range(2):  # on PostgreSQL, the first write settles the gap that the ids left, and the second summarises
        _append_mail_events(store)
    assert work.watch(store, agent="guest", after_event=0, timeout_seconds=1).woke
    with store.read() as tx:
        assert (tx.fetch_one(tx.sql.cursor_find, name="work.events") or 0) > (latest or 0)


def _append_mail_events(store: Store, *, fail: bool = False) -> None:
    with store.write() as tx:
        for number in range(600):
            append_event(tx, (), event_type="mail.stored", source="ann", message_id=f"m{number}", payload={"session": "box"})
        if fail:
            raise RuntimeError
