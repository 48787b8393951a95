"""Titles made of Markdown: the marks go, and what looks like a mark inside an identifier or a number stays."""

from __future__ import annotations

import pytest

from postroom.core.titles import first_line


@pytest.mark.parametrize(
    ("markdown", "title"),
    [
        ("Nightly backup done: *12.4 GB in 16 minutes*", "Nightly backup done: 12.4 GB in 16 minutes"),
        ("**3 things** to do", "3 things to do"),
        ("## `test_refund_race` fails\n\nAgain.", "test_refund_race fails"),
        ("MAX_RETRY_COUNT=5 * 3, or 5*3", "MAX_RETRY_COUNT=5 * 3, or 5*3"),
        ("~40 left in ~/notes", "~40 left in ~/notes"),
        ("---\n\n- _one_ ~~two~~", "one two"),
    ],
)
def test_a_title_has_no_marks_and_keeps_identifiers_and_numbers(markdown: str, title: str) -> None:
    assert first_line(markdown) == title
