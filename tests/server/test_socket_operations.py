"""All operations of document 004 over the WebSocket of a mailbox, in the spellings that the document allows."""

from __future__ import annotations

import json
from itertools import count

import pytest

from postroom import mail
from tests.server.mailbox_data import dead_letter, opened
from tests.server.running_server import RunningServer
from tests.server.wires import wired

SESSIONS = count(1)


@pytest.fixture
def session() -> str:
    """A mailbox that no other test knows."""
    return f"operations-{next(SESSIONS)}"


def test_the_owner_peeks_and_purges_over_its_socket(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        dead = [dead_letter(store, session, big=2**70) for _ in range(3)]
        for number in range(3):
            mail.enqueue(store, {"from": "leader", "to": session, "payload": "x", "msg_id": f"{session}:{number}"})
    with wired(server, session) as wire:
        page = wire.ok("peek", limit=2)
        assert ([one["msg_id"] for one in page["messages"]], page["total"], page["more"]) == ([f"{session}:0", f"{session}:1"], 3, True)
        assert wire.ok("peek", limit=2, after=page["after"])["messages"][0]["msg_id"] == f"{session}:2"
        letters = wire.ok("peek_dead_letter", limit=2)
        assert ([one["msg_id"] for one in letters["entries"]], letters["total"], letters["more"]) == (dead[:2], 3, True)
        assert wire.ok("purge_dead_letter", msg_id=dead[:1]) == {"purged": 1}
        assert wire.ok("purge_dead_letter", all=True) == {"purged": 2}
        assert wire.ok("purge") == {"purged": 3}


def test_field_names_in_camel_case_and_unknown_fields_are_accepted_in_every_frame(server: RunningServer, session: str) -> None:
    msg_id = f"{session}:1"
    with wired(server, session) as wire:
        wire.ok("credit", n=1, protocolVersion="1.0")
        wire.ok("enqueue", message={"to": session, "payload": "x", "msgId": msg_id}, protocol_version="1.0")
        token = wire.delivery()["delivery_token"]
        for said in ({"op": "extend", "somethingNew": 1}, {"op": "ack", "protocol_version": "1.0"}):
            wire.raw(json.dumps({**said, "msgId": msg_id, "deliveryToken": token}))
            assert wire.answer()["result"]["msg_id"] == msg_id
        wire.raw(json.dumps({"op": "peekDeadLetter"}))
        assert wire.answer()["result"]["entries"] == []


def test_answers_larger_than_what_may_be_left_unread_reach_their_reader(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        for _ in range(3):
            dead_letter(store, session, "x" * 700_000)
    with wired(server, session) as wire:
        for number in range(3):
            wire.raw(json.dumps({"op": "peek_dead_letter", "id": number}))
        assert [(answer["id"], len(answer["result"]["entries"])) for answer in (wire.answer() for _ in range(3))] == [
            (0, 3),
            (1, 3),
            (2, 3),
        ]
