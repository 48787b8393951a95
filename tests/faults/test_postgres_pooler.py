"""Behind PgBouncer: its session mode works, and its transaction mode, which loses what belongs to a session, is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import StorageFailure
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.listener import find_listener
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent
from tests.faults.pgbouncer import PACKAGES, PgBouncer, find_program
from tests.postgres_server import Postgres


@pytest.fixture
def program() -> str:
    """Under CI, PgBouncer must be there. Elsewhere the test is skipped with the reason for which `make test` could not fetch it."""
    if (found := find_program()) is not None:
        return found
    tried = PACKAGES / "tried"
    reason = tried.read_text(errors="replace").strip()[-200:] if tried.exists() else "run `make test` once to fetch it"
    assert not os.environ.get("CI"), f"under CI, pgbouncer must be there: {reason}"
    pytest.skip(f"pgbouncer could not be fetched: {reason}")


@pytest.fixture
def start(program: str, own_postgres: Postgres) -> Iterator[Callable[..., PgBouncer]]:
    started: list[PgBouncer] = []

    def make(**options: Any) -> PgBouncer:
        started.append(PgBouncer(program, own_postgres, **options))
        return started[-1]

    yield make
    for pooler in started:
        pooler.stop()


@pytest.mark.parametrize("sessions", [1, 20])
def test_transaction_mode_is_refused_before_anything_is_written(
    own_postgres: Postgres, start: Callable[..., PgBouncer], sessions: int
) -> None:
    pooler = start(mode="transaction", sessions=sessions)
    with pytest.raises(StorageFailure, match="pooler") as refused:
        postroom.init(pooler.at("pooled"))
    assert "pool_mode = session" in refused.value.hint
    with psycopg.connect(own_postgres.url) as connection:
        assert connection.execute("SELECT to_regnamespace('pooled')").fetchone() == (None,)
    postroom.init(own_postgres.at("pooled"))
    with pytest.raises(StorageFailure, match="pooler"):
        postroom.open(pooler.at("pooled"))
    with psycopg.connect(pooler.at("pooled").partition("&schema")[0]) as other:
        assert other.execute("SHOW search_path").fetchone() == ('"$user", public',)


def test_session_mode_works_and_wakes(own_postgres: Postgres, start: Callable[..., PgBouncer]) -> None:
    place = start(mode="session").at("pooled")
    postroom.init(place)
    woken: list[Any] = []
    with postroom.open(place) as store:
        waiter = threading.Thread(target=lambda: woken.append(mail.wait(store, "box", timeout_seconds=60)), daemon=True)
        waiter.start()
        assert eventually(lambda: len(find_listener(parse_url(place))._watches) == 1)
        with postroom.open(own_postgres.at("pooled")) as direct:
            mail.enqueue(direct, {"from": "lead", "to": "box", "payload": "x"})
        waiter.join(60)
        assert woken[0].message.payload == "x"
        assert work.show(store, sent(store)).thread.status == "pending"


def test_session_mode_with_a_single_session_works(own_postgres: Postgres, start: Callable[..., PgBouncer]) -> None:
    """The second connection, which would show that sessions are shared, gets none."""
    postroom.init(own_postgres.at("pooled"))
    with postroom.open(start(mode="session", sessions=1).at("pooled")) as store:
        assert work.show(store, sent(store)).thread.status == "pending"
