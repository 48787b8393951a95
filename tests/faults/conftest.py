"""Fixtures for fault tests on a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres_server import Postgres


@pytest.fixture
def watcher(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """A connection that is not ours, to look from and to end others."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        yield connection
