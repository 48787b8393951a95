"""Parsing of `postgresql://user@host/db?schema=name` into the driver's URL, the schema, and a text without the password."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.store.location import shown_location

SCHEMES = ("postgresql", "postgres")


class ConnectionUrl(Record):
    """The location of a store. `shown` is the URL for messages, without the password."""

    url: str
    schema: str
    shown: str


def parse_url(location: str) -> ConnectionUrl:
    """Parse a location. Refuses one that is not a URL, and a schema name that would need quotes in SQL."""
    try:
        parts = urlsplit(location)
    except ValueError:
        raise malformed_url(shown_location(location)) from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", "postroom")
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema):
        raise InvalidInput(f"the schema cannot be called {schema!r}", field="db", hint="Use lower-case letters, digits and underscores.")
    if "sslmode" not in query and not os.environ.get("PGSSLMODE") and not _is_on_this_machine(parts.netloc, query):
        query["sslmode"] = "require"  # passwords and messages would cross the network in clear text
    url = urlunsplit(parts._replace(query=urlencode(query)))
    return ConnectionUrl(url, schema, shown_location(location))


def _is_on_this_machine(netloc: str, query: dict[str, str]) -> bool:
    """Return whether all servers of a URL are on this machine: local sockets and loopback addresses. A service file decides for itself."""
    hosts = (
        query.get("hostaddr") or query.get("host") or netloc.rpartition("@")[2] or os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST")
    )
    return "service" in query or all(_is_local_host(unquote(host)) for host in (hosts or "").split(","))


def _is_local_host(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host if host.count(":") > 1 else host.partition(":")[0]
    return name in ("", "localhost", "::1") or name.startswith(("/", "@", "127."))


def malformed_url(shown: str) -> InvalidInput:
    """Return the refusal of a URL. The driver's own message may quote a part of the password."""
    return InvalidInput(
        f"{shown} is not a URL that PostgreSQL knows",
        field="db",
        hint="Check its parameters, and quote marks in a password: @ is %40, / is %2F.",
    )
