"""Tasks when something breaks: cut at every statement, killed between accept and complete, two conductors at one end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest

from postroom import work
from postroom.core.errors import StoreUnreachable
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.task_data import ANN, BOB, asked, conductor_with_agents, facts, happened, held, result_of, results_of, status_of, steps
from tests.faults.children import BarrierProcess
from tests.faults.inspection import assert_no_lock, assert_sound
from tests.faults.mail_children import everything
from tests.faults.test_cuts import FAILURES, INTERRUPTIONS, Act, FailingConnection, How, Prepare, cut_everywhere, failure
from tests.faults.test_lost_connections import Losing, in_part

JOB = "j1"


def running(store: Store) -> Conductor:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    conductor.start_job(BOB, job_id=JOB, state={"step": 1})
    return conductor


def settled(conductor: Conductor, task_id: str = "") -> str:
    conductor.settle()
    return task_id


def pending(store: Store, clock: Clock) -> str:
    asked(conductor := running(store), "the other")
    return settled(conductor, asked(conductor).task_id)


def unrouted(store: Store, clock: Clock) -> str:
    return settled(conductor := conductor_with_agents(store), asked(conductor).task_id)


def accepted(store: Store, clock: Clock) -> str:
    return settled(conductor := running(store), held(conductor).task_id)


def overdue(store: Store, clock: Clock) -> str:
    """A lease ran out, and a deadline is over."""
    task_id = held(conductor := running(store), lease_seconds=10).task_id
    asked(conductor, deadline_seconds=5)
    settled(conductor)
    clock.advance(10)
    return task_id


def exhausted(store: Store, clock: Clock) -> str:
    task = asked(conductor := running(store))
    for _ in range(3):
        conductor.accept(task.task_id, agent=BOB, lease_seconds=10)
        clock.advance(10)
    return task.task_id


def answered(store: Store, clock: Clock) -> str:
    scene = held(conductor := running(store))
    conductor.complete(scene.task_id, agent=BOB)
    return settled(conductor, result_of(conductor, scene.task_id).task_id)


def sheet(store: Store, clock: Clock) -> str:
    asked(conductor := running(store))
    return settled(conductor, conductor.begin_sheet(JOB).token)


def finished_thread(store: Store, clock: Clock) -> str:
    task = asked(conductor := running(store))
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    work.claim(store, thread_id, agent=BOB)
    settled(conductor)
    work.done(store, thread_id, agent=BOB, summary="All of it")
    return task.task_id


def save(store: Store, task_id: str) -> None:
    """A state, an end and an acceptance, in one checkpoint."""
    with Conductor(store).checkpoint(JOB) as state:
        state.data["step"] += 1
        state.inbox.complete_task(task_id, artifacts={"x": 1})
        for task in state.inbox.get_pending_tasks():
            state.inbox.mark_accepted(task.task_id)


nobody_runs: Prepare = lambda store, _: settled(conductor_with_agents(store))  # noqa: E731
jobs: Prepare = lambda store, _: settled(running(store))  # noqa: E731
WRITES: dict[str, tuple[Prepare, Act]] = {
    "register": (nobody_runs, lambda s, t: Conductor(s).register("dan", skills=["python"])),
    "start_job": (nobody_runs, lambda s, t: Conductor(s).start_job(BOB)),
    "start_job where something waits": (unrouted, lambda s, t: Conductor(s).start_job(BOB)),
    "end_job": (accepted, lambda s, t: Conductor(s).end_job(JOB)),
    "submit to nobody running": (nobody_runs, lambda s, t: asked(Conductor(s), context={"x": 1})),
    "submit": (jobs, lambda s, t: asked(Conductor(s), deadline_seconds=60)),
    "accept": (pending, lambda s, t: Conductor(s).accept(t, agent=BOB)),
    "complete": (accepted, lambda s, t: Conductor(s).complete(t, agent=BOB, artifacts={"x": 1})),
    "fail": (accepted, lambda s, t: Conductor(s).fail(t, "no", agent=BOB)),
    "cancel": (accepted, lambda s, t: Conductor(s).cancel(t, agent=ANN)),
    "acknowledge": (answered, lambda s, t: Conductor(s).acknowledge(t, agent=ANN)),
    "begin_sheet": (pending, lambda s, t: Conductor(s).begin_sheet(JOB)),
    "begin_sheet with a result": (answered, lambda s, t: Conductor(s).begin_sheet("a1")),
    "end_sheet": (sheet, lambda s, t: Conductor(s).end_sheet(JOB, t)),
    "checkpoint": (pending, save),
}
SETTLES: dict[str, Prepare] = {"what is due": overdue, "what is exhausted": exhausted, "a thread": finished_thread}
READS: dict[str, tuple[Prepare, Act]] = {
    "get": (accepted, lambda s, t: Conductor(s).get(t)),
    "pending": (pending, lambda s, t: Conductor(s).pending(JOB)),
    "tasks": (answered, lambda s, t: Conductor(s).tasks()),
    "wait that sleeps": (pending, lambda s, t: Conductor(s).wait(t, timeout_seconds=0.001)),
}


def assert_whole(store: Store, *, ends: int | None = None) -> None:
    """Every task that ended has one result, and one event of its end; and work goes on."""
    conductor = Conductor(store)
    over = [task for task in conductor.tasks() if task.kind == "task" and task.status.value in ("completed", "failed")]
    for task in over:
        assert len(results_of(conductor, task.task_id)) == 1
        assert [step for step in steps(store, task.task_id) if step in ("Completed", "Failed")] == [task.status.value.capitalize()]
    assert ends is None or len(over) == ends
    task_id = asked(conductor, "afterwards").task_id
    assert conductor.complete(task_id, agent=BOB).status == "completed"


# Cuts


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_a_verb_of_which_any_statement_fails_says_so_and_has_not_happened(sqlite_place: str, clock: Clock, verb: str, how: How) -> None:
    prepare, act = {**WRITES, **READS}[verb]
    with SqliteStore(sqlite_place, now=clock) as store:
        statements = cut_everywhere(store, clock, prepare, act, how)
        assert verb in READS or {"BEGIN IMMEDIATE", "COMMIT"} <= set(statements)
        assert len(statements) >= 3
        assert_sound(sqlite_place)
        assert_whole(store)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("prepare", SETTLES.values(), ids=SETTLES.keys())
def test_settling_that_fails_anywhere_has_settled_each_task_wholly_or_not_at_all(
    sqlite_place: str, clock: Clock, prepare: Prepare, how: How
) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        prepare(store, clock)
        real = store.connection
        for nth in range(1, 100):
            store.connection = cutting = FailingConnection(real, nth, how)  # type: ignore[assignment]
            raised = failure(Conductor(store).settle)
            store.connection = real
            assert isinstance(raised, how.expected) == (cutting.cut is not None)
            assert_no_lock(sqlite_place)
            assert_each_told_once(store)
            if cutting.cut is None:
                break
        assert nth > 3
        assert_whole(store)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
def test_a_task_whose_thread_could_not_be_opened_is_not_stranded(sqlite_place: str, clock: Clock, how: How) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        for nth in range(1, 100):
            task_id = held(conductor_with_agents(store), lease_seconds=900).task_id
            real, cutting = store.connection, FailingConnection(store.connection, nth, how)
            store.connection = cutting  # type: ignore[assignment]
            failure(lambda one=task_id: Conductor(store).open_thread(one, agent=BOB))  # type: ignore[misc]
            store.connection = real
            if cutting.cut is None:
                break
            clock.advance(86_400)
            task = Conductor(store).get(task_id)
            assert task.status.value == "pending" or work.show(store, task.thread_id or ""), cutting.cut
        assert nth > 3


def assert_each_told_once(store: Store) -> None:
    """As the log has it, without a conductor that would settle: each end has been told to whoever asked."""
    seen = [facts(event) for event in happened(store) if event.event_type.endswith(("Completed", "Failed", "Submitted"))]
    ended = [said["task_id"] for said in seen if said["kind"] == "task" and said["status"] in ("completed", "failed")]
    told = [said for said in seen if said["kind"] == "result"]
    assert len(ended) == len(set(ended)) == len(told)


@pytest.mark.parametrize("how", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
@pytest.mark.parametrize("verb", ["submit", "complete", "begin_sheet", "checkpoint"])
def test_a_verb_that_a_signal_interrupts_anywhere_leaves_nothing_behind(sqlite_place: str, clock: Clock, verb: str, how: How) -> None:
    prepare, act = WRITES[verb]
    with SqliteStore(sqlite_place, now=clock) as store:
        cut_everywhere(store, clock, prepare, act, how)
        assert_whole(store)


@pytest.mark.parametrize(("prepare", "act"), in_part(WRITES))
def test_a_write_that_loses_its_connection_has_not_happened(
    postgres_place: str, watcher: psycopg.Connection[Any], clock: Clock, prepare: Prepare, act: Act
) -> None:
    with closing(PostgresStore(postgres_place, now=clock)) as store:
        opened: Any = store
        subject = prepare(opened, clock)
        before = everything(postgres_place)
        for nth in range(1, 100):
            losing = Losing(store.connection, nth, watcher)
            opened.connection = losing
            raised = failure(lambda: act(opened, subject))
            if losing.lost is None:
                assert raised is None
                break
            assert isinstance(raised, StoreUnreachable), f"{raised!r} came of a connection lost before {losing.lost}"
            assert everything(postgres_place) == before, losing.lost
            store.reconnect()
        assert everything(postgres_place) != before
        store.connection = losing._connection
        assert_no_lock(postgres_place)
        assert_whole(store)


# Kills


HOLDER = """
from postroom.tasks import Conductor
conductor = Conductor(postroom.open(sys.argv[1]))
how = sys.argv[2]
if how == "accept":
    conductor.accept(sys.argv[3], agent="bob", lease_seconds=900)
