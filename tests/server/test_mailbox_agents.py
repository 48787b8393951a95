"""Mailboxes over HTTP, for who works with them: sending, taking, waiting, acknowledging; each in its own, and nobody in another's."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from postroom import mail
from tests.cli.process import LIMIT, eventually
from tests.server.conftest import own_server
from tests.server.mailbox_agent import NAMES, MailboxAgent, begin_to_wait
from tests.server.mailbox_data import STRANGE, opened
from tests.server.running_server import JSON, RunningServer, WorkspaceClient, refusal

Found = Callable[..., RunningServer]
server = own_server  # others use mailboxes of the same names
DOTS = [".", "..", "...", "../..", "a/../b", "%2e%2e", "//", "inner space", "dequeue", "dead-letter", "ack"]


@pytest.fixture
def lead(server: RunningServer) -> MailboxAgent:
    return MailboxAgent(server)


@pytest.fixture
def analyst(server: RunningServer) -> MailboxAgent:
    return MailboxAgent(server)


# Sending


def test_a_message_is_stored_once_and_said_to_be_known_after(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    message = {"to": analyst.name, "payload": "analyze the auth module", "msg_id": f"{lead.name}:1"}
    first, again = lead.enqueue(**message), lead.enqueue(**message)
    stored = {name: value for name, value in first.json().items() if name != "note"}  # that the name resembles one of another test
    assert (first.status_code, stored) == (201, {"msg_id": f"{lead.name}:1", "queued": True, "pending": 1})
    assert (again.status_code, again.json()) == (200, {"msg_id": f"{lead.name}:1", "queued": False, "pending": 1})


def test_the_sender_is_whoever_asks(server: RunningServer, workspace: WorkspaceClient, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    lead.send(analyst.name)
    lead.send(analyst.name, **{"from": lead.name})
    lead.enqueue(**{"to": analyst.name, "payload": "x", "from": None})
    assert workspace.http.post("/api/mailbox", json={"to": analyst.name, "payload": "x"}).status_code == 201
    assert server.person.post("/api/mailbox", json={"to": analyst.name, "payload": "x"}).status_code == 201
    senders = [waiting["from"] for waiting in analyst.http.get(analyst.place).json()["messages"]]
    assert sorted(senders) == sorted([lead.name] * 3 + [workspace.agent, "user"])


@pytest.mark.parametrize("other", ["user", "somebody else", "nobody-yet", "{desk}", ""])
def test_an_agent_sends_as_itself_alone(
    server: RunningServer, workspace: WorkspaceClient, lead: MailboxAgent, analyst: MailboxAgent, other: str
) -> None:
    sender = other.replace("{desk}", workspace.agent)
    refusal(lead.enqueue(**{"to": analyst.name, "payload": "Forged", "from": sender}), 403, "forbidden")
    assert analyst.dequeue().status_code == 204
    if other != "{desk}":
        refusal(workspace.http.post("/api/mailbox", json={"to": analyst.name, "payload": "Forged", "from": sender}), 403, "forbidden")


def test_a_person_sends_as_anybody_but_another_person(server: RunningServer, analyst: MailboxAgent) -> None:
    server.inbox.ok("agent", "add", "maria", "--kind", "human")
    message = {"to": analyst.name, "payload": "Hello"}
    refusal(server.person.post("/api/mailbox", json={**message, "from": "maria"}), 403, "forbidden")
    assert server.person.post("/api/mailbox", json={**message, "from": "nightly"}).status_code == 201
    assert server.person.post("/api/mailbox", json={**message, "from": "user"}).status_code == 201
    assert analyst.http.get(analyst.place).json()["total"] == 2


@pytest.mark.parametrize("sender", [3, ["user"], {"name": "user"}, True, "a\u0000b", "two\nlines"])
def test_a_sender_that_is_no_name_is_refused(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent, sender: Any) -> None:
    refusal(server.person.post("/api/mailbox", json={"to": analyst.name, "payload": "x", "from": sender}), 400, "invalid_input")
    refusal(lead.enqueue(**{"to": analyst.name, "payload": "x", "from": sender}), 403, "forbidden")
    assert analyst.dequeue().status_code == 204


def test_what_the_sender_added_comes_back_to_the_letter(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    extra = {"priority": 10**30, "tags": ["a", {"b": None}], "protocolVersion": "1", "größe": 0.1, "__proto__": 1}
    lead.send(analyst.name, "Grüße ☃\r\n\u2028", createdAt=1743999600, **extra)
    message = json.loads(analyst.dequeue().text)["message"]
    assert message["payload"] == "Grüße ☃\r\n\u2028"
    assert message["created_at"] == 1743999600
    assert {name: message[name] for name in extra if name != "protocolVersion"} == {
        k: v for k, v in extra.items() if k != "protocolVersion"
    }
    assert message["protocol_version"] == "1"


def test_an_alias_is_resolved(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    alias = f"reviewer-{next(NAMES)}"
    server.mailbox.ok("alias", alias, analyst.name)
    lead.send(alias)
    assert analyst.take()["message"]["to"] == analyst.name


BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"3",
    b'{"to": NaN}',
    b"\xff",
    b'{"to": "\\ud800", "payload": "x"}',
    b"[" * 5000,
    b'{"a": ' + b"[" * 9999,
]


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: repr(content[:20]))
def test_a_message_that_is_none_is_refused(lead: MailboxAgent, content: bytes) -> None:
    refusal(lead.http.post("/api/mailbox", content=content, headers=JSON), 400, "invalid_input")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"payload": "x"}, "to"),
        ({"to": "a"}, "payload"),
        ({"to": "a", "payload": 3}, "payload"),
        ({"to": "a", "payload": "x", "msg_id": ""}, "msg_id"),
        ({"to": "a", "payload": "x", "msg_id": "x" * 401}, "msg_id"),
        ({"to": "a", "payload": "x", "msg_id": "a", "msgId": "b"}, "msg_id"),
        ({"to": "a", "payload": "x", "created_at": -1}, "created_at"),
        ({"to": "a", "payload": "x", "created_at": 2**64}, "created_at"),
        ({"to": "a", "payload": "x", "extra": "x" * 70_000}, "message"),
    ],
)
def test_a_malformed_message_is_refused_by_the_fields_name(lead: MailboxAgent, message: dict[str, Any], field: str) -> None:
    assert refusal(lead.enqueue(**message), 400, "invalid_input")["field"] == field


def test_a_message_is_json_and_says_so(lead: MailboxAgent) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        refusal(lead.http.post("/api/mailbox", content=b'{"to": "a", "payload": "x"}', headers=headers), 400, "invalid_input")


def test_a_payload_of_ten_mebibytes_passes_whole_and_a_byte_more_is_refused(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    whole = "x" * (10 << 20)
    assert refusal(lead.enqueue(to=analyst.name, payload=whole + "x"), 400, "invalid_input")["field"] == "payload"
    lead.send(analyst.name, whole)
    assert analyst.take()["message"]["payload"] == whole


# Taking


def test_a_delivery_is_what_the_command_prints(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    sent = [lead.send(analyst.name, f"{number}", extra=[number]) for number in range(2)]
    over_http = analyst.take()
    analyst.say("ack", sent[0], delivery_token=over_http["delivery_token"])
    printed = server.mailbox.ok("dequeue", "--session", analyst.name)
    assert set(printed) - {"ok", "schema_version", "command"} == set(over_http)
    assert list(printed["message"]) == list(over_http["message"])
    assert (over_http["message"]["payload"], printed["message"]["payload"]) == ("0", "1")


def test_nothing_to_take_is_204_and_makes_no_mailbox(server: RunningServer, analyst: MailboxAgent) -> None:
    answer = analyst.dequeue()
    assert (answer.status_code, answer.content) == (204, b"")
    assert analyst.dequeue("0.01").status_code == 204
    assert analyst.name not in [box["session"] for box in server.get("/api/mailboxes")["mailboxes"]]


def test_the_receipt_says_who_took_it_and_by_which_door(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    analyst.say("ack", analyst.take()["message"]["msg_id"])
    steps = server.mailbox.ok("show", "--msg-id", msg_id)["steps"]
    assert [step["step"] for step in steps] == ["stored", "offered", "acked"]
    assert steps[1]["receiver"] == analyst.name


def test_each_step_answers_as_its_command(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    token = analyst.take()["delivery_token"]
    extended = analyst.say("extend", msg_id, seconds=100, delivery_token=token)
    assert (extended.status_code, set(extended.json())) == (200, {"msg_id", "in_flight_until"})
    nacked = analyst.say("nack", msg_id, reason="no such module", delivery_token=token)
    assert (nacked.status_code, nacked.json()["state"], nacked.json()["changed"]) == (200, "nacked", True)
    assert nacked.json()["retry_at"]
    assert refusal(analyst.say("ack", msg_id), 409, "invalid_state")["state"] == "nacked"
    other = lead.send(lead.name)
    acked = lead.say("ack", lead.take()["message"]["msg_id"])
    assert acked.json() == {"msg_id": other, "state": "acked", "changed": True}
    assert lead.say("ack", other).json() == {"msg_id": other, "state": "acked", "changed": False}


def test_each_step_needs_no_body(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    for step, key in (("extend", "in_flight_until"), ("ack", "changed")):
        if step == "extend":
            analyst.take()
        assert analyst.http.post(f"{analyst.place}/{msg_id}/{step}").json()[key]
    refusal(analyst.http.post(f"{analyst.place}/{msg_id}/ack", content=b"{}"), 400, "invalid_input")  # of which kind, it does not say


def test_a_parameter_that_is_misspelt_is_refused(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    for method, path in (("DELETE", ""), ("DELETE", "/dead-letter"), ("GET", ""), ("GET", "/dead-letter"), ("POST", "/dequeue")):
        answer = server.person.request(method, f"{analyst.place}{path}", params={"mesg_id": msg_id})
        assert refusal(answer, 400, "invalid_input")["field"] == "mesg_id"
    assert analyst.take()["message"]["msg_id"] == msg_id


def test_a_delivery_that_is_over_cannot_be_spoken_for(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    with opened(server) as store:
        mail.set_policy(store, analyst.name, inflight_timeout_secs=0.000001, base_backoff_secs=0.000001)
    old = analyst.take()["delivery_token"]
    with opened(server) as store:
        mail.set_policy(store, analyst.name, inflight_timeout_secs=600)
    new = analyst.take()["delivery_token"]
    for step in ("ack", "nack", "extend"):
        refusal(analyst.say(step, msg_id, delivery_token=old), 409, "delivery_lost")
        refusal(analyst.say(step, msg_id, delivery_token=""), 409, "delivery_lost")
    assert analyst.say("ack", msg_id, delivery_token=new).json()["changed"] is True


def test_an_id_that_never_was_or_is_anothers_is_not_found(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    for step in ("ack", "nack", "extend"):
        refusal(lead.say(step, msg_id), 404, "not_found")
        refusal(analyst.say(step, "never"), 404, "not_found")


WRONG = [
    ("ack", {"delivery_token": 3}, "delivery_token"),
    ("nack", {"reason": 3}, "reason"),
    ("nack", {"reason": "a\u0000b"}, "reason"),
    ("extend", {"seconds": "1"}, "seconds"),
    ("extend", {"seconds": True}, "seconds"),
    ("extend", {"seconds": 0}, "seconds"),
    ("extend", {"seconds": -1}, "seconds"),
    ("extend", {"seconds": 10**400}, "body"),
    ("ack", {"delivery_token": "x", "deliveryToken": "y"}, "delivery_token"),
    ("ack", {"from": 3}, "from"),
]


@pytest.mark.parametrize(("step", "said", "field"), WRONG)
def test_what_is_said_wrongly_of_a_message_is_refused(
    lead: MailboxAgent, analyst: MailboxAgent, step: str, said: dict[str, Any], field: str
) -> None:
    msg_id = lead.send(analyst.name)
    analyst.take()
    answer = analyst.say(step, msg_id, **said)
    assert refusal(answer, 400, "invalid_input")["field"] in (field, "seconds")
    assert analyst.http.get(analyst.place).json()["messages"][0]["state"] == "in_flight"


@pytest.mark.parametrize("name", [*STRANGE, *DOTS])
def test_any_character_survives_in_a_name_and_an_id(server: RunningServer, lead: MailboxAgent, name: str) -> None:
    odd = MailboxAgent(server, name)
    msg_id = f"{name}:{next(NAMES)}/..?#%"
    lead.send(name, msg_id=msg_id)
    taken = odd.take()
    assert (taken["message"]["msg_id"], taken["message"]["to"]) == (msg_id, name)
    assert odd.say("extend", msg_id, delivery_token=taken["delivery_token"]).json()["msg_id"] == msg_id
    assert odd.say("nack", msg_id, reason=name).json()["state"] == "nacked"
    with opened(server) as store:
        assert mail.show(store, msg_id).state == "nacked"


# Waiting


def _begin(pool: ThreadPoolExecutor, session: MailboxAgent, wait: str = "50") -> Future[httpx.Response]:
    return pool.submit(session.dequeue, wait)


def _waiting(pool: ThreadPoolExecutor, session: MailboxAgent) -> Future[httpx.Response]:
    """A call that is known to wait, where only one may: it is the reason why another is refused."""
    call = _begin(pool, session)
    eventually(lambda: call.done() or session.dequeue("0.01").status_code == 429)
    if not call.done():
        return call
    assert call.result().status_code == 429, call.result().text  # the other came first
    return _waiting(pool, session)


@pytest.fixture
def narrow(found: Found) -> RunningServer:
    """A server where one call may wait."""
    return found("--max-waits", "1").open()


def test_a_message_of_another_process_wakes_who_waits(narrow: RunningServer) -> None:
    analyst = MailboxAgent(narrow)
    with ThreadPoolExecutor(1) as pool:
        call = _waiting(pool, analyst)
        narrow.mailbox.ok("enqueue", "--from", "lead", "--to", analyst.name, "--payload", "At last")
        answer = call.result(LIMIT)
    assert (answer.status_code, answer.json()["message"]["payload"]) == (200, "At last")
    assert narrow.close() == 0


def test_a_retry_that_falls_due_wakes_who_waits(narrow: RunningServer) -> None:
    analyst = MailboxAgent(narrow)
    with opened(narrow) as store:
        mail.set_policy(store, analyst.name, base_backoff_secs=0.3)
        msg_id = mail.enqueue(store, {"from": "lead", "to": analyst.name, "payload": "Again"}).msg_id
        mail.dequeue(store, analyst.name)
        mail.nack(store, analyst.name, msg_id)
    answer = analyst.dequeue("50")
    assert (answer.status_code, answer.json()["message"]["attempt"]) == (200, 1)


def test_who_waits_is_told_when_the_server_stops(narrow: RunningServer) -> None:
    analyst = MailboxAgent(narrow)
    with ThreadPoolExecutor(1) as pool:
        call = _waiting(pool, analyst)
        assert narrow.close() == 0
        assert call.result(LIMIT).status_code == 204


def test_who_leaves_while_waiting_takes_nothing(narrow: RunningServer) -> None:
    analyst, place = MailboxAgent(narrow), urlsplit(narrow.url)
    head = f"POST {analyst.place}/dequeue?wait=50 HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {analyst.token}\r\n\r\n"
    begin_to_wait(
        lambda: socket.create_connection((place.hostname, place.port), timeout=LIMIT), head.encode(), lambda: analyst.dequeue("0.01")
    ).close()
    eventually(lambda: analyst.dequeue("0.01").status_code == 204)  # its place is free
    narrow.mailbox.ok("enqueue", "--from", "lead", "--to", analyst.name, "--payload", "For who is there")
    taken = analyst.take()["message"]
    assert (taken["payload"], taken["attempt"]) == ("For who is there", 0)


def test_whose_token_is_void_while_waiting_takes_nothing(narrow: RunningServer) -> None:
    analyst = MailboxAgent(narrow)
    with ThreadPoolExecutor(1) as pool:
        call = _waiting(pool, analyst)
        narrow.inbox.ok("agent", "token", analyst.name, "--revoke")
        narrow.mailbox.ok("enqueue", "--from", "lead", "--to", analyst.name, "--payload", "Not for you")
        refusal(call.result(LIMIT), 401, "unauthenticated")
    (waiting,) = narrow.get(analyst.place)["messages"]
    assert (waiting["state"], waiting["attempt"]) == ("pending", 0)


def test_of_many_who_wait_each_message_wakes_one(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [_begin(pool, analyst) for _ in range(8)]
        sent = {
            server.mailbox.ok("enqueue", "--from", f"{lead.name} {number}", "--to", analyst.name, "--payload", "x")["msg_id"]
            for number in range(8)
        }
        taken = [call.result(LIMIT).json()["message"]["msg_id"] for call in calls]
    assert sorted(taken) == sorted(sent)


@pytest.mark.parametrize("wait", ["-1", "51", "x", "nan", "inf", "1e1", "1_0", "%20", "50.0000000001", "9" * 400])
def test_a_wait_that_is_none_is_refused(analyst: MailboxAgent, wait: str) -> None:
    assert refusal(analyst.dequeue(wait), 400, "invalid_input")["field"] == "wait"
