"""Histories: what each actor called, and what it was told.

An actor writes one line before each call and one after it, each by a single write to a file that is opened for appending. A SIGKILL
between the two leaves a call without an answer: it may have happened, or not. Times are of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic_ns, sleep
from typing import Any, TypeVar

from postroom.core.errors import Interrupted, Refusal, StorageFailure, StoreUnreachable

T = TypeVar("T")
Facts = dict[str, Any]

OK, REFUSED, UNKNOWN, ESCAPED = "ok", "refused", "unknown", "escaped"
# After these refusals the caller does not know whether the store did it.
UNKNOWN_OUTCOMES = (StoreUnreachable, StorageFailure, Interrupted)
NEVER = 1 << 62


@dataclass
class Operation:
    """One call. `end` is `NEVER` if no answer was recorded. `result` holds the facts of the answer, and `code` that of a refusal."""

    actor: str
    name: str
    facts: Facts
    start: int
    skew: int = 0
    end: int = NEVER
    outcome: str = UNKNOWN
    result: Facts = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.outcome == OK

    @property
    def code(self) -> str:
        return str(self.result.get("code", ""))

    def get(self, fact: str) -> Any:
        """Return a fact of the answer, or else of the call."""
        return self.result.get(fact, self.facts.get(fact))

    def describe(self, epoch: int = 0) -> str:
        """Return a line for people: when, who, what, and what came of it."""
        until = "no answer" if self.end == NEVER else f"{(self.end - epoch) / 1e9:9.4f}"
        facts = " ".join(f"{name}={_shorten(value)}" for name, value in {**self.facts, **self.result}.items())
        skew = f" clock {self.skew / 1e6:+.0f} s" if self.skew else ""
        return f"{(self.start - epoch) / 1e9:9.4f} to {until:>9}  {self.actor:<16} {self.name:<18} {self.outcome:<8} {facts}{skew}"


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."


class Recorder:
    """Writes the history of one actor. `skew` is how far its clock is off, in microseconds."""

    def __init__(self, path: Path, actor: str) -> None:
        self.actor = actor
        self.skew = 0
        self.last_refusal: Refusal | None = None
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = count()
        self._prefix = f"{actor}#{os.getpid()}"

    def attempt(
        self,
        name: str,
        act: Callable[[], T],
        describe: Callable[[T], Facts] = lambda result: {},
        **facts: Any,
    ) -> T | None:
        """Call a verb and record it. Return its result, or None if it was refused."""
        number = next(self._numbers)
        self._write(number, phase="call", name=name, skew=self.skew, facts=facts)
        try:
            result = act()
        except Refusal as refusal:
            outcome = UNKNOWN if isinstance(refusal, UNKNOWN_OUTCOMES) else REFUSED
            told = {
                "code": refusal.code,
                "class": type(refusal).__name__,
                "says": str(refusal)[:300],
                "next": refusal.facts.get("next_event_id"),
            }
            self._write(number, phase=outcome, result=told)
            self.last_refusal = refusal
            if outcome == UNKNOWN:
                sleep(0.1)  # the server is away, or the disk is full: do not ask thousands of times
            return None
        except Exception as error:
            self._write(number, phase=ESCAPED, result={"error": repr(error)[:500]})
            return None
        self._write(number, phase=OK, result=describe(result))
        return result

    def begin(self, name: str, **facts: Any) -> Callable[[], None]:
        """Record that something begins that lasts. Call the result when it is over."""
        number = next(self._numbers)
        self._write(number, phase="call", name=name, skew=0, facts=facts)
        return lambda: self._write(number, phase=OK, result={})

    def _write(self, number: int, **line: Any) -> None:
        text = json.dumps({"id": f"{self._prefix}#{number}", "at": monotonic_ns(), **line}, default=str)
        os.write(self._file, text.encode() + b"\n")


def read_history(folder: Path) -> list[Operation]:
    """Return every operation of every actor, ordered by the time of its call."""
    operations: dict[str, Operation] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            _apply_line(operations, json.loads(line))
    return sorted(operations.values(), key=lambda operation: operation.start)


def _apply_line(operations: dict[str, Operation], line: Facts) -> None:
    actor = line["id"].split("#")[0]
    if line["phase"] == "call":
        operations[line["id"]] = Operation(actor, line["name"], line["facts"], line["at"], line["skew"])
        return
    operation = operations[line["id"]]
    operation.outcome, operation.result = line["phase"], line["result"]
    if operation.outcome != UNKNOWN:  # otherwise it may still happen: a server may have the request
        operation.end = line["at"]


def select(history: Iterable[Operation], *names: str) -> list[Operation]:
    return [operation for operation in history if operation.name in names]