elif how == "sheet":
    assert [task.task_id for task in conductor.begin_sheet("j1", lease_seconds=900).tasks] == [sys.argv[3]]
else:
    state = conductor.checkpoint("j1").__enter__()
    assert state.inbox.complete_task(sys.argv[3])
say("READY")
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["accept", "sheet"])
def test_what_a_killed_process_had_accepted_is_done_by_another_when_its_lease_is_over(
    store: Store, place: str, clock: Clock, how: str
) -> None:
    task_id = asked(conductor := running(store)).task_id
    with BarrierProcess(HOLDER, place, how, task_id) as child:
        child.ready().kill()
    assert status_of(conductor, task_id) == "accepted"
    assert not conductor.pending(JOB)
    clock.advance(3600)
    assert [(task.task_id, task.attempt) for task in conductor.pending(JOB)] == [(task_id, 1)]
    done = conductor.begin_sheet(JOB)
    assert "Attempt: 2" in done.text
    conductor.complete(task_id, agent=BOB, artifacts={"x": 1}, lease_token=done.token)
    assert result_of(conductor, task_id).artifacts == {"x": 1}
    assert steps(store, task_id) == ["Submitted", "Routed", "Accepted", "Returned", "Accepted", "Completed"]
    assert_no_lock(place)
    assert_whole(store)


