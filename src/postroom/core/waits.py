"""Verbs that wait: how to tell that only the time was over, and where the next turn goes on."""

from __future__ import annotations

from postroom.core.checks import LONGEST_WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

IN_VAIN: dict[str, Callable[[Any], bool]] = {
    "mail.wait": lambda found: found is None,
    "tasks.wait": lambda found: found is None,
    "work.wait_take": lambda found: found is None,
    "work.wait_reply": lambda found: not found.woke,
    "work.watch": lambda found: not found.woke,
    "people.wait_answer": lambda found: found.state == "open",
}


def onward(named: dict[str, Any], found: Any) -> dict[str, Any]:
    """The arguments of the next turn: after what this one has seen, so that nothing falls between two turns."""
    cursor = getattr(found, "next_event_id", None)
    if cursor is None:
        return named
    return {**{key: value for key, value in named.items() if key != "after_message"}, "after_event": cursor}


def is_time(value: Any) -> bool:
    """Whether it is a number of seconds that a wait can last."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST_WAIT
