"""Verbs as a client of HTTP says them, and agents who do."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import httpx

import postroom
from postroom.core.rpc.wire import CONTENT_TYPE
from postroom.store.interface import Store
from tests.server.running_server import RunningServer

NAMES = count(1)


def say(client: httpx.Client, verb: str, *args: object, once: str | None = None, **named: Any) -> httpx.Response:
    return post_verb(client, verb, json.dumps({"args": args, "named": named}).encode(), once=once)


def post_verb(client: httpx.Client, verb: str, body: bytes, *, once: str | None = None, **headers: str) -> httpx.Response:
    """A call as a client of this version sends it."""
    keyed = {} if once is None else {"Idempotency-Key": once}
    return client.post(f"/api/verbs/{verb}", content=body, headers={"Content-Type": CONTENT_TYPE, **keyed, **headers})


class TokenAgent:
    """An agent with a token of its name."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.name = f"session-{next(NAMES)}"
        self.token: str = server.inbox.ok("agent", "token", self.name)["token"]

    @property
    def http(self) -> httpx.Client:
        return self.server.client(self.token)

    @property
    def store(self) -> Store:
        return postroom.connect(self.server.url, token=self.token)
