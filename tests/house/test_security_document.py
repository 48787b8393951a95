"""SECURITY.md shows every limit with its value."""

from __future__ import annotations

import re
from pathlib import Path

from postroom.core import limits

DOCUMENT = Path(__file__).parents[2] / "SECURITY.md"
ROW = re.compile(r"^\| `(MAX_\w+)` \| ([^|]+) \|", re.MULTILINE)


def shown(name: str, value: int) -> str:
    if name.endswith(("_BYTES", "_BYTES_PER_CALLER", "_BYTES_PER_MINUTE")):
        return f"{value // limits.MIB:,} MiB" if value >= limits.MIB else f"{value // limits.KIB} KiB"
    return f"{value:,}"


def test_the_table_of_limits_is_what_the_module_says() -> None:
    table = dict(ROW.findall(DOCUMENT.read_text()))
    assert table == {name: shown(name, value) for name, value in vars(limits).items() if name.startswith("MAX_")}
