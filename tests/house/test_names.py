"""One class name means one thing, in the product and in its tests. So does the name of a module of commands."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.house.tree import ROOT, SOURCES, TESTS, nodes

# Each program has a table of commands, handlers, views, a start and a way to print; each engine has the same parts.
SAME_PART = {"__init__", "__main__", "spec", "commands", "views", "output", "engine", "errors", "health", "schema", "batch"}
SAME_PART |= {"statements", "work_statements", "mail_statements", "people_statements"}


def test_no_two_classes_have_the_same_name() -> None:
    # A class that a module defines twice, once for type checkers, counts once.
    counted = Counter(name for path in (*SOURCES, *TESTS) for name in _class_names(path))
    assert {name for name, number in counted.items() if number > 1} == set()


def test_no_two_modules_of_a_tree_of_packages_have_the_same_name() -> None:
    packages = ROOT / "src" / "postroom"
    counted = Counter((path.relative_to(packages).parts[0], path.stem) for path in SOURCES if path.stem not in SAME_PART)
    assert {place for place, number in counted.items() if number > 1} == set()


def _class_names(path: Path) -> set[str]:
    return {node.name for node in nodes(path) if isinstance(node, ast.ClassDef)}
