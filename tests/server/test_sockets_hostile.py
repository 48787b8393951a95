"""Clients of the mailbox's socket that are broken, slow or hostile: each is named or let go, and nobody else is disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from postroom import mail
from tests.cli.process import eventually
from tests.server.mailbox_data import opened, part
from tests.server.running_server import RunningServer
from tests.server.wires import (
    CLOSE,
    CONTINUED,
    PING,
    TEXT,
    RawConnection,
    SocketClient,
    code_in,
    error_of,
    frame,
    raw,
    wired,
)

Found = Callable[..., RunningServer]
SESSIONS = count(1)
MEBIBYTE = 1 << 20
FRAME = 32 * 1024 * 1024


@pytest.fixture
def session() -> str:
    return f"hostile-{next(SESSIONS)}"


@pytest.fixture
def guest(server: RunningServer) -> Iterator[SocketClient]:
    """Somebody else, who must be served whatever happens: before, meanwhile and after."""
    with wired(server, "guest") as wire:
        _is_served(server, wire)
        yield wire
        _is_served(server, wire)


def _is_served(server: RunningServer, wire: SocketClient) -> None:
    wire.ok("credit", n=1)
    with opened(server) as store:
        sent = mail.enqueue(store, {"from": "leader", "to": "guest", "payload": "Hello"}).msg_id
    assert wire.message()["msg_id"] == sent


def _memory(server: RunningServer) -> int:
    """Resident bytes of the server."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _files(server: RunningServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def _states(server: RunningServer, session: str) -> dict[str, int]:
    found = [message["state"] for message in server.get(f"/api/mailbox/{part(session)}?limit=1000")["messages"]]
    return {state: found.count(state) for state in set(found)}


# Frames that make no sense

