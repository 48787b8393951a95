"""Agents that sleep until a task comes, and `inbox job` and `inbox sheet`: document 003 without Python."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from postroom.store import open_store
from postroom.tasks import Conductor
from tests.cli.process import Inbox, eventually

FROM, TO = "forge", "canyon"
BOUND = ("--timeout-seconds", "30")  # of what must be woken: it is a failure if nobody does


@pytest.fixture
def crew(tmp_path: Path) -> Inbox:
    """A store in which forge and canyon have cards."""
    inbox = Inbox(tmp_path)
    inbox.ok("init")
    with closing(open_store(str(inbox.db))) as store:
        for name in (FROM, TO):
            Conductor(store).register(name)
    return inbox


def given(crew: Inbox, text: str = "Review module X") -> str:
    """The id of a new task."""
    task_id: str = crew.ok("task", "submit", "--from", FROM, "--to", TO, "--description", text)["task"]["task_id"]
    return task_id


def of(agent: str, task_id: str) -> tuple[str, ...]:
    return ("--agent", agent, "--task", task_id)


# Sleeping until a task comes


def test_an_agent_sleeps_until_a_task_comes_and_accepts_it(crew: Inbox) -> None:
    waiter = crew.start("task", "accept", "--agent", TO, "--wait", *BOUND, "--json").sleeping()
    identity = given(crew)
    finished = waiter.finish()
    assert (finished.code, finished.json["task"]["task_id"], finished.json["task"]["status"]) == (0, identity, "accepted")


def test_a_wait_for_several_tasks_ends_with_the_last_or_with_the_first(crew: Inbox) -> None:
    first, second = given(crew), given(crew, "another")
    both = ("--task", first, "--task", second, *BOUND, "--json")
    every, any_of = crew.start("task", "wait", *both).sleeping(), crew.start("task", "wait", "--any", *both).sleeping()
    crew.ok("task", "complete", *of(TO, second))
    assert [task["status"] for task in any_of.finish().json["tasks"]] == ["pending", "completed"]
    assert every.alive()
    crew.ok("task", "complete", *of(TO, first))
    assert [task["status"] for task in every.finish().json["tasks"]] == ["completed", "completed"]


def test_a_lease_that_is_renewed_does_not_run_out(crew: Inbox) -> None:
    identity = given(crew)
    token = crew.ok("task", "accept", *of(TO, identity))["lease_token"]
    assert crew.ok("task", "renew", *of(TO, identity), "--lease-token", token)["task"]["status"] == "accepted"
    assert crew.run("task", "renew", *of(TO, identity), "--lease-token", "lse_other", "--json").error[:2] == (20, "lease_lost")


def test_all_results_are_read_at_once(crew: Inbox) -> None:
    for text in ("first", "second"):
        crew.ok("task", "complete", *of(TO, given(crew, text)))
    assert crew.ok("task", "ack", "--agent", FROM, "--all")["read"] == 2
    assert "Result" not in crew.says("task", "render", "--agent", FROM)


def test_tasks_are_listed_by_who_gave_them(crew: Inbox) -> None:
    identity = given(crew)
    assert [task["task_id"] for task in crew.ok("task", "list", "--from", FROM)["tasks"]] == [identity]
    assert not crew.ok("task", "list", "--from", TO)["tasks"]


def test_a_worker_serves_threads_and_tasks_by_priority_and_wakes_for_a_task(crew: Inbox) -> None:
    for priority in ("low", "high"):
        crew.ok("task", "submit", "--from", FROM, "--to", TO, "--description", f"{priority} task", "--priority", priority)
    crew.ok("send", "--from", FROM, "--to", TO, "--subject", "a thread")
    command = """grep -o '"subject": *"[^"]*"' | head -1 >> served; echo fine"""
    worker = crew.start("work", "--agent", TO, "--command", command)
    served = crew.folder / "served"
    eventually(lambda: len(_read_lines(served)) == 3)
    last = given(crew, "a late task")
    assert crew.run("task", "wait", "--task", last, *BOUND, "--json").json["task"]["artifacts"]["summary"] == "fine"
    worker.process.terminate()
    assert worker.finish().code == 0
    assert [line.split('"')[-2] for line in _read_lines(served)] == ["high task", "a thread", "low task", "a late task"]
    assert crew.ok("task", "ack", "--agent", FROM, "--all")["read"] == 3


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# Jobs and sheets from a shell


def test_a_job_is_run_from_a_shell_sheet_by_sheet(crew: Inbox) -> None:
    identity = given(crew)
    job = crew.ok("job", "start", "--agent", TO, "--job", "nightly")["job"]
    sheet = crew.ok("sheet", "begin", "--job", "nightly", "--lease-token", job["lease_token"])
    assert f"### Task {identity}" in sheet["text"]
    crew.ok("sheet", "end", "--job", "nightly")
    assert crew.ok("task", "show", "--task", identity)["task"]["status"] == "pending"
    shown = crew.ok("job", "show", "--job", "nightly")
    assert [task["task_id"] for task in shown["tasks"]] == [identity]
    assert "lease_token" not in shown["job"]
    crew.ok("job", "renew", "--job", "nightly")
    assert crew.ok("job", "end", "--job", "nightly")["job"]["status"] == "ended"
    assert crew.run("sheet", "begin", "--job", "nightly", "--json").error[0] == 30


def test_a_job_that_is_started_again_fences_the_process_that_had_it(crew: Inbox) -> None:
    old = crew.ok("job", "start", "--agent", TO, "--job", "nightly")["job"]["lease_token"]
    assert crew.ok("job", "start", "--agent", TO, "--job", "nightly")["job"]["resumed"]
    assert crew.run("sheet", "begin", "--job", "nightly", "--lease-token", old, "--json").error[:2] == (20, "lease_lost")


@pytest.mark.parametrize("place", ["reply.md", "-"])
def test_the_answers_in_a_file_are_applied_and_what_was_not_understood_is_reported(crew: Inbox, place: str) -> None:
    first, second = given(crew, "first"), given(crew, "second")
    crew.ok("job", "start", "--agent", TO, "--job", "nightly")
    crew.ok("sheet", "begin", "--job", "nightly")
    text = f"Done.\n\n- [x] **@Complete {first[:8]}:** The review:\n  fine\n\n@finish {second}: fine\n@complete 5f0e5f0e: unknown\n"
    (crew.folder / "reply.md").write_text(text)
    answer = crew.ok("sheet", "end", "--job", "nightly", "--answers", place, stdin=text.encode())
    assert [(task["task_id"], task["artifacts"]) for task in answer["completed"]] == [(first, {"text": "The review:\nfine"})]
    assert [one["line"] for one in answer["not_applied"]] == [6, 7]
    assert crew.ok("task", "show", second)["task"]["status"] == "pending"


def test_a_sheet_with_nothing_to_show_exits_10(crew: Inbox) -> None:
    crew.ok("job", "start", "--agent", TO, "--job", "nightly")
    assert crew.run("sheet", "begin", "--job", "nightly", "--json").code == 10


def test_the_example_of_the_guide_works_when_it_is_run_twice(crew: Inbox) -> None:
    """It never ends its job: the second run gets the tasks that came meanwhile, and those that the first left open."""
    program = (
        "import postroom; from postroom.tasks import Conductor; c = Conductor(postroom.open('.agents/coord.db')); "
        f"j = c.start_job('{TO}'); s = c.begin_sheet(j.job_id); "
        "print(*[t.description for t in s.tasks], sep='; ')"
    )
    given(crew, "first")
    assert run_python(crew, program) == "first"
    given(crew, "second")
    assert run_python(crew, program) == "second"


def run_python(crew: Inbox, program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], cwd=crew.folder, capture_output=True, text=True, check=True).stdout.strip()
