"""Hostile input for every door: malformed, oversized, deep, non-finite and non-UTF-8."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DEEP = "[" * 300 + "]" * 300
TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", " ", "\0", "\ud800", "x" * 5000, "é" * 3000, "../..", "-", "--", "%", "'; DROP TABLE threads; --", "\u202e", "1e999"]
    ),
)
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0, -1, 2**63, 10**400, 1e308]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=6,
)
JUNK = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b'{"a": 1e999}', b'{"a": NaN}', b'{"a":"\\ud800"}', DEEP.encode()]),
)


def encode(value: Any) -> bytes:
    """Write a value as JSON, with what JSON lacks: NaN, infinity and lone surrogates."""
    return json.dumps(value, ensure_ascii=True).encode()


def fuzz(cases: int, strategy: st.SearchStrategy[Any], check: Callable[[Any], object]) -> None:
    """Run a check on so many inputs, the same ones in each run."""

    @settings(max_examples=cases, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def run(value: Any) -> None:
        check(value)

    run()
