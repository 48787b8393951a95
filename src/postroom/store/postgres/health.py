"""Checks of a database server, for `inbox doctor`. They change nothing."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records.health import FAIL, OK, WARN, Finding
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import Error, map_error, open_connection

MAX_SKEW_SECONDS = 5.0
SETTINGS = "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('server_version')"
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"


def examine_server(location: str) -> list[Finding]:
    """Run all checks and return their findings."""
    address = parse_url(location)
    connection = open_connection(address)
    try:
        [(commit, fsync, version)] = connection.execute(SETTINGS).fetchall()
        before = clock.now()
        [(there,)] = connection.execute(NOW).fetchall()
        here = (before + clock.now()) // 2
    except Error as error:
        raise map_error(error, address.shown) from None
    finally:
        connection.close()
    return [Finding("database", OK, f"PostgreSQL {version} answers"), _examine_durability(commit, fsync), _examine_clock(there - here)]


def _examine_durability(commit: str, fsync: str) -> Finding:
    wrong = [f"{name} is off" for name, value in (("synchronous_commit", commit), ("fsync", fsync)) if value == "off"]
    if not wrong:
        return Finding("durability", OK, f"synchronous_commit is {commit}")
    why = "A crash of the server loses what was accepted."
    return Finding("durability", FAIL, " and ".join(wrong), why, "ALTER SYSTEM SET synchronous_commit = on (and fsync), then reload.")


def _examine_clock(skew: int) -> Finding:
    seconds = skew / clock.MICROSECONDS_PER_SECOND
    said = f"{seconds:+.1f} s from this machine's"
    if abs(seconds) <= MAX_SKEW_SECONDS:
        return Finding("clock", OK, said)
    return Finding("clock", WARN, said, "Ages and deadlines look wrong here.", "Correct the clock that is wrong.")