def test_a_process_killed_inside_a_checkpoint_has_saved_nothing_and_holds_nothing(store: Store, place: str) -> None:
    task_id = asked(running(store)).task_id
    before = everything(place)
    with BarrierProcess(HOLDER, place, "checkpoint", task_id) as child:
        child.ready().kill()
    assert everything(place) == before
    save(store, task_id)
    assert_whole(store, ends=1)


# It forks once a line, and the fork does a verb whose nth statement is its death; of 0, it dies when the verb has returned.
VICTIMS = """
from tests.faults.mail_children import Fatal, die
from tests.faults.test_task_faults import WRITES
import postroom.store.sqlite.engine, postroom.store.postgres.engine
say("READY")
for line in sys.stdin:
    child = os.fork()
    if child:
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        continue
    code = 1
    try:
        store = postroom.open(sys.argv[1])
        store.connection = Fatal(store.connection, int(line))
        WRITES[sys.argv[2]][1](store, sys.argv[3])
        code = die() if line == "0\\n" else 0
    finally:
        os._exit(code)
"""
KILLED = "-9"


@pytest.mark.parametrize("verb", ["submit", "accept", "complete", "begin_sheet", "checkpoint"])
def test_a_process_killed_before_any_statement_of_a_verb_has_changed_nothing(store: Store, place: str, clock: Clock, verb: str) -> None:
    task_id = WRITES[verb][0](store, clock)  # type: ignore[arg-type]
    before = everything(place)
    with BarrierProcess(VICTIMS, place, verb, task_id) as nursery:
        nursery.ready()
        for nth in range(1, 100):
            nursery.tell(str(nth))
            code = nursery.line()
            if code == "0":
                break
            assert code == KILLED
            assert everything(place) == before, nth
    assert everything(place) != before
    assert_no_lock(place)
    assert_sound(place)
    assert_whole(store)


@pytest.mark.parametrize("verb", ["submit", "complete", "checkpoint"])
def test_a_process_killed_as_soon_as_a_verb_has_returned_has_done_it(store: Store, place: str, clock: Clock, verb: str) -> None:
    task_id = WRITES[verb][0](store, clock)  # type: ignore[arg-type]
    with BarrierProcess(VICTIMS, place, verb, task_id) as nursery:
        nursery.ready().tell("0")
        assert nursery.line() == KILLED
    conductor = Conductor(store)
    assert len(conductor.pending(JOB)) == (1 if verb == "submit" else 0)
    assert verb == "submit" or result_of(conductor, task_id).artifacts == {"x": 1}
    with conductor.checkpoint(JOB) as state:
        assert state.data == {"step": 2 if verb == "checkpoint" else 1}
    assert_no_lock(place)
    assert_whole(store, ends=0 if verb == "submit" else 1)


