"""Every verb is called by every kind of caller, and what comes of it is what docs/permissions.md says.

One server, and for each verb a store of its own, which its scenario prepares. Callers that are refused call first: they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from postroom import mail, people, work
from postroom._fastpath import json_text as jsontext
from postroom.core.rpc import wire
from postroom.core.verbs import ANY_AGENT, MESSAGE_SENDER, READ, SERVER_MACHINE, WAIT, Verb
from postroom.server.http.auth import RateLimiter
from postroom.server.rpc.dispatch import routing_table
from postroom.server.rpc.permission_table import HIDDEN, TABLE, YES, rule_of
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock, fresh_file, open_with
from tests.contract import thread_data
from tests.server.test_verbs import minimal
from tests.server.verb_scenarios import SCENARIOS, Arguments
from tests.server_in_thread import ServerInThread

STRANGER, LEADER, OUTSIDE_WORKSPACE = "stranger", "the boss", "outsider"
STATUS = {"403": 403, "404": 404}


@pytest.fixture
def behind(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """The file of the store that the server has."""
    (tmp_path / "behind").mkdir()
    with closing(open_with(fresh_file(tmp_path / "behind"), clock)) as store:
        yield store


class Callers:
    """Calls verbs at a server as different callers."""

    def __init__(self, relay: ServerInThread, store: Store, outside: Path) -> None:
        self.store = store
        outside.mkdir()
        self.tokens = {
            STRANGER: people.issue_agent_token(store, name=STRANGER),
            LEADER: people.issue_agent_token(store, name=LEADER, scope="all"),
            OUTSIDE_WORKSPACE: people.add_workspace(store, str(outside), label="Outside", agent=OUTSIDE_WORKSPACE).token,
        }
        self.tcp = httpx.Client(base_url=relay.url("http"), timeout=30)
        self.unix = httpx.Client(transport=httpx.HTTPTransport(uds=relay.url("unix").removeprefix("unix:")), base_url="http://localhost")

    def token_of(self, name: str) -> str:
        """The token of an agent: that of its workspace, if it has one."""
        if name not in self.tokens:
            known = {workspace.agent: workspace.workspace_id for workspace in people.list_workspaces(self.store)}
            if name in known:
                self.tokens[name] = people.rotate_token(self.store, known[name]).token
            else:
                self.tokens[name] = people.issue_agent_token(self.store, name=name)
        return self.tokens[name]

    def call(self, verb: str, arguments: Arguments, token: str | None, *, local: bool = False) -> httpx.Response:
        body = jsontext.dumps({"named": {key: wire.encode(value) for key, value in arguments.items()}}).encode()
        headers = {"Content-Type": wire.CONTENT_TYPE} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        return (self.unix if local else self.tcp).post(f"/api/verbs/{verb}", content=body, headers=headers)

    def close(self) -> None:
        self.tcp.close()
        self.unix.close()


@contextmanager
def serving(relay: ServerInThread, store: Store, clock: Clock) -> Iterator[Callers]:
    office = relay._office
    usual = office.dev, office.anonymous_limiter
    with relay.serving(store.location, clock), closing(Callers(relay, store, Path(store.location).parent / "outside")) as callers:
        office.dev, office.anonymous_limiter = False, RateLimiter(1e6, 1e6)
        try:
            yield callers
        finally:
            office.dev, office.anonymous_limiter = usual


@pytest.fixture
def callers(relay: ServerInThread, behind: Store, clock: Clock) -> Iterator[Callers]:
    with serving(relay, behind, clock) as callers:
        yield callers


def arranged(verb: Verb, store: Store) -> Arguments:
    """The arguments of a verb on a thing that exists. A waiting verb looks once."""
    if verb.caller == SERVER_MACHINE:
        return minimal(verb.name)
    if verb.name == "work.send":  # its scenario opens a thread, which every agent may do
        return {"thread_id": thread_data.sent(store), "sender": "leader", "summary": "And the logout"}
    arguments = SCENARIOS[verb.name](store)
    arguments.pop("receiver", None)  # an agent receives for itself
    return {**arguments, "timeout_seconds": 0.01} if verb.mode == WAIT else arguments


def parties(verb: Verb, arguments: Arguments, store: Store) -> tuple[str, str]:
    """The agent whose thing the arguments name, or that acts in them, and the other party of that thing."""
    both = _both_sides(arguments, store)
    if verb.caller == MESSAGE_SENDER:
        [sent, *_] = [arguments["message"]] if "message" in arguments else arguments["messages"]
        own = sent["from"]
    elif verb.caller == "workspace_id":
        own = next(one.agent for one in people.list_workspaces(store) if one.workspace_id == arguments["workspace_id"])
    elif " " in verb.caller:
        own = both[0]
    else:
        own = arguments[verb.caller]
    return own, both[1] if own == both[0] else both[0]


def _both_sides(arguments: Arguments, store: Store) -> tuple[str, str]:
    if "thread_id" in arguments:
        thread = work.show(store, arguments["thread_id"]).thread
        return thread.created_by, thread.assigned_to
    if "task_id" in arguments:
        task = Conductor(store).get(arguments["task_id"])
        return task.target_agent, task.source_agent
    if "job_id" in arguments and "agent" not in arguments:
        return next(job.agent for job in Conductor(store).jobs() if job.job_id == arguments["job_id"]), "another"
    if "msg_id" in arguments and "session" not in arguments:
        message = mail.show(store, arguments["msg_id"]).message
        assert message is not None
        return message.sender, message.to
    return "somebody", "another"


def in_name_of(verb: Verb, arguments: Arguments, name: str) -> Arguments:
    """The same call on the same thing, but in another name. Unchanged if the name is all that the call is about."""
    on_a_thing = TABLE[rule_of(verb)].stranger == HIDDEN
    return {**arguments, verb.caller: name} if on_a_thing and " " not in verb.caller else arguments


@pytest.mark.parametrize("name", sorted(routing_table()))
def test_a_verb_does_for_each_caller_what_the_table_says(name: str, callers: Callers, behind: Store) -> None:
    verb, expected = routing_table()[name], TABLE[rule_of(routing_table()[name])]
    arguments = arranged(verb, behind)
    own, party = ("somebody", "another") if verb.caller == SERVER_MACHINE else parties(verb, arguments, behind)
    outcomes = {
        own: expected.own,
        party: expected.party,
        STRANGER: expected.stranger,
        OUTSIDE_WORKSPACE: expected.stranger,
        LEADER: expected.leader,
    }
    assert callers.call(name, arguments, None).status_code == 401, "anonymous"
    for caller, outcome in outcomes.items():
        if outcome != YES:
            said = in_name_of(verb, arguments, caller)
            answer = callers.call(name, said, callers.token_of(caller))
            assert answer.status_code == STATUS[outcome], (caller, answer.text)
            assert "lse_" not in answer.text
    for caller, outcome in outcomes.items():
        if outcome == YES:
            answer = callers.call(name, in_name_of(verb, arguments, caller), callers.token_of(caller))
            assert answer.status_code == 200 or (caller != own and _refused_by_the_verb(verb, answer)), (caller, answer.text)
    for local, token in ((False, people.issue_bearer(behind, person="user")), (True, None)):
        answer = callers.call(name, arguments, token, local=local)
        if expected.person == YES:
            assert answer.status_code == 200 or _refused_by_the_verb(verb, answer), answer.text
        else:
            assert answer.status_code == STATUS[expected.person], answer.text


def _refused_by_the_verb(verb: Verb, answer: httpx.Response) -> bool:
    """Whether a call was allowed and came too late: another caller has done the same deed before."""
    return verb.mode != READ and answer.status_code in (400, 404, 409) and verb.caller != ANY_AGENT
