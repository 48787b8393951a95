"""The roles of docs/guides/more-than-one-machine.md: its block is pasted as one, and the agents can do their work with what it grants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import Refusal
from tests.house.tree import ROOT
from tests.postgres_server import Postgres

GUIDE = ROOT / "docs" / "guides" / "more-than-one-machine.md"


@pytest.fixture
def name(postgres: Postgres) -> Iterator[str]:
    """A database of its own, and the beginning of the names of its roles."""
    name = f"r_{uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        connection.execute(f"DROP ROLE IF EXISTS {name}_owner, {name}_agent".encode())


def test_the_roles_of_the_guide_suffice_and_agents_cannot_change_tables(postgres: Postgres, name: str) -> None:
    (block,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    administrator = urlsplit(postgres.url)._replace(path=f"/{name}")
    with psycopg.connect(urlunsplit(administrator)) as connection:
        connection.execute(block.replace("DATABASE work", f"DATABASE {name}").replace("inbox_", f"{name}_").encode())
    owner, agent = (
        urlunsplit(administrator._replace(netloc=f"{name}_{role}@{administrator.netloc.rpartition('@')[2]}")) for role in ("owner", "agent")
    )
    postroom.init(owner)
    with postroom.open(agent) as store:
        thread = work.send(store, sender="leader", to="ada", subject="Add the login page").thread
        work.claim(store, thread.thread_id, agent="ada")
        assert work.done(store, thread.thread_id, agent="ada", summary="added").thread.status == "done"
        mail.enqueue(store, {"from": "leader", "to": "ada", "payload": "x"})
        assert mail.dequeue(store, "ada") is not None
    with psycopg.connect(agent) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("ALTER TABLE postroom.threads ADD COLUMN x int")
    with pytest.raises(Refusal):
        postroom.init(f"{agent}&schema=another")
