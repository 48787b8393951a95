"""Other versions of Postroom: a source tree that runs in processes of its own, as a server or as a client."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import pytest

from tests.cli.process import LIMIT

ROOT = Path(__file__).parents[2]
EARLIER = {
    "positional": "baf762f4f7eca3c6c5d83a578f1823f476dfe33d",  # version 1 of the wire: the last commit whose records travel by position
    "unpaged": "07f2919fb6ff39edc0176f7d9a9042443b2d2231",  # version 2: `work.fetch` returns a tuple, and the package has the version 0.2.0
}
WIRES = ("http", "unix", "ws")
COMMAND = """
import sys
try:
    from postroom.cli.inbox import main
except ImportError:  # the earlier commit
    from postroom.cli.inbox import main
sys.exit(main())
"""
Rows = dict[str, list[tuple[Any, ...]]]


class Served:
    """A server that runs, and the file of its store."""

    def __init__(self, ready: dict[str, str], place: Path, pid: int) -> None:
        self.ready = ready
        self.pid = pid
        self.place = place
        self.token = ready.get("token") or Path(ready["token_file"]).read_text().strip()

    def url(self, wire: str) -> str:
        return f"unix:{self.ready['uds']}" if wire == "unix" else self.ready["url"].replace("http", wire, 1)

    def rows(self) -> Rows:
        """Everything in the store, except when a pass was last used, which a server records in the background."""
        with closing(sqlite3.connect(f"file:{self.place}?mode=ro", uri=True)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
            return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables if name != "passes"}


class Release:
    """One version: its source tree."""

    def __init__(self, source: Path) -> None:
        self.source = source

    def run(self, script: str, *argv: str, folder: Path | None = None, **environment: str) -> Any:
        """Run a script with this version, and return the JSON that it prints."""
        argv = (sys.executable, "-c", script, *argv)
        environment = {**self._environment(folder), **environment}
        done = subprocess.run(argv, env=environment, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def serve(self) -> Iterator[Served]:
        """Run this version's server over a new store, by TCP and by a Unix socket."""
        with TemporaryDirectory(prefix="postroom-") as folder:  # a Unix socket has a short path
            place = Path(folder) / "coord.db"
            self.run(COMMAND, "init", "--json", "--db", str(place), folder=Path(folder))
            flags = ["serve", "--json", "--port", "0", "--rate", "1000000", "--uds", str(Path(folder) / "s"), "--db", str(place)]
            argv = [sys.executable, "-c", COMMAND, *flags]
            with subprocess.Popen(argv, env=self._environment(Path(folder)), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
                try:
                    assert process.stdout is not None
                    yield Served(json.loads(process.stdout.readline()), place, process.pid)
                finally:
                    process.send_signal(signal.SIGTERM)
                    process.wait(LIMIT)

    def _environment(self, home: Path | None) -> dict[str, str]:
        """The environment of a process. A server keeps its token below HOME, so that must not be the source tree."""
        assert (self.source / "postroom").is_dir()
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.source), "LANG": "C.UTF-8", "HOME": str(home or gettempdir())}


def current() -> Release:
    return Release(ROOT / "src")


def earlier(commit: str, folder: Path) -> Release:
    """The version of an earlier commit. A clone without that commit skips the test, but not in CI."""
    done = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        assert not os.environ.get("CI"), f"commit {commit} is not in this clone: fetch the whole history"
        pytest.skip(f"commit {commit} is not in this clone")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Release(folder / "src")


def edited(folder: Path, **fields: str) -> Release:
    """This version, with a field more in each of these records."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for record, field in fields.items():
        head = f"class {record}("
        (file,) = [path for path in (folder / "src").rglob("*.py") if head in path.read_text()]
        before, found, after = file.read_text().partition(head)
        document, separator, body = after.partition('"""\n\n')
        own, end, rest = body.partition("\n\n")  # the fields end with an empty line
        file.write_text(before + found + document + separator + f"{own}\n    {field}" + end + rest)
    return Release(folder / "src")
