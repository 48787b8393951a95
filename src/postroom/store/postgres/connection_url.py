"""Parsing of `postgresql://user@host/db?schema=name` into the driver's URL, the schema, and a text without the password."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from postroom.core.errors import InvalidInput
from postroom.core.records import Record

SCHEMES = ("postgresql", "postgres")


class ConnectionUrl(Record):
    """The location of a store. `shown` is the URL for messages, without the password."""

    url: str
    schema: str
    shown: str


def parse_url(location: str) -> ConnectionUrl:
    """Parse a location. Refuses a schema name that would need quotes in SQL."""
    parts = urlsplit(location)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", "postroom")
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema):
        raise InvalidInput(f"the schema cannot be called {schema!r}", field="db", hint="Use lower-case letters, digits and underscores.")
    url = urlunsplit(parts._replace(query=urlencode(query)))
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    shown = urlunsplit(parts._replace(netloc=f"{user}{host}", query=urlencode({k: v for k, v in query.items() if k != "password"})))
    return ConnectionUrl(url, schema, shown + ("" if schema == "postroom" else f"{'&' if query else '?'}schema={schema}"))
