"""The official MCP conformance suite against a server that is set up as ours is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conformance.suite import Suite, SuiteMissing, expected

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def suite() -> Suite:
    try:
        return Suite()
    except SuiteMissing as missing:
        if os.environ.get("CI", "").lower() in {"", "0", "false"}:
            pytest.skip(str(missing))
        raise


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where a fixture server of our own listens, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.server.conformance.fixture_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = server.stdout.readline().split()
        try:
            assert ready[:1] == ["READY"], "the fixture server did not start"
            yield f"http://127.0.0.1:{ready[1]}/mcp/ws-1"
        finally:
            server.terminate()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_check_passes_but_those_whose_failure_is_explained(suite: Suite, url: str, version: str, tmp_path: Path) -> None:
    ran, failures = suite.run(url, version, tmp_path)

    new = {check: why for check, why in failures.items() if check not in expected(version)}
    assert not new, f"checks that fail and should not: {new}"
    assert failures.keys() == expected(version), "checks in expected.json that do not fail any more: take them out"
    assert ran == suite.scenarios(version), "the suite left scenarios out"
