"""CPython's private modules are used in one place, where each has a public one behind it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT, SOURCES

FASTPATH = ROOT / "src" / "postroom" / "_fastpath"
OUTSIDE = [path for path in SOURCES if FASTPATH not in path.parents]


def _imported(path: Path) -> set[str]:
    """The modules outside Postroom that a file imports, by their first name."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in plain | named}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_private_module_is_imported_in_the_fast_path_alone(path: Path) -> None:
    assert {name for name in _imported(path) if name.startswith("_")} - {"__future__"} == set()


def test_no_other_file_replaces_a_module() -> None:
    written = [path for path in OUTSIDE if re.search(r"sys\.modules\[[^]]*\] =", path.read_text())]
    assert written == []


def test_the_fast_path_has_private_modules() -> None:
    """Else the tests above find nothing because they look in the wrong way."""
    found = {name for path in FASTPATH.glob("*.py") for name in _imported(path) if name.startswith("_")} - {"__future__"}
    importing = {"_frozen_importlib", "_frozen_importlib_external", "_imp"}
    assert found == importing | {"_functools", "_json", "_sha1", "_sqlite3", "_thread", "_weakref"}
