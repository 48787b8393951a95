"""The statements of a room are imported when one of them is first used, by whichever thread comes first."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from postroom.store.tables import make_statement_finder

SLOW_MODULE = """
from slow_import_gate import started, finish
started.set()
finish.wait(20)
alias_find = "SELECT 1"
"""


def test_a_thread_waits_for_a_module_that_another_thread_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_statements.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    started, finish = Event(), Event()
    monkeypatch.setitem(sys.modules, "slow_import_gate", SimpleNamespace(started=started, finish=finish))
    find = make_statement_finder({}, {"mail": "slow_statements"})
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(find, "alias_find")
        assert started.wait(20)
        second = threads.submit(find, "alias_find")
        try:
            assert second.exception(timeout=0.2) is None  # it raised at once
        except TimeoutError:
            pass  # it waits
        finally:
            finish.set()
        assert first.result() == second.result() == "SELECT 1"
