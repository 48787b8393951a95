"""The rules of blocking verbs: how to recognise a timeout, and which arguments continue a wait without a gap.

The remote store and the server call this module when they split a long wait into several calls.
"""

from __future__ import annotations

from postroom.core.checks import MAX_WAIT_SECONDS
from postroom.core.verbs import VERBS, WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_blocking(name: str) -> bool:
    """Return whether the verb of this name (`room.name`) blocks. The module of the verb must be loaded."""
    return name in VERBS and VERBS[name].mode == WAIT


def is_timeout(result: Any) -> bool:
    """Return whether a blocking verb returned this result because its timeout was over."""
    return result is None or bool(getattr(result, "timed_out", False))


def next_cursor_args(named: dict[str, Any], result: Any) -> dict[str, Any]:
    """Return the arguments that continue a wait after the events that `result` covers, so that no event is missed in between."""
    cursor = getattr(result, "next_event_id", None)
    if cursor is None:
        return named
    return {**{key: value for key, value in named.items() if key != "after_message"}, "after_event": cursor}


def is_wait_time(value: Any) -> bool:
    """Return whether a value is a valid timeout in seconds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_WAIT_SECONDS
