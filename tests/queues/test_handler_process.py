"""When the run of a handler is over."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from postroom.core import clock
from postroom.processes.process_group import read_start_mark
from postroom.queues import handler_process
from postroom.queues.handler_process import HandlerProcess
from tests.cli.process import eventually


def test_a_run_whose_leader_was_killed_is_over_once_its_group_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in uninterruptible sleep outlives the SIGKILL of its group for a while. Here the signal is held back."""
    monkeypatch.setattr(handler_process, "signal_group", lambda group, number: None)
    with subprocess.Popen("sleep 600 & echo; wait", shell=True, start_new_session=True, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        mark, output = read_start_mark(leader.pid), str(tmp_path / "out")
        run = HandlerProcess(leader.pid, mark, started_at=clock.now(), timeout_seconds=None, output=output, is_child=True)
        leader.kill()
        run.record_exit(leader.wait())
        assert not run.is_over
        os.killpg(leader.pid, signal.SIGKILL)
        eventually(lambda: run.is_over)
