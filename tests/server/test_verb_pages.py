"""Every list says when it is cut: a verb with a limit returns a page with a cursor, or stands below with the reason why not."""

from __future__ import annotations

import inspect

from postroom.core.rpc import wire
from postroom.server.rpc.dispatch import routing_table

# The fields that say that there is more, and those that go on from there.
CUT_FIELDS = {"more", "has_more", "next_before_event", "next_after_event"}
CURSOR_FIELDS = {"after", "next_event_id", "next_before_event", "next_after_event"}
CURSOR_ARGUMENTS = {"after", "before", "before_event", "after_event"}
EXCEPTIONS = {
    "people.read_messages": "takes the messages that it returns, so that the next call returns the others",
    "people.hand_over_messages": "says `more`, and the next call after a confirmation returns the others",
    "people.search_rooms": "looks at the newest ones only, and says how far back it looked (`since`)",
}
# Sorted by age, so that the id of the last entry is the cursor.
PAGES_BY_ENTRY = {"people.history", "people.search", "people.own_entries"}


def _fields(result_type: str) -> set[str]:
    kinds = {kind.__name__: set(kind.__fields__) for kind in wire.record_classes()}
    kinds |= {kind.__name__: set(kind.model_fields) for kind in wire.foreign_types() if hasattr(kind, "model_fields")}
    return kinds.get(result_type.removesuffix(" | None"), set())


def test_every_verb_with_a_limit_returns_a_page_with_a_cursor() -> None:
    with_limit = set()
    for name, verb in routing_table().items():
        arguments = set(inspect.signature(verb.function).parameters)
        if "limit" not in arguments:
            continue
        with_limit.add(name)
        if name in EXCEPTIONS:
            continue
        fields = _fields(verb.result_type)
        assert fields & CUT_FIELDS, f"{name} does not say that its list is cut"
        assert arguments & CURSOR_ARGUMENTS, f"{name} cannot go on behind a page"
        assert name in PAGES_BY_ENTRY or fields & CURSOR_FIELDS, f"{name} gives no cursor"
    assert EXCEPTIONS.keys() | PAGES_BY_ENTRY <= with_limit


def test_every_exception_goes_on_in_the_way_that_its_reason_says() -> None:
    assert "more" in _fields(routing_table()["people.hand_over_messages"].result_type)
