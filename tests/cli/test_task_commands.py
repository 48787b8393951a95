"""Each command of `inbox task`, and the cards of agents: what it answers, to programs and to people, and how it exits."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from postroom.store import open_store
from postroom.tasks import Conductor
from tests.cli.process import Finished, Inbox, eventually

FROM, TO = "forge", "canyon"
DESCRIPTION = "Review architecture for module X"
SUBMIT = ("task", "submit", "--from", FROM, "--to", TO, "--description")
BOUND = ("--timeout-seconds", "30")  # of what must be woken: it is a failure if nobody does
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
FIELDS = {
    *("task_id", "kind", "source_job_id", "source_agent", "target_job_id", "target_agent", "description", "context", "status", "priority"),
    *("attempt", "deadline", "artifacts", "reason", "reason_code", "answers", "parent", "depth", "thread_id", "created_at", "accepted_at"),
    "ended_at",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which forge and canyon have cards, to be copied."""
    made = Inbox(tmp_path_factory.mktemp("template"))
    made.ok("init")
    with closing(open_store(str(made.db))) as store:
        Conductor(store).register(FROM)
        Conductor(store).register(TO, description="Reviews designs", skills=["review", "drawing"])
    return made.folder


@pytest.fixture
def crew(template: Path, tmp_path: Path) -> Inbox:
    folder = tmp_path / "crew"
    shutil.copytree(template, folder)
    return Inbox(folder)


def _submit(inbox: Inbox, description: str = DESCRIPTION, *more: str) -> dict[str, Any]:
    task: dict[str, Any] = inbox.ok(*SUBMIT, description, *more)["task"]
    return task


def _given(inbox: Inbox, description: str = DESCRIPTION, priority: str = "normal") -> str:
    """A new task from forge to canyon; its id. The library does what a test only starts from: it is faster than a process."""
    with closing(open_store(str(inbox.db))) as store:
        return Conductor(store).submit(FROM, TO, description, priority=priority).task_id


def _task(inbox: Inbox, identity: str) -> dict[str, Any]:
    task: dict[str, Any] = inbox.ok("task", "show", "--task", identity)["task"]
    return task


def _mine(agent: str, identity: str) -> tuple[str, ...]:
    return ("--agent", agent, "--task", identity)


def _results(inbox: Inbox, agent: str = FROM) -> list[dict[str, Any]]:
    """Return the results that came home to an agent, newest first."""
    with closing(open_store(str(inbox.db))) as store:
        listed = [task for task in Conductor(store).tasks(agent) if task.kind == "result"]
    return [{**task.model_dump(mode="json"), "verified": task.verified} for task in listed]


def _nothing(finished: Finished) -> Any:
    assert (finished.code, finished.stderr) == (10, ""), finished
    return finished.json


# cards


def test_a_card_is_registered_told_and_replaced(inbox: Inbox) -> None:
    skills = ("--skill", "review", "--skill", "drawing")
    first = inbox.ok("agent", "register", TO, "--description", "Reviews designs", *skills)
    assert (first["ok"], first["command"]) == (True, "agent register")
    assert first["card"] == {"name": TO, "description": "Reviews designs", "skills": ["review", "drawing"]}
    again = inbox.ok("agent", "register", TO, "--skill", "cooking")
    assert again["card"] == {"name": TO, "description": "", "skills": ["cooking"]}
    assert inbox.run("agent", "find", "--skill", "review").code == 10
    assert [card["name"] for card in inbox.ok("agent", "find", "--skill", "cooking")["cards"]] == [TO]
    assert TO in [agent["name"] for agent in inbox.ok("agent", "list")["agents"]]


