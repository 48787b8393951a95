"""The mailbox as a WebSocket: deliveries are pushed, credit is kept, and every frame is confirmed in order."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from postroom import mail
from postroom.core.errors import TooMany
from postroom.core.limits import MAX_SOCKETS_PER_AGENT
from postroom.server.http.auth import Caller
from postroom.server.ws.dispatcher import MailboxDispatchers
from tests.cli.process import eventually
from tests.server.conftest import own_server
from tests.server.mailbox_data import STRANGE, opened, part
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server.wires import PROTOCOL, error_of, unwelcome, wired, wired_locally

Found = Callable[..., RunningServer]
server = own_server  # others use mailboxes of the same names
SESSIONS = count(1)


@pytest.fixture
def session() -> str:
    """A mailbox that no other test knows."""
    return f"session-{next(SESSIONS)}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that has a Unix socket too."""
    folder = tmp_path_factory.mktemp("local")
    shared = RunningServer(folder, "--rate", "1000000", "--uds", str(folder / "s")).open()
    yield shared
    assert shared.close() == 0


def _states(server: RunningServer, session: str) -> list[str]:
    return sorted(message["state"] for message in server.get(f"/api/mailbox/{part(session)}")["messages"])


def _send(server: RunningServer, session: str, *payloads: str, sender: str = "leader", **more: Any) -> list[str]:
    """Messages of another process."""
    with opened(server) as store:
        return [mail.enqueue(store, {"from": sender, "to": session, "payload": payload, **more}).msg_id for payload in payloads]


# Deliveries


