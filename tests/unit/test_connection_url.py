"""URLs of PostgreSQL: a server on another machine is reached over TLS, unless the user decides otherwise."""

from __future__ import annotations

import pytest

from postroom.store.postgres.connection_url import parse_url

REMOTE = [
    "postgresql://ann@db.example/work",
    "postgresql://ann:pw@192.0.2.7:5432/work",
    "postgresql://ann@[2001:db8::1]:5432/work",
    "postgresql:///work?host=db.example",
    "postgresql://ann@localhost,db.example/work",
]
LOCAL = [
    "postgresql:///work",
    "postgresql://ann@/work?host=/run/postgresql",
    "postgresql://%2Frun%2Fpostgresql/work",
    "postgresql://ann@localhost:5433/work",
    "postgresql://ann@127.0.0.1/work",
    "postgresql://ann@[::1]:5432/work",
]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("url", REMOTE)
def test_another_machine_needs_tls(url: str) -> None:
    assert "sslmode=require" in parse_url(url).url
    assert "sslmode" not in parse_url(url).shown


@pytest.mark.parametrize("url", LOCAL)
def test_this_machine_does_not(url: str) -> None:
    assert "sslmode" not in parse_url(url).url


def test_the_url_and_the_environment_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_url("postgresql://db.example/work?sslmode=disable").url.endswith("?sslmode=disable")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert "sslmode" not in parse_url("postgresql://db.example/work").url


def test_a_host_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    assert "sslmode=require" in parse_url("postgresql:///work").url
