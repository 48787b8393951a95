"""Pruning removes what ended long ago, and nothing that anybody waits for. What was removed cannot happen a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people, work
from postroom.core.errors import CursorExpired, Interrupted, InvalidState, NotFound
from postroom.core.records import Event
from postroom.core.records.retention import PruneResult
from postroom.maintenance import paced_batches
from postroom.maintenance.pruning import prune
from postroom.store.event_log import BLOCK_EVENTS
from postroom.store.files.jsonl_mirror import JsonlMirror
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore
from postroom.tasks import A2ATaskStatus, Conductor
from postroom.work.waiting import _EventFilter
from tests.conftest import Clock
from tests.contract import people_data, task_data
from tests.contract.columns import columns_of
from tests.contract.thread_data import asking, ended, held, sent, shortened, status_of

DAY_SECONDS = 86_400
TABLES_OF_ROWS = ("threads", "messages", "artifacts", "leases", "reads", "deliveries", "tasks", "jobs", "entries", "asks", "pushed_texts")


def pruned(store: Store, days: float = 90, **options: object) -> PruneResult:
    return prune(store, older_than_seconds=days * DAY_SECONDS, **options)  # type: ignore[arg-type]


def count(store: Store, table: str) -> int:
    with store.read() as tx:
        return int(tx.fetch_one(f"SELECT count(*) FROM {table}")[0])


def counts(store: Store) -> dict[str, int]:
    return {table: count(store, table) for table in columns_of(store)}


def acked(store: Store, msg_id: str) -> None:
    mail.enqueue(store, {"msg_id": msg_id, "from": "lead", "to": "box", "payload": "analyze"})
    delivery = mail.dequeue(store, "box")
    assert delivery is not None
    mail.ack(store, "box", msg_id, delivery_token=delivery.delivery_token)


def read_entry(store: Store, workspace: str) -> str:
    entry = people_data.pushed(store, workspace)
    people.mark_read(store, entry, person="user")
    return entry


def fill_with_ended_things(store: Store, folder: Path) -> None:
    """One of each kind that has ended: threads in each final state, mail, a task with its result, a job, an entry, an answered question."""
    for how in ("done", "failed", "cancelled"):
        ended(store, how)
    acked(store, "m1")
    conductor = task_data.conductor_with_agents(store)
    task = task_data.held(conductor)
    conductor.complete(task.task_id, agent=task_data.BOB, artifacts={"ok": True})
    conductor.acknowledge_all(agent=task_data.ANN)
    read_entry(store, people_data.new_workspace(store, folder))


def test_what_ended_long_ago_goes_with_all_that_belongs_to_it(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill_with_ended_things(store, tmp_path)
    clock.advance(91 * DAY_SECONDS)
    result = pruned(store)
    assert (result.threads, result.mail, result.entries) == (3, 1, 1)
    assert result.tasks == 2  # the task and its result
    assert [table for table in TABLES_OF_ROWS if count(store, table)] == []


def test_what_is_younger_stays(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill_with_ended_things(store, tmp_path)
    clock.advance(89 * DAY_SECONDS)
    before = counts(store)
    result = pruned(store)
    assert (result.threads, result.mail, result.tasks, result.entries, result.queue_events) == (0, 0, 0, 0, 0)
    assert counts(store) == before


def test_what_somebody_waits_for_stays(store: Store, clock: Clock, tmp_path: Path) -> None:
    waiting = [sent(store), held(store).thread.thread_id, asking(store).thread.thread_id]
    mail.enqueue(store, {"msg_id": "waits", "from": "lead", "to": "box", "payload": "p"})
    workspace = people_data.new_workspace(store, tmp_path)
    unread, pinned = people_data.pushed(store, workspace), read_entry(store, workspace)
    people.pin_entry(store, pinned, person="user")
    question = people_data.asked(store)
    task = task_data.asked(task_data.conductor_with_agents(store))
    clock.advance(400 * DAY_SECONDS)
    result = pruned(store)
    assert (result.threads, result.mail, result.tasks, result.entries) == (0, 0, 0, 0)
    assert [status_of(store, thread) for thread in waiting] == ["pending", "claimed", "blocked"]
    assert {entry.id for entry in people.history(store).entries} >= {unread, pinned, question}
    assert mail.dequeue(store, "box") is not None
    assert task_data.status_of(Conductor(store), task.task_id) == "pending"


@pytest.mark.parametrize("how", ["read", "replied", "done"])
def test_an_entry_ages_from_when_a_person_was_done_with_it(store: Store, clock: Clock, tmp_path: Path, how: str) -> None:
    entry = people_data.pushed(store, people_data.new_workspace(store, tmp_path))
    if how != "read":
        people.mark_read(store, entry, person="user")
    clock.advance(400 * DAY_SECONDS)
    if how == "read":
        people.mark_read(store, entry, person="user")
    elif how == "replied":
        people.reply(store, entry, person="user", body="Thanks")
    else:
        people.set_state(store, entry, person="user", state="done")
    clock.advance(89 * DAY_SECONDS)
    assert pruned(store).entries == 0
    clock.advance(2 * DAY_SECONDS)
    assert pruned(store).entries == 1


def test_a_dry_run_counts_and_changes_nothing(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill_with_ended_things(store, tmp_path)
    clock.advance(91 * DAY_SECONDS)
    before = counts(store)
    told = pruned(store, dry_run=True)
    assert counts(store) == before
    done = pruned(store)
    for field in ("threads", "mail", "tasks", "entries"):
        assert getattr(told, field) == getattr(done, field)


def test_the_threads_of_a_kept_run_stay(store: Store, clock: Clock) -> None:
    for run in ("nightly", "release"):
        thread = work.send(store, sender="leader", to="builder", subject="Build", run_id=run).thread.thread_id
        work.cancel(store, thread, agent="leader", reason="Not wanted")
    clock.advance(91 * DAY_SECONDS)
    assert pruned(store, keep_runs=("release",)).threads == 1
    assert [thread.run_id for thread in work.list_threads(store, statuses=("cancelled",)).threads] == ["release"]


def test_ids_that_make_a_repeat_safe_outlive_their_rows(store: Store, clock: Clock) -> None:
    message = {"sender": "leader", "to": "builder", "subject": "Build", "key": "build-7"}
    thread = work.send(store, **message, thread_id="release-7").thread.thread_id  # type: ignore[arg-type]
    work.cancel(store, thread, agent="leader", reason="Not wanted")
    acked(store, "m1")
    clock.advance(91 * DAY_SECONDS)
    assert pruned(store).threads == 1
    for again in ({**message, "thread_id": "another"}, {**message, "key": None, "thread_id": "release-7"}):
        with pytest.raises(InvalidState, match="removed"):
            work.send(store, **again)
    assert count(store, "threads") == 0
    mail.enqueue(store, {"msg_id": "m1", "from": "lead", "to": "box", "payload": "analyze"})  # a repeat, which is not stored
    assert count(store, "deliveries") == 0


def test_a_checkpoint_does_not_bring_a_removed_task_back(store: Store, clock: Clock) -> None:
    conductor = task_data.conductor_with_agents(store)
    ended = conductor.cancel(task_data.asked(conductor).task_id, agent=task_data.ANN)
    conductor.acknowledge_all(agent=task_data.ANN)
    clock.advance(91 * DAY_SECONDS)
    assert pruned(store).tasks == 2
    job = conductor.start_job(task_data.BOB).job_id
    with pytest.raises(InvalidState, match="removed"), conductor.checkpoint(job) as state:
        state.inbox.put_task(ended.model_copy(update={"status": A2ATaskStatus.PENDING}))
    assert count(store, "tasks") == 0


def test_a_cursor_behind_what_was_removed_is_refused_with_where_to_go_on(store: Store, clock: Clock) -> None:
    ended(store)
    clock.advance(91 * DAY_SECONDS)
    newest = work.show(store, sent(store)).next_event_id
    result = pruned(store)
    with pytest.raises(CursorExpired) as refused:
        work.watch(store, after_event=1, timeout_seconds=1)
    place = refused.value.facts["next_event_id"]
    assert isinstance(place, int)
    assert place == result.next_event_id < newest
    assert work.watch(store, after_event=place, timeout_seconds=1).events[-1].event_id == newest


def test_a_watcher_that_is_overtaken_by_pruning_is_refused(store: Store, clock: Clock) -> None:
    """The event after its cursor is still there, that of an open thread, and one behind it is not."""
    before = work.show(store, ended(store)).next_event_id
    sent(store)
    ended(store)
    clock.advance(91 * DAY_SECONDS)
    sent(store)
    pruned(store)
    with store.read() as tx, pytest.raises(CursorExpired):
        _EventFilter(None, None, None).read_page(tx, before)


def test_a_cursor_is_refused_also_among_summarised_events(store: Store, clock: Clock) -> None:
    thread = ended(store)
    for _ in range(BLOCK_EVENTS // 8):
        work.send_all(store, [{"to": "builder", "subject": "Build"}] * 10, sender="leader")
    clock.advance(91 * DAY_SECONDS)
    sent(store)
    pruned(store)
    with pytest.raises(CursorExpired):
        work.watch(store, agent="builder", after_event=2, timeout_seconds=1)
    with pytest.raises(NotFound):
        work.show(store, thread)
    assert count(store, "event_topics") <= 20


def test_the_run_after_an_interrupted_one_removes_the_events_of_nothing(store: Store, clock: Clock, tmp_path: Path) -> None:
    workspace = people_data.new_workspace(store, tmp_path)
    people.delete_entry(store, people_data.pushed(store, workspace), person="user")
    clock.advance(91 * DAY_SECONDS)
    sent(store)
    moments: list[None] = []
    with pytest.raises(Interrupted):
        pruned(store, is_stopping=lambda: bool(moments.append(None)) or len(moments) > 1)  # type: ignore[func-returns-value]
    pruned(store)
    with store.read() as tx:
        assert tx.fetch_all("SELECT event_type FROM events WHERE thread_id = ''") == []


def test_the_newest_event_stays_so_that_cursors_go_on(store: Store, clock: Clock) -> None:
    ended(store)
    clock.advance(91 * DAY_SECONDS)
    pruned(store)
    pruned(store)
    assert count(store, "events") >= 1
    cursor = work.watch(store, timeout_seconds=0.01).next_event_id
    thread = sent(store)
    assert [event.thread_id for event in work.watch(store, after_event=cursor, timeout_seconds=5).events] == [thread]


def test_pruning_again_finds_nothing(store: Store, clock: Clock, tmp_path: Path) -> None:
    fill_with_ended_things(store, tmp_path)
    clock.advance(91 * DAY_SECONDS)
    pruned(store)
    left = counts(store)
    result = pruned(store)
    assert (result.threads, result.mail, result.tasks, result.entries) == (0, 0, 0, 0)
    assert {**counts(store), "events": 0} == {**left, "events": 0}  # the newest event goes once there is a newer one


def test_a_file_gives_its_free_pages_back(sqlite_place: str, clock: Clock) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        for _ in range(40):
            thread = work.send(store, sender="leader", to="builder", subject="Build", body="text " * 4000).thread.thread_id
            work.cancel(store, thread, agent="leader", reason="Not wanted")
        clock.advance(91 * DAY_SECONDS)
        store.checkpoint("TRUNCATE")
        before = Path(sqlite_place).stat().st_size
        result = pruned(store)
        store.checkpoint("TRUNCATE")
        after = Path(sqlite_place).stat().st_size
    assert result.returned_bytes > 40 * 20_000 / 2
    assert before - after >= result.returned_bytes


def test_a_long_thread_goes_in_several_transactions(store: Store, clock: Clock) -> None:
    thread = sent(store)
    with store.batch() as batch:
        for number in range(150):
            work.send(batch, sender="leader", to="builder", thread_id=thread, summary="More", key=f"k{number}")
    work.cancel(store, thread, agent="leader", reason="Not wanted")
    clock.advance(91 * DAY_SECONDS)
    left: set[int] = set()
    assert pruned(store, is_stopping=lambda: bool(left.add(count(store, "messages")))).threads == 1  # type: ignore[func-returns-value]
    assert len(left & set(range(1, 150))) >= 2
    assert (count(store, "threads"), count(store, "messages"), count(store, "removed_ids")) == (0, 0, 151)


def test_a_long_thread_leaves_no_unread_mark_if_its_pruning_is_interrupted(store: Store, clock: Clock) -> None:
    thread = sent(store)
    work.reply(store, thread, sender="leader", to="guest", summary="See this")
    with store.batch() as batch:
        for number in range(150):
            work.send(batch, sender="leader", to="builder", thread_id=thread, summary="More", key=f"k{number}")
    work.cancel(store, thread, agent="leader", reason="Not wanted")
    clock.advance(91 * DAY_SECONDS)
    with pytest.raises(Interrupted):
        pruned(store, is_stopping=lambda: count(store, "threads") == 0)
    for agent in ("guest", "builder"):
        assert people.list_waiting(store, agent=agent).waiting == ()
        assert work.fetch(store, agent=agent, unread=True).candidates == ()


def test_a_thread_whose_beginning_was_pruned_is_not_brought_back(store: Store) -> None:
    thread = shortened(store)
    with pytest.raises(InvalidState, match="beginning was removed") as refused:
        work.retry_thread(store, thread, agent="leader")
    assert "inbox send" in str(refused.value.hint)
    with pytest.raises(InvalidState, match="has been removed"):
        work.send(store, sender="leader", to="builder", subject="Build", key="build")
    with pytest.raises(InvalidState, match="has ended"):
        work.send(store, sender="leader", thread_id=thread, summary="Go on")
    with pytest.raises(InvalidState, match="has ended"):
        work.reply(store, thread, sender="leader", body="Go on")
    assert status_of(store, thread) == "cancelled"


def test_a_thread_whose_beginning_was_pruned_says_so_until_the_next_run_removes_it(store: Store, clock: Clock) -> None:
    assert work.show(store, ended(store)).note == ""
    thread = shortened(store)
    clock.advance(91 * DAY_SECONDS)
    assert "removed the beginning of this thread" in work.show(store, thread).note
    assert pruned(store).threads == 2
    assert (count(store, "threads"), count(store, "messages")) == (0, 0)


def counted(store: Store, table: str) -> set[int]:
    """The numbers of rows of a table before each transaction of pruning."""
    seen: set[int] = set()
    pruned(store, is_stopping=lambda: bool(seen.add(count(store, table))))  # type: ignore[func-returns-value]
    return seen


def test_a_thread_of_long_messages_goes_in_several_transactions(store: Store, clock: Clock) -> None:
    thread = sent(store)
    for _ in range(10):
        work.send(store, sender="leader", thread_id=thread, summary="More", body="x" * 1_000_000)
    work.cancel(store, thread, agent="leader", reason="Not wanted")
    clock.advance(91 * DAY_SECONDS)
    assert len(counted(store, "messages") & set(range(1, 12))) >= 2
    assert (count(store, "threads"), count(store, "messages")) == (0, 0)


def test_an_entry_goes_after_its_parts_and_counts_once(store: Store, clock: Clock, tmp_path: Path) -> None:
    workspace = people_data.new_workspace(store, tmp_path)
    entry = people_data.pushed(store, workspace)
    for number in range(8):
        people.push(store, workspace, comments=f"Part {number}", entry_id=entry)
    clock.advance(91 * DAY_SECONDS)
    assert pruned(store).entries == 0  # nobody has read it. Later runs do not look at its events again
    people.mark_read(store, entry, person="user")
    clock.advance(91 * DAY_SECONDS)
    assert pruned(store, dry_run=True).entries == 1
    assert pruned(store).entries == 1
    assert count(store, "entries") == 0
    clock.advance(91 * DAY_SECONDS)
    sent(store)
    pruned(store)
    with store.read() as tx:
        assert tx.fetch_all("SELECT event_type FROM events WHERE thread_id = ''") == []


def test_the_parts_of_an_entry_go_in_several_transactions(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paced_batches, "WORK_SHARE", 0)
    workspace = people_data.new_workspace(store, tmp_path)
    entry = people_data.pushed(store, workspace)
    for number in range(4):
        people.push(store, workspace, comments=f"Part {number}", entry_id=entry)
    people.mark_read(store, entry, person="user")
    clock.advance(91 * DAY_SECONDS)
    assert counted(store, "entries") >= {1, 2, 3, 4, 5}
    assert count(store, "entries") == 0


def test_an_entry_that_is_pinned_after_it_was_found_stays(store: Store, clock: Clock, tmp_path: Path) -> None:
    workspace = people_data.new_workspace(store, tmp_path)
    entry, other = read_entry(store, workspace), read_entry(store, workspace)
    clock.advance(91 * DAY_SECONDS)
    moments: list[None] = []

    def pin_it() -> bool:
        moments.append(None)
        if len(moments) == 3:  # after the mark and the pages of the index, before the entries that were found
            people.pin_entry(store, entry, person="user")
        return False

    assert pruned(store, is_stopping=pin_it).entries == 1
    assert people.find_entry(store, entry).pinned_at
    with pytest.raises(NotFound):
        people.find_entry(store, other)


def test_a_push_beside_pruning_leaves_the_lines_of_pruned_entries_to_it(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each push would rewrite the mirror. Once the run is interrupted, the next change does it."""
    monkeypatch.setattr(paced_batches, "WORK_SHARE", 0)
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "data"))
    mirror = tmp_path / "data" / "inbox" / "entries.jsonl"
    workspace = people_data.new_workspace(store, tmp_path)
    old = [read_entry(store, workspace) for _ in range(4)]
    clock.advance(91 * DAY_SECONDS)
    rewrites: list[None] = []
    rewrite = JsonlMirror.rewrite_lines

    def count_and_rewrite(*args: Any, **named: Any) -> None:
        rewrites.append(None)
        rewrite(*args, **named)

    monkeypatch.setattr(JsonlMirror, "rewrite_lines", count_and_rewrite)
    seen: list[int] = []

    def push_once() -> bool:
        seen.append(count(store, "entries"))
        if seen[-1] == 2 and seen.count(2) == 1:
            people.delete_entry(store, people_data.pushed(store, workspace, "A mistake"), person="user")
            rewrites.clear()
            people_data.pushed(store, workspace, "While it goes on")
            assert "A mistake" not in mirror.read_text()  # what a person deletes goes at once
        return seen.count(2) == 2  # one of the old ones is left, with the new one

    with pytest.raises(Interrupted):
        pruned(store, is_stopping=push_once)
    assert rewrites == []
    assert mirror.read_text().count("\n") == 5
    people.delete_entry(store, old[3], person="user")
    assert mirror.read_text().count("\n") == 1
    pruned(store)
    assert [entry.comments for entry in people.history(store).entries] == ["While it goes on"]
    assert "While it goes on" in mirror.read_text()
    assert mirror.read_text().count("\n") == 1