def test_a_message_is_pushed_and_acknowledged(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        assert wire.ok("credit", n=1) == {"credit": 1}
        stored = wire.ok("enqueue", message={"to": session, "payload": "Grüße\n", "urgency": 3})
        delivery = wire.delivery()
        assert delivery["message"] == {
            **delivery["message"],
            "msg_id": stored["msg_id"],
            "from": "user",
            "payload": "Grüße\n",
            "urgency": 3,
        }
        assert wire.ok("extend", msg_id=stored["msg_id"], delivery_token=delivery["delivery_token"])["in_flight_until"]
        acked = wire.ok("ack", msg_id=stored["msg_id"], delivery_token=delivery["delivery_token"])
        assert acked == {"msg_id": stored["msg_id"], "state": "acked", "changed": True}
        assert wire.ok("ack", msg_id=stored["msg_id"])["changed"] is False
        assert wire.ok("ping") == {}
    assert _states(server, session) == []


def test_what_waits_already_comes_when_there_is_credit(server: RunningServer, session: str) -> None:
    _send(server, session, "One", "Two")
    with wired(server, session) as wire:
        assert wire.ok("ping") == {}
        assert _states(server, session) == ["pending", "pending"]
        wire.ok("credit", n=5)
        assert [wire.message()["payload"] for _ in range(2)] == ["One", "Two"]


def test_what_another_process_stores_comes_at_once(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        wire.ok("credit", n=10)
        for number in range(3):
            stored = server.mailbox.enqueue(to=session, payload=f"Number {number}")
            assert wire.message()["msg_id"] == stored


def test_credit_is_how_many_come(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        wire.ok("credit", n=2)
        for sender in "abc":
            _send(server, session, "Hello", sender=sender)
        held = [wire.delivery() for _ in range(2)]
        assert wire.ok("ping") == {}
        assert _states(server, session) == ["in_flight", "in_flight", "pending"]
        assert wire.ok("credit", n=1) == {"credit": 1}
        held.append(wire.delivery())
        assert {one["message"]["from"] for one in held} == set("abc")
        assert wire.ok("credit", n=1000) == {"credit": 1000}
        assert wire.refused("credit", n=1)["field"] == "n"


def test_the_next_of_a_pair_comes_when_the_one_before_is_acknowledged(server: RunningServer, session: str) -> None:
    _send(server, session, *(f"Number {number}" for number in range(20)))
    with wired(server, session) as wire:
        wire.ok("credit", n=1000)
        assert [wire.message()["payload"] for _ in range(20)] == [f"Number {number}" for number in range(20)]


def test_what_was_nacked_comes_again_after_its_backoff(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        mail.set_policy(store, session, base_backoff_secs=0.05)
    _send(server, session, "Again")
    with wired(server, session) as wire:
        wire.ok("credit", n=2)
        first = wire.delivery()
        nacked = wire.ok("nack", msg_id=first["message"]["msg_id"], reason="busy", delivery_token=first["delivery_token"])
        assert (nacked["state"], bool(nacked["retry_at"])) == ("nacked", True)
        assert wire.message()["attempt"] == 1


def test_what_timed_out_elsewhere_comes_when_time_brings_it(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        mail.set_policy(store, session, inflight_timeout_secs=0.2, base_backoff_secs=0.05)
    with wired(server, session) as wire:
        _send(server, session, "Lost")
        assert server.mailbox.dequeue(session)["message"]["payload"] == "Lost"
        wire.ok("credit", n=1)
        again = wire.delivery()["message"]
    assert (again["payload"], again["attempt"] >= 1) == ("Lost", True)


def test_a_dropped_connection_gives_nothing_up_but_time(server: RunningServer, session: str) -> None:
    with opened(server) as store:
        mail.set_policy(store, session, inflight_timeout_secs=0.3, base_backoff_secs=0.05)
    (sent,) = _send(server, session, "Kept")
    with wired(server, session) as wire:
        wire.ok("credit", n=1)
        old = wire.delivery()
    with wired(server, session) as wire:
        wire.ok("credit", n=1)
        new = wire.delivery()
        assert (new["message"]["msg_id"], new["message"]["attempt"] >= 1) == (sent, True)
        assert wire.refused("ack", msg_id=sent, delivery_token=old["delivery_token"])["code"] == "delivery_lost"
        assert wire.ok("ack", msg_id=sent, delivery_token=new["delivery_token"])["changed"]


def test_a_delivery_may_be_acknowledged_by_another_way(server: RunningServer, session: str) -> None:
    _send(server, session, "One", "Two")
    with wired(server, session) as wire:
        wire.ok("credit", n=2)
        held = wire.delivery()
        server.mailbox.ok("ack", "--session", session, "--msg-id", held["message"]["msg_id"])
        assert wire.message()["payload"] == "Two"


def test_sockets_of_one_session_share_what_comes(server: RunningServer, session: str) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(wired(server, session)) for _ in range(4)]
        for wire in wires:
            wire.ok("credit", n=10)
        for number in range(40):
            _send(server, session, "Hello", sender=f"sender-{number}")
        got = [[wire.message()["msg_id"] for _ in range(10)] for wire in wires]
    assert len({one for some in got for one in some}) == 40


def test_who_has_no_credit_takes_nothing_from_who_has(server: RunningServer, session: str) -> None:
    with wired(server, session) as idle, wired(server, session) as busy:
        busy.ok("credit", n=3)
        _send(server, session, "One", "Two", "Three")
        assert [busy.message()["payload"] for _ in range(3)] == ["One", "Two", "Three"]
        assert idle.ok("ping") == {}


def test_one_receiver_takes_over_when_another_goes(server: RunningServer, session: str) -> None:
    with wired(server, session) as stays:
        stays.ok("credit", n=5)
        with wired(server, session) as goes:
            goes.ok("credit", n=5)
        _send(server, session, "One", "Two")
        assert [stays.message()["payload"] for _ in range(2)] == ["One", "Two"]


@pytest.mark.parametrize("name", STRANGE)
def test_any_name_has_its_socket(server: RunningServer, name: str) -> None:
    with wired(server, name) as wire:
        wire.ok("credit", n=1)
        _send(server, name, "Hello")
        assert wire.message()["to"] == name


def test_a_large_message_comes_whole(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        wire.ok("credit", n=3)
        _send(server, session, "ü" * 2_000_000, "After")
        assert wire.message()["payload"] == "ü" * 2_000_000
        assert wire.message()["payload"] == "After"


# Confirmations


def test_frames_that_come_together_are_confirmed_in_order(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        asked = []
        for number in range(200):
            asked.append(wire.say("enqueue", message={"to": session, "payload": f"Number {number}", "msg_id": f"{session}:{number}"}))
            asked.append(wire.say("ping") if number % 3 else wire.say("ack", msg_id="never"))
        answers = [wire.answer() for _ in asked]
        assert [answer["id"] for answer in answers] == asked
        wire.ok("credit", n=200)
        assert [wire.message()["payload"] for _ in range(200)] == [f"Number {number}" for number in range(200)]


def test_a_person_who_sends_for_agents_is_confirmed_in_order(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        senders = ["robot", "user", None] * 10
        asked = []
        for number, sender in enumerate(senders):
            said = {"to": session, "payload": str(number), **({} if sender is None else {"from": sender})}
            asked.append(wire.say("enqueue", message=said))
        assert [wire.answer()["id"] for _ in asked] == asked
        wire.ok("credit", n=100)
        came = [wire.message() for _ in senders]
    for name in ("robot", "user"):
        own = [int(message["payload"]) for message in came if message["from"] == name]
        assert own == sorted(own)
    assert [message["from"] for message in sorted(came, key=lambda message: int(message["payload"]))] == [
        sender or "user" for sender in senders
    ]


def test_an_id_is_given_back_as_it_was(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        for given in ("x", "", "Größe ☃", 0, -1, 2**53 - 1, None):
            wire.raw(json.dumps({"op": "ping", "id": given}))
            assert wire.answer() == {"op": "ok", "id": given, "result": {}}
        wire.raw('{"op": "ping"}')
        assert wire.answer()["id"] is None


def test_a_known_id_is_not_stored_again(server: RunningServer, session: str) -> None:
    with wired(server, session) as wire:
        message = {"to": session, "payload": "Once", "msgId": f"{session}:1"}
        first = wire.ok("enqueue", message=message)
        first.pop("note", None)  # that the name resembles one of another test
        assert first == {"msg_id": f"{session}:1", "queued": True, "pending": 1}
        assert wire.ok("enqueue", message=message) == {"msg_id": f"{session}:1", "queued": False, "pending": 1}


def test_what_a_sender_added_survives_whatever_it_is(server: RunningServer, session: str) -> None:
    extra = {"large": 10**40, "small": 1e-300, "deep": {"a": [None, True, {"b": "ü"}]}}
    with wired(server, session) as wire:
        wire.ok("credit", n=1)
        wire.ok("enqueue", message={"to": session, "payload": "", "x": extra})
        assert wire.message()["x"] == extra


# Permissions


def test_an_agent_has_the_socket_of_its_own_mailbox(server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    unwelcome(server, other.agent, 403, "forbidden", token=workspace.token)
    with wired(server, workspace.agent, workspace.token) as wire:
        wire.ok("credit", n=5)
        _send(server, workspace.agent, "For you")
        assert wire.message()["payload"] == "For you"
        stored = wire.ok("enqueue", message={"to": other.agent, "payload": "From me"})
        assert wire.refused("enqueue", message={"to": other.agent, "payload": "", "from": other.agent})["code"] == "forbidden"
        assert wire.refused("ack", msg_id=stored["msg_id"])["code"] == "not_found"
    with wired(server, other.agent, other.token) as wire:
        wire.ok("credit", n=1)
        assert wire.message()["from"] == workspace.agent


def test_an_agent_without_a_workspace_comes_with_its_own_token(server: RunningServer, session: str) -> None:
    token = server.inbox.ok("agent", "token", session)["token"]
    unwelcome(server, "another", 403, "forbidden", token=token)
    with wired(server, session, token) as wire:
        wire.ok("credit", n=1)
        wire.ok("enqueue", message={"to": session, "payload": "To myself"})
        assert wire.message()["from"] == session


def test_a_person_speaks_for_no_other_person(server: RunningServer, session: str) -> None:
    server.inbox.ok("agent", "add", "boss", "--kind", "human")
    with wired(server, session) as wire:
        assert wire.refused("enqueue", message={"from": "boss", "to": session, "payload": "Do it"})["code"] == "forbidden"


def test_strangers_are_refused_before_the_upgrade(server: RunningServer, session: str) -> None:
    unwelcome(server, session, 401, "unauthenticated", token="")
    unwelcome(server, session, 401, "unauthenticated", token="prw_guess")
    unwelcome(server, "x" * 201, 400, "invalid_input")


def test_a_cookie_alone_opens_no_socket_and_no_other_origin_does(server: RunningServer, session: str) -> None:
    browser = server.signed_in()
    cookie, page_key = f"{server.cookie_name}={browser.cookies[server.cookie_name]}", browser.headers["X-Postroom-Key"]
    origin = {"Cookie": cookie, "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    unwelcome(server, session, 401, "unauthenticated", token="", headers=origin)  # a browser cannot add the page's key to a socket
    with wired(server, session, "", headers={**origin, "X-Postroom-Key": page_key}) as wire:
        assert wire.ok("ping") == {}
    for foreign in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
    ):
        unwelcome(server, session, 403, "forbidden", token="", headers={"Cookie": cookie, "X-Postroom-Key": page_key, **foreign})


def test_another_name_of_the_server_is_refused(server: RunningServer, session: str) -> None:
    url = f"ws://evil.example/api/mailbox/{session}/socket"
    netloc = urlsplit(server.url)
    unwelcome(server, session, 421, "wrong_host", url=url, address=(netloc.hostname, netloc.port))


def test_a_token_that_is_revoked_ends_its_sockets(found: Found) -> None:
    server = found().open()
    keeps, loses = (server.inbox.ok("agent", "token", name)["token"] for name in ("keeps", "loses"))
    with wired(server, "keeps", keeps) as kept, wired(server, "loses", loses) as lost, wired(server, "loses", loses) as idle:
        lost.ok("credit", n=5)
        server.inbox.ok("agent", "token", "loses", "--revoke")
        _send(server, "loses", "Too late")
        assert idle.last() == ([], 1008)
        assert lost.last() == ([], 1008)
        assert kept.ok("ping") == {}
    unwelcome(server, "loses", 401, "unauthenticated", token=loses)
    assert server.close() == 0


def test_a_frame_after_its_token_was_revoked_is_not_carried_out(found: Found) -> None:
    server = found().open()
    token = server.inbox.ok("agent", "token", "loses")["token"]
    with wired(server, "loses", token) as wire:
        assert wire.ok("ping") == {}
        server.inbox.ok("agent", "token", "loses", "--revoke")
        wire.say("enqueue", message={"to": "victim", "payload": "Too late"})
        [refused], code = wire.last()
        assert (error_of(refused)["code"], code) == ("unauthenticated", 1008)
    assert _states(server, "victim") == []
    assert server.close() == 0


def test_what_was_said_before_a_farewell_is_carried_out(server: RunningServer, session: str) -> None:
    """The confirmations are not read."""
    (identity,) = _send(server, session, "Hello")
    with wired(server, session) as wire:
        wire.ok("credit", n=1)
        wire.delivery()
        for number in range(99):
            wire.say("enqueue", message={"to": f"{session}-after", "payload": str(number)})
        wire.say("ack", msg_id=identity)
    eventually(lambda: len(_states(server, f"{session}-after")) == 99 and _states(server, session) == [])


# The server


def test_the_subprotocol_is_chosen_if_it_is_offered(server: RunningServer, session: str) -> None:
    with wired(server, session, subprotocols=["other", PROTOCOL]) as wire:
        assert wire.connection.subprotocol == PROTOCOL
    with wired(server, session, subprotocols=["other"]) as wire:
        assert wire.connection.subprotocol is None


def test_who_is_connected_is_told_goodbye(found: Found) -> None:
    server = found().open()
    with wired(server, "one") as one, wired(server, "two") as two:
        one.ok("credit", n=1)
        two.say("enqueue", message={"to": "three", "payload": "In hand"})
        assert two.answer()["op"] == "ok"
        server.process.send_signal(signal.SIGTERM)
        assert one.last() == ([{"op": "goodbye"}], 1001)
        assert two.last() == ([{"op": "goodbye"}], 1001)
    assert server.ended() == 0


def test_what_was_confirmed_before_a_kill_is_there_after_it(found: Found) -> None:
    server = found().open()
    with wired(server, "one") as wire:
        wire.ok("credit", n=1)
        confirmed = [wire.ok("enqueue", message={"to": "two", "payload": str(number)})["msg_id"] for number in range(20)]
        wire.say("enqueue", message={"to": "two", "payload": "?"})
        server.kill()
        assert wire.last()[1] == 1006
    server.open()
    with wired(server, "two") as wire:
        wire.ok("credit", n=100)
        assert [wire.message()["msg_id"] for _ in confirmed] == confirmed
    assert server.close() == 0


def test_only_so_many_sockets_may_be_open(found: Found) -> None:
    server = found("--max-sockets", "2").open()
    with wired(server, "one") as one:
        with wired(server, "one"):
            unwelcome(server, "two", 429, "too_many")
            unwelcome(server, "two", 401, "unauthenticated", token="")
        eventually(lambda: _may(server))
        assert one.ok("ping") == {}
    assert server.close() == 0


def test_one_agent_does_not_take_all_seats() -> None:
    carriers = MailboxDispatchers(None, 1000)  # type: ignore[arg-type] # which is not asked
    agent, person = Caller("hoards", "http", agent=True), Caller("user", "http")
    for _ in range(MAX_SOCKETS_PER_AGENT):
        carriers.acquire_slot(agent)
    with pytest.raises(TooMany):
        carriers.acquire_slot(agent)
    for one in (person, Caller("another", "http", agent=True)):
        carriers.acquire_slot(one)
    carriers.release_slot(agent)
    carriers.acquire_slot(agent)


def _may(server: RunningServer) -> bool:
    try:
        with wired(server, "two") as wire:
            return wire.ok("ping") == {}
    except Exception:
        return False


def test_over_the_unix_socket_no_token_is_needed(local: RunningServer, session: str) -> None:
    path = Path(local.ready["uds"])
    with wired_locally(path, session) as wire, wired(local, session) as other:
        wire.ok("credit", n=1)
        other.ok("enqueue", message={"to": session, "payload": "Hello"})
        assert wire.message()["payload"] == "Hello"
        assert wire.ok("enqueue", message={"to": session, "payload": "Mine"})["queued"]
        other.ok("credit", n=1)
        assert other.message()["from"] == "user"


def test_over_the_unix_socket_a_token_says_who(local: RunningServer, session: str) -> None:
    path, token = Path(local.ready["uds"]), local.inbox.ok("agent", "token", session)["token"]
    with wired_locally(path, session, token) as wire:
        assert wire.refused("enqueue", message={"from": "user", "to": session, "payload": ""})["code"] == "forbidden"


def test_the_address_without_an_upgrade_says_what_it_is(server: RunningServer, session: str) -> None:
    answer = server.person.get(f"/api/mailbox/{session}/socket")
    refusal(answer, 426, "invalid_input")
    assert answer.headers["upgrade"] == "websocket"


@pytest.mark.parametrize("path", ["/api/events", "/", "/mcp/x", "/api/mailbox/x/sockets"])
def test_no_other_address_is_a_socket(server: RunningServer, path: str) -> None:
    unwelcome(server, "x", 404, "not_found", url=server.url.replace("http", "ws", 1) + path)
