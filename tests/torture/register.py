"""A linearisability checker for one resource with one owner: a thread, a delivery or a task, and its fencing tokens.

The state of a resource is the token of its owner, or none; since when the owner has it; and whether it has ended. A history is
linearisable if its operations can be put in an order that respects real time (an operation which ended before another began comes
first) and in which each answer is the one that a single owner at a time would give. Operations without an answer may have happened
at any time after their call, or never. The search is that of Wing and Gong, with memory of the visited states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.torture.history import NEVER, REFUSED, UNKNOWN, Operation

ACQUIRE, HOLD, FREE, END, SEE_END = "acquire", "hold", "free", "end", "see end"
CLOCK_STEP_NS = 10_000_000_000  # `clock.MAX_CLOCK_STEP_SECONDS`: beyond it, an instant too far away counts as passed
GRACE_NS = 50_000_000  # the stamps of the store are rounded, and the clocks of machine and database differ


@dataclass(frozen=True)
class OwnerRules:
    """How a kind of resource differs.

    `refuses_lapsed`: a holder whose lease lapsed may be refused though nobody replaced it. `voids_lapsed`: it must be. `keeps_freed`: a
    holder that gave it back may still end it until it is replaced. `may_end_by_itself`: after it lapsed too often.
    `anybody_lapses`: an actor with a clock of its own ends the leases of others by looking.
    """

    refuses_lapsed: bool = False
    voids_lapsed: bool = False
    keeps_freed: bool = False
    may_end_by_itself: bool = False
    anybody_lapses: bool = False


THREAD_RULES = OwnerRules()
MAIL_RULES = OwnerRules(refuses_lapsed=True, voids_lapsed=True, may_end_by_itself=True, anybody_lapses=True)
TASK_RULES = OwnerRules(refuses_lapsed=True, keeps_freed=True, may_end_by_itself=True, anybody_lapses=True)


@dataclass(frozen=True)
class OwnerStep:
    """One operation on one resource. `takeover` replaces a live lease on purpose. `source` is the call from which it was made."""

    action: str
    token: str | None
    start: int
    end: int
    outcome: str
    lease_ns: int = 0
    skew_ns: int = 0
    takeover: bool = False
    source: Operation | None = None


@dataclass(frozen=True)
class Jump:
    """A time in which some actor had a wrong clock."""

    start: int
    end: int


@dataclass(frozen=True)
class Ownership:
    """The owner of a resource: its token, the first and last instant at which its lease may have begun, and its length."""

    token: str | None = None
    earliest: int = 0
    latest: int = 0
    lease_ns: int = 0
    skew_ns: int = 0
    ended: bool = False

    def has_surely_lapsed(self, step: OwnerStep) -> bool:
        return self.latest != NEVER and step.start + step.skew_ns > self.latest + self.skew_ns + self.lease_ns + GRACE_NS


class Register:
    """One resource of a kind: says which answers a single owner at a time could have given."""

    def __init__(self, rules: OwnerRules, jumps: Sequence[Jump] = ()) -> None:
        self.rules = rules
        self._jumps = jumps if rules.anybody_lapses else ()

    def apply_step(self, state: Ownership, step: OwnerStep) -> list[Ownership]:
        """Return the states that may follow, or none if the answer is impossible."""
        if step.outcome == REFUSED:
            return [state] if self._may_refuse(state, step) else []
        if step.action == ACQUIRE:
            if state.ended or (state.token is not None and not step.takeover and not self._may_have_lapsed(state, step)):
                return []
            return [Ownership(step.token or "?", step.start, step.end, step.lease_ns, step.skew_ns)]
        if state.ended or step.action == SEE_END:
            return [state] if state.ended and step.action == SEE_END else []
        if state.token != step.token:
            return []
        if self.rules.voids_lapsed and state.has_surely_lapsed(step) and step.skew_ns == state.skew_ns:
            return []
        if step.action == HOLD:
            return [replace(state, earliest=step.start, latest=step.end, skew_ns=step.skew_ns, lease_ns=step.lease_ns or state.lease_ns)]
        if step.action == FREE and self.rules.keeps_freed:
            return [replace(state, earliest=-NEVER, latest=-NEVER)]
        return [Ownership(ended=step.action == END)]

    def _may_refuse(self, state: Ownership, step: OwnerStep) -> bool:
        if step.action == ACQUIRE:
            by_itself = self.rules.may_end_by_itself and (state.token is None or self._may_have_lapsed(state, step))
            return state.ended or by_itself or (state.token is not None and not state.has_surely_lapsed(step))
        lost = state.ended or state.token != step.token
        return lost or (self.rules.refuses_lapsed and self._may_have_lapsed(state, step))

    def _may_have_lapsed(self, state: Ownership, step: OwnerStep) -> bool:
        if state.skew_ns - step.skew_ns > CLOCK_STEP_NS - GRACE_NS:
            return True  # for this caller, the lease ends too late for its length
        if any(jump.start <= step.end and jump.end >= state.earliest for jump in self._jumps):
            return True
        return step.end + step.skew_ns + GRACE_NS >= state.earliest + state.skew_ns + state.lease_ns


def is_linearisable(steps: Sequence[OwnerStep], register: Register) -> bool:
    """Return whether some order of the steps explains every answer."""
    ordered = sorted(steps, key=lambda step: step.start)
    seen: set[tuple[int, Ownership]] = set()
    stack: list[tuple[int, Ownership]] = [(0, Ownership())]
    answered = sum(1 << index for index, step in enumerate(ordered) if step.end != NEVER)
    while stack:
        done, state = stack.pop()
        if done & answered == answered:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for index in _next_indexes(ordered, done):
            stack += [(done | 1 << index, after) for after in register.apply_step(state, ordered[index])]
    return False


def _next_indexes(ordered: Sequence[OwnerStep], done: int) -> list[int]:
    """Return the steps that may come next: those that began before any other open step ended. The one that ended first comes last."""
    open_steps = [index for index in range(len(ordered)) if not done >> index & 1]
    limit = min(ordered[index].end for index in open_steps)
    return sorted((index for index in open_steps if ordered[index].start <= limit), key=lambda index: -ordered[index].end)


def find_violation(steps: Iterable[OwnerStep], register: Register) -> list[OwnerStep] | None:
    """Return a shortest history without an explanation, or None if the steps are linearisable.

    It is the shortest prefix that has none, without the refusals and the owners that it does not need.
    """
    ordered = sorted(steps, key=lambda step: (step.end, step.start))
    if is_linearisable(ordered, register):
        return None
    answered = [step for step in ordered if step.end != NEVER]
    for length in range(1, len(answered) + 1):
        last = answered[length - 1].end
        prefix = [step if step.end <= last else _without_answer(step) for step in ordered if step.start <= last]
        if not is_linearisable(prefix, register):
            return _minimise(prefix, register)
    return _minimise(ordered, register)


def _without_answer(step: OwnerStep) -> OwnerStep:
    return replace(step, end=NEVER, outcome=UNKNOWN)


def _minimise(steps: list[OwnerStep], register: Register) -> list[OwnerStep]:
    """Drop what the contradiction does not need. A success is dropped only with all steps of its token, and never below a refusal."""
    for step in [step for step in steps if step.outcome == REFUSED]:
        rest = [other for other in steps if other is not step]
        if not is_linearisable(rest, register):
            steps = rest
    if any(step.outcome == REFUSED for step in steps):  # a step that is dropped now might be the one that explains it
        return steps
    for token in {step.token for step in steps}:
        rest = [step for step in steps if step.token != token]
        if not is_linearisable(rest, register):
            steps = rest
    return steps
