"""A server that is fuzzed, and the check that a refusal changed nothing in its store."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from postroom.core.verbs import WAIT
from postroom.server.rpc.calls import signature_of
from postroom.server.rpc.dispatch import routing_table
from tests.fuzz.hostile_input import JUNK, TEXTS, VALUES, encode
from tests.server_in_thread import ServerInThread

FEW, MANY = 30, 1500
CASES = pytest.mark.parametrize("cases", [FEW, pytest.param(MANY, marks=(pytest.mark.fuzz, pytest.mark.timeout(900)))])
# Written by the server beside calls: when a pass was last used, and how far it has read and summarised the events.
BACKGROUND_TABLES = {"passes", "cursors", "event_topics"}
Rows = dict[str, list[tuple[Any, ...]]]


MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


MESSAGE = {"from": "leader", "to": "builder", "payload": "Hello"}
# Arguments that most verbs accept, so that a hostile one beside them gets as far as it can.
PLAIN_VALUES: dict[str, Any] = {
    "agent": "builder",
    "sender": "leader",
    "to": "builder",
    "person": "user",
    "subject": "S",
    "thread_id": "T1",
    "session": "builder",
    "summary": "Half",
    "text": "Done",
    "question": "Ship it?",
    "message": MESSAGE,
    "messages": [MESSAGE],
    "source_agent": "leader",
}


def hostile_calls() -> st.SearchStrategy[tuple[str, bytes]]:
    """A verb, and the body of a call of it."""

    def body_of(verb: str) -> st.SearchStrategy[tuple[str, bytes]]:
        names = sorted(signature_of(routing_table()[verb]).names)
        named = st.dictionaries(st.sampled_from(names) if names else TEXTS, VALUES, max_size=len(names) or 1)
        plain = {name: PLAIN_VALUES.get(name, "x") for name in signature_of(routing_table()[verb]).required}
        named = st.one_of(
            named, st.builds(lambda given: {**plain, **given}, st.dictionaries(st.sampled_from(names or ["x"]), VALUES, max_size=2))
        )
        junk, values = JUNK, VALUES
        if routing_table()[verb].mode == WAIT:  # a valid wait is short. Without arguments, it takes as long as a request may
            named = st.builds(lambda given, time: {**given, "timeout_seconds": time}, named, st.sampled_from([0.001, 0.01, -1, "x", None]))
            junk, values = JUNK.filter(bool), VALUES.filter(lambda value: not isinstance(value, dict))
        body = st.one_of(junk, st.builds(lambda named: encode({"named": named}), named), st.builds(encode, values))
        return st.tuples(st.just(verb), body)

    return st.sampled_from(sorted(routing_table())).flatmap(body_of)


class Watched:
    """The rows of a store. They are read again only after a commit, because reading them costs more than a call."""

    def __init__(self, place: str) -> None:
        self._connection = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
        self._version = self._data_version()
        self._rows = self._read_rows()

    def note(self) -> None:
        """Take the rows as they are: a call was accepted."""
        if self._has_changed():
            self._rows = self._read_rows()

    def assert_unchanged(self, refused: object) -> None:
        """Fail if there are other rows than after the last accepted call."""
        if not self._has_changed():
            return
        before, self._rows = self._rows, self._read_rows()
        changed = {name for name, rows in self._rows.items() if rows != before.get(name)}
        assert not changed, (changed, refused)

    def is_empty(self, table: str) -> bool:
        """Return whether a table has no row."""
        return self._connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is None

    def close(self) -> None:
        self._connection.close()

    def _data_version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _has_changed(self) -> bool:
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _read_rows(self) -> Rows:
        tables = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
        names = sorted({name for (name,) in tables} - BACKGROUND_TABLES)
        return {name: self._connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


class Door:
    """A server over a store of its own."""

    def __init__(self, relay: ServerInThread, workspace: str, place: str) -> None:
        self.relay = relay
        self.workspace = workspace
        self.http = httpx.Client(base_url=relay.url("http"), timeout=20, verify=False)
        self.watched = Watched(place)

    def ask(self, method: str, path: str, *, client: httpx.Client | None = None, **more: Any) -> httpx.Response:
        answer = (client or self.http).request(method, path, **more)
        assert answer.status_code < 500, (method, path, answer.text[:300])
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        if answer.status_code >= 400 and is_json and "/mcp/" not in path:
            assert answer.json()["error"]["code"]
        if answer.status_code >= 400 or '"isError":true' in answer.text[-40:]:  # the refusal of a tool
            self.watched.assert_unchanged((method, path, more, answer.text[:300]))
        else:
            self.watched.note()
        return answer

    def connect(self, path: str, protocol: str) -> ClientConnection:
        return connect(self.relay.url("ws") + path, subprotocols=[Subprotocol(protocol)], open_timeout=20)

    def close(self) -> None:
        self.http.close()
        self.watched.close()


def refused_frame(answer: dict[str, Any]) -> bool:
    """Return whether a frame of the server refuses the one before."""
    return answer.get("op") in ("error", "refused") or "error" in answer


def parse(text: str | bytes) -> dict[str, Any]:
    answer = json.loads(text)
    assert isinstance(answer, dict)
    return answer
