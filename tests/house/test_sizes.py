"""Modules and functions are small enough to read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.house.tree import ROOT, SOURCES, TESTS, functions

MAX_MODULE_LINES = 450
MAX_TEST_MODULE_LINES = 500
MAX_MODULES_PER_FOLDER = 16
MAX_FUNCTION_LINES = 50
VAGUE_NAMES = ("utils", "helpers", "common", "manager", "base")


def test_a_module_is_split_before_it_is_a_drawer() -> None:
    assert _longer_than(MAX_MODULE_LINES, SOURCES) == {}
    assert _longer_than(MAX_TEST_MODULE_LINES, TESTS) == {}
    assert [path for path in SOURCES if path.stem in VAGUE_NAMES] == []


def _longer_than(most: int, paths: list[Path]) -> dict[str, int]:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    return {path: lines for path, lines in lengths.items() if lines > most}


def test_a_function_fits_on_a_screen() -> None:
    long = {
        f"{path.relative_to(ROOT)}::{function.name}": lines
        for path in SOURCES
        for function in functions(path)
        if (lines := (function.end_lineno or function.lineno) - function.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_a_folder_can_be_surveyed() -> None:
    modules = Counter(str(path.parent.relative_to(ROOT)) for path in SOURCES if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MAX_MODULES_PER_FOLDER} == {}
