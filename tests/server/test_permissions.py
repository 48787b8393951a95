"""Every verb is called by every kind of caller, and what comes of it is what docs/permissions.md says.

One server, and for each verb a store of its own, which its scenario prepares. Callers that are refused call first: they change nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute

from postroom import mail, people, work
from postroom._fastpath import json_text as jsontext
from postroom.core.rpc import wire
from postroom.core.verbs import ANY_AGENT, JOB_OWNER, MESSAGE_SENDER, READ, SERVER_MACHINE, WAIT, Verb
from postroom.server.app import MAILBOX_SOCKET_PATH, PERSON_ROUTES, SHARED_ROUTES, VERB_SOCKET_PATH, make_routes
from postroom.server.http import static
from postroom.server.http.auth import RateLimiter
from postroom.server.mcp.handlers import ToolHandlers
from postroom.server.mcp.open_calls import OpenCalls
from postroom.server.mcp.tool_table import TOOLS as TOOL_TABLE
from postroom.server.rpc.dispatch import routing_table
from postroom.server.rpc.permission_table import HIDDEN, TABLE, YES, rule_of
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock, fresh_file, open_with
from tests.contract import mail_data, thread_data
from tests.contract.mail_data import BOX
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
        self.tcp = httpx.Client(base_url=relay.url("http"), timeout=30, verify=False)
        by_unix = httpx.HTTPTransport(uds=relay.url("unix").removeprefix("unix:"), verify=False)
        self.unix = httpx.Client(transport=by_unix, base_url="http://localhost")

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
    office = relay.app_state
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
    if "task_id" in arguments or "task_ids" in arguments:
        task = Conductor(store).get(arguments["task_id"] if "task_id" in arguments else arguments["task_ids"][0])
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
    return verb.mode != READ and answer.status_code in (400, 404, 409) and (verb.caller != ANY_AGENT or verb.access == JOB_OWNER)


# The other doors: each route and each tool calls a verb, and does what the table says of that verb

ROUTES: dict[tuple[str, str], tuple[str, dict[str, Any] | None]] = {
    ("POST", "/api/mailbox"): ("mail.enqueue", {"from": "box", "to": "other", "payload": "hello"}),
    ("GET", "/api/mailbox/{session}"): ("mail.peek", None),
    ("GET", "/api/mailbox/{session}/dead-letter"): ("mail.peek_dead_letter", None),
    ("POST", "/api/mailbox/{session}/dequeue"): ("mail.dequeue", None),
    ("POST", "/api/mailbox/{session}/{msg_id}/extend"): ("mail.extend", {}),
    ("POST", "/api/mailbox/{session}/{msg_id}/nack"): ("mail.nack", {}),
    ("POST", "/api/mailbox/{session}/{msg_id}/ack"): ("mail.ack", {}),
    ("POST", "/api/mailbox/{session}/dead-letter/retry"): ("mail.retry_dead_letter", {}),
    ("DELETE", "/api/mailbox/{session}/dead-letter"): ("mail.purge_dead_letter", None),
    ("DELETE", "/api/mailbox/{session}"): ("mail.purge", None),
}
OTHER_ROUTES = {
    ("POST", "/api/inbox/push"),
    ("GET", "/api/bell"),
}  # tests/server/test_hostile_workspace.py, tests/server/test_wake_stream.py

TASK_ROUTES = {("GET", "/api/tasks"), ("POST", "/api/tasks"), ("GET", "/api/tasks/{id}"), ("POST", "/api/tasks/{id}/cancel")}


def test_every_route_that_agents_may_use_is_walked() -> None:
    assert {(method, path) for method, path, _ in SHARED_ROUTES} == ROUTES.keys() | OTHER_ROUTES | TASK_ROUTES


# Routes that need no token, or a link, which is checked by the route itself.
PUBLIC_ROUTES = {
    *(("GET", path) for path in ("/health", "/ready", "/api/openapi.json", "/api/asyncapi.json", "/sign-in")),
    *(("GET", path) for path in ("/sw.js", "/manifest.webmanifest", "/web/{version}/{name:path}", *static.PAGE_PATHS)),
    *((method, "/answer") for method in ("GET", "POST")),  # tests/server/test_away.py
}
# Routes for every caller with a token: they show nothing of anybody.
TOKEN_ROUTES = {("GET", "/metrics")}
# Routes that check each call by itself: those of verbs and frames, which the other tests walk, and those of tools.
CALL_ROUTES = {
    *(("POST", path) for path in ("/api/verbs/{verb}", "/mcp/{workspace_id}")),
    *(("SOCKET", path) for path in (MAILBOX_SOCKET_PATH, VERB_SOCKET_PATH, "/{path:path}")),  # the last refuses every other address
    ("GET", MAILBOX_SOCKET_PATH),  # refuses a request that is no upgrade
}


def _served_routes() -> set[tuple[str, str]]:
    """Method and path of every route. Starlette answers HEAD wherever it answers GET."""
    found: set[tuple[str, str]] = set()
    for route in make_routes():
        assert isinstance(route, Route | WebSocketRoute), route
        methods = (route.methods or set()) - {"HEAD"} if isinstance(route, Route) else {"SOCKET"}
        found |= {(method, route.path) for method in methods}
    return found


def test_every_route_of_the_server_is_walked_or_public() -> None:
    declared = {(method, path) for method, path, _ in (*SHARED_ROUTES, *PERSON_ROUTES)}
    assert _served_routes() == declared | PUBLIC_ROUTES | TOKEN_ROUTES | CALL_ROUTES
    assert not declared & (PUBLIC_ROUTES | TOKEN_ROUTES | CALL_ROUTES)


def test_a_route_for_every_caller_with_a_token_is_for_no_other(callers: Callers) -> None:
    for method, path in TOKEN_ROUTES:
        assert callers.tcp.request(method, path).status_code == 401, path
        for caller in (STRANGER, OUTSIDE_WORKSPACE, LEADER):
            answer = callers.tcp.request(method, path, headers={"Authorization": f"Bearer {callers.token_of(caller)}"})
            assert answer.status_code == 200, (path, caller, answer.text)


def test_a_route_of_tasks_is_for_those_that_gave_or_got_the_task(callers: Callers, behind: Store) -> None:
    conductor = Conductor(behind)
    for name in ("ann-1", "bob-1"):
        conductor.register(name)
    task = conductor.submit("ann-1", "bob-1", "Secret").task_id
    for method, path in TASK_ROUTES:
        assert callers.tcp.request(method, path.format(id=task), json={}).status_code == 401, path

    def ask(caller: str, method: str, path: str, body: dict[str, str] | None = None) -> httpx.Response:
        return callers.tcp.request(method, path, json=body, headers={"Authorization": f"Bearer {callers.token_of(caller)}"})

    names = (STRANGER, OUTSIDE_WORKSPACE, "bob-1", "ann-1")
    assert [task in ask(name, "GET", "/api/tasks").text for name in names] == [False, False, True, True]
    assert [ask(name, "GET", f"/api/tasks/{task}").status_code for name in names] == [404, 404, 200, 200]
    assert [ask(name, "POST", f"/api/tasks/{task}/cancel", {}).status_code for name in names] == [404, 404, 403, 200]
    assert ask("ann-1", "POST", "/api/tasks", {"to": "bob-1", "description": "More"}).status_code == 201
    assert ask("ann-1", "POST", "/api/tasks", {"to": "bob-1", "description": "More", "source_agent": "bob-1"}).status_code == 400


def test_a_route_does_for_each_caller_what_the_table_says_of_its_verb(callers: Callers, behind: Store) -> None:
    held = mail_data.held(behind)
    mail_data.post(behind, sender="bob", to=BOX)
    person = people.issue_bearer(behind, person="user")
    for (method, path), (name, body) in ROUTES.items():
        expected = TABLE[rule_of(routing_table()[name])]
        address = path.format(session=BOX, msg_id=held.msg_id)
        tokens = {name: callers.token_of(name) for name in (STRANGER, OUTSIDE_WORKSPACE, LEADER, BOX)} | {"person": person}
        outcomes = {STRANGER: expected.stranger, OUTSIDE_WORKSPACE: expected.stranger, LEADER: expected.leader}
        assert callers.tcp.request(method, address, json=body).status_code == 401, path
        for caller, outcome in {**outcomes, BOX: expected.own, "person": expected.person}.items():
            answer = callers.tcp.request(method, address, json=body, headers={"Authorization": f"Bearer {tokens[caller]}"})
            wanted = (200, 201, 204, 409) if outcome == YES else (STATUS[outcome],)  # 409: another caller has done it before
            assert answer.status_code in wanted, (path, caller, answer.text)


def test_a_route_for_people_is_for_people_alone(callers: Callers) -> None:
    for method, path, _ in PERSON_ROUTES:
        address = re.sub(r"\{\w+\}", "x", path)
        assert callers.tcp.request(method, address).status_code == 401, path
        for caller in (STRANGER, OUTSIDE_WORKSPACE, LEADER):
            answer = callers.tcp.request(method, address, headers={"Authorization": f"Bearer {callers.token_of(caller)}"})
            assert answer.status_code == 403, (path, caller, answer.text)


TOOLS: dict[str, tuple[str, Arguments]] = {
    "work_fetch": ("work.show", {}),
    "work_claim": ("work.claim", {}),
    "work_update": ("work.update", {"summary": "Half"}),
    "work_send": ("work.reply", {"summary": "Hello"}),
    "work_done": ("work.done", {"outcome": "done"}),
}
OWN_TOOLS = {"inbox_push", "inbox_read", "inbox_ask"}  # name no thing of others but an entry: tests/server/test_hostile_agent.py


def test_every_tool_is_walked() -> None:
    assert set(TOOL_TABLE) == TOOLS.keys() | OWN_TOOLS


def test_a_tool_does_for_each_caller_what_the_table_says_of_its_verb(behind: Store, tmp_path: Path) -> None:
    """The tools themselves, over the store's file: a server adds the token of the workspace."""
    workspaces = {}
    for agent in ("leader", "builder", STRANGER):
        (tmp_path / agent).mkdir()
        workspaces[agent] = people.add_workspace(behind, str(tmp_path / agent), label=agent, agent=agent).workspace
    thread = thread_data.sent(behind)  # from leader, for builder

    async def walk() -> None:
        store_access = StoreAccess(behind.location)
        try:
            for tool, (name, more) in TOOLS.items():
                expected = TABLE[rule_of(routing_table()[name])]
                for agent, outcome in {STRANGER: expected.stranger, "leader": expected.party, "builder": expected.own}.items():
                    call = OpenCalls(store_access).begin_call(agent, "test", 1)
                    tools = ToolHandlers(store_access, workspaces[agent], call)
                    answer, is_refusal = await tools.call_tool(tool, {"threadId": thread, **more})
                    code = answer["error"]["code"] if is_refusal else YES
                    wanted = {YES: (YES, "lease_conflict"), HIDDEN: ("not_found",)}.get(outcome, ("forbidden",))
                    assert code in wanted, (tool, agent, answer)
        finally:
            await store_access.close()

    asyncio.run(walk())
