"""Verbs as a client of HTTP says them, and agents who do."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx

import postroom
from postroom.store.port import Store
from tests.server.office import Office

NAMES = count(1)


def say(client: httpx.Client, verb: str, *args: object, once: str | None = None, **named: Any) -> httpx.Response:
    headers = {} if once is None else {"Idempotency-Key": once}
    return client.post(f"/api/verbs/{verb}", json={"args": args, "named": named}, headers=headers)


class Session:
    """An agent with a token of its name."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.name = f"session-{next(NAMES)}"
        self.token: str = office.inbox.ok("agent", "token", self.name)["token"]

    @property
    def http(self) -> httpx.Client:
        return self.office.client(self.token)

    @property
    def store(self) -> Store:
        return postroom.connect(self.office.url, token=self.token)
