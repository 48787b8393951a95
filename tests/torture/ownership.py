"""Histories of single resources: which steps each thread, message and task went through, for the checker of `register`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

from tests.torture.history import NEVER, REFUSED, UNKNOWN, Operation, select
from tests.torture.register import (
    ACQUIRE,
    END,
    FREE,
    HOLD,
    MAIL_RULES,
    SEE_END,
    TASK_RULES,
    THREAD_RULES,
    Jump,
    OwnerStep,
    Register,
    find_violation,
    is_linearisable,
)

# Refusals that say something about the owner. All others (the store is busy, full or away) say nothing.
TELLING_CODES = ("lease_conflict", "lease_lost", "delivery_lost", "invalid_state", "conflict")
_ACTIONS = {
    "work.take": ACQUIRE,
    "work.claim": ACQUIRE,
    "work.renew": HOLD,
    "work.update": HOLD,
    "work.release": FREE,
    "work.done": END,
    "mail.dequeue": ACQUIRE,
    "mail.extend": HOLD,
    "mail.nack": FREE,
    "mail.ack": END,
    "tasks.accept": ACQUIRE,
    "tasks.renew": HOLD,
    "tasks.complete": END,
    "tasks.fail": END,
}
_FACTS = {"work": ("thread", THREAD_RULES), "mail": ("message", MAIL_RULES), "tasks": ("task", TASK_RULES)}
_TAKES = {"work.take": "work", "mail.dequeue": "mail", "tasks.accept": "tasks", "tasks.begin_sheet": "tasks"}
NS = 1_000_000_000


def find_double_owners(history: list[Operation], judged: Container[str] | None = None) -> Iterator[tuple[str, list[Operation]]]:
    """Return each resource whose history has no explanation by a single owner, with the shortest part of it that has none.

    `judged`: look only at these resources.
    """
    jumps = [Jump(operation.start, operation.end) for operation in select(history, "clock.jump")]
    resources: dict[tuple[str, str], list[OwnerStep]] = defaultdict(list)
    ghosts: dict[str, list[OwnerStep]] = defaultdict(list)
    for operation in history:
        _add_steps(operation, resources, ghosts)
    for (room, resource), steps in sorted(resources.items()):
        if judged is not None and resource not in judged:
            continue
        register = Register(_FACTS[room][1], jumps)
        if is_linearisable(steps, register):  # takes without an answer explain more, and never less. With many of them the search is long
            continue
        broken = find_violation(steps + _ghosts_within(steps, ghosts[room]), register)
        if broken is not None:
            yield resource, [step.source for step in sorted(broken, key=lambda step: step.start) if step.source is not None]


def _add_steps(operation: Operation, resources: dict[tuple[str, str], list[OwnerStep]], ghosts: dict[str, list[OwnerStep]]) -> None:
    room = operation.name.split(".")[0]
    if operation.name in _TAKES and operation.end == NEVER:
        ghosts[room].append(_make_step(operation, ACQUIRE, None))
    elif operation.name == "tasks.begin_sheet" and operation.ok:
        for task in operation.get("tasks"):
            resources[room, task].append(_make_step(operation, ACQUIRE, operation.get("token")))
    elif operation.name in ("tasks.end_sheet", "tasks.end_job"):
        for (its_room, _), steps in resources.items():
            if its_room == room:
                steps.extend(_free_steps(steps, operation))
    elif operation.name in _ACTIONS and (resource := operation.get(_FACTS[room][0])):
        if operation.outcome == REFUSED and operation.code not in TELLING_CODES:
            return
        action = _ACTIONS[operation.name]
        if operation.ok and operation.get("changed") is False:
            action = SEE_END
        resources[room, resource].append(_make_step(operation, action, operation.get("token")))


def _free_steps(steps: list[OwnerStep], operation: Operation) -> list[OwnerStep]:
    """Return the steps by which the end of a sheet or a job frees a task, for each sheet that held it.

    If the task is not the sheet's any more, the end does nothing to it: so each step may also never have happened.
    """
    ended = {step.token for step in steps if _is_of_sheet(step, operation)}
    return [OwnerStep(FREE, token, operation.start, NEVER, UNKNOWN, source=operation) for token in ended]


def _is_of_sheet(step: OwnerStep, operation: Operation) -> bool:
    if step.source is None or step.source.name != "tasks.begin_sheet":
        return False
    return step.source.facts["job"] == operation.facts["job"] and operation.facts.get("token") in (None, step.token)


def _make_step(operation: Operation, action: str, token: str | None) -> OwnerStep:
    lease = int(float(operation.facts.get("lease", 0)) * NS)
    return OwnerStep(action, token, operation.start, operation.end, operation.outcome, lease, operation.skew * 1000, source=operation)


def _ghosts_within(steps: list[OwnerStep], ghosts: list[OwnerStep]) -> list[OwnerStep]:
    """Return the takes without an answer that may have taken this resource: those that began before its last step ended."""
    last = max((step.end for step in steps if step.end != NEVER), default=0)
    first = min(step.start for step in steps)
    return [ghost for ghost in ghosts if first - 5 * NS <= ghost.start <= last]
