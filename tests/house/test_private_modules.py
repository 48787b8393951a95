"""CPython's private modules are used in one place, where each has a public one behind it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.tree import ROOT, SOURCES, nodes

FASTPATH = ROOT / "src" / "postroom" / "_fastpath"
OUTSIDE = [path for path in SOURCES if FASTPATH not in path.parents]


def _imported(path: Path) -> set[str]:
    """The modules outside Postroom that a file imports, by their first name."""
    plain = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in plain | named}


def test_a_private_module_is_imported_in_the_fast_path_alone() -> None:
    private = {(str(path.relative_to(ROOT)), name) for path in OUTSIDE for name in _imported(path) if name.startswith("_")}
    assert {(path, name) for path, name in private if name != "__future__"} == set()


def test_no_other_file_replaces_a_module() -> None:
    written = [path for path in OUTSIDE if re.search(r"sys\.modules\[[^]]*\] =", path.read_text())]
    assert written == []


def test_the_fast_path_has_private_modules() -> None:
    """Else the tests above find nothing because they look in the wrong way."""
    found = {name for path in FASTPATH.glob("*.py") for name in _imported(path) if name.startswith("_")} - {"__future__"}
    importing = {"_frozen_importlib", "_frozen_importlib_external", "_imp"}
    assert found == importing | {"_functools", "_json", "_sha1", "_sqlite3", "_thread", "_weakref"}
