"""The page's modules as text: one style, no name that nobody defined, nothing that nobody uses."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from postroom.server.http import static
from tests.browser import chromium
from tests.browser.chromium import HOME
from tests.browser.conftest import needed

ROOT = Path(__file__).parents[2]
NODE = Path(sys.prefix) / "bin" / "node"


def _judged(judge: str, *argv: str) -> str:
    ran = subprocess.run(
        [NODE, needed(partial(chromium.judge, judge)), *argv], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def test_every_module_is_formatted() -> None:
    modules = sorted(str(path) for path in static.WEB_FOLDER.rglob("*.js") if not path.name.endswith(".min.js"))
    assert modules
    said = _judged("prettier/bin/prettier.cjs", "--print-width", "140", "--check", *modules)
    assert not said, f"{said}\nRun: make format"


def test_every_name_is_defined_and_used() -> None:
    folder = str(static.WEB_FOLDER.relative_to(ROOT))
    assert not _judged("eslint/bin/eslint.js", "--config", str(HOME / "eslint.config.mjs"), folder)