WRONG = [
    "",
    "{",
    "null",
    "[]",
    '"ping"',
    "1",
    "NaN",
    "{}",
    '{"op": null}',
    '{"op": 1}',
    '{"op": ["ping"]}',
    '{"op": "nothing"}',
    '{"op": "PING"}',
    '{"op": "delivery", "delivery": {}}',
    '{"op": "ping"} {"op": "ping"}',
    '{"op": "credit"}',
    '{"op": "credit", "n": "1"}',
    '{"op": "credit", "n": true}',
    '{"op": "credit", "n": 1.5}',
    '{"op": "credit", "n": 0}',
    '{"op": "credit", "n": -1}',
    '{"op": "credit", "n": 1001}',
    '{"op": "credit", "n": 1e400}',
    f'{{"op": "credit", "n": {"9" * 5000}}}',
    '{"op": "enqueue"}',
    '{"op": "enqueue", "message": null}',
    '{"op": "enqueue", "message": "x"}',
    '{"op": "enqueue", "message": {}}',
    '{"op": "enqueue", "message": {"to": "x", "payload": 1}}',
    '{"op": "enqueue", "message": {"to": "x\\ny", "payload": ""}}',
    '{"op": "enqueue", "message": {"to": "x", "payload": "\\ud800"}}',
    '{"op": "enqueue", "message": {"to": "x", "payload": "", "msg_id": "\\u0000"}}',
    '{"op": "ack", "msg_id": "x", "msgId": "y"}',
    '{"op": "peek", "limit": true}',
    '{"op": "peek", "after": "x"}',
    '{"op": "purge_dead_letter", "msg_id": [1]}',
    '{"op": "purge_dead_letter", "all": 1}',
    '{"op": "enqueue", "message": {"to": "x", "payload": "", "\\ud800": 1}}',
    '{"op": "ack"}',
    '{"op": "ack", "msg_id": ""}',
    '{"op": "ack", "msg_id": 1}',
    '{"op": "ack", "msg_id": "\\ud800"}',
    '{"op": "ack", "msg_id": "x", "delivery_token": 1}',
    '{"op": "nack", "msg_id": "x", "reason": {}}',
    '{"op": "extend", "msg_id": "x", "seconds": "1"}',
    '{"op": "extend", "msg_id": "x", "seconds": 0}',
    '{"op": "extend", "msg_id": "x", "seconds": -1}',
    '{"op": "extend", "msg_id": "x", "seconds": true}',
    '{"op": "extend", "msg_id": "x", "seconds": 1e999}',
    '{"op": "ping", "id": {}}',
    '{"op": "ping", "id": true}',
    '{"op": "ping", "id": 1.5}',
    '{"op": "ping", "id": 9007199254740992}',
    '{"op": "ping", "id": "\\ud800"}',
    f'{{"op": "ping", "id": "{"x" * 201}"}}',
    "[" * 100_000,
    '{"op": ' * 10_000,
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_frame_that_makes_no_sense_is_refused_by_name(server: RunningServer, session: str, wrong: str) -> None:
    with wired(server, session) as wire:
        wire.raw(wrong)
        assert error_of(wire.answer())["code"] == "invalid_input"
        assert wire.ok("ping") == {}


def test_a_refusal_has_the_id_where_there_is_one(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        for given in ({"op": "nothing", "id": "a"}, {"op": "ack", "id": "a"}, {"id": "a"}, {"op": "ack", "id": "a", "msg_id": 1}):
            wire.raw(json.dumps(given))
            assert wire.answer()["id"] == "a"
        for unreadable in ("{", '{"op": "ping", "id": []}'):
            wire.raw(unreadable)
            assert wire.answer()["id"] is None


def test_after_twenty_frames_in_a_row_that_make_no_sense_the_socket_is_closed(
    server: RunningServer, session: str, guest: SocketClient
) -> None:
    good = json.dumps({"op": "enqueue", "message": {"to": session, "payload": "x"}})
    with wired(server, session) as wire:
        wire.raw(good)
        for number in range(30):
            wire.raw(json.dumps({"op": "nothing", "id": number}))
        wire.raw(good)
        came, code = wire.last()
    assert code == 1008
    refused = [answer["id"] for answer in came if answer["op"] == "refused"]
    assert refused == list(range(20))
    assert _states(server, session) == {"pending": 1}, "what came after the last of them was carried out"


def test_good_frames_and_content_that_is_refused_do_not_close_a_socket(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        for _ in range(30):
            wire.raw('{"op": "nothing"}')
            assert error_of(wire.answer())["code"] == "invalid_input"
            assert wire.refused("enqueue", message={"to": "a\nb", "payload": ""})["field"] == "to"


def test_what_is_refused_for_a_reason_does_not_count(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        for _ in range(50):
            assert wire.refused("ack", msg_id="never")["code"] == "not_found"
        assert wire.ok("ping") == {}


def test_a_message_of_another_mailbox_cannot_be_acknowledged(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire, wired(server, f"{session}-other") as other:
        other.ok("credit", n=1)
        stored = wire.ok("enqueue", message={"to": f"{session}-other", "payload": "Theirs"})
        delivery = other.delivery()
        for op in ("ack", "nack", "extend"):
            given = {"msg_id": stored["msg_id"], "delivery_token": delivery["delivery_token"]}
            assert wire.refused(op, **given)["code"] == "not_found"
        assert other.ok("ack", msg_id=stored["msg_id"], delivery_token=delivery["delivery_token"])["changed"]


# Frames that are none


def test_a_message_of_ten_mebibytes_is_taken(server: RunningServer, session: str) -> None:
    whole = "x" * (10 * MEBIBYTE)
    with wired(server, session) as wire:
        assert wire.ok("enqueue", message={"to": session, "payload": whole})["queued"]
        assert wire.refused("enqueue", message={"to": session, "payload": whole + "x"})["field"] == "payload"
        wire.ok("credit", n=1)
        assert wire.delivery()["message"]["payload"] == whole


def test_a_frame_that_only_says_it_is_large_is_refused_at_once(server: RunningServer, session: str, guest: SocketClient) -> None:
    for size in (FRAME + 1, 1 << 40, (1 << 63) - 1):
        with raw(server, session) as line:
            line.send(frame(TEXT, size=size))
            assert code_in(line.rest()) == 1009


def test_binary_frames_are_refused(server: RunningServer, session: str, guest: SocketClient) -> None:
    with wired(server, session) as wire:
        wire.raw(b'{"op": "ping"}')
        assert wire.last() == ([], 1003)


@pytest.mark.parametrize("broken", [b"\xff", b'{"op": "ping", "id": "\xed\xa0\x80"}', b"\xc3", b'{"op": "ping"}\x80'])
def test_text_that_is_not_utf8_is_refused(server: RunningServer, session: str, guest: SocketClient, broken: bytes) -> None:
    with raw(server, session) as line:
        line.send(frame(TEXT, broken))
        assert code_in(line.rest()) == 1007


@pytest.mark.parametrize(
    "bytes_sent",
    [
        frame(TEXT, b"{}", masked=False),
        frame(3, b"x"),
        frame(0x40 | TEXT, b"x"),
        frame(CONTINUED, b"x"),
        frame(TEXT, b"x", last=False) + frame(TEXT, b"x"),
        frame(PING, b"x" * 126),
        frame(PING, b"x", last=False),
        frame(CLOSE, b"x"),
        frame(CLOSE, b"\x00\x00"),
        b"\xff" * 100,
    ],
    ids=range(10),
)
def test_what_is_no_frame_ends_the_connection_and_nothing_else(
    server: RunningServer, session: str, guest: SocketClient, bytes_sent: bytes
) -> None:
    with raw(server, session) as line:
        line.send(bytes_sent)
        assert code_in(line.rest()) in (1002, 1007)


def test_a_message_in_parts_is_one_message(server: RunningServer, session: str) -> None:
    with raw(server, session) as line:
        line.send(frame(TEXT, b'{"op": ', last=False) + frame(PING, b"?") + frame(CONTINUED, b"", last=False))
        line.send(frame(CONTINUED, b'"ping", "id": 7}'))
        assert b'"id":7' in line.until(b"result")


def test_a_message_of_too_many_parts_is_refused(server: RunningServer, session: str, guest: SocketClient) -> None:
    """Empty ones, of which any number would fit."""
    with raw(server, session) as line:
        line.send(frame(TEXT, b"{", last=False))
        parts = frame(CONTINUED, last=False) * 1000
        while line.send(parts):
            pass
        assert code_in(line.rest()) in (1009, None)


def test_frames_cut_anywhere_are_put_together(server: RunningServer, session: str) -> None:
    whole = b"".join(frame(TEXT, json.dumps({"op": "ping", "id": number}).encode()) for number in range(50))
    with raw(server, session) as line:
        for at in range(0, len(whole), 7):
            line.send(whole[at : at + 7])
        came = line.until(b'"id":49')
    assert [came.index(f'"id":{number},'.encode()) for number in range(50)] == sorted(
        came.index(f'"id":{number},'.encode()) for number in range(50)
    )


def test_who_leaves_in_the_middle_leaves_nothing_behind(server: RunningServer, session: str, guest: SocketClient) -> None:
    _is_served(server, guest)
    before = _files(server)
    for cut in (frame(TEXT, b'{"op": "ping"}')[:3], frame(TEXT, b"x" * 1000)[:500], b""):
        for _ in range(20):
            with raw(server, session) as line:
                line.send(frame(TEXT, b'{"op": "credit", "n": 5}') + cut)
                line.vanish()
    eventually(lambda: _files(server) <= before)
    with wired(server, session) as wire:
        wire.ok("credit", n=1)
        wire.ok("enqueue", message={"to": session, "payload": "Still here"})
        assert wire.message()["payload"] == "Still here"


# Those who never read


def test_who_never_reads_its_answers_is_let_go(server: RunningServer, session: str, guest: SocketClient) -> None:
    before = _memory(server)
    asked = frame(TEXT, json.dumps({"op": "ping", "id": "x" * 190}).encode()) * 100
    with raw(server, session, small=True) as line:
        while line.send(asked):
            pass
    _is_served(server, guest)
    assert _memory(server) - before < 64 * MEBIBYTE


def test_who_never_reads_its_deliveries_keeps_them_from_nobody(server: RunningServer, session: str, guest: SocketClient) -> None:
    """The messages that it took come again, and it takes no more."""
    before, many = _memory(server), 150
    with opened(server) as store:
        mail.set_policy(store, session, inflight_timeout_secs=1, base_backoff_secs=0.05, max_retries=1000)
        mail.enqueue_all(store, [{"from": f"sender-{sender}", "to": session, "payload": "x" * 100_000} for sender in range(many)])
    with raw(server, session, small=True) as deaf, wired(server, session) as wire:
        deaf.send(frame(TEXT, b'{"op": "credit", "n": 1000}'))
        eventually(lambda: _states(server, session).get("in_flight", 0) > 0)
        _is_served(server, guest)
        seen: set[str] = set()
        while len(seen) < many:
            wire.ok("credit", n=1)
            delivery = wire.delivery()
            acked = wire.ask("ack", msg_id=delivery["message"]["msg_id"], delivery_token=delivery["delivery_token"])
            if acked["op"] == "ok":  # else it took us longer than its time
                seen.add(delivery["message"]["msg_id"])
    assert _states(server, session) == {}
    assert _memory(server) - before < 64 * MEBIBYTE


def _settled(server: RunningServer, session: str) -> bool:
    before = _states(server, session)
    return all(_states(server, session) == before for _ in range(5))


def test_who_never_reads_its_pongs_is_let_go(server: RunningServer, session: str, guest: SocketClient) -> None:
    before = _memory(server)
    with raw(server, session, small=True) as line:
        pings = frame(PING, b"x" * 125) * 100
        while line.send(pings):
            pass
    assert _memory(server) - before < 64 * MEBIBYTE


# Those who say too much


def test_a_flood_of_frames_is_confirmed_and_disturbs_nobody(server: RunningServer, session: str, guest: SocketClient) -> None:
    before = _memory(server)
    with wired(server, session) as wire:
        for number in range(3000):
            wire.raw(json.dumps({"op": "ping", "id": number}))
            if number % 1000 == 0:
                _is_served(server, guest)
        assert [wire.answer()["id"] for _ in range(3000)] == list(range(3000))
    assert _memory(server) - before < 64 * MEBIBYTE


@pytest.mark.parametrize("tiny", [frame(TEXT), frame(PING), frame(10), frame(TEXT, b"1")], ids=["empty", "ping", "pong", "one"])
def test_a_flood_of_the_smallest_frames_disturbs_nobody(server: RunningServer, session: str, guest: SocketClient, tiny: bytes) -> None:
    before = _memory(server)
    with raw(server, session) as line:
        line.socket.settimeout(5)
        many = tiny * 5000
        for _ in range(20):
            if not line.send(many):
                break
            _is_served(server, guest)
            _drain(line)
    assert _memory(server) - before < 64 * MEBIBYTE


def _drain(line: RawConnection) -> None:
    """Read what is there."""
    line.socket.setblocking(False)
    try:
        while line.socket.recv(1 << 20):
            pass
    except OSError:
        pass
    line.socket.settimeout(5)


def test_who_says_more_than_it_may_is_read_more_slowly(found: Found) -> None:
    """Nothing is refused: the connection itself is the brake."""
    server = found("--rate", "50").open()
    with wired(server, "fast") as wire:
        asked = [wire.say("ping") for _ in range(150)]
        assert [wire.answer()["id"] for _ in asked] == asked
        assert server.person.get("/api/mailboxes").status_code in (200, 429)
    assert server.close() == 0


def test_half_open_upgrades_stop_nobody(found: Found) -> None:
    server = found().open()
    with ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(server)) for _ in range(300)]
        for number, line in enumerate(lines):
            head = line.head(server, "half")
            line.send(head[: len(head) * (number % 10) // 10] if number % 3 else b"")
        with wired(server, "guest") as wire:
            _is_served(server, wire)
            for line in lines:  # each is cut off by itself
                line.rest()
            _is_served(server, wire)
    eventually(lambda: _files(server) < 100)
    assert server.close() == 0


def test_upgrades_that_were_finished_and_left_alone_stop_nobody(found: Found) -> None:
    server = found("--max-sockets", "100").open()
    with ExitStack() as stack:
        wire = stack.enter_context(wired(server, "guest"))
        for _ in range(99):
            stack.enter_context(raw(server, "left"))
        with RawConnection(server) as one_more:
            one_more.send(one_more.head(server, "left"))
            assert b" 429 " in one_more.rest().splitlines()[0]
        _is_served(server, wire)
    eventually(lambda: _files(server) < 100)
    with wired(server, "left") as again:
        assert again.ok("ping") == {}
    assert server.close() == 0


# Handshakes that are none


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8"), 400),
        ((b"Sec-WebSocket-Version: 13\r\n", b""), 400),
        ((b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""), 400),
        ((b"dGhlIHNhbXBsZSBub25jZQ==", b"x"), 400),
        ((b"GET ", b"POST "), 405),
        ((b"Sec-WebSocket-Version: 13\r\n", b"Sec-WebSocket-Version: 13\r\nX: " + b"x" * 20_000 + b"\r\n"), 431),
        ((b"Sec-WebSocket-Version: 13\r\n", b"Sec-WebSocket-Version: 13\r\n" + b"X: y\r\n" * 500), 431),
        ((b"/socket HTTP", b"/socket\xff HTTP"), 400),
        ((b"/socket HTTP", b"/%ff/socket HTTP"), 400),
        ((b"/socket HTTP", b"/%zz/socket HTTP"), 400),
        ((b"Connection: Upgrade", b"Connection: Upgrade\r\nTransfer-Encoding: chunked"), 400),
    ],
    ids=range(11),
)
def test_a_handshake_that_is_none_is_refused_in_the_one_shape(
    server: RunningServer, session: str, guest: SocketClient, change: tuple[bytes, bytes], status: int
) -> None:
    before = _files(server)
    with RawConnection(server) as line:
        line.send(line.head(server, session).replace(*change))
        head, _, said = line.rest().partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode(), head
    if head.lower().count(b"application/json"):
        assert json.loads(said)["ok"] is False
    else:
        assert said == b"Invalid HTTP request received.", "as every request that is none"
    eventually(lambda: _files(server) <= before)


def test_frames_that_come_with_the_handshake_are_ignored_or_answered(server: RunningServer, session: str, guest: SocketClient) -> None:
    with RawConnection(server) as line:
        line.send(line.head(server, session) + frame(TEXT, b'{"op": "ping", "id": 1}'))
        assert b" 101 " in line.until(b"\r\n\r\n").splitlines()[0]
        line.send(frame(TEXT, b'{"op": "ping", "id": 2}'))
        line.until(b'"id":2')


def test_a_socket_is_not_had_on_a_line_that_is_busy(server: RunningServer, session: str, guest: SocketClient) -> None:
    with RawConnection(server) as line:
        token = server.ready["token"]
        listening = f"GET /api/events HTTP/1.1\r\nHost: {line.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        line.send(listening.encode() + line.head(server, session))
        assert b" 101 " not in line.rest()


def test_a_line_that_was_used_for_a_request_may_become_a_socket(server: RunningServer, session: str) -> None:
    with RawConnection(server) as line:
        line.send(f"GET /health HTTP/1.1\r\nHost: {line.netloc}\r\n\r\n".encode())
        line.until(b"true}")
        line.send(line.head(server, session))
        line.until(b"\r\n\r\n")
        line.send(frame(TEXT, b'{"op": "ping", "id": 2}'))
        line.until(b'"id":2')


def test_a_server_that_stops_waits_for_nobody_who_does_not_answer(found: Found) -> None:
    server = found().open()
    with ExitStack() as stack:
        silent = stack.enter_context(raw(server, "silent"))
        deaf = stack.enter_context(raw(server, "deaf", small=True))
        with opened(server) as store:
            mail.enqueue_all(store, [{"from": f"sender-{sender}", "to": "deaf", "payload": "x" * 100_000} for sender in range(100)])
        deaf.send(frame(TEXT, b'{"op": "credit", "n": 1000}'))
        eventually(lambda: _settled(server, "deaf"))
        wire: Any = stack.enter_context(wired(server, "polite"))
        server.process.terminate()
        assert wire.last() == ([{"op": "goodbye"}], 1001)
        assert server.ended() == 0
        assert b'{"op":"goodbye"}' in silent.rest()
    assert server.close() == 0
