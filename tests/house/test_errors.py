"""Every refusal has its place in the tree, its code, and its exit code."""

from __future__ import annotations

import pytest

from postroom.cli.framework import output
from postroom.core import errors


def _tree(kind: type[errors.Refusal]) -> list[type[errors.Refusal]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _tree(child))]


CODES = [
    "ambiguous_question", "client_left", "conflict", "contended", "cursor_expired", "delivery_lost", "denied", "filter_failed",
    "forbidden", "id_conflict",
    "interrupted", "invalid",
    "invalid_input", "invalid_state", "lease_conflict",
    "lease_lost", "missing", "no_store", "not_a_store", "not_found", "question_closed", "storage_error", "storage_trouble", "store_away",
    "store_busy", "store_full", "store_read_only", "taken", "too_large", "too_many", "unauthenticated", "unsafe_place",
    "untrusted_store", "wrong_version",
]  # fmt: skip
REFUSALS = [kind for kind in _tree(errors.Refusal) if kind is not errors.Refusal]


@pytest.mark.parametrize("kind", REFUSALS)
def test_the_command_line_has_a_row_for_it(kind: type[errors.Refusal]) -> None:
    assert any(issubclass(kind, known) for known, _ in output.EXIT_CODES)


def test_codes_are_unique_and_stable() -> None:
    assert sorted(kind.code for kind in REFUSALS) == CODES


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = [line.split()[-1] if len(line.split()) == 1 else line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()[0]
             for line in (errors.__doc__ or "").splitlines() if "──" in line]  # fmt: skip
    assert sorted(drawn) == sorted(kind.__name__ for kind in REFUSALS)
