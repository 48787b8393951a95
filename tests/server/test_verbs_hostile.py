"""Verbs over the network: what cannot be said is refused, and nobody says so much that others cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

import postroom
from postroom import mail, work
from postroom.core.limits import MAX_WAITS_PER_AGENT
from postroom.core.records.work import Lease
from postroom.server.rpc.websocket import MAX_WAITS
from tests.cli.process import LIMIT
from tests.server.running_server import RunningServer, refusal
from tests.server.verb_calls import TokenAgent, post_verb, say
from tests.server.wires import VerbSocketClient, error_of, speaking

# Calls that are refused


@pytest.mark.parametrize(
    "verb", ["mail.burn", "mail", ".", "", "mail.", "enqueue", "os.system", "mail.enqueue.x", "people.fold", "%00", "é"]
)
def test_an_unknown_verb_is_not_found(server: RunningServer, verb: str) -> None:
    refusal(say(server.person, verb), 404, "not_found")


WRONG: list[tuple[str, list[object], dict[str, object]]] = [
    ("mail.dequeue", [], {}),
    ("mail.dequeue", ["a", "b"], {}),
    ("mail.dequeue", ["a"], {"session": "a"}),
    ("mail.dequeue", ["a"], {"store": "x"}),
    ("mail.dequeue", ["a"], {"self": "x"}),
    ("mail.dequeue", [["a"]], {}),
    ("mail.dequeue", [{"a": 1}], {}),
    ("mail.dequeue", [None], {}),
    ("mail.peek", ["a"], {"limit": "many"}),
    ("mail.peek", ["a"], {"limit": None}),
    ("mail.peek", ["a"], {"limit": [1]}),
    ("mail.peek", ["a"], {"limit": 10**30}),
    ("mail.peek", ["a"], {"limit": 1.5}),
    ("mail.wait", ["a"], {"timeout_seconds": "long"}),
    ("mail.wait", ["a"], {"timeout_seconds": -1}),
    ("mail.wait", ["a"], {"timeout_seconds": [1]}),
    ("mail.wait", ["a"], {"timeout_seconds": 10**30}),
    ("mail.wait", ["a"], {"timeout_seconds": {"~": "float", "items": ["nan"]}}),
    ("mail.enqueue", ["text"], {}),
    ("mail.enqueue", [[]], {}),
    ("mail.enqueue_all", [7], {}),
    ("mail.enqueue_all", [{"from": "a"}], {}),
    ("work.send", [], {"sender": 7, "to": "b", "subject": "S"}),
    ("work.send", [], {"sender": "a", "to": "b", "subject": "S", "artifacts": ["a.md"]}),
    ("work.send", [], {"sender": "a", "to": "b", "subject": "S", "artifacts": 7}),
    ("work.list_threads", [], {"statuses": 7}),
    ("work.wait_reply", ["thr_x"], {"kinds": 7, "timeout_seconds": 0.01}),
    ("work.watch", [], {"after_event": "x", "timeout_seconds": 0.01}),
    ("people.history", [], {"limit": {}}),
]


@pytest.mark.parametrize(("verb", "args", "named"), WRONG, ids=repr)
def test_wrong_arguments_are_refused(server: RunningServer, verb: str, args: list[object], named: dict[str, object]) -> None:
    refusal(post_verb(server.person, verb, json.dumps({"args": args, "named": named}).encode()), 400, "invalid_input")


LEASE = {"~": "Lease", **dict.fromkeys(Lease.__fields__, "x")}
BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b'{"args": {}}',
    b'{"named": []}',
    b'{"args": "x"}',
    b'{"more": 1}',
    b'{"args": [NaN]}',
    b'{"args": ["\xff"]}',
    b'{"args": ["a"]} {}',
    b'{"args": [{"~": 1}]}',
    b'{"args": [{"~": "os.system", "items": ["true"]}]}',
    b'{"args": [{"~": "dict", "items": [[{}, 1]]}]}',
    b'{"named": {"~": "list", "items": []}}',
    b'{"named": {"~": "dict", "items": [[1, 2]]}}',
    b'{"args": ' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"args": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"args": ' + b'[{"~": "list", "items": ' * 300 + b"[]" + b"}]" * 300 + b"}",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
def test_a_broken_body_is_refused(server: RunningServer, body: bytes) -> None:
    refusal(post_verb(server.person, "mail.dequeue", body), 400, "invalid_input")


def test_a_record_that_is_not_for_sending_is_refused(server: RunningServer) -> None:
    for held in (LEASE, [LEASE], {"a": LEASE}):
        refusal(say(server.person, "mail.enqueue", held), 400, "invalid_input")
        refusal(say(server.person, "mail.dequeue", session=held), 400, "invalid_input")


def test_a_body_without_end_is_refused(server: RunningServer) -> None:
    body = b'{"args": ["' + b"x" * (33 * 1024 * 1024) + b'"]}'
    refusal(post_verb(server.person, "mail.dequeue", body), 413, "too_large")


def test_other_sites_say_nothing(server: RunningServer) -> None:
    answer = post_verb(server.person, "mail.sessions", b"{}", Origin="http://evil.example")
    refusal(answer, 403, "forbidden")


# Too much at once


def test_who_says_too_much_pauses_and_goes_on(found: Callable[..., RunningServer]) -> None:
    """An iterator can be sent again, too."""
    server = found("--rate", "20").open()
    with closing(postroom.connect(server.url, token=server.ready["token"])) as store:
        sent = [
            enqueued.msg_id
            for number in range(60)
            for enqueued in mail.enqueue_all(store, ({"from": "leader", "to": "box", "payload": f"{number} {part}"} for part in "ab"))
        ]
    assert len(set(sent)) == 120
    assert server.close() == 0


def _first_answer(wires: list[VerbSocketClient]) -> dict[str, Any]:
    answers: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def hear(wire: VerbSocketClient) -> None:
        with suppress(ConnectionClosed):  # as it will be
            answers.put(wire.answer())

    for wire in wires:
        Thread(target=hear, args=(wire,), daemon=True).start()
    return answers.get(timeout=LIMIT)


def test_one_agent_that_waits_often_leaves_room_for_others(own_server: RunningServer) -> None:
    """A message that is there already can be taken without a wait, for which there is always a place."""
    session, other = TokenAgent(own_server), TokenAgent(own_server)
    with ExitStack() as stack:
        wires = [stack.enter_context(speaking(own_server, session.token)) for _ in range(MAX_WAITS_PER_AGENT // MAX_WAITS + 1)]
        for number in range(MAX_WAITS_PER_AGENT + 1):
            wires[number // MAX_WAITS].verb("mail.wait", session=session.name, timeout_seconds=LIMIT)
        assert error_of(_first_answer(wires))["code"] == "too_many"  # to one of them
        mail.enqueue(other.store, {"from": other.name, "to": other.name, "payload": "There"})
        taken = mail.wait(other.store, other.name, timeout_seconds=LIMIT)
        assert taken is not None
        thread = work.send(other.store, sender=other.name, to=session.name, subject="There").thread
        claim = work.wait_take(session.store, agent=session.name, timeout_seconds=10)
        assert claim is not None
        assert claim.thread.thread_id == thread.thread_id
