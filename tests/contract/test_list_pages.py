"""Lists in pages: every item comes once, a page that is cut gives a cursor, and a wrong cursor is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people, work
from postroom.core.errors import InvalidInput, InvalidState
from postroom.people import watched_queues
from postroom.people.access import workspaces
from postroom.queues import init_queue
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract import mail_data
from tests.contract.people_data import AGENT, USER, asked, new_workspace, pushed
from tests.contract.task_data import ANN, BOB, conductor_with_agents, ids

ITEMS, LIMIT = 5, 2


def pages(read_page: Callable[..., Any], cursor: str = "after") -> Iterator[Any]:
    """Read page after page by the cursor of the page before."""
    page = read_page(limit=LIMIT)
    yield page
    while page.more:
        assert page.after is not None
        page = read_page(limit=LIMIT, **{cursor: page.after})
        yield page
    assert page.after is None


def walk(read_page: Callable[..., Any], field: str) -> list[Any]:
    """All items, and the sizes of the pages are those of a list that is cut."""
    found = [getattr(page, field) for page in pages(read_page)]
    assert [len(page) for page in found] == [2, 2, 1]
    return [item for page in found for item in page]


def read_first_mail(store: Store) -> None:
    people.read_messages(store, agent=AGENT, limit=100)


def test_tasks_come_in_pages_newest_first(store: Store) -> None:
    conductor = conductor_with_agents(store)
    made = [conductor.submit(ANN, BOB, f"Task {number}").task_id for number in range(ITEMS)]
    assert ids(walk(conductor.tasks, "tasks")) == made[::-1]


def test_waiting_and_pending_tasks_come_in_pages_most_urgent_first(store: Store) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB).job_id
    priorities = ("normal", "high", "normal", "low", "high")
    made: dict[str, list[str]] = {priority: [] for priority in priorities}
    for priority in priorities:
        made[priority].append(conductor.submit(ANN, BOB, "Task", priority=priority).task_id)
    expected = [*made["high"], *made["normal"], *made["low"]]
    assert ids(walk(lambda **place: conductor.waiting(BOB, **place), "tasks")) == expected
    assert ids(walk(lambda **place: conductor.pending(job, **place), "tasks")) == expected


def test_jobs_come_in_pages_newest_first(store: Store) -> None:
    conductor = conductor_with_agents(store)
    made = [conductor.start_job(BOB).job_id for _ in range(ITEMS)]
    conductor.start_job(ANN)
    assert [job.job_id for job in walk(lambda **place: conductor.jobs(BOB, **place), "jobs")] == made[::-1]
    assert len(conductor.jobs()) == ITEMS + 1


def test_agents_of_a_skill_come_in_pages_by_name(store: Store) -> None:
    conductor = Conductor(store)
    for name in "edcba":
        conductor.register(name, skills=["sql"])
    assert [card.name for card in walk(lambda **place: conductor.find("sql", **place), "cards")] == list("abcde")


def test_conversations_come_in_pages_with_that_of_the_mail_first(store: Store) -> None:
    for thread_id in ("", "thr_1", "thr_2", "thr_3", "thr_4"):
        people.keep_conversation(store, thread_id, agent="ada", program="gemini", session="s", turns=1)
    found = walk(lambda **place: people.list_conversations(store, agent="ada", **place), "conversations")
    assert [one.thread_id for one in found] == ["", "thr_1", "thr_2", "thr_3", "thr_4"]
    assert people.list_conversations(store, agent="ada", limit=1).after == ""
    assert people.list_conversations(store, agent="ada", limit=1, after="").conversations == (found[1],)


def test_ways_to_wake_come_in_pages(store: Store) -> None:
    for route, session in (("queue", "b"), ("hook", "a b"), ("hook", "a"), ("queue", "a"), ("input", "c")):
        people.register_route(store, agent="ada", route=route, session=session, program="gemini")
    found = walk(lambda **place: people.list_routes(store, agent="ada", **place), "routes")
    assert [(one.route, one.session) for one in found] == [("hook", "a"), ("hook", "a b"), ("input", "c"), ("queue", "a"), ("queue", "b")]


def test_old_messages_come_in_pages_also_if_all_came_at_once(store: Store, tmp_path: Path) -> None:
    entry_id = pushed(store, new_workspace(store, tmp_path))
    for number in range(3):
        people.reply(store, entry_id, person=USER, body=f"Reply {number}")
    for number in range(2):
        mail_data.post(store, f"Mail {number}", to=AGENT)
    read_first_mail(store)
    found = walk(lambda **place: people.old_messages(store, agent=AGENT, **place), "messages")
    assert sorted(one.body for one in found) == ["Mail 0", "Mail 1", "Reply 0", "Reply 1", "Reply 2"]
    assert [one.body for one in found if one.kind == "mail"] == ["Mail 1", "Mail 0"]


def test_old_messages_come_in_pages_in_the_order_of_time(store: Store, clock: Clock, tmp_path: Path) -> None:
    entry_id = pushed(store, new_workspace(store, tmp_path))
    for number in range(ITEMS):
        clock.advance(1)
        if number % 2:
            mail_data.post(store, str(number), to=AGENT)
        else:
            people.reply(store, entry_id, person=USER, body=str(number))
    read_first_mail(store)
    found = walk(lambda **place: people.old_messages(store, agent=AGENT, **place), "messages")
    assert [one.body for one in found] == ["4", "3", "2", "1", "0"]


def test_an_agents_own_entries_come_in_pages(store: Store, clock: Clock, tmp_path: Path) -> None:
    workspace = new_workspace(store, tmp_path)
    made = []
    for _ in range(ITEMS):
        clock.advance(1)
        made.append(pushed(store, workspace))
    first = people.own_entries(store, agent=AGENT, limit=4)
    last = people.own_entries(store, agent=AGENT, limit=4, before=first.entries[-1].id)
    assert [entry.id for entry in (*first.entries, *last.entries)] == made[::-1]
    assert (first.has_more, last.has_more) == (True, False)


def test_open_questions_come_in_pages_by_their_deadline_each_entry_once(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    made = {}
    for seconds in (50, 20, None, 40, 30):
        given: dict[str, Any] = {} if seconds is None else {"deadline_seconds": seconds, "on_silence": "refuse"}
        made[seconds] = asked(store, f"In {seconds}?", **given)
    people.ask(store, agent=AGENT, question="And this?", to=USER, entry_id=made[20])  # without a deadline: the last of all

    def read_page(**place: Any) -> Any:
        page = people.open_questions(store, **place)
        return type("Page", (), {"entries": page.entries, "more": page.has_more, "after": page.after})

    assert [entry.id for entry in walk(read_page, "entries")] == [made[20], made[30], made[40], made[50], made[None]]


def test_a_question_answered_meanwhile_does_not_lose_the_place(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    made = [asked(store, "Now?", deadline_seconds=seconds, on_silence="refuse") for seconds in (20, 30, 40)]
    first = people.open_questions(store, limit=1)
    people.reply(store, made[0], person=USER, body="Yes")
    assert [entry.id for entry in people.open_questions(store, limit=1, after=first.after).entries] == [made[1]]


@pytest.mark.parametrize("cursor", ["", "nonsense", "1.2.3", "x" * 500, "1|x", "-1", "9" * 40])
def test_a_cursor_of_another_list_is_refused(store: Store, cursor: str) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB).job_id
    lists: tuple[Callable[..., Any], ...] = (
        *(conductor.tasks, lambda **place: conductor.waiting(BOB, **place), lambda **place: conductor.pending(job, **place)),
        *(conductor.jobs, lambda **place: people.open_questions(store, **place)),
        *(lambda **place: people.old_messages(store, agent=AGENT, **place), lambda **place: work.fetch(store, agent=BOB, **place)),
    )
    for read_page in lists:
        with pytest.raises(InvalidInput) as refused:
            read_page(after=cursor)
        assert refused.value.facts["field"] == "after"


# Lists that are bounded when they grow


def test_there_are_at_most_so_many_workspaces(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "MAX_WORKSPACES", 2)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        people.add_workspace(store, str(tmp_path / name), label=name)
    (tmp_path / "three").mkdir()
    with pytest.raises(InvalidState, match="2 workspaces"):
        people.add_workspace(store, str(tmp_path / "three"), label="three")
    assert [one.label for one in people.list_workspaces(store)] == ["one", "two"]


def test_so_many_queues_are_watched_at_most(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_queues, "MAX_QUEUES", 1)
    for name in ("one", "two"):
        init_queue(str(tmp_path / name))
    people.add_queue(store, str(tmp_path / "one"))
    with pytest.raises(InvalidState, match="1 queues"):
        people.add_queue(store, str(tmp_path / "two"))
    assert [one.label for one in people.list_queues(store)] == ["one"]


def test_mail_of_another_agent_is_not_among_old_messages(store: Store) -> None:
    mail_data.post(store, to="other")
    mail.dequeue(store, "other")
    assert people.old_messages(store, agent=AGENT).messages == ()
