"""Verbs over a WebSocket, and `connect("ws://…")`, which says them so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import Forbidden, InvalidInput, StoreUnreachable, TooMany, Unauthenticated
from postroom.core.limits import MAX_CALLS_PER_SOCKET
from postroom.core.rpc.wire import VERB_PROTOCOL
from postroom.server.rpc.websocket import MAX_WAITS
from postroom.server.ws.frames import MAX_MALFORMED_FRAMES
from postroom.store.interface import Store
from tests.cli.process import LIMIT, eventually
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer
from tests.server.verb_calls import say
from tests.server.wires import VerbSocketClient, error_of, speaking, unwelcome

Found = Callable[..., RunningServer]
NAMES = count(1)


@pytest.fixture
def box() -> str:
    """A mailbox that nobody else uses."""
    return f"spoken-{next(NAMES)}"


def _token(server: RunningServer, name: str) -> str:
    token: str = server.inbox.ok("agent", "token", name)["token"]
    return token


@contextmanager
def _afar(server: RunningServer, token: str | None = None, wire: str = "ws") -> Iterator[Store]:
    """The store behind the server, as the library has it."""
    url = server.url.replace("http", wire, 1)
    with closing(postroom.connect(url, token=server.ready["token"] if token is None else token)) as store:
        yield store


def _states(server: RunningServer, box: str) -> list[str]:
    with opened(server) as store:
        return [message.state for message in mail.peek(store, box).messages]


# Said, and answered


def test_a_verb_is_said_and_its_result_comes_back(server: RunningServer, box: str) -> None:
    with speaking(server) as wire:
        wire.does("mail.enqueue", message={"from": "leader", "to": box, "payload": "Hello"})
        over_http = say(server.person, "mail.peek", session=box).json()["result"]
        assert wire.does("mail.peek", session=box) == over_http
        assert wire.ok("call", verb="mail.peek", args=[box]) == over_http
        assert wire.ok("ping") is None


def test_a_verb_that_waits_holds_up_no_other(server: RunningServer, box: str) -> None:
    with speaking(server) as wire:
        waits = wire.verb("mail.wait", session=box, receiver="builder", timeout_seconds=LIMIT)
        sends = wire.verb("mail.enqueue", message={"from": "leader", "to": box, "payload": "Hello"})
        answers = {answer["id"]: answer for answer in (wire.answer(), wire.answer())}
        assert {answers[waits]["op"], answers[sends]["op"]} == {"result"}
        assert "Hello" in str(answers[waits]["result"])


def test_the_same_key_is_done_once_also_on_another_socket(server: RunningServer, box: str) -> None:
    given: dict[str, Any] = {"verb": "mail.enqueue", "key": f"key of {box}", "named": {"message": {"from": "a", "to": box, "payload": ""}}}
    with speaking(server) as wire:
        first = wire.ok("call", **given)
        assert wire.ok("call", **given) == first
    with speaking(server) as wire:
        assert wire.ok("call", **given) == first
    assert _states(server, box) == ["pending"]


def test_what_was_said_before_a_farewell_is_done(server: RunningServer, box: str) -> None:
    """More than are done at once, and nobody reads the answers."""
    many = 3 * MAX_CALLS_PER_SOCKET
    with speaking(server) as wire:
        for number in range(many):
            wire.verb("mail.enqueue", message={"from": "leader", "to": box, "payload": str(number)})
    eventually(lambda: len(_states(server, box)) == many)


def test_what_is_waited_for_is_not_taken_for_who_has_left(server: RunningServer, box: str) -> None:
    with speaking(server) as wire:
        wire.verb("mail.wait", session=box, receiver="builder", timeout_seconds=LIMIT)
        assert wire.does("mail.peek", session=box)
    with speaking(server) as wire:
        wire.does("mail.enqueue", message={"from": "leader", "to": box, "payload": "For whoever is there"})
        taken = wire.does("mail.wait", session=box, receiver="builder", timeout_seconds=LIMIT)
        assert "For whoever is there" in str(taken)


def test_so_many_may_wait_on_one_socket_that_others_are_still_done(server: RunningServer, box: str) -> None:
    with speaking(server) as wire:
        for _ in range(MAX_WAITS):
            wire.verb("mail.wait", session=box, receiver="builder", timeout_seconds=LIMIT)
        one_more = wire.verb("mail.wait", session=box, receiver="builder", timeout_seconds=LIMIT)
        answer = wire.answer()
        assert (answer["id"], error_of(answer)["code"]) == (one_more, "too_many")
        assert wire.does("mail.peek", session=f"{box}-other")


def test_who_is_interrupted_while_waiting_takes_nothing_more(server: RunningServer, box: str) -> None:
    class Interruption(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with _afar(server) as store:
            assert mail.peek(store, box).messages == ()
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(Interruption):
                mail.wait(store, box, receiver=box, timeout_seconds=LIMIT)
        server.mailbox.enqueue("For whoever is there", to=box)
        with _afar(server) as store:
            taken = mail.wait(store, box, receiver=box, timeout_seconds=20)
            assert taken is not None
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_store_that_nobody_has_any_more_keeps_no_seat(found: Found, box: str) -> None:
    server = found("--max-sockets", "1").open()
    url, token = server.url.replace("http", "ws", 1), server.ready["token"]
    for _ in range(3):
        eventually(lambda: _peeked(url, token, box))
    assert server.close() == 0


def _peeked(url: str, token: str, box: str) -> bool:
    """By a store that is forgotten, and not closed."""
    try:
        return mail.peek(postroom.connect(url, token=token), box).messages == ()
    except TooMany:  # the one before has not left yet
        return False


# Refused


def test_a_verb_that_refuses_leaves_the_socket_open(server: RunningServer) -> None:
    with speaking(server) as wire:
        for _ in range(MAX_MALFORMED_FRAMES + 1):
            error = wire.refused("call", verb="mail.dequeue", named={"session": ""})
        assert error["code"] == "invalid_input"
        assert wire.refused("call", verb="mail.burn")["code"] == "not_found"
        assert wire.refused("call", verb="people.issue_bearer", named={"person": "user"})["code"] == "forbidden"
        wire.raw(json.dumps({"op": "call", "verb": "mail.peek", "named": {"session": "x"}, "key": "k" * 201}))
        assert error_of(wire.answer())["field"] == "key"


@pytest.mark.parametrize(
    "frame", ["[]", "{", '{"op":"credit","n":1}', '{"op":"call"}', '{"op":"call","verb":"mail.peek","named":[]}', '{"op":"ok","id":1}']
)
def test_frames_that_make_no_sense_are_refused_and_then_the_socket_closed(server: RunningServer, frame: str) -> None:
    with speaking(server) as wire:
        for _ in range(MAX_MALFORMED_FRAMES):
            wire.raw(frame)
        came, code = wire.last()
        assert {error_of(answer)["code"] for answer in came} == {"invalid_input"}
        assert (len(came), code) == (MAX_MALFORMED_FRAMES, 1008)


@pytest.mark.parametrize(("frame", "code"), [(b"\0", 1003), ("x" * (1 << 20), 1009)], ids=["binary", "a megabyte"])
def test_what_is_no_frame_closes_the_socket(server: RunningServer, frame: str | bytes, code: int) -> None:
    with speaking(server) as wire, speaking(server) as other:
        wire.raw(frame)
        assert wire.last() == ([], code)
        assert other.ok("ping") is None


def test_strangers_are_refused_before_the_upgrade(server: RunningServer) -> None:
    url = f"{server.url.replace('http', 'ws', 1)}/api/verbs"
    unwelcome(server, "", 401, "unauthenticated", token="", url=url, subprotocols=[VERB_PROTOCOL])
    unwelcome(server, "", 401, "unauthenticated", token="prw_guess", url=url, subprotocols=[VERB_PROTOCOL])


def test_an_agent_says_what_an_agent_may(server: RunningServer, box: str) -> None:
    with speaking(server, _token(server, box)) as wire:
        assert wire.does("mail.peek", session=box)
        assert wire.refused("call", verb="mail.peek", named={"session": "another"})["code"] == "forbidden"
        assert wire.refused("call", verb="mail.sessions", named={})["code"] == "forbidden"


def test_a_verb_after_its_token_was_revoked_is_not_done(server: RunningServer, box: str) -> None:
    with speaking(server, _token(server, box)) as wire:
        assert wire.ok("ping") is None
        server.inbox.ok("agent", "token", box, "--revoke")
        wire.verb("mail.enqueue", message={"from": box, "to": "victim", "payload": "Too late"})
        came, code = wire.last()
        assert ([error_of(answer)["code"] for answer in came], code) == (["unauthenticated"], 1008)
    assert _states(server, "victim") == []


WAITS: dict[str, Callable[[Store, str], object]] = {
    "mail": lambda store, name: mail.wait(store, name, receiver=name, timeout_seconds=LIMIT),
    "work": lambda store, name: work.wait_take(store, agent=name, timeout_seconds=LIMIT),
    "watch": lambda store, name: work.watch(store, agent=name, timeout_seconds=LIMIT),
}


@pytest.mark.parametrize("wire", ["http", "ws"])
@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
def test_who_waits_when_its_token_is_revoked_gets_nothing_more(
    own_server: RunningServer, box: str, wire: str, waits: Callable[[Store, str], object]
) -> None:
    """On a server of its own: on that of other tests there may be work that was left, and that anybody may take."""
    with _afar(own_server, _token(own_server, box), wire) as store, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(waits, store, box)
        own_server.inbox.ok("agent", "token", box, "--revoke")
        own_server.mailbox.enqueue("Too late", to=box)
        own_server.inbox.ok("send", "--from", "leader", "--to", box, "--subject", "Too late")
        with pytest.raises(Unauthenticated):
            waiting.result(LIMIT)
    assert _states(own_server, box) == ["pending"]
    assert own_server.inbox.ok("list", "--assigned-to", box)["threads"][0]["status"] == "pending"


# The library


def test_a_store_over_a_socket_is_over_a_socket(found: Found, box: str) -> None:
    server = found("--max-sockets", "1").open()
    with _afar(server) as store:
        assert mail.enqueue(store, {"from": "leader", "to": box, "payload": "Hello"}).queued
        with _afar(server) as another, pytest.raises(TooMany):
            mail.peek(another, box)
        assert len(mail.peek(store, box).messages) == 1
    with _afar(server) as store:
        eventually(lambda: _peeks(store, box))
    assert server.close() == 0


def _peeks(store: Store, box: str) -> bool:
    try:
        return bool(mail.peek(store, box).messages)
    except TooMany:  # the one before has not left yet
        return False


def test_what_is_too_long_for_a_frame_gets_there_and_back(server: RunningServer, box: str) -> None:
    payload = "é" * (1 << 20)
    with _afar(server) as store:
        mail.enqueue(store, {"from": "leader", "to": box, "payload": payload})
        taken = mail.dequeue(store, box, receiver=box)
        assert taken is not None
        assert taken.message.payload == payload


def test_a_store_over_a_socket_refuses_alike(server: RunningServer, box: str) -> None:
    with _afar(server, "prw_guess") as store, pytest.raises(Unauthenticated) as refused:
        mail.peek(store, box)
    assert "INBOX_TOKEN" in refused.value.hint
    with _afar(server, _token(server, box)) as store:
        with pytest.raises(Forbidden):
            mail.peek(store, "another")
        with pytest.raises(InvalidInput) as wrong:
            mail.extend(store, box, "m", seconds=-1)
        assert wrong.value.facts["field"] == "seconds"


@pytest.mark.parametrize("wire", ["http", "ws"])
def test_a_thread_that_waits_holds_up_no_other_that_shares_its_store(server: RunningServer, box: str, wire: str) -> None:
    with _afar(server, wire=wire) as store, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(mail.wait, store, box, receiver=box, timeout_seconds=20)  # less than one turn on the server
        for number in range(3):
            mail.enqueue(store, {"from": "leader", "to": box, "payload": str(number)})
        taken = waiting.result(LIMIT)
        assert taken is not None
        assert taken.message.payload == "0"


def test_a_wait_over_a_socket_outlives_the_server(found: Found, box: str) -> None:
    server = found().open()
    port = server.url.rpartition(":")[2]
    with _afar(server) as store, ThreadPoolExecutor(1) as aside:
        assert mail.peek(store, box).messages == ()
        for end in (server.kill, server.close):
            waiting = aside.submit(mail.wait, store, box, receiver=box, timeout_seconds=LIMIT)
            end()
            server.mailbox.enqueue(f"After {end.__name__}", to=box)
            server.open("--port", port)
            taken = waiting.result(LIMIT)
            assert taken is not None
            assert taken.message.payload == f"After {end.__name__}"
            mail.ack(store, box, taken.message.msg_id)
    assert server.close() == 0


def test_a_server_that_is_away_is_away_over_a_socket_too(found: Found, box: str) -> None:
    server = found().open()
    with _afar(server) as store:
        assert mail.peek(store, box).messages == ()
        assert server.close() == 0
        with pytest.raises(StoreUnreachable):
            mail.peek(store, box)


def test_who_is_connected_is_told_goodbye(found: Found) -> None:
    server = found().open()
    with speaking(server) as wire:
        assert wire.ok("ping") is None
        assert server.close() == 0
        assert wire.last() == ([{"op": "goodbye"}], 1001)


# Clients that keep to no rules


def test_who_never_reads_is_not_served_for_ever_and_others_are(server: RunningServer, box: str) -> None:
    """Its verbs are held up, once it leaves so much unread; nobody else's are, and it costs no more than a few answers."""
    with opened(server) as store:
        mail.enqueue(store, {"from": "leader", "to": box, "payload": "x" * 200_000})
    with speaking(server, max_queue=1) as wire, speaking(server) as other:
        for _ in range(20 * MAX_CALLS_PER_SOCKET):
            wire.verb("mail.peek", session=box)
        other.does("mail.enqueue", message={"from": "leader", "to": f"{box}-other", "payload": "Hello"})
        _abandon(wire)
        assert other.does("mail.peek", session=f"{box}-other")


def _abandon(wire: VerbSocketClient) -> None:
    """Without a word."""
    wire.connection.socket.close()


PROGRAM = """import sys, postroom
from postroom import work
store = postroom.connect(sys.argv[1], token=sys.argv[2])  # at module level, and never closed
print(work.send(store, sender="user", to="ada", subject="Over a socket").thread.subject)
"""


def test_a_program_ends_although_it_never_closed_its_socket(server: RunningServer) -> None:
    url = server.url.replace("http", "ws", 1)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, server.ready["token"]], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Over a socket\n", "")
