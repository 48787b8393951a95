"""The inbox as a value in memory: what its document promises, snapshots that nobody can change, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from postroom.core.errors import InvalidInput
from postroom.tasks import A2AInbox, A2ATask, A2ATaskStatus

MIB = 1024 * 1024
NOBODY = "00000000-0000-4000-8000-000000000000"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
NOT_JSON_OBJECTS: list[Any] = [[], "text", 7, {1: "a number for a key"}, {"x": ...}, {"x": {1, 2}}, {"x": b"bytes"}]
NOT_JSON_OBJECTS += [{"x": [float("nan")]}, {"x": {"y": float("inf")}}]

# A NUL cannot be kept by every engine, and is refused.
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


def _inbox() -> A2AInbox:
    return A2AInbox(job_id="j1", agent_name="canyon")


def _submit(inbox: A2AInbox, description: str = "Review architecture for module X", **more: Any) -> A2ATask:
    return inbox.submit_task(**{"source_job_id": "j2", "source_agent": "forge", "description": description, **more})


def _now(inbox: A2AInbox, task: A2ATask) -> A2ATask:
    """The newest snapshot of a task that is there."""
    newest = inbox.get_task(task.task_id)
    assert newest is not None
    return newest


def _stored(**more: Any) -> dict[str, Any]:
    """A task as an older version may have written it: what has no default, and nothing else."""
    whose = {"task_id": str(uuid.uuid4()), "source_job_id": "j2", "source_agent": "forge", "target_agent": "canyon"}
    return {**whose, "description": "Review architecture for module X", "created_at": "2026-11-15T21:12:00.123456Z", **more}


def _restored(*tasks: dict[str, Any], **more: Any) -> A2AInbox:
    return A2AInbox.from_dict({"version": 1, "job_id": "j1", "agent_name": "canyon", "tasks": list(tasks), **more})


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return circle


def _deep(levels: int) -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"x": deep}
    return deep


def test_the_documents_usage_example_does_what_it_says() -> None:
    inbox = A2AInbox(job_id="j1", agent_name="canyon")
    task = inbox.submit_task(
        source_job_id="j2",
        source_agent="forge",
        description="Review architecture for module X",
    )
    context_text = inbox.render_pending_context()
    assert task.task_id in context_text
    assert "Review architecture for module X" in context_text
    assert inbox.mark_accepted(task.task_id) is True
    assert inbox.complete_task(task.task_id, artifacts={"review": "..."}) is True
    done = _now(inbox, task)
    assert done.status is A2ATaskStatus.COMPLETED
    assert done.artifacts == {"review": "..."}
    assert A2AInbox.from_dict(inbox.to_dict()).get_task(task.task_id) == done


def test_the_statuses_are_the_documents_four_and_are_text() -> None:
    assert [status.name for status in A2ATaskStatus] == ["PENDING", "ACCEPTED", "COMPLETED", "FAILED"]
    assert all(isinstance(status, str) and status.value == status.name.lower() for status in A2ATaskStatus)
    assert issubclass(A2ATask, BaseModel)


def test_a_submitted_task_says_whose_it_is_and_waits() -> None:
    task = _inbox().submit_task("j2", "forge", "Review", {"module": "X"}, priority="high", deadline="2026-11-15T21:12:00.123456Z")
    assert (task.source_job_id, task.source_agent, task.description, task.context) == ("j2", "forge", "Review", {"module": "X"})
    assert (task.target_job_id, task.target_agent, task.kind, task.status) == ("j1", "canyon", "task", A2ATaskStatus.PENDING)
    assert (task.priority, task.deadline, task.attempt, task.depth) == ("high", "2026-11-15T21:12:00.123456Z", 0, 0)
    assert (task.artifacts, task.reason, task.reason_code, task.answers, task.accepted_at, task.ended_at) == (None,) * 6
    assert INSTANT.fullmatch(task.created_at)
    assert str(uuid.UUID(task.task_id)) == task.task_id
    assert uuid.UUID(task.task_id).version == 4


def test_equal_submissions_are_two_tasks_normal_and_bare() -> None:
    first, second = _submit(inbox := _inbox()), _submit(inbox)
    assert first.task_id != second.task_id
    assert (first.context, first.priority, first.deadline) == ({}, "normal", None)
    assert inbox.complete_task(_submit(inbox).task_id), "artifacts may be left out, too"
    assert inbox.get_pending_tasks() == [first, second]


def test_pending_tasks_come_urgent_first_then_oldest_first() -> None:
    inbox = _inbox()
    for name in ("low 1", "normal 1", "urgent 1", "high 1", "low 2", "urgent 2", "normal 2", "high 2"):
        _submit(inbox, name, priority=name.split()[0])
    assert [task.description for task in inbox.get_pending_tasks()] == [
        f"{priority} {nth}" for priority in ("urgent", "high", "normal", "low") for nth in (1, 2)
    ]


def test_the_tasks_are_read_only_and_in_the_order_of_arrival() -> None:
    inbox = _inbox()
    first, second = _submit(inbox, "first"), _submit(inbox, "second", priority="urgent")
    inbox.mark_accepted(first.task_id)
    tasks: Any = inbox.tasks
    assert list(tasks) == [first.task_id, second.task_id]
    assert tasks[first.task_id] == _now(inbox, first)
    with pytest.raises(TypeError):
        tasks[first.task_id] = second
    with pytest.raises(TypeError):
        del tasks[first.task_id]
    assert (inbox.job_id, inbox.agent_name, len(inbox.tasks)) == ("j1", "canyon", 2)


MOVES: dict[str, Callable[[A2AInbox, str], bool]] = {
    "accepted": lambda inbox, task_id: inbox.mark_accepted(task_id),
    "completed": lambda inbox, task_id: inbox.complete_task(task_id, {"review": "fine"}),
    "failed": lambda inbox, task_id: inbox.fail_task(task_id, "no such module"),
}
ALLOWED = {("pending", "accepted"), ("pending", "completed"), ("pending", "failed"), ("accepted", "completed"), ("accepted", "failed")}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["submit", *MOVES])), max_size=25))
def test_any_history_leaves_what_the_table_of_moves_says(history: list[tuple[int, str]]) -> None:
    inbox, model = _inbox(), dict[str, str]()
    for which, move in history:
        if move == "submit":
            model[_submit(inbox).task_id] = "pending"
            continue
        task_id = list(model)[which] if which < len(model) else NOBODY
        allowed = (model.get(task_id, ""), move) in ALLOWED
        before = inbox.get_task(task_id)
        assert MOVES[move](inbox, task_id) is allowed
        if allowed:
            model[task_id] = move
        else:
            assert inbox.get_task(task_id) == before
    assert {task_id: task.status.value for task_id, task in inbox.tasks.items()} == model
    assert [task.task_id for task in inbox.get_pending_tasks()] == [one for one, status in model.items() if status == "pending"]
    assert A2AInbox.from_dict(json.loads(json.dumps(inbox.to_dict()))).tasks == inbox.tasks


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("nobody", [NOBODY, "", "no-uuid", "\n### Task x", "\ud800"])
def test_an_unknown_id_is_told_by_false(move: str, nobody: str) -> None:
    inbox = _inbox()
    task = _submit(inbox)
    assert MOVES[move](inbox, nobody) is False
    assert (inbox.get_task(nobody), inbox.fail_task(nobody, "")) == (None, False)
    assert dict(inbox.tasks) == {task.task_id: task}


def test_a_transition_is_a_new_snapshot_with_its_time() -> None:
    task = _submit(inbox := _inbox())
    inbox.mark_accepted(task.task_id)
    accepted = _now(inbox, task)
    inbox.fail_task(task.task_id, "no such module")
    failed = _now(inbox, task)
    assert [one.status.value for one in (task, accepted, failed)] == ["pending", "accepted", "failed"]
    assert (task.reason, accepted.reason, failed.reason) == (None, None, "no such module")
    assert task.accepted_at is accepted.ended_at is None
    assert accepted.accepted_at
    assert failed.ended_at
    assert all(INSTANT.fullmatch(instant) for instant in (accepted.accepted_at, failed.ended_at))
    assert task.created_at <= accepted.accepted_at <= failed.ended_at
    assert (failed.created_at, failed.accepted_at) == (task.created_at, accepted.accepted_at)


@pytest.mark.parametrize("move", ["completed", "failed"])
def test_a_result_is_never_answered(move: str) -> None:
    result = _stored(kind="result", answers=NOBODY, artifacts={"review": "fine"})
    inbox = _restored(result)
    before = inbox.to_dict()
    assert MOVES[move](inbox, result["task_id"]) is False
    assert inbox.to_dict() == before


# Arguments for each method of a dict or a list that changes it.
DICT_CHANGES = "__setitem__ __delitem__ update pop popitem clear setdefault __ior__"
LIST_CHANGES = "append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"
CHANGES: list[tuple[type, str, Any]] = [
    (dict, DICT_CHANGES, [("x", 1), ("list",), ({},), ("x", 0), (), (), ("x", 1), ({},)]),
    (list, LIST_CHANGES, [(1,), ([1],), (0, 1), (), (1,), (), (), (), (slice(None), []), (0,), ([1],), (2,)]),
]
NESTED: dict[str, Any] = {"list": [1, {"in": [2]}], "dict": {"list": [3]}}


def _done(nested: dict[str, Any]) -> A2ATask:
    inbox = _inbox()
    task = _submit(inbox, context=nested)
    inbox.complete_task(task.task_id, nested)
    return _now(inbox, task)


@pytest.mark.parametrize("field", ["context", "artifacts"])
@pytest.mark.parametrize(
    ("kind", "change", "arguments"), [(kind, *one) for kind, names, each in CHANGES for one in zip(names.split(), each)]
)
def test_nothing_inside_a_snapshot_can_be_changed(field: str, kind: type, change: str, arguments: tuple[Any, ...]) -> None:
    value = getattr(_done(NESTED), field)
    inside = [value, value["dict"], value["list"][1], value["list"], value["dict"]["list"], value["list"][1]["in"]]
    for one in (one for one in inside if isinstance(one, kind)):
        with pytest.raises(TypeError):
            getattr(one, change)(*arguments)
    assert value == NESTED


@pytest.mark.parametrize("name", ["status", "description", "task_id", "context", "artifacts", "reason", "unheard_of"])
def test_no_attribute_of_a_snapshot_can_be_set_or_deleted(name: str) -> None:
    task = _submit(inbox := _inbox())
    before = task.model_dump()
    with pytest.raises((ValidationError, TypeError, AttributeError)):
        setattr(task, name, "completed")
    with pytest.raises((ValidationError, TypeError, AttributeError)):
        delattr(task, name)
    assert task.model_dump() == before
    assert _now(inbox, task) == task


def test_what_the_caller_passed_in_is_not_shared() -> None:
    given_context, given_artifacts = copy.deepcopy(NESTED), copy.deepcopy(NESTED)
    inbox = _inbox()
    task = _submit(inbox, context=given_context)
    inbox.complete_task(task.task_id, given_artifacts)
    for mine in (given_context, given_artifacts):
        mine["list"][1]["in"].append("changed later")
        mine["new"] = "changed later"
    assert (_now(inbox, task).context, _now(inbox, task).artifacts) == (NESTED, NESTED)


@example({"\\u0000": "\\ud800"})  # as text, not as escapes
@given(st.dictionaries(words, json_values, max_size=4))
def test_a_snapshot_survives_every_way_of_copying_it(context: dict[str, Any]) -> None:
    task = _done(context)
    for mine, theirs in zip(task.context.values(), context.values()):
        assert isinstance(mine, type(theirs))
    copies = [copy.copy(task), copy.deepcopy(task), pickle.loads(pickle.dumps(task)), task.model_copy(), task.model_copy(deep=True)]
    copies += [A2ATask.model_validate(task.model_dump()), A2ATask.model_validate_json(task.model_dump_json())]
    assert all(one == task for one in copies)
    assert json.loads(task.model_dump_json())["context"] == context == task.model_dump()["context"]
    assert copy.copy(task.context) == copy.deepcopy(task.context) == pickle.loads(pickle.dumps(task.context)) == context


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "model_copy"])
def test_a_copy_is_as_immutable_as_its_original(way: str) -> None:
    task = _done(NESTED)
    ways = {"copy": copy.copy(task), "deepcopy": copy.deepcopy(task), "pickle": pickle.loads(pickle.dumps(task))}
    again: Any = ways.get(way, task.model_copy(deep=True))
    with pytest.raises(TypeError):
        again.context["list"][1]["in"].append(1)
    with pytest.raises(TypeError):
        again.artifacts["x"] = 1


def test_model_copy_makes_a_new_snapshot_that_is_immutable_too() -> None:
    task, mine = _done(NESTED), {"list": [1]}
    again: Any = task.model_copy(update={"description": "another", "context": mine})
    assert (again.description, again.context) == ("another", {"list": [1]})
    assert (task.description, task.context) == ("Review architecture for module X", NESTED)
    with pytest.raises(TypeError):
        again.context["list"].append(2)
    mine["list"].append(2)
    assert again.context == {"list": [1]}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("source_job_id", "source_agent", "description") for value in ("", " ", "\n\t")]
    + [("source_agent", "canyon"), ("priority", "extreme"), ("priority", ""), ("description", "x" * 100_001)]
    + [("context", value) for value in (*NOT_JSON_OBJECTS, _circle())]
    + [("context", {"x": "a" * MIB}), ("context", {"x": ["a" * 1000] * 10_000}), ("context", {"x": "é" * 600_000})],
    ids=lambda value: repr(value)[:24] if not isinstance(value, dict) else "object",
)
def test_a_submission_that_cannot_be_is_refused_and_leaves_nothing(name: str, value: Any) -> None:
    inbox = _inbox()
    with pytest.raises(InvalidInput):
        _submit(inbox, **{name: value})
    assert not inbox.tasks


@pytest.mark.parametrize("names", [("", "canyon"), ("j1", "")])
def test_an_inbox_without_a_name_is_refused(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        A2AInbox(job_id=names[0], agent_name=names[1])


def test_the_bounds_themselves_are_allowed() -> None:
    inbox = _inbox()
    _submit(inbox, "x" * 100_000, context={"x": "a" * (MIB - 100)})
    task = _submit(inbox)
    assert inbox.complete_task(task.task_id, {"x": "a" * (10 * MIB - 100)})


@pytest.mark.parametrize("levels", [50, 900, 5_000, 50_000])
def test_a_context_nested_without_end_is_refused_or_carried_through(levels: int) -> None:
    inbox = _inbox()
    try:
        task = _submit(inbox, context=_deep(levels))
    except InvalidInput:
        assert levels > 50
        return
    assert task.task_id in inbox.render_pending_context()
    assert A2AInbox.from_dict(inbox.to_dict()).to_dict() == inbox.to_dict()


@pytest.mark.parametrize("broken", ["\ud800", "a\udfffb"])
def test_text_that_no_file_can_hold_is_refused(broken: str) -> None:
    inbox = _inbox()
    for name in ("source_job_id", "source_agent", "description"):
        with pytest.raises(InvalidInput):
            _submit(inbox, **{name: broken})
    with pytest.raises(InvalidInput):
        _submit(inbox, context={"x": [broken]})


@pytest.mark.parametrize("artifacts", [*NOT_JSON_OBJECTS, _circle(), {"x": "a" * (10 * MIB)}], ids=lambda value: type(value).__name__)
def test_artifacts_that_are_no_json_object_are_refused_and_the_task_stays_as_it_was(artifacts: Any) -> None:
    inbox = _inbox()
    task = _submit(inbox)
    inbox.mark_accepted(task.task_id)
    before = _now(inbox, task)
    with pytest.raises(InvalidInput):
        inbox.complete_task(task.task_id, artifacts)
    assert _now(inbox, task) == before


def test_importing_the_room_brings_no_driver_and_no_server() -> None:
    heavy = {"psycopg", "mcp", "a2a", "starlette", "uvicorn", "fastapi", "httpx", "anyio"}
    script = "import sys; from postroom.tasks import A2AInbox, Conductor; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "pydantic" in loaded
    assert not heavy & set(loaded)


def test_the_dictionary_has_its_version_and_goes_through_json() -> None:
    inbox = _inbox()
    first, second = _submit(inbox, context=NESTED), _submit(inbox, "second", priority="urgent")
    inbox.complete_task(first.task_id, NESTED)
    data = inbox.to_dict()
    assert (data["version"], data["job_id"], data["agent_name"]) == (1, "j1", "canyon")
    assert [one["task_id"] for one in data["tasks"]] == [first.task_id, second.task_id]
    assert json.loads(json.dumps(data)) == data
    again = A2AInbox.from_dict(data)
    assert (again.job_id, again.agent_name, list(again.tasks.items())) == ("j1", "canyon", list(inbox.tasks.items()))


def test_the_dictionary_is_nobodys_way_into_the_inbox() -> None:
    data: Any = json.loads(json.dumps(_restored(_stored(context=NESTED, novelty={"a": [1]}), novelty={"b": [2]}).to_dict()))
    inbox = A2AInbox.from_dict(data)
    before = json.dumps(inbox.to_dict())
    for mine in (data, inbox.to_dict()):
        for inner in (mine["novelty"]["b"], mine["tasks"][0]["novelty"]["a"], mine["tasks"][0]["context"]["list"]):
            with suppress(TypeError):  # a frozen list would do, too
                inner.append(3)
        mine["tasks"].clear()
    assert json.dumps(inbox.to_dict()) == before


@pytest.mark.parametrize("shape", ["list", "mapping"])
def test_what_an_older_version_wrote_is_restored_with_defaults(shape: str) -> None:
    tasks = [_stored(description=name) for name in ("first", "second", "third")]
    shaped: Any = tasks if shape == "list" else {one["task_id"]: one for one in tasks}
    inbox = A2AInbox.from_dict({"job_id": "j1", "agent_name": "canyon", "tasks": shaped})
    assert [task.description for task in inbox.tasks.values()] == ["first", "second", "third"]
    task = inbox.get_pending_tasks()[0]
    assert (task.kind, task.status, task.priority, task.attempt, task.depth, task.context) == ("task", "pending", "normal", 0, 0, {})
    assert (task.target_agent, task.deadline, task.artifacts, task.reason, task.parent, task.accepted_at) == ("canyon", *[None] * 5)
    assert inbox.mark_accepted(task.task_id)


def test_what_a_newer_version_wrote_is_kept_through_every_transition() -> None:
    novelty = {"mood": ["calm", {"since": 3}], "rank": None}
    stored = _stored(novelty=novelty, later="x")
    inbox = A2AInbox.from_dict({"version": 2, "job_id": "j1", "agent_name": "canyon", "tasks": [stored], "novelty": novelty})
    assert inbox.mark_accepted(stored["task_id"])
    assert inbox.complete_task(stored["task_id"], {"review": "fine"})
    _submit(inbox)
    data = A2AInbox.from_dict(json.loads(json.dumps(inbox.to_dict()))).to_dict()
    assert data["novelty"] == novelty
    assert (data["tasks"][0]["novelty"], data["tasks"][0]["later"], data["tasks"][0]["status"]) == (novelty, "x", "completed")
    assert "novelty" not in data["tasks"][1]


@pytest.mark.parametrize(
    "wrong",
    [{"status": status} for status in ("cancelled", "PENDING", "", None, 1)]
    + [{"kind": "letter"}, {"priority": "extreme"}, {"attempt": "many"}, {"description": None}, {"source_agent": ["forge"]}]
    + [{"context": one} for one in NOT_JSON_OBJECTS]
    + [{"artifacts": ["x"]}, {"task_id": None}, {"task_id": ""}, {"task_id": "\ud800"}, {"description": "\ud800"}, {"novelty": ...}],
    ids=ascii,
)
def test_a_task_that_cannot_be_is_refused_on_restoring(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        _restored(_stored(), _stored(**wrong))


@pytest.mark.parametrize("missing", ["task_id", "source_agent", "description"])
def test_a_task_without_what_makes_it_one_is_refused_on_restoring(missing: str) -> None:
    with pytest.raises(InvalidInput):
        _restored({name: value for name, value in _stored().items() if name != missing})


garbage = json_values | st.sampled_from([object(), b"x", float("nan"), (), {1: 2}, "pending", "\ud800", _circle(), _deep(3_000)])
almost = st.dictionaries(st.sampled_from([*_stored(), "status", "context", "artifacts", "attempt", "novelty"]), garbage, max_size=3)
parts = st.just("j1") | garbage | st.lists(almost.map(lambda wrong: _stored(**wrong)) | garbage, max_size=3)
inboxes = st.dictionaries(st.sampled_from(["version", "job_id", "agent_name", "tasks", "novelty"]), parts)


@given(inboxes | almost.map(lambda wrong: {"job_id": "j1", "agent_name": "canyon", "tasks": [_stored(**wrong)]}) | garbage)
def test_garbage_is_refused_or_restored_and_nothing_else(data: Any) -> None:
    try:
        inbox = A2AInbox.from_dict(data)
    except InvalidInput:
        return
    assert all(task_id == task.task_id for task_id, task in inbox.tasks.items())
    assert A2AInbox.from_dict(json.loads(json.dumps(inbox.to_dict()))).tasks == inbox.tasks
    inbox.render_pending_context().encode()