# Races

# Each line that it is told is a Python expression to be run at once; it says what came of it. Told "hold" first, it stops before it
# commits what it has written, says so, and goes on at the next line.
RACER = """
import json
from postroom.tasks import Conductor
from tests.faults.mail_children import AtCommit
store = postroom.open(sys.argv[1])
conductor = Conductor(store)
real = store.connection
def hold():
    store.connection = real
    say("AT COMMIT")
    sys.stdin.readline()
say("READY")
for line in iter(sys.stdin.readline, ""):
    if line == "hold\\n":
        store.connection = AtCommit(real, hold)
        continue
    try:
        say(json.dumps(["won", eval(line).status.value]))
    except Refusal as refusal:
        say(json.dumps([refusal.code, str(refusal)]))
"""


@contextmanager
def racers(place: str, number: int = 2) -> Iterator[list[BarrierProcess]]:
    with ExitStack() as stack:
        children = [stack.enter_context(BarrierProcess(RACER, place)) for _ in range(number)]
        for child in children:
            child.ready()
        yield children


ENDS: dict[str, tuple[str, str]] = {  # how it is said, and what the task is then
    "complete": ("conductor.complete({0!r}, agent='bob', artifacts={{'x': 1}})", "completed"),
    "fail": ("conductor.fail({0!r}, 'no', agent='bob')", "failed"),
    "cancel": ("conductor.cancel({0!r}, agent='ann')", "failed"),
}
PAIRS = [("complete", "fail"), ("complete", "cancel"), ("fail", "cancel"), ("complete", "complete")]


def assert_first_won(store: Store, task_id: str, answers: list[list[str]], statuses: list[str]) -> None:
    """One won, the others were told what it was; the task, its result and its events are the winner's alone."""
    (winner,) = [number for number, answer in enumerate(answers) if answer[0] == "won"]
    status = statuses[winner]
    assert answers[winner][1] == status
    for code, message in answers[:winner] + answers[winner + 1 :]:
        assert code == "conflict"
        assert status in message
    conductor = Conductor(store)
    assert status_of(conductor, task_id) == status
    assert len(results_of(conductor, task_id)) == 1
    assert [step for step in steps(store, task_id) if step in ("Completed", "Failed")] == [status.capitalize()]


def test_of_two_conductors_that_end_a_task_at_once_the_first_wins_and_the_second_is_told(store: Store, place: str) -> None:
    conductor = running(store)
    with racers(place) as children:
        for pair in PAIRS * 4:
            task_id = held(conductor).task_id
            for child, verb in zip(children, pair):
                child.tell(ENDS[verb][0].format(task_id))
            answers = [json.loads(child.line()) for child in children]
            assert_first_won(store, task_id, answers, [ENDS[verb][1] for verb in pair])
    assert_sound(place)
    assert_no_lock(place)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_conductor_that_comes_while_another_commits_is_told_what_won(store: Store, place: str, pair: tuple[str, str]) -> None:
    task_id = held(running(store)).task_id
    with racers(place) as (first, second):
        first.tell("hold")
        first.tell(ENDS[pair[0]][0].format(task_id))
        assert first.line() == "AT COMMIT"
        second.tell(ENDS[pair[1]][0].format(task_id))
        first.tell()
        answers = [json.loads(child.line()) for child in (first, second)]
    assert answers[0][0] == "won"
    assert_first_won(store, task_id, answers, [ENDS[verb][1] for verb in pair])


def test_of_two_conductors_that_accept_one_task_one_has_it(store: Store, place: str) -> None:
    conductor = running(store)
    with racers(place) as children:
        for _ in range(10):
            task_id = asked(conductor).task_id
            for child in children:
                child.tell(f"conductor.accept({task_id!r}, agent='bob').task")
            answers = [json.loads(child.line())[0] for child in children]
            assert sorted(answer == "won" for answer in answers) == [False, True]
            assert steps(store, task_id) == ["Submitted", "Routed", "Accepted"]
            conductor.complete(task_id, agent=BOB)


def test_a_lease_that_ran_out_is_counted_once_however_many_notice_at_once(store: Store, place: str) -> None:
    conductor = running(store)
    with racers(place, 4) as children:
        for _ in range(10):
            task_id = held(conductor, lease_seconds=0.000001).task_id
            for child in children:
                child.tell(f"conductor.get({task_id!r})")
            assert [json.loads(child.line()) for child in children] == [["won", "pending"]] * 4
            assert conductor.get(task_id).attempt == 1
            assert steps(store, task_id).count("Returned") == 1
            conductor.cancel(task_id, agent=ANN)