def test_agents_are_found_by_a_whole_skill_in_any_case_sorted_by_name(crew: Inbox) -> None:
    crew.ok("agent", "register", "Zoë", "--skill", "REVIEW")
    crew.ok("agent", "register", "amber", "--skill", "reviewing")
    found = crew.ok("agent", "find", "--skill", "Review")["cards"]
    assert [card["name"] for card in found] == sorted([TO, "Zoë"])
    assert {card["name"]: card["skills"] for card in found} == {TO: ["review", "drawing"], "Zoë": ["REVIEW"]}
    said = crew.says("agent", "find", "--skill", "drawing")
    assert all(word in said for word in (TO, "Reviews designs", "review"))


def test_a_skill_that_nobody_has_exits_10(crew: Inbox) -> None:
    assert _nothing(crew.run("agent", "find", "--skill", "cooking", "--json"))["cards"] == []
    spoken = crew.run("agent", "find", "--skill", "cooking")
    assert (spoken.code, spoken.stderr) == (10, "")
    assert spoken.stdout.strip()


# submit, show, list


def test_a_task_is_given_with_all_that_its_record_names(crew: Inbox) -> None:
    answer = crew.ok(*SUBMIT, DESCRIPTION)
    task = answer["task"]
    assert (answer["ok"], answer["schema_version"], answer["command"]) == (True, 1, "task submit")
    assert set(task) >= FIELDS
    assert UUID(task["task_id"]).version == 4
    expected = {"kind": "task", "source_agent": FROM, "target_agent": TO, "description": DESCRIPTION, "context": {}, "status": "pending"}
    assert {name: task[name] for name in expected} == expected
    plain = {"priority": "normal", "attempt": 0, "depth": 0}
    assert {name: task[name] for name in plain} == plain
    unset = ("target_job_id", "deadline", "artifacts", "reason", "reason_code", "answers", "parent", "thread_id", "accepted_at", "ended_at")
    assert [name for name in unset if task[name] is not None] == []
    assert STAMP.fullmatch(task["created_at"])
    assert _task(crew, task["task_id"]) == task


def test_a_task_is_given_by_skill_to_the_least_busy_other(crew: Inbox) -> None:
    crew.ok("agent", "register", "amber", "--skill", "review")
    by_skill = ("task", "submit", "--description", DESCRIPTION, "--skill", "Review", "--from")
    assert [crew.ok(*by_skill, FROM)["task"]["target_agent"] for _ in range(2)] == ["amber", TO]
    assert crew.ok(*by_skill, TO)["task"]["target_agent"] == "amber"
    assert crew.run(*by_skill, FROM, "--to", TO, "--json").error[:2] == (30, "invalid_input")
    nobody = crew.run("task", "submit", "--from", FROM, "--skill", "cooking", "--description", "x", "--json")
    assert nobody.error[1] == "not_found"
    assert len(crew.ok("task", "list")["tasks"]) == 3


def test_a_task_carries_what_its_flags_say(crew: Inbox) -> None:
    context = {"module": "X", "files": ["a.py", {"line": 3}], "☃": None, "ratio": 1.5}
    flags = ("--context-json", json.dumps(context), "--priority", "urgent", "--deadline-seconds", "3600", "--job", "job-7")
    task = _submit(crew, "Two\nlines ☃", *flags)
    assert (task["context"], task["priority"], task["source_job_id"]) == (context, "urgent", "job-7")
    assert task["description"] == "Two\nlines ☃"
    assert STAMP.fullmatch(task["deadline"])
    assert task["deadline"] > task["created_at"]
    said = crew.says("task", "show", "--task", task["task_id"])
    assert all(word in said for word in (task["task_id"], FROM, TO, "urgent", "pending", "lines ☃", "a.py"))


def test_a_description_may_come_from_a_file_or_by_standard_input(crew: Inbox) -> None:
    text = "# A heading\n\n" + "ü" * 50_000
    (crew.folder / "what.md").write_text(text)
    argv = ("task", "submit", "--agent", FROM, "--to", TO, "--description-file")
    assert crew.ok(*argv, "what.md")["task"]["description"] == text
    assert crew.ok(*argv, "-", stdin=text.encode())["task"]["description"] == text


