"""INBOX_LIMITS sets every limit, in every process that it is given to. A value that is not valid is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.core.limits import parse_limits
from tests.house.tree import ROOT

NAMES = [name for name in vars(limits) if name.startswith("MAX_")]
PRINT = "import json; from postroom.core import limits; print(json.dumps({n: v for n, v in vars(limits).items() if n.startswith('MAX_')}))"


def test_each_limit_can_be_set() -> None:
    wanted = {name: getattr(limits, name) - (1 if limits.range_of(name)[0] < getattr(limits, name) else -1) for name in NAMES}
    text = " ".join(f"{name}={value}" for name, value in wanted.items())
    ran = subprocess.run(
        [sys.executable, "-c", PRINT], env={**os.environ, limits.VARIABLE: text}, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == wanted


def test_each_limit_is_checked_somewhere() -> None:
    used = " ".join(path.read_text() for path in (ROOT / "src" / "postroom").rglob("*.py") if path.name != "limits.py")
    assert [name for name in NAMES if not re.search(rf"\b{name}\b", used)] == []


def test_units_and_commas() -> None:
    assert parse_limits("MAX_BODY_BYTES=256KiB, MAX_REQUEST_BYTES=2MiB\n MAX_ITEMS=2000") == {
        "MAX_BODY_BYTES": 256 << 10,
        "MAX_REQUEST_BYTES": 2 << 20,
        "MAX_ITEMS": 2000,
    }
    assert parse_limits(" ") == {}


@pytest.mark.parametrize(
    "text",
    [
        "MAX_BODY_BYTES",
        "MAX_BODY_BYTES=",
        "MAX_BODY_BYTES=-1",
        "MAX_BODY_BYTES=0",
        "MAX_BODY_BYTES=1.5MiB",
        "MAX_BODY_BYTES=1e6",
        "MAX_BODY_BYTES=1GiB",
        "MAX_BODY_BYTES=1MiBMiB",
        "MAX_BODY_BYTES=MiB",
        "MAX_BODY_BYTES=\u0661",
        "MAX_BODY_BYTES=" + "9" * 5000,
        "MAX_BODY_BYTES=2000MiB",
        "MAX_BODY_BYTES=1MiB MAX_BODY_BYTES=1MiB",
        "max_body_bytes=1MiB",
        "MAX_NAME_CHARS=201",
        "MAX_NAME_CHARS=3",
        "MAX_JSON_LEVELS=100000",
        "MAX_ITEMS=1",
        "KIB=1",
        "VARIABLE=1",
        "=1",
        "\udc80=1",
    ],
)
def test_a_text_that_is_not_valid_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="INBOX_LIMITS"):
        parse_limits(text)
