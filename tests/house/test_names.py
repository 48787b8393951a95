"""One class name means one thing, in the product and in its tests."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.house.tree import ROOT, SOURCES, nodes

TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_no_two_classes_have_the_same_name() -> None:
    # A class that a module defines twice, once for type checkers, counts once.
    counted = Counter(name for path in (*SOURCES, *TESTS) for name in _class_names(path))
    assert {name for name, number in counted.items() if number > 1} == set()


def _class_names(path: Path) -> set[str]:
    return {node.name for node in nodes(path) if isinstance(node, ast.ClassDef)}