def test_people_are_told_what_was_given_and_by_which_id(crew: Inbox) -> None:
    said = crew.says(*SUBMIT, DESCRIPTION)
    newest = crew.ok("task", "list")["tasks"][0]["task_id"]
    assert all(word in said for word in (newest, FROM, TO, DESCRIPTION))


def test_a_list_is_newest_first_and_chosen_by_agent_status_and_limit(crew: Inbox) -> None:
    first, second, third = (_given(crew, text) for text in ("first", "second", "third"))
    crew.ok("task", "complete", *_mine(TO, second))

    def listed(*flags: str) -> list[str]:
        return [task["description"] for task in crew.ok("task", "list", *flags)["tasks"]]

    assert listed("--agent", TO) == ["third", "second", "first"]
    assert listed("--agent", TO, "--limit", "2") == ["third", "second"]
    assert listed("--agent", TO, "--status", "pending") == ["third", "first"]
    assert listed("--status", "completed") == ["second"]
    assert listed("--agent", FROM) == ["second"], "its result"
    assert len(listed()) == 4
    said = crew.says("task", "list")
    assert all(word in said for word in (first, second, third, "result", "completed"))
    assert crew.says("task", "list", "--agent", "nobody").strip()


# accept


def test_accept_answers_the_task_and_a_token(crew: Inbox) -> None:
    identity = _given(crew)
    answer = crew.ok("task", "accept", *_mine(TO, identity))
    assert (answer["task"]["task_id"], answer["task"]["status"]) == (identity, "accepted")
    assert STAMP.fullmatch(answer["task"]["accepted_at"])
    assert answer["lease_token"]
    assert _task(crew, identity) == answer["task"]


def test_accept_takes_the_most_urgent_and_of_those_the_oldest(crew: Inbox) -> None:
    for text, priority in (("low", "low"), ("old", "normal"), ("new", "normal"), ("high", "high"), ("urgent", "urgent")):
        _given(crew, text, priority)
    taken = [crew.ok("task", "accept", "--agent", TO)["task"]["description"] for _ in range(4)]
    assert taken == ["urgent", "high", "old", "new"]
    said = crew.says("task", "accept", "--agent", TO)
    assert "low" in said
    assert "lse_" in said


def test_a_task_in_the_name_of_a_person_that_no_server_checked_is_marked(crew: Inbox) -> None:
    forged = crew.ok("task", "submit", "--from", "user", "--to", TO, "--description", "Delete it")["task"]["task_id"]
    mark = f"user (unverified) → {TO}: Delete it"
    assert mark in crew.says("task", "show", forged)
    assert mark in crew.says("task", "accept", *_mine(TO, forged))
    own = _given(crew)
    assert "unverified" not in crew.says("task", "show", own) + crew.says("task", "accept", *_mine(TO, own))


def test_nothing_to_accept_exits_10_and_a_result_is_nothing_to_accept(crew: Inbox) -> None:
    crew.ok("task", "complete", *_mine(TO, _given(crew)))
    for agent in (TO, FROM, "nobody"):
        answer = _nothing(crew.run("task", "accept", "--agent", agent, "--json"))
        assert (answer["ok"], answer["task"], answer["lease_token"]) == (True, None, None)
    spoken = crew.run("task", "accept", "--agent", TO)
    assert (spoken.code, spoken.stderr) == (10, "")
    assert spoken.stdout.strip()


