"""A real PgBouncer in front of a server of ours, from the machine or from the packages that the Makefile unpacks."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.cli.process import LIMIT, eventually
from tests.postgres_server import Postgres

PACKAGES = Path(sys.executable).parent.parent / "pgbouncer"
CONFIGURATION = """
[databases]
postgres = host={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
logfile = {folder}/log
pidfile = {folder}/pid
"""


def find_program() -> str | None:
    """Return the path of the program, or None if the machine has none and the Makefile could not fetch it."""
    fetched = PACKAGES / "usr" / "sbin" / "pgbouncer"
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or (str(fetched) if fetched.exists() else None)


class PgBouncer:
    """A running pooler. It runs as the user of the server, whose socket nobody else may open."""

    def __init__(self, program: str, server: Postgres, *, mode: str, sessions: int = 20) -> None:
        folder = server.data.parent / f"pgbouncer-{mode}"
        folder.mkdir()
        shutil.chown(folder, server.data.owner(), server.data.group())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        text = CONFIGURATION.format(server=server.data, port=self.port, mode=mode, folder=folder, sessions=sessions)
        (folder / "pgbouncer.ini").write_text(text)
        self.log = folder / "log"
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, PACKAGES.glob("usr/lib/*")))}
        self._process = subprocess.Popen(
            [program, "-q", str(folder / "pgbouncer.ini")],
            user=server.data.owner(),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda: self._process.poll() is not None or self._answers())
        assert self._process.poll() is None, self.log.read_text() if self.log.exists() else "it ended at once"

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def at(self, schema: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable&schema={schema}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(LIMIT)
