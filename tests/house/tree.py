"""The checkout, as the house's tests read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file, read once for all tests of a process. No test may change it."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parse(path)))


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]


@cache  # the clauses of the specifications name the same few files hundreds of times
def names(path: Path) -> set[str]:
    """Every function, method, class and constant that a file defines."""
    found = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for node in nodes(path):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        found |= {target.attr for target in targets if isinstance(target, ast.Attribute)}
    return found
