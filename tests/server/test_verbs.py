"""Verbs over the network: who may say what, and that what is said is done once, refused alike, and waited for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from typing import Any

import orjson
import pytest

import postroom
from postroom import mail, people, work
from postroom.core import errors
from postroom.core.errors import Forbidden, Interrupted, Invalid, Missing, NotFound, Refusal, StoreUnreachable, Unauthenticated
from postroom.core.records.work import Attachment
from postroom.core.verbs import ANY_AGENT, LEADERS, MESSAGE_SENDER, OWN_NAME, PEOPLE, SERVER_MACHINE, WAIT, Verb
from postroom.server.http.responses import refusal_json, status_of
from postroom.server.rpc.dispatch import routing_table
from postroom.store.interface import Store
from postroom.store.remote.engine import RemoteStore
from postroom.store.remote.transport import HttpAnswer
from tests.server.running_server import RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import TokenAgent, say

NAMES = count(1)
DECLARED = list(routing_table().values())
SERVER_ONLY = {verb.name for verb in DECLARED if verb.caller == SERVER_MACHINE}
PEOPLES = {verb.name for verb in DECLARED if verb.caller in (PEOPLE, LEADERS)}


def minimal(verb: str, **given: Any) -> dict[str, Any]:
    """As little as a verb takes, and nothing that it has to wait long for."""
    named: dict[str, Any] = {}
    for parameter in list(inspect.signature(routing_table()[verb].function).parameters.values())[1:]:
        if parameter.default is parameter.empty:
            named[parameter.name] = "x"
    if routing_table()[verb].mode == WAIT:
        named["timeout_seconds"] = 0.01
    return {**named, **given}


@pytest.fixture
def session(server: RunningServer) -> TokenAgent:
    return TokenAgent(server)


@pytest.fixture
def person(server: RunningServer) -> Iterator[Store]:
    with closing(postroom.connect(server.url, token=server.ready["token"])) as store:
        yield store


@pytest.fixture
def here(server: RunningServer) -> Iterator[Store]:
    """The same store, by its file."""
    with closing(postroom.open(server.place)) as store:
        yield store


@pytest.fixture
def another_person(server: RunningServer) -> str:
    name = f"person-{next(NAMES)}"
    server.inbox.ok("agent", "add", name, "--kind", "human")
    return name


# Permissions


def test_a_verb_is_declared_with_an_argument_that_it_has() -> None:
    for verb in DECLARED:
        named = (ANY_AGENT, LEADERS, MESSAGE_SENDER, PEOPLE, SERVER_MACHINE, *inspect.signature(verb.function).parameters)
        assert verb.caller in named, verb.name


def test_a_verb_without_a_rule_for_agents_fails_at_its_declaration() -> None:
    for caller, access in (("agent", None), (ANY_AGENT, None), (PEOPLE, OWN_NAME), ("agent", "anything")):
        with pytest.raises(TypeError, match="must declare"):
            Verb("work.new", print, caller=caller, access=access, mode=WAIT)


@pytest.mark.parametrize("verb", [*sorted(routing_table())[::12], "no.verb"])  # not all: who guesses may not ask often
def test_nobody_says_anything_without_a_token(server: RunningServer, verb: str) -> None:
    refusal(say(server.stranger, verb), 401, "unauthenticated")


@pytest.mark.parametrize("verb", sorted(PEOPLES | SERVER_ONLY))
def test_an_agent_does_not_say_what_is_for_people(session: TokenAgent, verb: str) -> None:
    refusal(say(session.http, verb, **minimal(verb)), 403, "forbidden")


@pytest.mark.parametrize("verb", sorted(SERVER_ONLY))
def test_what_concerns_the_servers_machine_is_said_by_nobody_from_afar(server: RunningServer, verb: str) -> None:
    assert "--db" in refusal(say(server.person, verb, **minimal(verb)), 403, "forbidden")["hint"]


NAMING = sorted((verb.name, verb.caller) for verb in DECLARED if " " not in verb.caller and verb.caller != "workspace_id")


@pytest.mark.parametrize(("verb", "argument"), NAMING)
def test_an_agent_speaks_in_its_own_name_and_in_no_others(session: TokenAgent, verb: str, argument: str) -> None:
    other = TokenAgent(session.server)
    for name in (other.name, "user", "nobody ever", ""):
        refusal(say(session.http, verb, **minimal(verb, **{argument: name})), 403, "forbidden")
    for no_text in (7, [session.name], {"a": 1}):
        refusal(say(session.http, verb, **minimal(verb, **{argument: no_text})), 400, "invalid_input")
    own = say(session.http, verb, **minimal(verb, **{argument: session.name})).status_code
    assert own in (200, 400, 404, 409)
    none, without = minimal(verb, **{argument: None}), {name: value for name, value in minimal(verb).items() if name != argument}
    if inspect.signature(routing_table()[verb].function).parameters[argument].default is None:
        assert {say(session.http, verb, **given).status_code for given in (none, without)} == {own}
    else:
        refusal(say(session.http, verb, **none), 403, "forbidden")
        refusal(say(session.http, verb, **without), 400, "invalid_input")


@pytest.mark.parametrize("verb", sorted(verb.name for verb in DECLARED if verb.caller == ANY_AGENT))
def test_an_agent_says_what_only_reads(session: TokenAgent, verb: str) -> None:
    assert say(session.http, verb, **minimal(verb)).status_code in (200, 400, 404)


def test_an_agent_sends_mail_as_itself(session: TokenAgent) -> None:
    receiver = TokenAgent(session.server)
    other = receiver.name
    own, forged = ({"from": name, "to": other, "payload": "hello"} for name in (session.name, other))
    assert mail.enqueue(session.store, own).queued
    assert mail.enqueue_all(session.store, iter([own, own]))[1].pending == 3
    for act in (lambda: mail.enqueue(session.store, forged), lambda: mail.enqueue_all(session.store, [own, forged])):
        with pytest.raises(Forbidden):
            act()
    for odd in (None, 7, "x", [own], {"to": other, "payload": "x"}, {"from": [session.name], "to": other, "payload": "x"}):
        refusal(say(session.http, "mail.enqueue", odd), 403, "forbidden")
        refusal(say(session.http, "mail.enqueue_all", [odd]), 403, "forbidden")
    assert mail.peek(receiver.store, other).total == 3


def test_two_spellings_do_not_let_an_agent_send_as_another(session: TokenAgent) -> None:
    """The name that is checked is the name that is stored."""
    for message in ({"from": session.name, "From": "user"}, {"from": session.name, "sender": "user"}):
        stored = say(session.http, "mail.enqueue", {**message, "to": session.name, "payload": "x"})
        assert stored.status_code in (200, 400)
    while (delivery := mail.dequeue(session.store, session.name)) is not None:
        assert delivery.message.sender == session.name
        mail.ack(session.store, session.name, delivery.message.msg_id)


def test_a_workspaces_agent_speaks_in_its_name_too(workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    store = postroom.connect(workspace.server.url, token=workspace.token)
    assert work.send(store, sender=workspace.agent, to=other.agent, subject="Help").message.verified
    with pytest.raises(Forbidden):
        work.send(store, sender=other.agent, to=workspace.agent, subject="Help")


def test_what_an_agent_says_is_vouched_for(session: TokenAgent, here: Store) -> None:
    posted = work.send(session.store, sender=session.name, to="builder", subject="From afar")
    assert (posted.message.door, posted.message.verified) == ("http", True)
    assert work.show(here, posted.thread.thread_id).messages[-1] == posted.message


def test_what_a_person_says_in_an_agents_name_is_not(person: Store) -> None:
    posted = work.send(person, sender="leader", to="builder", subject="From afar")
    assert not posted.message.verified
    assert work.send(person, sender="user", to="builder", subject="From afar").message.verified


SPEAKING: dict[str, Callable[[Store, str], object]] = {
    "work.send": lambda store, name: work.send(store, sender=name, to="builder", subject="S"),
    "work.reply": lambda store, name: work.reply(store, "thr_x", sender=name, summary="S"),
    "work.claim": lambda store, name: work.claim(store, "thr_x", agent=name),
    "work.revoke_lease": lambda store, name: work.revoke_lease(store, "thr_x", person=name),
    "people.reply": lambda store, name: people.reply(store, "x", person=name, body="B"),
    "people.mark_read": lambda store, name: people.mark_read(store, "x", person=name),
    "people.delete_entry": lambda store, name: people.delete_entry(store, "x", person=name),
    "people.notify": lambda store, name: people.notify(store, sender=name, text="T"),
    "people.ask": lambda store, name: people.ask(store, agent=name, question="Q?"),
    "mail.enqueue": lambda store, name: mail.enqueue(store, {"from": name, "to": "x", "payload": ""}),
    "mail.enqueue_all": lambda store, name: mail.enqueue_all(
        store, [{"from": "leader", "to": "x", "payload": ""}, {"from": name, "to": "x", "payload": ""}]
    ),
}


@pytest.mark.parametrize("act", SPEAKING.values(), ids=SPEAKING)
def test_a_person_does_not_speak_as_another(person: Store, another_person: str, act: Callable[[Store, str], object]) -> None:
    with pytest.raises(Forbidden) as refused:
        act(person, another_person)
    assert another_person in str(refused.value)


@pytest.mark.parametrize("act", SPEAKING.values(), ids=SPEAKING)
def test_a_person_speaks_for_themselves_and_for_agents(person: Store, act: Callable[[Store, str], object]) -> None:
    for name in ("user", "an agent"):
        with suppress(Invalid, Missing):  # what it is about is not there
            act(person, name)


def test_a_token_that_was_revoked_is_refused_at_once(server: RunningServer, session: TokenAgent) -> None:
    store = session.store
    assert mail.dequeue(store, session.name) is None
    server.inbox.ok("agent", "token", session.name, "--revoke")
    with pytest.raises(Unauthenticated) as refused:
        mail.dequeue(store, session.name)
    assert "INBOX_TOKEN" in refused.value.hint
    with pytest.raises(Unauthenticated):
        mail.wait(store, session.name, timeout_seconds=30)
    new = server.inbox.ok("agent", "token", session.name)["token"]
    assert mail.dequeue(postroom.connect(server.url, token=new), session.name) is None


def test_an_agent_that_does_not_name_itself_means_itself(server: RunningServer, session: TokenAgent) -> None:
    mail.enqueue(session.store, {"from": session.name, "to": session.name, "payload": "x"})
    work.send(session.store, sender=session.name, to=session.name, subject="Mine")
    work.send(session.store, sender=session.name, to="another", subject="Its")
    taken = mail.dequeue(session.store, session.name)
    assert taken is not None
    steps = server.mailbox.ok("show", "--msg-id", taken.message.msg_id)["steps"]
    assert steps[-1]["receiver"] == session.name
    entry = people.ask(session.store, question="Which?").id
    assert people.wait_answer(session.store, entry, timeout_seconds=0.01).state == "open"
    with pytest.raises(Forbidden):
        people.wait_answer(session.store, entry, agent="another", timeout_seconds=0.01)
    with pytest.raises(Forbidden):
        mail.dequeue(session.store, session.name, receiver="another")


def test_an_agent_sees_what_became_of_what_it_sent_and_got(server: RunningServer, session: TokenAgent) -> None:
    to, stranger = TokenAgent(server), TokenAgent(server)
    msg_id = mail.enqueue(session.store, {"from": session.name, "to": to.name, "payload": "x"}).msg_id
    assert [mail.show(one.store, msg_id).state for one in (session, to)] == ["pending", "pending"]
    with pytest.raises(NotFound) as refused:
        mail.show(stranger.store, msg_id)
    with pytest.raises(NotFound) as unknown:
        mail.show(stranger.store, "no such id")
    assert str(refused.value) == str(unknown.value).replace("no such id", msg_id)
    mail.purge(postroom.connect(server.url, token=server.ready["token"]), to.name)
    assert [mail.show(one.store, msg_id).state for one in (session, to)] == ["purged", "purged"]
    with pytest.raises(NotFound):
        mail.show(stranger.store, msg_id)


def test_a_stranger_who_uses_an_id_of_others_learns_nothing_and_is_in_nobodys_way(server: RunningServer, session: TokenAgent) -> None:
    to, stranger = TokenAgent(server), TokenAgent(server)
    for sender, receiver in ((session, to), (stranger, stranger)):
        mail.enqueue(sender.store, {"msg_id": f"deploy of {to.name}", "from": sender.name, "to": receiver.name, "payload": sender.name})
    shown = {one.name: mail.show(one.store, f"deploy of {to.name}").message for one in (session, to, stranger)}
    assert {name: message.sender for name, message in shown.items() if message} == {
        session.name: session.name,
        to.name: session.name,
        stranger.name: stranger.name,
    }
    with pytest.raises(Forbidden):
        mail.show(stranger.store, f"deploy of {to.name}", visible_to=session.name)


def test_a_new_token_voids_the_one_before(server: RunningServer, session: TokenAgent) -> None:
    server.inbox.ok("agent", "token", session.name)
    with pytest.raises(Unauthenticated):
        mail.dequeue(session.store, session.name)


# Said once


def test_a_key_said_twice_is_done_once(server: RunningServer) -> None:
    named = {"sender": "leader", "to": "builder", "subject": "Once"}
    first, again, other = (say(server.person, "work.send", once=key, **named).json() for key in ("a key", "a key", "another"))
    assert first == again
    assert first["result"] != other["result"]


def test_a_key_said_twice_is_done_once_however_long_its_answer_is(server: RunningServer) -> None:
    named = {"sender": "leader", "to": "builder", "subject": "Once", "body": "x" * 200_000}
    first, again = (say(server.person, "work.send", once="a long one", **named).json() for _ in range(2))
    assert first == again


def test_a_key_that_is_said_by_many_at_once_is_done_once(server: RunningServer, here: Store) -> None:
    subject = f"At once {next(NAMES)}"

    def act(_: int) -> bytes:
        return say(server.person, "work.send", once=subject, sender="leader", to="builder", subject=subject).content

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(act, range(16)))) == 1
    assert [thread.subject for thread in work.list_threads(here, limit=1000).threads].count(subject) == 1


def test_a_delivery_whose_answer_was_lost_is_given_again_to_who_asks_with_its_key(session: TokenAgent) -> None:
    mail.enqueue(session.store, {"from": session.name, "to": session.name, "payload": "hello"})
    first, again = (say(session.http, "mail.dequeue", session.name, once="k") for _ in range(2))
    assert first.json()["result"] is not None
    assert again.json() == first.json()
    assert say(session.http, "mail.dequeue", session.name, once="l").json()["result"] is None


def test_a_key_is_its_callers_own(server: RunningServer, session: TokenAgent) -> None:
    other = TokenAgent(server)
    for one in (session, other):
        mail.enqueue(one.store, {"from": one.name, "to": one.name, "payload": one.name})
    for one in (session, other):
        told = say(one.http, "mail.dequeue", one.name, once="the same").json()["result"]
        assert one.name in str(told)


def test_a_key_with_other_words_is_not_the_same(server: RunningServer) -> None:
    subjects = [say(server.person, "work.send", once="k k", sender="leader", to="builder", subject=one).json() for one in ("One", "Two")]
    assert ["One" in str(subjects[0]), "Two" in str(subjects[1])] == [True, True]


def test_what_was_refused_may_be_said_again(session: TokenAgent) -> None:
    args = (session.name, "m:1")
    refusal(say(session.http, "mail.ack", *args, once="k"), 404, "not_found")
    mail.enqueue(session.store, {"from": session.name, "to": session.name, "payload": "", "msg_id": f"{session.name} m"})
    mail.dequeue(session.store, session.name)
    told = say(session.http, "mail.ack", session.name, f"{session.name} m", once="k")
    assert told.status_code == 200, told.text


# Refused alike

REFUSED: dict[str, Callable[[Store], object]] = {
    "a name": lambda store: mail.dequeue(store, "a\nb"),
    "a number": lambda store: mail.peek(store, "box", limit=0),
    "a message": lambda store: mail.enqueue(store, {"from": "a", "to": "b"}),
    "not there": lambda store: mail.ack(store, "box", "nothing"),
    "no thread": lambda store: work.show(store, "thr_nowhere"),
    "an agent": lambda store: work.show_agent(store, "nobody ever"),
    "an entry": lambda store: people.show_entry(store, "nothing"),
    "a choice": lambda store: work.list_threads(store, statuses=["gone"]),
    "a surrogate": lambda store: work.send(store, sender="a", to="b", subject="\ud800"),
    "not a number": lambda store: work.claim(store, "thr_x", agent="a", lease_seconds=float("nan")),
    "a wait": lambda store: mail.wait(store, "box", timeout_seconds=-1),
    "an alias": lambda store: mail.remove_alias(store, "no alias"),
}


@pytest.mark.parametrize("act", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same_as_in_the_library(here: Store, person: Store, act: Callable[[Store], object]) -> None:
    assert _refusal(person, act) == _refusal(here, act)


def _refusal(store: Store, act: Callable[[Store], object]) -> tuple[type, str, str, str, dict[str, object]]:
    with pytest.raises(Refusal) as refused:
        act(store)
    return type(refused.value), refused.value.code, str(refused.value), refused.value.hint, refused.value.facts


def test_a_conflict_is_the_same_as_in_the_library(here: Store, person: Store) -> None:
    thread = work.send(here, sender="leader", to="builder", subject="Mine").thread.thread_id
    claimed = work.claim(here, thread, agent="builder")

    def held(store: Store) -> object:
        return work.claim(store, thread, agent="other")

    def lost(store: Store) -> object:
        return work.done(store, thread, agent="builder", summary="S", lease_token=claimed.lease.lease_token)

    assert _refusal(person, held) == _refusal(here, held)
    work.claim(here, thread, agent="builder", takeover=True)
    assert _refusal(person, lost) == _refusal(here, lost)
    work.done(here, thread, agent="builder", summary="S")
    assert _refusal(person, held) == _refusal(here, held)


def _kinds(kind: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    for found in kind.__subclasses__():
        yield found
        yield from _kinds(found)


@pytest.mark.parametrize("kind", list(_kinds()), ids=lambda kind: kind.__name__)
def test_every_refusal_of_the_house_comes_back_as_itself(kind: type[Refusal]) -> None:
    refused = kind("It is so.", hint="Do that.", field="x", path="/p", seconds=1.5, nothing=None)
    with pytest.raises(Refusal) as found:
        RemoteStore("http://127.0.0.1:1")._read_answer(HttpAnswer(status_of(refused), orjson.dumps(refusal_json(refused)), "0.1.0"))
    again = found.value
    if issubclass(kind, Interrupted):  # there, because the server stops: here it is away
        assert isinstance(again, StoreUnreachable)
        return
    assert (type(again), str(again), again.hint, again.facts) == (kind, str(refused), refused.hint, refused.facts)


# Answers


def test_what_comes_back_is_what_the_library_gives(here: Store, person: Store) -> None:
    thread = work.send(
        person, sender="leader", to="builder", subject="Same", artifacts=[Attachment("a.md", "doc", '{"pages": 2}')]
    ).thread.thread_id
    claimed = work.claim(person, thread, agent="builder")
    work.update(person, thread, agent="builder", summary="Half")
    for look in LOOKS:
        before = look(here)
        assert look(person) in (before, look(here))  # mail of other tests, which is in flight, may fall due meanwhile
    seen, stored = work.show(person, thread), work.show(here, thread)
    assert stored.lease is not None
    assert stored.lease.lease_token == claimed.lease.lease_token
    assert seen == stored.replace(lease=stored.lease.replace(lease_token=""))  # shown to its holder alone


LOOKS: tuple[Callable[[Store], object], ...] = (
    work.list_threads,
    work.list_agents,
    work.list_runs,
    mail.sessions,
    mail.aliases,
    lambda store: mail.policy(store, "box"),
    people.history,
    people.list_workspaces,
)


def test_a_store_elsewhere_has_no_transactions(person: Store) -> None:
    for act in (person.read, person.write, person.batch):
        with pytest.raises(errors.InvalidState):
            act()
