"""The stream of wakes: a client of a server sleeps until there may be something to take."""

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
from postroom.core.limits import MAX_STREAMS_PER_AGENT
from postroom.mail.deliver import Deliverer
from postroom.store.remote import event_stream
from postroom.store.remote.event_stream import EventStreamWatch
from postroom.work.worker import Worker
from tests.cli.process import LIMIT, eventually
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, refusal

Found = Callable[..., RunningServer]
NAMES = count(1)


@pytest.fixture
def name() -> str:
    """Return the name of an agent that nobody else knows."""
    return f"sleeper-{next(NAMES)}"


@pytest.fixture(autouse=True)
def nobody_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", LIMIT * 10)


@contextmanager
def hung(server: RunningServer, *topics: str, token: str | None = None, wire: str = "http") -> Iterator[EventStreamWatch]:
    url = f"unix:{server.ready['uds']}" if wire == "unix" else server.url.replace("http", wire, 1)
    store = postroom.connect(url, token=(server.ready["token"] if token is None else token) if wire != "unix" else "")
    with closing(store), store.watch(*topics) as stream:
        assert isinstance(stream, EventStreamWatch)
        yield stream


RINGING: dict[str, Callable[[RunningServer, str], object]] = {
    "mail": lambda server, name: server.mailbox.enqueue("Hello", to=name),
    "agent": lambda server, name: server.inbox.ok("send", "--from", "leader", "--to", name, "--subject", "Hello"),
}


@pytest.mark.parametrize("wire", ["http", "ws"])
@pytest.mark.parametrize("topic", RINGING)
def test_it_rings_when_there_may_be_something(server: RunningServer, name: str, topic: str, wire: str) -> None:
    with hung(server, f"{topic}:{name}", wire=wire) as stream, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(stream.wait, None)
        RINGING[topic](server, name)
        waiting.result(LIMIT)


def test_what_rang_before_anybody_waited_is_heard(server: RunningServer, name: str) -> None:
    with hung(server, f"mail:{name}") as stream:
        server.mailbox.enqueue("Hello", to=name)
        stream.wait(None)


def test_it_rings_for_nobody_else(server: RunningServer, name: str) -> None:
    with hung(server, f"mail:{name}") as stream:
        server.mailbox.enqueue("Hello", to=f"{name}-other")
        stream.wait(0.3)
        assert _quiet(stream)


def _quiet(stream: EventStreamWatch) -> bool:
    """Whether nothing came: who waits next would wait."""
    assert stream._socket is not None
    try:
        return not stream._socket.recv(1)
    except BlockingIOError:
        return True


def test_over_the_unix_socket(found: Found, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    server = found("--uds", str(tmp_path_factory.mktemp("s") / "s")).open()
    with hung(server, f"mail:{name}", wire="unix") as stream:
        server.mailbox.enqueue("Hello", to=name)
        stream.wait(None)
    assert server.close() == 0


def test_who_waits_can_be_woken_otherwise(server: RunningServer, name: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b".")
    with hung(server, f"mail:{name}") as stream:
        stream.wait(None, reading)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_server_that_comes_back_is_listened_to_again(found: Found, name: str, end: str) -> None:
    server = found().open()
    port = server.url.rpartition(":")[2]
    with hung(server, f"mail:{name}") as stream:
        getattr(server, end)()
        while stream._socket is not None:
            stream.wait(None)  # it returns when the connection is lost
        server.open("--port", port)
        stream.wait(None)  # connected again: look for what was written meanwhile
        assert stream._socket is not None
        server.mailbox.enqueue("Hello", to=name)
        stream.wait(None)
    assert server.close() == 0


def test_an_agent_hears_its_own(server: RunningServer, name: str) -> None:
    token = server.inbox.ok("agent", "token", name)["token"]
    with hung(server, f"agent:{name}", f"mail:{name}", token=token) as stream:
        server.mailbox.enqueue("Hello", to=name)
        stream.wait(None)
    client = server.client(token)
    for topic in ("agent:another", "mail:another"):
        refusal(client.get("/api/bell", params={"topic": topic}), 403, "forbidden")
    refusal(client.get("/api/bell", params=[("topic", f"mail:{name}"), ("topic", "mail:another")]), 403, "forbidden")


WRONG = ["", "topic=", "topic=thread:x", "topic=mail:", "topic=mail:a%00b", "x=1", "topic=mail:a&x=1", "&".join(["topic=mail:a"] * 101)]


@pytest.mark.parametrize("query", WRONG, ids=lambda query: query[:20])
def test_what_is_no_topic_is_refused(server: RunningServer, query: str) -> None:
    refusal(server.person.get(f"/api/bell?{query}"), 400, "invalid_input")


def test_strangers_hear_nothing(server: RunningServer) -> None:
    refusal(server.stranger.get("/api/bell?topic=mail:x"), 401, "unauthenticated")


@pytest.mark.parametrize("topic", RINGING)
def test_it_tells_nothing_but_that_it_rings(server: RunningServer, name: str, topic: str) -> None:
    with server.person.stream("GET", "/api/bell", params={"topic": f"{topic}:{name}"}) as response:
        lines = response.iter_lines()
        assert [next(lines), next(lines)] == [": connected", ""]
        RINGING[topic](server, name)
        assert next(lines) == ": ring"


def test_a_token_that_is_revoked_hears_nothing_more(server: RunningServer, name: str) -> None:
    token = server.inbox.ok("agent", "token", name)["token"]
    with hung(server, f"mail:{name}", token=token) as stream:
        server.inbox.ok("agent", "token", name, "--revoke")

        def over() -> bool:
            server.mailbox.enqueue("Hello", to=name)
            stream.wait(0.1)
            return stream._socket is None

        eventually(over)


def test_one_agent_does_not_take_all_streams(server: RunningServer, name: str) -> None:
    token = server.inbox.ok("agent", "token", name)["token"]
    with ExitStack() as stack:
        store = stack.enter_context(closing(postroom.connect(server.url, token=token)))
        for _ in range(MAX_STREAMS_PER_AGENT):
            stack.enter_context(store.watch(f"mail:{name}"))
        refusal(server.client(token).get("/api/bell", params={"topic": f"mail:{name}"}), 429, "too_many")
        with server.listen() as person:
            assert person.response.status_code == 200


def test_a_worker_is_woken(own_server: RunningServer, name: str) -> None:
    """All of them, over a server: a worker, and one who delivers."""
    with closing(postroom.connect(own_server.url, token=own_server.ready["token"])) as store, ThreadPoolExecutor(2) as aside:
        worker = Worker(store, agent=name, command="cat > /dev/null; echo done")
        deliverer = Deliverer(store, [name], command="cat")
        ends: list[Future[Any]] = [aside.submit(worker.run), aside.submit(deliverer.run)]
        try:
            sent = work.send(store, sender="leader", to=name, subject="Hello").thread.thread_id
            msg_id = mail.enqueue(store, {"from": "leader", "to": name, "payload": "Hello"}).msg_id
            with opened(own_server) as here:
                eventually(lambda: work.show(here, sent).thread.status == "done" and mail.show(here, msg_id).state == "acked")
        finally:
            worker.stop()
            deliverer.stop()
        assert [end.result(LIMIT) for end in ends]
