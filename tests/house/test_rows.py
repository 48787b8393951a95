"""Outside the store nobody takes a row apart: queries return records, and events and persons are handled in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT, SOURCES, nodes, parse

OUTSIDE = [path for path in SOURCES if "postroom/store/" not in path.as_posix()]
FETCHES = {"fetch_one", "fetch_all"}


def is_fetch(node: ast.AST) -> bool:
    """A call of `tx.one` or `tx.all`, whatever the transaction is called."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FETCHES


def fetched_names(tree: ast.AST) -> set[str]:
    """The names that hold what a fetch returned: one row, all rows, or each row of a loop."""
    names: set[str] = set()
    while True:
        before = len(names)
        for node in ast.walk(tree):
            names |= {target.id for target, source in bindings(node) if isinstance(target, ast.Name) and holds_rows(source, names)}
        if len(names) == before:
            return names


def bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target with its source: of an assignment, a walrus or a loop."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter


def holds_rows(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.IfExp):
        return holds_rows(node.body, names) or holds_rows(node.orelse, names)
    if isinstance(node, ast.BoolOp):
        return any(holds_rows(value, names) for value in node.values)
    return is_fetch(node)


def is_last_record(node: ast.Subscript) -> bool:
    """`rows[-1]` is the last record of many: what must not follow is a number of its own."""
    return ast.unparse(node.slice) == "-1"


def positional(tree: ast.Module) -> list[int]:
    """The lines on which a row is read by position, or unpacked into a record or into names."""
    lines: list[int] = []
    if not any(map(is_fetch, ast.walk(tree))):
        return lines
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        names = fetched_names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                inner = isinstance(node.value, ast.Subscript) and holds_rows(node.value.value, names)
                number = isinstance(node.slice, ast.Constant | ast.UnaryOp)
                if inner or (number and holds_rows(node.value, names) and not is_last_record(node)):
                    lines.append(node.lineno)
            elif isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load) and holds_rows(node.value, names):
                lines.append(node.lineno)
            else:
                pairs = [(target, source) for target, source in bindings(node) if isinstance(target, ast.Tuple) and len(target.elts) > 1]
                lines += [target.lineno for target, source in pairs if holds_rows(source, names)]
    return sorted(set(lines))


@pytest.mark.parametrize(
    "code",
    [
        "row = tx.fetch_one(s)\n    return row[0]",
        "return tx.fetch_one(s)[0]",
        "rows = tx.fetch_all(s)\n    return rows[-1][0]",
        "return [Thread(*row) for row in tx.fetch_all(s)]",
        "row = None if s is None else tx.fetch_one(s)\n    return Thread(*row)",
        "for row in tx.fetch_all(s):\n        print(row[1])",
        "for name, kind in tx.fetch_all(s):\n        print(name)",
        "name, kind = tx.fetch_one(s)",
        "while (row := tx.fetch_one(s)) is not None:\n        print(row[0])",
        "row = tx.fetch_one(s) or tx.fetch_one(t)\n    return row[0]",
    ],
)
def test_a_row_that_is_taken_apart_is_found(code: str) -> None:
    assert positional(ast.parse(f"def verb(tx, s, t):\n    {code}\n")) != []


@pytest.mark.parametrize(
    "code",
    [
        "threads = tx.fetch_all(s)\n    return threads[-1].thread_id, threads[:5]",
        "thread = tx.fetch_one(s)\n    return thread.subject[0]",
        "(event,) = tx.fetch_all(s)\n    return event",
        "return names[0]",
    ],
)
def test_a_record_is_no_row(code: str) -> None:
    assert positional(ast.parse(f"def verb(tx, s, names):\n    {code}\n")) == []


def test_nobody_outside_the_store_takes_a_row_apart() -> None:
    found = {str(path.relative_to(ROOT)): positional(parse(path)) for path in OUTSIDE}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_events_are_appended_in_one_place() -> None:
    assert uses("event_append", SOURCES) == {"src/postroom/store/event_log.py"}


def test_what_a_person_is_is_decided_in_one_place() -> None:
    compared = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and "'human'" in ast.unparse(node)
    }
    assert compared == {"src/postroom/core/records/work.py"}


def uses(attribute: str, paths: list[Path]) -> set[str]:
    """The files that read an attribute of this name."""
    return {
        str(path.relative_to(ROOT))
        for path in paths
        if any(isinstance(node, ast.Attribute) and node.attr == attribute for node in nodes(path))
    }
