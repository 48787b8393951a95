"""Runs: threads that belong together, in numbers and as a history; and how busy everybody was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postroom import mail, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, NotFound
from postroom.store.interface import Store
from postroom.work import runs
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.thread_data import events

pytestmark = pytest.mark.travels("http")

HOUR = 3600


def opened(store: Store, run_id: str = "r1", *, to: str = "builder", subject: str = "S") -> str:
    return work.send(store, sender="leader", to=to, subject=subject, run_id=run_id).thread.thread_id


def on_the_hour(clock: Clock) -> None:
    clock.instant -= clock.instant % (HOUR * time.MICROSECONDS_PER_SECOND)


# The list


def test_a_run_is_listed_in_numbers(store: Store, clock: Clock) -> None:
    first = opened(store, to="builder")
    began = work.show(store, first).thread.created_at
    clock.advance(1)
    opened(store, to="ada")
    clock.advance(1)
    work.claim(store, first, agent="builder")
    (run,) = work.list_runs(store)
    assert (run.run_id, run.threads, run.by_status, run.agents) == ("r1", 2, {"pending": 1, "claimed": 1}, ("ada", "builder"))
    assert (run.first_at, run.last_at) == (began, time.format_stamp(clock.instant))
    assert run.to_json()["agents"] == ["ada", "builder"]


def test_runs_are_listed_newest_activity_first(store: Store, clock: Clock) -> None:
    threads = []
    for run_id in ("r1", "r2", "", "r/4 %"):
        clock.advance(1)
        threads.append(opened(store, run_id))
    clock.advance(1)
    work.claim(store, threads[0], agent="builder")
    assert [run.run_id for run in work.list_runs(store)] == ["r1", "r/4 %", "", "r2"]
    first = work.list_runs(store, limit=2)
    assert [run.run_id for run in first] == ["r1", "r/4 %"]
    assert first.more
    last = work.list_runs(store, limit=2, after=first.after)
    assert ([run.run_id for run in last], last.more, last.after) == (["", "r2"], False, None)
    with pytest.raises(InvalidInput):
        work.list_runs(store, after="not a cursor")


def test_a_run_that_was_not_counted_to_its_end_says_so(store: Store, clock: Clock) -> None:
    opened(store, "old")
    for run_id, threads in (("big", runs.MAX_THREADS_PER_STATUS), ("new", 2)):
        clock.advance(1)
        work.send_all(store, [{"to": "builder", "subject": "S", "run": run_id}] * threads, sender="leader")
    listed = {run.run_id: (run.threads, run.partial) for run in work.list_runs(store)}
    assert listed == {"new": (2, False), "big": (runs.MAX_THREADS_PER_STATUS - 2, True)}
    assert work.summarize_run(store, "big").threads == runs.MAX_THREADS_PER_STATUS


def test_there_are_no_runs_without_threads(store: Store) -> None:
    assert work.list_runs(store).runs == ()


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_list_of_no_sensible_length_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidInput):
        work.list_runs(store, limit=limit)


def test_of_each_status_the_latest_threads_count(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_THREADS_PER_STATUS", 2)
    for number in range(3):
        clock.advance(1)
        opened(store, f"r{number}")
    work.cancel(store, opened(store, "r3"), agent="leader")
    assert {run.run_id for run in work.list_runs(store)} == {"r1", "r2", "r3"}


# One run


def test_a_run_is_shown_with_its_threads_and_who_holds_them(store: Store, clock: Clock) -> None:
    first = opened(store)
    clock.advance(1)
    second, _ = opened(store), opened(store, "another")
    clock.advance(1)
    claim = work.claim(store, first, agent="builder")
    shown = work.show_run(store, "r1")
    assert [held.thread.thread_id for held in shown.threads] == [first, second]
    assert (shown.threads[0].lease, shown.threads[1].lease) == (claim.lease, None)
    assert (shown.run_id, shown.truncated) == ("r1", False)
    plain = shown.to_json()
    assert plain["threads"][0] == {**claim.thread.to_json(), "lease": claim.lease.to_json_without_token()}
    assert "lse_" not in str(plain)


def test_a_lease_that_was_given_back_is_nobodys(store: Store) -> None:
    thread_id = opened(store)
    work.claim(store, thread_id, agent="builder")
    work.release(store, thread_id, agent="builder")
    assert work.show_run(store, "r1").to_json()["threads"][0]["lease"] is None


def test_what_happened_in_a_run_is_told_oldest_first(store: Store) -> None:
    first, other = opened(store), opened(store, "another")
    second = opened(store, to="ada")
    work.claim(store, first, agent="builder")
    work.update(store, first, agent="builder", status="blocked", summary="Which?", to="user")
    work.reply(store, first, sender="user", summary="That")
    work.done(store, first, agent="builder", summary="So")
    told = work.show_run(store, "r1").events
    assert [(moment.thread_id, moment.type, moment.source, moment.status) for moment in told] == [
        (first, "thread.created", "leader", "pending"),
        (second, "thread.created", "leader", "pending"),
        (first, "thread.claimed", "builder", "claimed"),
        (first, "thread.updated", "builder", "blocked"),
        (first, "thread.replied", "user", "blocked"),
        (first, "thread.done", "builder", "done"),
    ]
    assert [moment.to for moment in told] == ["builder", "ada", None, "user", "builder", "leader"]
    assert [moment.summary for moment in told][3:] == ["Which?", "That", "So"]
    logged = {event.event_id: event for event in events(store) if event.thread_id != other and event.event_type.startswith("thread.")}
    assert [moment.event_id for moment in told] == list(logged)
    assert all(moment.at == logged[moment.event_id].created_at for moment in told)


def test_threads_without_a_run_are_the_run_without_a_name(store: Store) -> None:
    opened(store, "r1")
    unnamed = opened(store, "")
    shown = work.show_run(store, "")
    assert [held.thread.thread_id for held in shown.threads] == [unnamed]
    assert [moment.thread_id for moment in shown.events] == [unnamed]


@pytest.mark.parametrize("run_id", ["", "r", "R1", "r1 ", "%", "a/b"])
def test_a_run_that_has_no_threads_is_not_there(store: Store, run_id: str) -> None:
    opened(store, "r1")
    with pytest.raises(NotFound) as refused:
        work.show_run(store, run_id)
    assert refused.value.facts["run_id"] == run_id


def test_a_run_that_cannot_be_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        work.show_run(store, "a\0b")


def test_of_a_long_run_the_latest_is_told(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_THREADS", 2)
    threads = []
    for _ in range(3):
        clock.advance(1)
        threads.append(opened(store))
    shown = work.show_run(store, "r1")
    assert ([held.thread.thread_id for held in shown.threads], shown.truncated) == ([threads[2], threads[1]], True)
    assert {moment.thread_id for moment in shown.events} == set(threads[1:])


@pytest.mark.parametrize(("said", "most", "page"), [(5, 3, 2), (5, 4, 1), (7, 7, 3), (2, 5, 50)])
def test_of_many_events_the_latest_are_told(store: Store, monkeypatch: pytest.MonkeyPatch, said: int, most: int, page: int) -> None:
    monkeypatch.setattr(runs, "MAX_EVENTS", most)
    monkeypatch.setattr(runs, "_EVENTS_PER_PAGE", page)
    threads = [opened(store), opened(store)]
    for number in range(said):
        work.send(store, sender="leader", thread_id=threads[number % 2], summary=str(number))
    shown = work.show_run(store, "r1")
    every = [event.event_id for event in events(store)]
    assert [moment.event_id for moment in shown.events] == every[-most:]
    assert shown.truncated is (len(every) > most)


# Waiting for a run


def test_a_wait_for_a_run_ends_when_its_last_thread_has_ended(store: Store, connect: Callable[[], Store]) -> None:
    first, second = opened(store), opened(store, to="ada")
    opened(store, "another")
    work.cancel(store, first, agent="leader")
    with BlockingStore(connect(), lambda: work.cancel(store, second, agent="leader")) as sleeper:
        waited = work.wait_run(sleeper, "r1", timeout_seconds=LONG)
    assert (waited.woke, waited.open_threads, waited.run) == (True, 0, work.summarize_run(store, "r1"))
    assert (waited.run.threads, waited.run.by_status, waited.run.agents) == (2, {"cancelled": 2}, ("ada", "builder"))


def test_a_wait_for_a_run_that_times_out_tells_what_is_open(store: Store) -> None:
    opened(store)
    waited = work.wait_run(store, "r1", timeout_seconds=0.01)
    assert (waited.woke, waited.timed_out, waited.open_threads, waited.run.by_status) == (False, True, 1, {"pending": 1})


def test_a_wait_for_a_run_can_report_each_step(store: Store) -> None:
    first, _ = opened(store), opened(store)
    work.cancel(store, first, agent="leader")
    waited = work.wait_run(store, "r1", open_threads=2, timeout_seconds=LONG)
    assert (waited.woke, waited.open_threads) == (True, 1)


def test_a_run_without_threads_cannot_be_waited_for(store: Store) -> None:
    with pytest.raises(NotFound):
        work.wait_run(store, "r1", timeout_seconds=LONG)
    with pytest.raises(InvalidInput):
        work.wait_run(store, "", timeout_seconds=LONG)


# How busy everybody was


def histogram(store: Store, **wanted: Any) -> dict[str, Any]:
    return work.activity_histogram(store, **wanted).to_json()


def test_what_happened_is_counted_by_hour_and_by_who_did_it(store: Store, clock: Clock) -> None:
    on_the_hour(clock)
    opened(store)
    clock.advance(HOUR)
    opened(store)
    work.take(store, agent="builder")
    clock.advance(HOUR - 1)
    found = histogram(store, hours=3)
    assert found["start"] == time.format_stamp(clock.instant - (3 * HOUR - 1) * time.MICROSECONDS_PER_SECOND)
    assert (found["step_seconds"], found["complete"]) == (3600, True)
    assert found["agents"] == {"leader": [0, 1, 1], "builder": [0, 0, 1]}
    assert (found["total"], found["sessions"]) == ([0, 1, 2], {})
    clock.advance(1)
    assert histogram(store, hours=3)["total"] == [1, 2, 0]
    assert histogram(store, hours=1)["total"] == [0]
    assert len(histogram(store)["total"]) == 24


def test_mail_is_counted_by_its_mailbox_too(store: Store) -> None:
    for number in range(2):
        mail.enqueue(store, {"from": "leader", "to": "analyst", "payload": str(number)})
    found = histogram(store, hours=1)
    assert (found["sessions"], found["total"]) == ({"analyst": [2]}, [2])


def test_what_is_older_than_the_first_hour_is_not_counted(store: Store, clock: Clock) -> None:
    opened(store)
    clock.advance(25 * HOUR)
    opened(store)
    found = histogram(store)
    assert (sum(found["total"]), found["complete"]) == (1, True)


def test_what_was_too_much_to_count_is_said_to_be_incomplete(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_EVENTS", 3)
    for _ in range(4):
        opened(store)
    assert (sum(histogram(store)["total"]), histogram(store)["complete"]) == (3, False)
    clock.advance(25 * HOUR)
    assert (sum(histogram(store)["total"]), histogram(store)["complete"]) == (0, True)


def test_events_of_a_clock_ahead_of_ours_fall_into_the_last_hour(store: Store, clock: Clock) -> None:
    clock.advance(3 * HOUR)
    opened(store)
    clock.advance(-3 * HOUR)
    assert histogram(store, hours=2)["total"] == [0, 1]


@pytest.mark.parametrize("hours", [0, -1, 169])
def test_hours_that_cannot_be_are_refused(store: Store, hours: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        work.activity_histogram(store, hours=hours)
    assert refused.value.facts["field"] == "hours"


def test_events_that_make_no_sense_are_told_without_their_facts(store: Store, clock: Clock) -> None:
    thread_id = opened(store)
    with store.write() as tx:
        for payload in ("not json", "[]", '{"status": 3, "to": {}}'):
            tx.insert_event(
                tx.sql.event_append,
                (),
                run_id="r1",
                task_id="",
                thread_id=thread_id,
                source="",
                event_type="mail.strange",
                message_id=None,
                summary="",
                payload_json=payload,
                created_at=time.format_stamp(clock.instant),
            )
    assert [(moment.status, moment.to) for moment in work.show_run(store, "r1").events][1:] == [(None, None)] * 3
    assert (histogram(store, hours=1)["total"], histogram(store, hours=1)["sessions"]) == ([4], {})
