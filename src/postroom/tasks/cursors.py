"""The cursors of pages of tasks and jobs: how they are written and read. The conductor's lists use them."""

from __future__ import annotations

from postroom.core import checks
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.tasks import TaskRow
    from postroom.tasks.a2a.models import A2ATaskPage

FIRST = {"urgency": -1, "after": 0}  # the binds of a first page, before the most urgent task
_SEPARATOR = "."


def parse_event(after: str | None, *, default: int | None = None) -> int | None:
    """Return the event id in the cursor of a list by age, or the default."""
    return default if after is None else checks.event_id("after", _parse_number(after, after))


def parse_urgency(after: str | None) -> dict[str, int]:
    """Return the binds of a list by urgency: the urgency and the event id of the last task of the page before."""
    if after is None:
        return FIRST
    urgency, _, event_id = after.partition(_SEPARATOR) if isinstance(after, str) else ("", "", "")
    return {
        "urgency": checks.event_id("after", _parse_number(urgency, after)),
        "after": checks.event_id("after", _parse_number(event_id, after)),
    }


def page_by_urgency(rows: list[TaskRow], limit: int) -> A2ATaskPage:
    """Return the most urgent rows as a page. `rows` has more than `limit` if the list goes on."""
    from postroom.tasks.a2a.models import A2ATaskPage
    from postroom.tasks.snapshots import task_from_row

    rows = sorted(rows, key=lambda row: (row.urgency, row.event_id))
    more, shown = len(rows) > limit, rows[:limit]
    cursor = f"{shown[-1].urgency}{_SEPARATOR}{shown[-1].event_id}" if more else None
    return A2ATaskPage(tasks=tuple(map(task_from_row, shown)), more=more, after=cursor)


def _parse_number(text: object, after: object) -> int:
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidInput(
            f"after is not the cursor of this list: {short_repr(after)}", field="after", hint="Pass `after` of the page before."
        )
    return int(text)
