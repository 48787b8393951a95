"""One class name means one thing, in the product and in its tests. So does the name of a module of commands."""

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


def test_no_two_modules_of_the_commands_have_the_same_name() -> None:
    # Each folder has a table of commands, views, and handlers that need no name of their own. A program has a way to start and to print.
    shared = {"__init__.py", "__main__.py", "spec.py", "views.py", "commands.py", "output.py"}
    counted = Counter(path.name for path in SOURCES if "cli" in path.relative_to(ROOT / "src" / "postroom").parts[:1])
    assert {name for name, number in counted.items() if number > 1} - shared == set()


def _class_names(path: Path) -> set[str]:
    return {node.name for node in nodes(path) if isinstance(node, ast.ClassDef)}