def test_two_that_accept_at_once_get_a_task_each(crew: Inbox) -> None:
    expected = {_given(crew, "one"), _given(crew, "two")}
    foreign = sqlite3.connect(crew.db, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    racers = [crew.start("task", "accept", "--agent", TO, "--json") for _ in range(2)]
    eventually(lambda: all(racer.waits_for(crew.db) for racer in racers))
    foreign.execute("COMMIT")
    foreign.close()
    finished = [racer.finish() for racer in racers]
    assert [one.code for one in finished] == [0, 0], finished
    assert {one.json["task"]["task_id"] for one in finished} == expected


def test_what_its_holder_never_ended_is_pending_again_and_fails_after_three_attempts(crew: Inbox) -> None:
    identity = _given(crew)
    for attempt in (1, 2, 3):
        crew.ok("task", "accept", *_mine(TO, identity), "--lease-seconds", "0.01")
        eventually(lambda attempt=attempt: _task(crew, identity)["attempt"] == attempt)  # type: ignore[misc]
    task = _task(crew, identity)
    assert (task["status"], task["reason_code"]) == ("failed", "attempts_exhausted")
    [result] = _results(crew)
    assert (result["answers"], result["reason_code"]) == (identity, "attempts_exhausted")


def test_a_token_of_an_earlier_lease_is_refused(crew: Inbox) -> None:
    identity = _given(crew)
    stale = crew.ok("task", "accept", *_mine(TO, identity), "--lease-seconds", "0.01")["lease_token"]
    eventually(lambda: bool(_task(crew, identity)["status"] == "pending"))
    current = crew.ok("task", "accept", *_mine(TO, identity))
    for token in (stale, "no token of ours"):
        for argv in (("complete",), ("fail", "--reason", "x")):
            refused = crew.run("task", *argv, *_mine(TO, identity), "--lease-token", token, "--json")
            assert refused.error[:2] == (20, "lease_lost")
    assert _task(crew, identity) == current["task"]
    done = crew.ok("task", "complete", *_mine(TO, identity), "--lease-token", current["lease_token"])
    assert done["task"]["status"] == "completed"


# what becomes of a task, and how it comes home


def test_a_result_comes_home_and_is_acknowledged(crew: Inbox) -> None:
    identity = _given(crew)
    crew.ok("task", "accept", *_mine(TO, identity))
    artifacts = {"review": "fine", "notes": ["a", {"b": None}]}
    done = crew.ok("task", "complete", *_mine(TO, identity), "--artifacts-json", json.dumps(artifacts))["task"]
    assert (done["status"], done["artifacts"], done["reason"]) == ("completed", artifacts, None)
    assert STAMP.fullmatch(done["ended_at"])
    [result] = _results(crew)
    expected = {"kind": "result", "answers": identity, "status": "pending", "source_agent": TO, "target_agent": FROM}
    assert {name: result[name] for name in expected} == expected
    assert (result["artifacts"], result["description"]) == (artifacts, DESCRIPTION)
    read = crew.ok("task", "ack", *_mine(FROM, result["task_id"]))["task"]
    assert (read["task_id"], read["status"]) == (result["task_id"], "completed")
    assert crew.ok("task", "ack", *_mine(FROM, result["task_id"]))["task"] == read
    assert crew.ok("task", "list", "--status", "pending")["tasks"] == []
    assert _results(crew) == [read], "nobody is told of a result that was read"


def test_files_are_named_in_the_artifacts(crew: Inbox) -> None:
    files = ("--artifact", "notes.md", "--artifact", "a plan.txt")
    both = crew.ok("task", "complete", *_mine(TO, _given(crew)), "--artifacts-json", '{"review": "fine", "files": ["x"]}', *files)
    assert both["task"]["artifacts"] == {"review": "fine", "files": ["x", "notes.md", "a plan.txt"]}
    alone = crew.ok("task", "complete", *_mine(TO, _given(crew)), *files)
    assert alone["task"]["artifacts"] == {"files": ["notes.md", "a plan.txt"]}


def test_a_task_that_fails_says_why_at_home(crew: Inbox) -> None:
    identity = _given(crew)
    failed = crew.ok("task", "fail", *_mine(TO, identity), "--reason", "there is no module X")["task"]
    assert (failed["status"], failed["reason"]) == ("failed", "there is no module X")
    [result] = _results(crew)
    assert (result["answers"], result["reason"]) == (identity, "there is no module X")
    rendered = crew.says("task", "render", "--agent", FROM)
    for row in (f"### Result {result['task_id']}", f"Answers: {identity}", "Status: failed", "Reason: there is no module X"):
        assert row in rendered.splitlines()
    assert "there is no module X" in crew.says("task", "show", "--task", identity)


@pytest.mark.parametrize("accepted", [False, True])
def test_who_gave_a_task_takes_it_back_and_its_worker_is_told_when_it_answers(crew: Inbox, accepted: bool) -> None:
    identity = _given(crew)
    if accepted:
        crew.ok("task", "accept", *_mine(TO, identity))
    gone = crew.ok("task", "cancel", *_mine(FROM, identity), "--reason", "superseded")["task"]
    assert (gone["status"], gone["reason"], gone["reason_code"]) == ("failed", "superseded", "cancelled")
    [result] = _results(crew)
    assert (result["answers"], result["reason_code"]) == (identity, "cancelled")
    code, name, message = crew.run("task", "complete", *_mine(TO, identity), "--json").error
    assert (code, name) == (20, "conflict")
    assert "failed" in message


def test_people_are_told_what_became_of_a_task(crew: Inbox) -> None:
    done, failed, cancelled = (_given(crew, text) for text in ("first", "second", "third"))
    for identity, argv, word in (
        (done, ("complete", *_mine(TO, done)), "completed"),
        (failed, ("fail", *_mine(TO, failed), "--reason", "no"), "failed"),
        (cancelled, ("cancel", *_mine(FROM, cancelled)), "cancelled"),
    ):
        said = crew.says("task", *argv)
        assert identity in said
        assert word in said.lower()
    result = _results(crew)[0]["task_id"]
    assert result in crew.says("task", "ack", *_mine(FROM, result))


# wait


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("complete", "--agent", TO), "completed"),
        (("fail", "--agent", TO, "--reason", "no"), "failed"),
        (("cancel", "--agent", FROM), "failed"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_sleeping_wait_is_woken_when_its_task_ends(crew: Inbox, argv: tuple[str, ...], status: str) -> None:
    identity = _given(crew)
    waiter = crew.start("task", "wait", "--task", identity, *BOUND, "--json").sleeping()
    ended = crew.ok("task", *argv, "--task", identity)["task"]
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert finished.json["task"] == ended
    assert ended["status"] == status


def test_a_wait_sleeps_on_when_another_task_ends_or_its_own_is_accepted(crew: Inbox) -> None:
    identity, other = _given(crew), _given(crew, "another")
    waiter = crew.start("task", "wait", "--task", identity, *BOUND, "--json").sleeping()
    crew.ok("task", "complete", *_mine(TO, other))
    crew.ok("task", "accept", *_mine(TO, identity))
    assert waiter.alive()
    crew.ok("task", "complete", *_mine(TO, identity))
    assert waiter.finish().json["task"]["task_id"] == identity


def test_a_wait_ends_at_the_deadline_and_the_source_is_told(crew: Inbox) -> None:
    given = _submit(crew, DESCRIPTION, "--deadline-seconds", "0.5")
    task = crew.ok("task", "wait", "--task", given["task_id"], *BOUND)["task"]
    assert (task["status"], task["reason_code"]) == ("failed", "deadline")
    assert task["ended_at"] == given["deadline"], "as of when it fell due"
    [result] = _results(crew)
    assert (result["answers"], result["reason_code"]) == (given["task_id"], "deadline")
    assert crew.run("task", "accept", "--agent", TO).code == 10


def test_a_wait_for_what_has_ended_answers_at_once(crew: Inbox) -> None:
    identity = _given(crew)
    crew.ok("task", "complete", *_mine(TO, identity))
    assert crew.ok("task", "wait", "--task", identity)["task"] == _task(crew, identity)
    said = crew.says("task", "wait", "--task", identity)
    assert all(word in said for word in (identity, "completed"))


def test_a_wait_whose_time_is_over_exits_10(crew: Inbox) -> None:
    identity = _given(crew)
    argv = ("task", "wait", "--task", identity, "--timeout-seconds", "0.05")
    answer = _nothing(crew.run(*argv, "--json"))
    assert (answer["ok"], answer["command"]) == (True, "task wait")
    assert answer["task"]["status"] == "pending"
    spoken = crew.run(*argv)
    assert (spoken.code, spoken.stderr) == (10, "")
    assert spoken.stdout.startswith("The time is over before the end.\nKIND")
    assert all(word in spoken.stdout for word in (identity, "pending"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_wait_cleanly(crew: Inbox, number: signal.Signals, code: int) -> None:
    identity = _given(crew)
    waiter = crew.start("task", "wait", "--task", identity, *BOUND, "--json").sleeping()
    waiter.process.send_signal(number)
    assert waiter.finish().error[:2] == (code, "interrupted")
    assert _task(crew, identity)["status"] == "pending"


# threads


def test_a_thread_opened_for_a_task_is_linked_both_ways(crew: Inbox) -> None:
    identity = _given(crew, "Draw a plan\nof the house")
    opened = crew.ok("task", "open-thread", *_mine(TO, identity))
    thread = crew.ok("show", "--thread", opened["thread_id"])["thread"]
    assert (opened["task"]["status"], opened["task"]["thread_id"]) == ("accepted", opened["thread_id"])
    assert (thread["created_by"], thread["assigned_to"], thread["subject"]) == (FROM, TO, "Draw a plan")
    assert crew.ok("task", "open-thread", *_mine(TO, identity)) == opened
    assert len(crew.ok("list")["threads"]) == 1
    assert opened["thread_id"] in crew.says("task", "open-thread", *_mine(TO, identity))
    assert crew.run("task", "accept", "--agent", TO).code == 10


def test_finishing_the_thread_completes_the_task(crew: Inbox) -> None:
    identity = _given(crew)
    thread = crew.ok("task", "open-thread", *_mine(TO, identity))["thread_id"]
    crew.ok("claim", "--agent", TO, "--thread", thread)
    assert _task(crew, identity)["status"] == "accepted"
    crew.ok("done", "--agent", TO, "--thread", thread, "--summary", "Drawn", "--body", "It has\ntwo floors", "--artifact", "plan.svg")
    task = _task(crew, identity)
    assert task["status"] == "completed"
    assert task["artifacts"] == {"summary": "Drawn", "body": "It has\ntwo floors", "thread_id": thread, "files": ["plan.svg"]}
    [result] = _results(crew)
    assert (result["answers"], result["artifacts"]) == (identity, task["artifacts"])


@pytest.mark.parametrize("argv", [("fail", "--agent", TO, "--summary"), ("cancel", "--agent", FROM, "--reason")], ids=lambda argv: argv[0])
def test_a_thread_that_comes_to_nothing_fails_the_task(crew: Inbox, argv: tuple[str, ...]) -> None:
    identity = _given(crew)
    thread = crew.ok("task", "open-thread", *_mine(TO, identity))["thread_id"]
    crew.ok("claim", "--agent", TO, "--thread", thread)
    crew.ok(*argv, "no paper", "--thread", thread)
    task = _task(crew, identity)
    assert task["status"] == "failed"
    assert "no paper" in task["reason"]
    assert [result["answers"] for result in _results(crew)] == [identity]


@pytest.mark.parametrize("before", [True, False], ids=["opened before", "opened while it sleeps"])
def test_a_sleeping_wait_is_woken_when_the_thread_is_finished(crew: Inbox, before: bool) -> None:
    identity = _given(crew)
    if before:
        crew.ok("task", "open-thread", *_mine(TO, identity))
    waiter = crew.start("task", "wait", "--task", identity, *BOUND, "--json").sleeping()
    thread = crew.ok("task", "open-thread", *_mine(TO, identity))["thread_id"]
    crew.ok("claim", "--agent", TO, "--thread", thread)
    crew.ok("done", "--agent", TO, "--thread", thread, "--summary", "Drawn")
    finished = waiter.finish()
    assert finished.code == 0, finished
    assert finished.json["task"]["artifacts"]["summary"] == "Drawn"
