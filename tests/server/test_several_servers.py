"""Several servers on one PostgreSQL: whichever answers knows what the others did, and one that is killed takes nothing with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import StoreUnreachable
from tests.cli.process import LIMIT, Inbox
from tests.contract.blocking_store import eventually
from tests.server import agents
from tests.server.running_server import RunningServer, WorkspaceClient
from tests.server.verb_calls import TokenAgent, say
from tests.server.wires import wired

CLIENTS = 6


class Pair(NamedTuple):
    first: RunningServer
    second: RunningServer


@pytest.fixture
def pair(postgres_place: str, tmp_path: Path) -> Iterator[Pair]:
    """Two real servers, as on two machines: each has its own home and its own folder for the mirror."""
    servers = [_serve(tmp_path / name, postgres_place) for name in ("first", "second")]
    yield Pair(*servers)
    for server in servers:
        if server.alive():
            assert server.close() == 0


def _serve(folder: Path, place: str) -> RunningServer:
    folder.mkdir()
    server = RunningServer(folder, "--rate", "1000000", "--data", str(folder / "data"))
    server.inbox.served = {"INBOX_DB": place}
    return server.open()


def at_second(pair: Pair, token: str) -> httpx.Client:
    return pair.second.client(token)


def test_a_pass_of_one_server_opens_the_other(pair: Pair) -> None:
    browser = pair.second.signed_in(pair.first.link())
    assert browser.get("/api/inbox/history").status_code == 200

    assert at_second(pair, pair.first.ready["token"]).get("/api/inbox/history").status_code == 200
    agent = TokenAgent(pair.first)
    assert say(at_second(pair, agent.token), "work.fetch", agent=agent.name).status_code == 200


def test_a_stream_is_resumed_at_the_other_server(pair: Pair) -> None:
    with pair.first.listen() as stream:
        pair.second.notify("builder", "one")
        heard = stream.until("entry.created")
    pair.first.kill()
    identities = [pair.second.notify("builder", text) for text in ("two", "three")]
    with pair.second.listen(last=heard.id) as stream:
        assert [stream.until("entry.created").data["message_id"] for _ in identities] == identities


def test_a_wait_at_one_server_is_woken_by_a_write_at_the_other(pair: Pair) -> None:
    agent = TokenAgent(pair.first)
    with ThreadPoolExecutor(1) as pool, wired(pair.first, agent.name) as wire:
        waiting = pool.submit(say, pair.first.client(agent.token), "work.wait_take", agent=agent.name, timeout_seconds=20)
        said = say(pair.second.person, "work.send", sender="user", to=agent.name, subject="Build it")
        assert said.status_code == 200, said.text
        assert waiting.result(LIMIT).json()["result"] is not None
        assert wire.ok("credit", n=1) == {"credit": 1}
        assert say(pair.second.person, "mail.enqueue", {"from": "user", "to": agent.name, "payload": "Hello"}).status_code == 200
        assert wire.message()["payload"] == "Hello"


def test_a_tool_called_at_one_server_shows_at_the_other(pair: Pair) -> None:
    workspace = pair.first.add_workspace()
    added = {"workspace": {name: str(getattr(workspace, name)) for name in ("workspace_id", "label", "agent", "path")}}
    elsewhere = WorkspaceClient(pair.second, {**added, "token": workspace.token})
    workspace.write("report.md", "# Done")
    with agents.at(elsewhere) as agent:
        agent.ok("inbox_push", docs=[{"path": "report.md"}])
    assert pair.first.entry_from(workspace.agent)["docs"][0]["path"] == "report.md"


def test_a_call_that_is_sent_again_after_a_kill_is_done_once(pair: Pair) -> None:
    agent = TokenAgent(pair.first)
    message = {"from": agent.name, "to": "box", "payload": "Once"}
    first = say(pair.first.client(agent.token), "mail.enqueue", message, once="key-1")
    pair.first.kill()
    again = say(at_second(pair, agent.token), "mail.enqueue", message, once="key-1")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert say(pair.second.person, "mail.peek", "box").json()["result"]["total"] == 1


def both(pair: Pair) -> str:
    """The location that names both servers."""
    return f"{pair.first.url},{pair.second.url}"


def test_a_command_that_names_both_servers_goes_on_with_the_one_that_is_left(pair: Pair) -> None:
    agent = TokenAgent(pair.first)
    commands = Inbox(pair.first.folder)
    commands.served = {"INBOX_DB": both(pair), "INBOX_TOKEN": agent.token}
    commands.ok("send", "--from", agent.name, "--to", agent.name, "--subject", "before")
    pair.first.kill()
    commands.ok("send", "--from", agent.name, "--to", agent.name, "--subject", "after")
    assert [found["subject"] for found in commands.ok("fetch", "--agent", agent.name)["threads"]] == ["before", "after"]


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_an_open_store_goes_on_with_the_server_that_is_left_and_loses_nothing(pair: Pair, scheme: str) -> None:
    agent = TokenAgent(pair.first)
    with postroom.connect(both(pair).replace("http:", f"{scheme}:"), token=agent.token) as store:
        sent = [mail.enqueue(store, {"from": agent.name, "to": agent.name, "payload": str(number)}).msg_id for number in range(5)]
        pair.first.kill()
        sent += [mail.enqueue(store, {"from": agent.name, "to": agent.name, "payload": str(number)}).msg_id for number in range(5)]
        assert [message.msg_id for message in mail.peek(store, agent.name).messages] == sent
    with pytest.raises(StoreUnreachable), postroom.connect(pair.first.url, token=agent.token) as store:
        mail.peek(store, agent.name)


def test_clients_at_work_go_on_when_their_server_is_killed_and_each_message_is_stored_once(pair: Pair) -> None:
    """A call whose answer the kill cut off is sent again to the other server, with its key."""
    agent = TokenAgent(pair.first)
    stopped = threading.Event()

    def send_all(accepted: list[str]) -> None:
        with postroom.connect(both(pair), token=agent.token) as store:
            while not stopped.is_set():
                accepted.append(mail.enqueue(store, {"from": agent.name, "to": f"box {id(accepted)}", "payload": "x"}).msg_id)

    sent: list[list[str]] = [[] for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        sending = [pool.submit(send_all, accepted) for accepted in sent]
        assert eventually(lambda: min(map(len, sent)) >= 5)
        pair.first.kill()
        before = list(map(len, sent))
        assert eventually(lambda: all(len(accepted) >= known + 5 for accepted, known in zip(sent, before)))
        stopped.set()
        for one in sending:
            one.result(LIMIT)
    with postroom.connect(pair.second.url, token=pair.second.ready["token"]) as store:
        stored = [[message.msg_id for message in mail.peek(store, f"box {id(accepted)}", limit=1000).messages] for accepted in sent]
    assert stored == sent


def test_a_wait_goes_on_at_the_server_that_is_left(pair: Pair) -> None:
    agent = TokenAgent(pair.first)
    with ThreadPoolExecutor(1) as pool, postroom.connect(both(pair), token=agent.token) as store:
        waiting = pool.submit(work.wait_take, store, agent=agent.name, timeout_seconds=60)
        assert eventually(lambda: "postroom_waiting_calls 1.0" in pair.first.person.get("/metrics").text)
        pair.first.kill()
        assert say(pair.second.person, "work.send", sender="user", to=agent.name, subject="Build it").status_code == 200
        claim = waiting.result(LIMIT)
    assert claim is not None
    assert claim.thread.subject == "Build it"


def test_a_watch_goes_on_at_the_server_that_is_left(pair: Pair) -> None:
    agent = TokenAgent(pair.first)
    with postroom.connect(both(pair), token=agent.token) as store, store.watch(f"agent:{agent.name}") as watch:
        pair.first.kill()
        watch.wait(LIMIT)  # the stream has ended
        watch.wait(LIMIT)  # and another one is open
        assert say(pair.second.person, "work.send", sender="user", to=agent.name, subject="Build it").status_code == 200
        watch.wait(LIMIT)
        assert work.fetch(store, agent=agent.name).candidates[0].thread.subject == "Build it"


def test_an_entry_that_one_server_deletes_leaves_the_mirror_that_the_other_writes(pair: Pair) -> None:
    deleted, kept = (pair.first.add_workspace().push(comments=text) for text in ("Delete me", "Keep me"))
    mirrors = [server.folder / "data" / "inbox" / "entries.jsonl" for server in pair]
    eventually(lambda: any(mirror.exists() and kept in mirror.read_text() for mirror in mirrors))
    other = next(server for server, mirror in zip(pair, mirrors) if not mirror.exists())
    assert other.person.delete(f"/api/inbox/{deleted}").status_code == 204
    mirror = next(mirror for mirror in mirrors if mirror.exists())
    eventually(lambda: deleted not in mirror.read_text() and kept in mirror.read_text())


@pytest.mark.full
def test_the_mirror_is_written_by_the_server_that_is_left(pair: Pair) -> None:
    """It takes over when the lease of the one that was killed has run out, and writes every entry, each once."""
    workspaces = [server.add_workspace() for server in pair]
    pushed = [workspace.push(comments="Done") for workspace in workspaces]
    mirrors = [server.folder / "data" / "inbox" / "entries.jsonl" for server in pair]

    def written(mirror: Path) -> list[str]:
        return [json.loads(line)["id"] for line in mirror.read_text().splitlines()] if mirror.exists() else []

    assert eventually(lambda: pushed in [written(mirror) for mirror in mirrors])
    assert sorted(map(len, map(written, mirrors))) == [0, 2]
    killed, left = (pair.first, pair.second) if written(mirrors[0]) else (pair.second, pair.first)
    killed.kill()
    pushed.append(workspaces[pair.index(left)].push(comments="More"))
    assert eventually(lambda: written(mirrors[pair.index(left)]) == pushed)
