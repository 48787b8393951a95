"""`inbox demo` tells a true story."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.cli.process import Inbox, eventually, processes_with


def test_the_demonstration_ends_by_itself_with_everything_done(bare: Inbox) -> None:
    (bare.folder / "types.py").write_text("raise SystemExit('a file of the current folder was run')")
    temporary = bare.folder / "temporary"
    temporary.mkdir()
    finished = bare.run("demo", "--json", TMPDIR=str(temporary))
    assert finished.code == 0, finished
    removal = finished.stderr.partition("Remove it:")[2].strip()
    assert list(temporary.iterdir())
    subprocess.run(removal, shell=True, check=True)
    assert list(temporary.iterdir()) == []
    threads = finished.json["threads"]
    assert {thread["status"] for thread in threads} == {"done"}
    assert len(threads) == 3
    assert {thread["assigned_to"] for thread in threads} == {"ada"}, "bo's thread was taken over"
    for told in ("blocked, asks", "replied", "Awake", "kill -9 of bo", "refused with exit 20"):
        assert told in finished.stderr
    assert finished.stderr.index("kill -9") < finished.stderr.index("refused with exit 20")


def test_the_demonstration_leaves_an_existing_store_alone(inbox: Inbox) -> None:
    inbox.send()
    before = inbox.everything()
    assert inbox.run("demo", "--db", str(inbox.db), "--json").error[:2] == (30, "invalid_input")
    assert inbox.everything() == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_demonstration_leaves_no_folder_and_no_process(bare: Inbox, number: signal.Signals, code: int) -> None:
    folder = bare.folder / "temporary"
    folder.mkdir()
    demo = bare.start("demo", TMPDIR=str(folder))
    eventually(lambda: len(_actors(bare)) == 3)
    demo.process.send_signal(number)
    assert demo.finish().code == code
    assert _actors(bare) == []
    assert list(folder.iterdir()) == []


def _actors(inbox: Inbox) -> list[int]:
    (store,) = [str(path) for path in (inbox.folder / "temporary").glob("*/coord.db")] or ["none yet"]
    return processes_with(f"INBOX_DB={store}")
