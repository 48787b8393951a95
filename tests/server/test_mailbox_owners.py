"""Mailboxes over HTTP: whose they are, by which token, and under which ids and aliases their messages are known."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

import postroom
from postroom import mail
from postroom.core.errors import Forbidden
from tests.cli.process import eventually
from tests.server.conftest import own_server
from tests.server.mailbox_agent import MailboxAgent
from tests.server.mailbox_data import dead_letter, opened, part
from tests.server.running_server import RunningServer, WorkspaceClient, refusal

Found = Callable[..., RunningServer]
server = own_server  # others use mailboxes of the same names


@pytest.fixture
def lead(server: RunningServer) -> MailboxAgent:
    return MailboxAgent(server)


@pytest.fixture
def analyst(server: RunningServer) -> MailboxAgent:
    return MailboxAgent(server)


# Ownership of a mailbox


def _touch(client: httpx.Client, session: str, msg_id: str) -> dict[str, int]:
    """Everything that can be done with a mailbox; how each was answered."""
    place = f"/api/mailbox/{part(session)}"
    message = f"{place}/{part(msg_id)}"
    answers = {
        "peek": client.get(place),
        "dead": client.get(f"{place}/dead-letter"),
        "dequeue": client.post(f"{place}/dequeue"),
        "wait": client.post(f"{place}/dequeue?wait=0.01"),
        "extend": client.post(f"{message}/extend", json={}),
        "ack": client.post(f"{message}/ack", json={}),
        "nack": client.post(f"{message}/nack", json={}),
        "retry": client.post(f"{place}/dead-letter/retry", json={}),
        "purge dead": client.delete(f"{place}/dead-letter"),
        "purge": client.delete(place),
    }
    return {name: answer.status_code for name, answer in answers.items()}


def test_the_mailbox_of_another_is_closed(
    server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient, lead: MailboxAgent, analyst: MailboxAgent
) -> None:
    for owner in (analyst.name, workspace.agent, "user", analyst.name.upper(), f"{lead.name}x"):
        msg_id = lead.send(owner)
        for client in (lead.http, other.http):
            assert set(_touch(client, owner, msg_id).values()) == {403}
        (waiting,) = server.get(f"/api/mailbox/{part(owner)}")["messages"]
        assert (waiting["msg_id"], waiting["state"]) == (msg_id, "pending")


@pytest.mark.parametrize("kind", ["session", "workspace"])
def test_an_agent_has_its_own_mailbox_and_may_clear_it(
    server: RunningServer, workspace: WorkspaceClient, lead: MailboxAgent, analyst: MailboxAgent, kind: str
) -> None:
    client, name = (analyst.http, analyst.name) if kind == "session" else (workspace.http, workspace.agent)
    found = _touch(client, name, lead.send(name))
    assert found == {**dict.fromkeys(found, 200), "wait": 204}


def test_a_person_may_do_all(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    found = _touch(server.person, analyst.name, lead.send(analyst.name))
    assert found == {**dict.fromkeys(found, 200), "wait": 204}
    for _ in range(3):
        lead.send(analyst.name)
    assert server.person.delete(analyst.place).json() == {"purged": 3}
    assert server.person.delete(analyst.place).json() == {"purged": 0}
    assert analyst.dequeue().status_code == 204


def test_an_agent_sees_its_own_dead_letters(server: RunningServer, analyst: MailboxAgent) -> None:
    with opened(server) as store:
        msg_id = dead_letter(store, analyst.name)
    (entry,) = analyst.http.get(f"{analyst.place}/dead-letter").json()["entries"]
    assert entry["msg_id"] == msg_id


def test_a_stranger_has_no_mailbox(server: RunningServer, analyst: MailboxAgent) -> None:
    for client in (server.stranger, server.client("pra_" + "0" * 64), server.client(analyst.token[:-1])):
        assert set(_touch(client, analyst.name, "x").values()) == {401}
        refusal(client.post("/api/mailbox", json={"to": analyst.name, "payload": "x"}), 401, "unauthenticated")


# Tokens


def test_a_new_token_makes_the_old_one_void_at_once(server: RunningServer, analyst: MailboxAgent) -> None:
    old = analyst.token
    assert analyst.dequeue().status_code == 204
    analyst.token = server.inbox.ok("agent", "token", analyst.name)["token"]
    assert analyst.dequeue().status_code == 204
    refusal(server.client(old).post(f"{analyst.place}/dequeue"), 401, "unauthenticated")


def test_a_revoked_token_is_void_at_once(server: RunningServer, analyst: MailboxAgent) -> None:
    server.inbox.ok("agent", "token", analyst.name, "--revoke")
    refusal(analyst.dequeue(), 401, "unauthenticated")
    refusal(analyst.enqueue(to=analyst.name, payload="x"), 401, "unauthenticated")


def test_an_agents_token_is_no_cookie(server: RunningServer, analyst: MailboxAgent) -> None:
    halves = {"Cookie": f"{server.cookie_name}={analyst.token[:36]}", "X-Postroom-Key": analyst.token[36:]}
    answer = server.stranger.get(analyst.place, headers=halves)
    refusal(answer, 401, "unauthenticated")
    assert server.stranger.get(f"/sign-in?token={analyst.token}").status_code == 404


def test_each_name_has_its_own_rate(found: Found) -> None:
    server = found("--rate", "1").open()
    busy, calm = MailboxAgent(server), MailboxAgent(server)
    eventually(lambda: busy.dequeue().status_code == 429)
    assert calm.dequeue().status_code == 204


# Ids, aliases, pages


def test_another_message_under_a_used_id_is_a_conflict(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name, "one")
    assert lead.enqueue(to=analyst.name, payload="one", msg_id=msg_id).status_code == 200
    refusal(lead.enqueue(to=analyst.name, payload="two", msg_id=msg_id), 409, "id_conflict")
    assert analyst.enqueue(to=lead.name, payload="mine", msg_id=msg_id).status_code == 201


def test_an_agent_may_use_an_alias_of_its_mailbox_and_of_no_other(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    with opened(server) as store:
        mail.set_alias(store, f"nick of {analyst.name}", analyst.name)
        mail.set_alias(store, f"nick of {lead.name}", lead.name)
    msg_id = lead.send(f"nick of {analyst.name}")
    lead.send(f"nick of {lead.name}")
    own, other = (f"/api/mailbox/{part(f'nick of {agent.name}')}" for agent in (analyst, lead))
    assert analyst.http.get(own).json()["total"] == 1
    assert analyst.http.post(f"{own}/dequeue").json()["message"]["msg_id"] == msg_id
    assert analyst.http.post(f"{own}/{part(msg_id)}/ack", json={}).json()["changed"]
    refusal(analyst.http.get(other), 403, "forbidden")
    refusal(analyst.http.post(f"{other}/dequeue"), 403, "forbidden")
    remote = postroom.connect(server.url, token=analyst.token)
    assert mail.peek(remote, f"nick of {analyst.name}").total == 0
    with pytest.raises(Forbidden):
        mail.peek(remote, f"nick of {lead.name}")


def test_an_agent_whose_name_became_an_alias_does_not_get_the_mail_of_that_session(
    server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent
) -> None:
    with opened(server) as store:
        mail.set_alias(store, analyst.name, lead.name)
    lead.send(analyst.name, "for lead only")
    refusal(analyst.dequeue(), 403, "forbidden")
    assert lead.take()["message"]["payload"] == "for lead only"
    with opened(server) as store:
        mail.remove_alias(store, analyst.name)


def test_pages_of_a_mailbox_go_on_over_http(server: RunningServer, lead: MailboxAgent, analyst: MailboxAgent) -> None:
    ids = [lead.send(analyst.name) for _ in range(3)]
    page = analyst.http.get(f"{analyst.place}?limit=2").json()
    assert ([one["msg_id"] for one in page["messages"]], page["total"], page["more"]) == (ids[:2], 3, True)
    rest = analyst.http.get(analyst.place, params={"after": page["after"]}).json()
    assert ([one["msg_id"] for one in rest["messages"]], rest["more"], rest["after"]) == (ids[2:], False, None)
    boxes = server.person.get("/api/mailboxes?limit=1").json()
    assert boxes["more"]
    assert server.person.get("/api/mailboxes", params={"limit": 1, "after": boxes["after"]}).json()["mailboxes"][0] != boxes["mailboxes"][0]


def test_bodies_take_camel_case_and_unknown_fields(lead: MailboxAgent, analyst: MailboxAgent) -> None:
    msg_id = lead.send(analyst.name)
    token = analyst.take()["delivery_token"]
    refusal(analyst.say("ack", msg_id, deliveryToken="dlv_other"), 409, "delivery_lost")
    assert analyst.say("nack", msg_id, deliveryToken=token, reason="x", protocol_version="1.0").json()["state"] == "nacked"
