"""Small enough to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.tree import ROOT, SOURCES, functions


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_split_before_it_is_a_drawer(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 450
    assert path.stem not in ("utils", "helpers", "common", "manager", "base")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = {function.name: function.end_lineno - function.lineno + 1 for function in functions(path) if function.end_lineno}
    assert {name: lines for name, lines in long.items() if lines > 50} == {}
