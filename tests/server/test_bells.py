"""The bell behind a server: whoever works against one sleeps until there may be something to take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import Any

import pytest

import postroom
from postroom import mail, work
from postroom.mail.deliver import Deliverer
from postroom.server.hub import MOST_OF_ONE
from postroom.store.remote import ringing
from postroom.store.remote.ringing import RemoteBell
from postroom.work.worker import Worker
from tests.cli.process import LIMIT, eventually
from tests.server.office import Office, refusal
from tests.server.rooms import opened

Found = Callable[..., Office]
NAMES = count(1)


@pytest.fixture
def name() -> str:
    """Of an agent that nobody else knows."""
    return f"sleeper-{next(NAMES)}"


@pytest.fixture(autouse=True)
def nobody_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "LOOK_EVERY", LIMIT * 10)


@contextmanager
def hung(office: Office, *topics: str, token: str | None = None, wire: str = "http") -> Iterator[RemoteBell]:
    url = f"unix:{office.ready['uds']}" if wire == "unix" else office.url.replace("http", wire, 1)
    store = postroom.connect(url, token=(office.ready["token"] if token is None else token) if wire != "unix" else "")
    with closing(store), store.watch(*topics) as bell:
        assert isinstance(bell, RemoteBell)
        yield bell


RINGING: dict[str, Callable[[Office, str], object]] = {
    "mail": lambda office, name: office.mailbox.enqueue("Hello", to=name),
    "agent": lambda office, name: office.inbox.ok("send", "--from", "leader", "--to", name, "--subject", "Hello"),
}


@pytest.mark.parametrize("wire", ["http", "ws"])
@pytest.mark.parametrize("topic", RINGING)
def test_it_rings_when_there_may_be_something(office: Office, name: str, topic: str, wire: str) -> None:
    with hung(office, f"{topic}:{name}", wire=wire) as bell, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(bell.wait, None)
        RINGING[topic](office, name)
        waiting.result(LIMIT)


def test_what_rang_before_anybody_waited_is_heard(office: Office, name: str) -> None:
    with hung(office, f"mail:{name}") as bell:
        office.mailbox.enqueue("Hello", to=name)
        bell.wait(None)


def test_it_rings_for_nobody_else(office: Office, name: str) -> None:
    with hung(office, f"mail:{name}") as bell:
        office.mailbox.enqueue("Hello", to=f"{name}-other")
        bell.wait(0.3)
        assert _quiet(bell)


def _quiet(bell: RemoteBell) -> bool:
    """Whether nothing came: who waits next would wait."""
    assert bell._line is not None
    try:
        return not bell._line.recv(1)
    except BlockingIOError:
        return True


def test_over_the_unix_socket(found: Found, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    office = found("--uds", str(tmp_path_factory.mktemp("s") / "s")).open()
    with hung(office, f"mail:{name}", wire="unix") as bell:
        office.mailbox.enqueue("Hello", to=name)
        bell.wait(None)
    assert office.close() == 0


def test_who_waits_can_be_woken_otherwise(office: Office, name: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b".")
    with hung(office, f"mail:{name}") as bell:
        bell.wait(None, reading)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_server_that_comes_back_is_listened_to_again(found: Found, name: str, end: str) -> None:
    office = found().open()
    port = office.url.rpartition(":")[2]
    with hung(office, f"mail:{name}") as bell:
        getattr(office, end)()
        while bell._line is not None:
            bell.wait(None)  # told that it is lost
        office.open("--port", port)
        bell.wait(None)  # connected again: what rang meanwhile is to be looked for
        assert bell._line is not None
        office.mailbox.enqueue("Hello", to=name)
        bell.wait(None)
    assert office.close() == 0


def test_an_agent_hears_its_own(office: Office, name: str) -> None:
    token = office.inbox.ok("agent", "token", name)["token"]
    with hung(office, f"agent:{name}", f"mail:{name}", token=token) as bell:
        office.mailbox.enqueue("Hello", to=name)
        bell.wait(None)
    client = office.client(token)
    for topic in ("agent:another", "mail:another"):
        refusal(client.get("/api/bell", params={"topic": topic}), 403, "forbidden")
    refusal(client.get("/api/bell", params=[("topic", f"mail:{name}"), ("topic", "mail:another")]), 403, "forbidden")


WRONG = ["", "topic=", "topic=thread:x", "topic=mail:", "topic=mail:a%00b", "x=1", "topic=mail:a&x=1", "&".join(["topic=mail:a"] * 101)]


@pytest.mark.parametrize("query", WRONG, ids=lambda query: query[:20])
def test_what_is_no_topic_is_refused(office: Office, query: str) -> None:
    refusal(office.person.get(f"/api/bell?{query}"), 400, "invalid_input")


def test_strangers_hear_nothing(office: Office) -> None:
    refusal(office.stranger.get("/api/bell?topic=mail:x"), 401, "unauthenticated")


@pytest.mark.parametrize("topic", RINGING)
def test_it_tells_nothing_but_that_it_rings(office: Office, name: str, topic: str) -> None:
    with office.person.stream("GET", "/api/bell", params={"topic": f"{topic}:{name}"}) as response:
        lines = response.iter_lines()
        assert [next(lines), next(lines)] == [": connected", ""]
        RINGING[topic](office, name)
        assert next(lines) == ": ring"


def test_a_token_that_is_revoked_hears_nothing_more(office: Office, name: str) -> None:
    token = office.inbox.ok("agent", "token", name)["token"]
    with hung(office, f"mail:{name}", token=token) as bell:
        office.inbox.ok("agent", "token", name, "--revoke")

        def over() -> bool:
            office.mailbox.enqueue("Hello", to=name)
            bell.wait(0.1)
            return bell._line is None

        eventually(over)


def test_one_agent_does_not_take_all_streams(office: Office, name: str) -> None:
    token = office.inbox.ok("agent", "token", name)["token"]
    with ExitStack() as stack:
        store = stack.enter_context(closing(postroom.connect(office.url, token=token)))
        for _ in range(MOST_OF_ONE):
            stack.enter_context(store.watch(f"mail:{name}"))
        refusal(office.client(token).get("/api/bell", params={"topic": f"mail:{name}"}), 429, "too_many")
        with office.listen() as person:
            assert person.response.status_code == 200


def test_a_worker_is_woken(own_office: Office, name: str) -> None:
    """All of them, over a server: a worker, and one who delivers."""
    with closing(postroom.connect(own_office.url, token=own_office.ready["token"])) as store, ThreadPoolExecutor(2) as aside:
        worker = Worker(store, agent=name, command="cat > /dev/null; echo done")
        deliverer = Deliverer(store, [name], command="cat")
        ends: list[Future[Any]] = [aside.submit(worker.run), aside.submit(deliverer.run)]
        try:
            sent = work.send(store, sender="leader", to=name, subject="Hello").thread.thread_id
            msg_id = mail.enqueue(store, {"from": "leader", "to": name, "payload": "Hello"}).msg_id
            with opened(own_office) as here:
                eventually(lambda: work.show(here, sent).thread.status == "done" and mail.show(here, msg_id).state == "acked")
        finally:
            worker.stop()
            deliverer.stop()
        assert [end.result(LIMIT) for end in ends]
