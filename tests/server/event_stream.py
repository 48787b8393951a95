"""Server-sent events, read as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

from tests.cli.process import LIMIT


class StreamedEvent(NamedTuple):
    """One event, as it came over the wire."""

    id: str
    type: str
    data: dict[str, Any]


class EventStream:
    """A stream of events. To ask for the next one waits for it, with a bound."""

    def __init__(self, response: httpx.Response) -> None:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        self.response = response
        self._lines = self._read()
        assert next(self._lines) == ": connected"

    def _read(self) -> Iterator[str]:
        rest = b""
        for part in self.response.iter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield line.removesuffix(b"\r").decode()

    def events(self) -> Iterator[StreamedEvent]:
        """Every event until the server ends the stream."""
        fields: dict[str, str] = {}
        deadline = time.monotonic() + LIMIT
        for line in self._lines:
            assert time.monotonic() < deadline, "what was waited for never came"
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(":")
                fields[name] = fields[name] + "\n" + value.removeprefix(" ") if name in fields else value.removeprefix(" ")
            elif fields:
                yield StreamedEvent(fields.get("id", ""), fields.get("event", "message"), json.loads(fields.get("data") or "{}"))
                fields = {}

    def next(self) -> StreamedEvent:
        for heard in self.events():
            return heard
        raise AssertionError("the stream has ended")

    def until(self, kind: str, **facts: str) -> StreamedEvent:
        """The next event of a type that holds these facts; others are passed over."""
        for heard in self.events():
            if heard.type == kind and all(heard.data.get(name) == value for name, value in facts.items()):
                return heard
        raise AssertionError(f"the stream has ended before {kind}")

    def take(self, number: int) -> list[StreamedEvent]:
        return [self.next() for _ in range(number)]
