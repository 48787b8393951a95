"""`notifier install`: a unit of the user or a line of the crontab, and how it is undone. Only the folder of the test is touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import eventually, is_alive
from tests.cli.queue_process import BusyQueueCommands, acking

CRONTAB = """#!/bin/sh
case $1 in -l) cat "$HOME/table" 2> /dev/null;; -) cat > "$HOME/table";; esac
"""


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[BusyQueueCommands]:
    with BusyQueueCommands(tmp_path) as made:
        yield made


@pytest.fixture
def cron_path(tmp_path: Path) -> str:
    """A folder with a crontab of the test's own, which keeps its table in HOME."""
    program = tmp_path / "bin" / "crontab"
    program.parent.mkdir()
    program.write_text(CRONTAB)
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def unit(commands: BusyQueueCommands) -> Path:
    return commands.folder / ".config" / "systemd" / "user" / "postroom-notifier.service"


def test_install_writes_a_unit_that_systemd_accepts_and_undo_removes_it(commands: BusyQueueCommands) -> None:
    finished = commands.notifier("install", "--with", "systemd")
    assert (finished.code, finished.stdout) == (0, f"{unit(commands)}\n")
    assert "loginctl enable-linger" in finished.stderr
    text = unit(commands).read_text()
    assert f'Environment="NOTIFIER_HOME={commands.home}"' in text
    assert '"run"\n' in text
    assert "\nKillMode=process\n" in text  # else systemd kills the handlers of a runner that is killed
    assert (unit(commands).parent / "default.target.wants" / unit(commands).name).resolve() == unit(commands)
    verify = shutil.which("systemd-analyze")
    if verify:
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(commands.folder)}
        argv = [verify, "--user", "verify", str(unit(commands))]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, unit(commands).name in done.stderr) == (0, False), done.stderr
    assert commands.told("notifier", "install", "--undo") == {"removed": [str(unit(commands))]}
    assert [file for file in commands.folder.rglob("*") if "postroom-notifier" in file.name] == []
    commands.refuses(1, "notifier", "install", "--undo")


def test_names_with_special_characters_are_quoted_in_the_unit(commands: BusyQueueCommands) -> None:
    home = commands.folder / 'a "%n" $HOME \\ home'
    assert commands.notifier("install", "--with", "systemd", NOTIFIER_HOME=str(home)).code == 0
    escaped = str(home).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")  # systemd would keep both of $$ in Environment=
    assert f'Environment="NOTIFIER_HOME={escaped}"\n' in unit(commands).read_text()


def test_where_there_is_a_crontab_install_adds_one_line_and_keeps_the_others(commands: BusyQueueCommands, cron_path: str) -> None:
    table = commands.folder / "table"
    table.write_text("0 0 * * * mine\n")
    for _ in range(2):
        assert commands.notifier("install", "--with", "cron", PATH=cron_path).code == 0
    mine, line = table.read_text().splitlines()
    assert mine == "0 0 * * * mine"
    assert line.startswith(f"@reboot NOTIFIER_HOME={commands.home} ")
    assert line.endswith(" start > /dev/null # postroom-notifier")
    assert commands.notifier("install", "--undo", PATH=cron_path).stdout == f"removed {line}\n"
    assert table.read_text() == "0 0 * * * mine\n"


def test_the_line_of_the_crontab_starts_a_runner_that_stays(commands: BusyQueueCommands, cron_path: str) -> None:
    commands.notifier("install", "--with", "cron", PATH=cron_path)
    line = (commands.folder / "table").read_text().removeprefix("@reboot ")
    subprocess.run(["/bin/sh", "-c", line], env={"HOME": str(commands.folder), "PATH": "/usr/bin:/bin"}, check=True)
    assert commands.told("notifier", "status")["resident"] is True


def test_an_unknown_method_is_refused(commands: BusyQueueCommands) -> None:
    commands.refuses(2, "notifier", "install", "--with", "luck")


def test_run_is_the_runner_itself_until_it_is_told_to_stop(commands: BusyQueueCommands) -> None:
    commands.init()
    commands.subscribe("c", acking(1))
    service = commands.start("notifier", "run")
    eventually(lambda: commands.told("notifier", "status")["pid"] == service.process.pid)
    commands.push()
    eventually(lambda: commands.info()["subscriptions"][0]["last_acked_id"] == 1)
    eventually(lambda: not commands.held("c"))
    assert is_alive(service.process.pid), "it stays, though it is idle"
    service.process.send_signal(signal.SIGTERM)
    assert service.finish().code == 0
