"""Pages of a list: the doors ask a verb for one row more than they show, so that a cut list says so and names where to go on."""

from __future__ import annotations

from postroom.core.limits import MAX_ITEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")


def rows_to_read(limit: int) -> int:
    """Return how many rows to ask a verb for, to show `limit` of them. A limit out of range stays, so that the verb refuses it."""
    return limit + 1 if 1 <= limit < MAX_ITEMS else limit


def cut_page(rows: Sequence[T], limit: int, cursor_of: Callable[[T], str]) -> tuple[Sequence[T], dict[str, Any]]:
    """Return the rows of a page, and its `more` and `after` for the answer. `cursor_of` returns the cursor behind a row."""
    shown = rows[:limit]
    more = len(rows) > limit or len(rows) == MAX_ITEMS
    return shown, {"more": more, "after": cursor_of(shown[-1]) if more else None}
