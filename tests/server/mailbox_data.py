"""The rooms beside the inbox, as their tests begin. Made by the library: it is faster than a process, and the server hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import postroom
from postroom import mail
from postroom.store.interface import Store
from tests.server.running_server import RunningServer

STRANGE = ["a/b", "a%2Fb", "100 %", "%", "?x=1&y", "#top", "Größe ☃ 漢字", "a+b", "a;b=c", "~", "..x", "-", "'\"<>", "\\", "x" * 200]


@contextmanager
def opened(server: RunningServer) -> Iterator[Store]:
    with closing(postroom.open(server.place)) as store:
        yield store


def part(name: str) -> str:
    """A name as one part of a path, as a page writes it."""
    return quote(name, safe="!'()*~")


def dead_letter(store: Store, session: str, payload: str = "Hello", **extra: Any) -> str:
    """A message that nobody could take; its id."""
    mail.set_policy(store, session, max_retries=0)
    msg_id: str = mail.enqueue(store, {"from": "leader", "to": session, "payload": payload, **extra}).msg_id
    while (delivery := mail.dequeue(store, session)) is not None and delivery.message.msg_id != msg_id:
        mail.nack(store, session, delivery.message.msg_id, reason="in the way")
    mail.nack(store, session, msg_id, reason="no such file")
    return msg_id