@pytest.mark.parametrize("kind", ["mail", "entry"])
def test_a_long_history_goes_in_several_transactions(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(paced_batches, "MAX_BATCH_ROWS", 20)
    if kind == "mail":
        mail.enqueue(store, {"msg_id": "m1", "from": "lead", "to": "box", "payload": "analyze"})
        delivery = mail.dequeue(store, "box")
        assert delivery is not None
        with store.batch() as batch:
            for _ in range(150):
                mail.extend(batch, "box", "m1", delivery_token=delivery.delivery_token)
        mail.ack(store, "box", "m1", delivery_token=delivery.delivery_token)
    else:
        entry = read_entry(store, people_data.new_workspace(store, tmp_path))
        with store.batch() as batch:
            for _ in range(75):
                people.mark_unread(batch, entry, person="user")
                people.mark_read(batch, entry, person="user")
    clock.advance(91 * DAY_SECONDS)
    sent(store)
    assert len(counted(store, "events")) > 150 / 20
    assert (count(store, "deliveries"), count(store, "entries")) == (0, 0)
    with store.read() as tx:
        assert tx.fetch_all("SELECT event_type FROM events WHERE thread_id = '' AND event_type <> 'entry.deleted'") == []


def test_the_history_of_an_id_that_another_sender_uses_stays(store: Store, clock: Clock) -> None:
    acked(store, "m1")
    clock.advance(91 * DAY_SECONDS)
    mail.enqueue(store, {"msg_id": "m1", "from": "other", "to": "box", "payload": "analyze"})
    assert pruned(store).mail == 1
    assert "mail.acked" in [event.event_type for event in mail_events(store, "m1")]


def mail_events(store: Store, msg_id: str) -> list[Event]:
    with store.read() as tx:
        return tx.fetch_all(tx.sql.mail_steps, msg_id=msg_id, after=0, limit=100)


def test_a_thread_that_changes_after_it_was_found_stays(store: Store, clock: Clock) -> None:
    changed, _ = ended(store), ended(store)
    clock.advance(91 * DAY_SECONDS)
    moments: list[None] = []

    def change_it() -> bool:
        moments.append(None)
        if len(moments) == 2:  # the first is that of the mark, the second comes after the page was read
            with store.write() as tx:
                tx.execute("UPDATE threads SET status = 'in_progress' WHERE thread_id = :thread_id", thread_id=changed)
        return False

    assert pruned(store, is_stopping=change_it).threads == 1
    assert work.show(store, changed).messages
