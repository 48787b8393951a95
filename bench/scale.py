"""How much is measured: everything, or with QUICK=1 in the environment the same with short blocks and without the large stores."""

from __future__ import annotations

import os
from typing import TypeVar

QUICK = os.environ.get("QUICK", "") not in ("", "0")
_Value = TypeVar("_Value")


def choose(full: _Value, quick: _Value) -> _Value:
    """Return the value for this run."""
    return quick if QUICK else full


SIZES = choose((100, 10_000, 1_000_000), (100, 10_000))  # waiting messages, stored threads
CLIENTS = (1, 4, 16)
REPEATS = 5  # rounds in which all subjects take turns; each gives one value
