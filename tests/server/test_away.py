"""A server that is away, comes back, or is not ours: a client waits, or says so, and never says that nothing is there."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import InvalidInput, Refusal, StoreUnreachable, Unauthenticated
from postroom.store.interface import Store
from tests.cli.process import Waiter, eventually
from tests.server.running_server import RunningServer

Found = Callable[..., RunningServer]
NAMES = count(1)
LENGTH = re.compile(rb"content-length: ([0-9]+)", re.IGNORECASE)
BOX = "box"


@pytest.fixture
def path() -> Iterator[str]:
    """Where a socket can be: such a path is short."""
    with TemporaryDirectory(prefix="postroom-") as folder:
        yield str(Path(folder) / "socket")


class RemoteCommands:
    """Commands that are told where the server is."""

    def __init__(self, server: RunningServer, path: str, wire: str) -> None:
        self.server = server
        self.path = path
        self.url = server.url if wire == "http" else f"unix:{path}"
        self.variables = {"INBOX_DB": self.url} | ({"INBOX_TOKEN": server.ready["token"]} if wire == "http" else {})

    def again(self) -> None:
        """The same server, at the same place."""
        self.server.open("--port", self.server.url.rpartition(":")[2])

    def waits(self, *argv: str, program: str = "mailbox") -> Waiter:
        """A command that has asked the server, and waits for its answer."""
        before = self._lines()
        started = (self.server.mailbox if program == "mailbox" else self.server.inbox).start(*argv, **self.variables)
        eventually(lambda: bool(self._lines() - before))
        return started.sleeping()

    def _lines(self) -> set[str]:
        """The connections that clients have with the server. Those of the server with its database are not among them."""
        sockets = {f"socket:[{inode}]" for inode in _inodes_at(int(self.server.url.rpartition(":")[2]), self.path)}
        folder = Path(f"/proc/{self.server.process.pid}/fd")
        return sockets.intersection(map(_link, folder.iterdir()))

    def store(self) -> Store:
        return postroom.connect(self.url, token=self.variables.get("INBOX_TOKEN", ""))


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def _inodes_at(port: int, path: str) -> Iterator[str]:
    """The inodes of the sockets that are bound to a port or a path, as the kernel lists them: also those that were accepted there."""
    for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:]):
        if int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]
    for fields in map(str.split, Path("/proc/net/unix").read_text().splitlines()[1:]):
        if fields[-1] == path:
            yield fields[6]


@pytest.fixture(params=["http", "unix"])
def afar(found: Found, path: str, request: pytest.FixtureRequest) -> RemoteCommands:
    return RemoteCommands(found("--uds", path).open(), path, request.param)


# Away, and back


def test_a_wait_outlives_a_server_that_is_killed(afar: RemoteCommands) -> None:
    waiter = afar.waits("wait", "--session", BOX, "--timeout-seconds", "100", "--json")
    afar.server.kill()
    afar.server.mailbox.enqueue("after all", to=BOX)
    assert waiter.alive()
    afar.again()
    finished = waiter.finish()
    assert finished.code == 0, finished
    assert finished.json["message"]["payload"] == "after all"


def test_a_wait_outlives_a_server_that_is_stopped(afar: RemoteCommands) -> None:
    waiter = afar.waits("wait", "--session", BOX, "--json")
    assert afar.server.close() == 0
    afar.server.mailbox.enqueue("after all", to=BOX)
    afar.again()
    finished = waiter.finish()
    assert finished.code == 0, finished
    assert finished.json["message"]["payload"] == "after all"


def test_a_reply_that_came_while_the_server_was_away_is_given(afar: RemoteCommands) -> None:
    inbox = afar.server.inbox
    thread = inbox.send()
    inbox.ok("claim", "--agent", "builder", "--thread", thread)
    inbox.ok("update", "--agent", "builder", "--thread", thread, "--status", "blocked", "--summary", "Which?")
    waiter = afar.waits("wait-reply", "--agent", "builder", "--thread", thread, "--json", program="inbox")
    afar.server.kill()
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--summary", "Blue")
    afar.again()
    assert waiter.finish().json["message"]["summary"] == "Blue"


def test_a_watch_misses_nothing_while_the_server_is_away(afar: RemoteCommands) -> None:
    cursor = afar.server.inbox.ok("send", "--from", "leader", "--to", "ada", "--subject", "Before")["next_event_id"]
    waiter = afar.waits("watch", "--after-event", str(cursor), "--json", program="inbox")
    afar.server.kill()
    thread = afar.server.inbox.send()
    afar.again()
    finished = waiter.finish()
    assert [event["thread_id"] for event in finished.json["events"]] == [thread], finished


def test_a_wait_ends_with_trouble_when_the_server_stays_away(afar: RemoteCommands) -> None:
    """A client that could not look does not report that nothing came."""
    waiter = afar.waits("wait", "--session", BOX, "--timeout-seconds", "3", "--json")
    afar.server.kill()
    assert waiter.finish().error[:2] == (50, "store_away")


def test_a_kept_connection_that_was_cut_is_made_again(afar: RemoteCommands) -> None:
    with closing(afar.store()) as store:
        first = work.send(store, sender="leader", to="builder", subject="One").thread
        afar.server.kill()
        afar.again()
        assert work.send(store, sender="leader", to="builder", subject="Two").thread.thread_id != first.thread_id
        assert len(work.list_threads(store).threads) == 2


def test_a_person_keeps_their_token_when_the_server_starts_anew(afar: RemoteCommands) -> None:
    before = afar.server.ready["token"]
    afar.server.kill()
    afar.again()
    assert afar.server.ready["token"] == before


COMMANDS = {
    "list": ("inbox", "list"),
    "show": ("inbox", "show", "--thread", "thr_x"),
    "send": ("inbox", "send", "--from", "a", "--to", "b", "--subject", "S"),
    "take": ("inbox", "take", "--agent", "a"),
    "fetch": ("inbox", "fetch", "--agent", "a"),
    "watch": ("inbox", "watch", "--timeout-seconds", "0.2"),
    "entries": ("inbox", "entries"),
    "ask": ("inbox", "ask", "--from", "a", "--question", "Q?", "--no-wait"),
    "read": ("inbox", "agent", "list"),
    "dequeue": ("mailbox", "dequeue", "--session", BOX),
    "peek": ("mailbox", "peek", "--session", BOX),
    "sessions": ("mailbox", "sessions"),
    "wait": ("mailbox", "wait", "--session", BOX, "--timeout-seconds", "0.2"),
    "enqueue": ("mailbox", "enqueue", "--from", "a", "--to", "b", "--payload", "x"),
}
NOWHERE = ["http://127.0.0.1:1", "ws://127.0.0.1:1", "https://127.0.0.1:1", "http://[::1]:1", "https://nowhere.invalid:80", "unix:{}/none"]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    """The commands, in a folder with a store in which nothing is."""
    return RunningServer(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_whose_server_is_away_says_so_and_not_that_nothing_is_there(bare: RunningServer, words: tuple[str, ...]) -> None:
    program, *argv = words
    runs = bare.inbox if program == "inbox" else bare.mailbox
    for place in (NOWHERE[0], NOWHERE[-1].format(bare.folder)):
        told = runs.run(*argv, "--json", INBOX_DB=place)
        assert told.error[:2] == (50, "store_away"), told
        assert "inbox serve" in told.json["error"]["hint"]
        shown = runs.run(*argv, INBOX_DB=place)
        assert (shown.code, shown.stdout) == (50, ""), shown
        assert shown.stderr.startswith("error: "), shown


@pytest.mark.parametrize("place", NOWHERE)
def test_wherever_nobody_is_the_server_is_away(tmp_path: Path, place: str) -> None:
    with closing(postroom.connect(place.format(tmp_path), token="x")) as store, pytest.raises(StoreUnreachable) as refused:
        mail.sessions(store)
    assert refused.value.hint


@pytest.mark.parametrize(
    "place",
    [
        *(
            "http://",
            "http://:80",
            "http://h:0",
            "http://h:65536",
            "http://h:x",
            "http://user@h",
            "http://user:secret@h:1",
            "http://h/path",
        ),
        *("http://h?x", "http://h#x", "https://", "ws://", "unix:", "unix://", "http://a b:1", "http://h\r\nX: y:1"),
    ],
)
def test_what_is_no_address_is_refused(bare: RunningServer, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail.sessions(postroom.connect(place, token="x"))
    assert refused.value.facts["field"] == "db"
    assert bare.inbox.run("list", "--json", INBOX_DB=place).error[:2] == (30, "invalid_input")


@pytest.mark.parametrize("token", ["a\r\nX-Evil: yes", "a\nb", "é", "漢", "\udcff", " ", "a\0b"], ids=ascii)
def test_a_token_that_can_be_none_is_refused_and_never_a_header_of_its_own(server: RunningServer, token: str) -> None:
    with pytest.raises((InvalidInput, Unauthenticated)):
        mail.sessions(postroom.connect(server.url, token=token))


@pytest.mark.parametrize("place", ["http://192.0.2.2:80", "ws://inbox.example", "http://127.0.0.1.evil.example:1", "http://[2001:db8::1]"])
def test_a_token_is_not_sent_in_clear_to_another_machine(bare: RunningServer, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = bare.inbox.run("list", "--json", INBOX_DB=place, INBOX_TOKEN="pra_x")
    assert refused.error[:2] == (30, "invalid_input")
    assert "INBOX_INSECURE=1" in refused.json["error"]["hint"]
    monkeypatch.setenv("INBOX_INSECURE", "1")
    postroom.connect(place, token="pra_x").close()


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:1", "ws://localhost", "http://127.8.9.1:1", "http://[::1]:1", "https://h:1", "unix:/x"]
)
def test_a_token_may_be_sent_in_clear_where_nobody_else_listens(place: str) -> None:
    postroom.connect(place, token="pra_x").close()


def test_without_a_token_it_is_said_where_one_comes_from(server: RunningServer) -> None:
    told = server.inbox.run("list", "--json", INBOX_DB=server.url)
    assert told.error[:2] == (30, "unauthenticated")
    assert "INBOX_TOKEN" in told.json["error"]["hint"]


# Not ours


@contextmanager
def impostor(answer: bytes) -> Iterator[str]:
    """Somebody who listens, and answers every request with this."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                while True:
                    line, _ = listening.accept()
                    with line:
                        line.recv(65536)
                        line.sendall(answer)
            except OSError:
                pass  # closed: it is over

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


IMPOSTORS: dict[str, bytes] = {
    "silent": b"",
    "another protocol": b"220 mail.example ESMTP\r\n",
    "noise": b"\x16\x03\x01\x00\xff" * 100,
    "no status": b"HTTP/1.1 \r\n\r\n",
    "an odd status": b"HTTP/1.1 many OK\r\nContent-Length: 0\r\n\r\n",
    "without a length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "cut off": b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"ok": true',
    "a length below nothing": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "a page": http(b"<html>It works!</html>"),
    "a page that is not there": http(b"<html>404</html>", "404 Not Found"),
    "a redirection": http(b"", "302 Found"),
    "a list": http(b"[]"),
    "nothing": http(b"null"),
    "another's JSON": http(b'{"status": "up"}'),
    "another's error": http(b'{"error": "no"}', "400 Bad Request"),
    "another's error, in parts": http(b'{"error": {"code": 7}}', "400 Bad Request"),
    "a broken wire": http(b'{"ok": true, "result": {"~": "os.system", "is": ["true"]}}'),
    "a deep wire": http(b'{"ok": true, "result": ' + b"[" * 900 + b"]" * 900 + b"}"),
    "no text": http(b"\xff\xfe"),
}


def _one(line: socket.socket) -> bytes:
    """A request, or an answer."""
    came = b""
    while b"\r\n\r\n" not in came or len(came.partition(b"\r\n\r\n")[2]) < int(LENGTH.findall(came)[0]):
        came += line.recv(65536)
    return came


@contextmanager
def forgetful(server: RunningServer) -> Iterator[str]:
    """A way to the server on which the first answer is lost."""
    address = urlsplit(server.url)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for lost in (True, False):
                line, _ = listening.accept()
                with line, socket.create_connection((address.hostname, address.port)) as onward:
                    onward.sendall(_one(line).replace(name, address.netloc.encode()))
                    answer = _one(onward)
                    line.sendall(b"" if lost else answer)

        name = f"127.0.0.1:{listening.getsockname()[1]}".encode()
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://{name.decode()}"
    thread.join()


def test_a_command_whose_answer_was_lost_is_done_once_and_says_so(server: RunningServer) -> None:
    box = f"lost-{next(NAMES)}"
    with forgetful(server) as url:
        sent = server.mailbox.ok(
            "enqueue", "--from", "leader", "--to", box, "--payload", "x", INBOX_DB=url, INBOX_TOKEN=server.ready["token"]
        )
    assert [message["msg_id"] for message in server.get(f"/api/mailbox/{box}")["messages"]] == [sent["msg_id"]]


@pytest.mark.parametrize("answer", IMPOSTORS.values(), ids=IMPOSTORS)
def test_what_is_no_server_of_ours_is_called_so(bare: RunningServer, answer: bytes) -> None:
    with impostor(answer) as url:
        for place in (url, url.replace("http", "ws", 1)):
            with closing(postroom.connect(place, token="x")) as store, pytest.raises(StoreUnreachable) as refused:
                mail.sessions(store)
            assert refused.value.hint
        told = bare.mailbox.run("sessions", "--json", INBOX_DB=url)
    assert told.error[:2] == (50, "store_away"), told


def test_a_wait_at_what_is_no_server_of_ours_does_not_last(bare: RunningServer) -> None:
    with impostor(IMPOSTORS["a page"]) as url:
        told = bare.mailbox.run("wait", "--session", BOX, "--json", INBOX_DB=url)
    assert told.error[:2] == (50, "store_away"), told


def test_a_wait_that_never_reached_a_server_does_not_begin(bare: RunningServer) -> None:
    """One that was lost is waited for; one that was never there may be a wrong address."""
    told = bare.mailbox.run("wait", "--session", BOX, "--json", INBOX_DB=NOWHERE[0])
    assert told.error[:2] == (50, "store_away"), told


def test_a_certificate_that_nobody_vouches_for_is_refused(found: Found, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = found("--tls-cert", cert, "--tls-key", key).open()
    with closing(postroom.connect(server.url, token=server.ready["token"])) as store, pytest.raises(StoreUnreachable) as refused:
        mail.sessions(store)
    assert "certificate" in str(refused.value).lower()
    assert "SSL_CERT_FILE" in refused.value.hint
    assert "inbox serve" not in refused.value.hint
    trusted = {"SSL_CERT_FILE": cert, "INBOX_TOKEN": server.ready["token"]}
    assert server.mailbox.answers("sessions", INBOX_DB=server.url, **trusted) == {"sessions": [], "more": False, "after": None}
    under_another_name = server.mailbox.run("sessions", "--json", INBOX_DB=server.url.replace("127.0.0.1", "localhost"), **trusted)
    assert under_another_name.error[:2] == (50, "store_away")


def test_plain_http_to_a_server_that_speaks_tls_is_refused(found: Found, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = found("--tls-cert", cert, "--tls-key", key).open()
    with pytest.raises(Refusal) as refused:
        mail.sessions(postroom.connect(server.url.replace("https", "http"), token=server.ready["token"]))
    assert isinstance(refused.value, StoreUnreachable)


# Gone


def test_a_client_that_has_gone_takes_no_message(afar: RemoteCommands) -> None:
    before = afar._lines()
    waiter = afar.waits("wait", "--session", BOX)
    waiter.process.kill()
    waiter.finish()
    eventually(lambda: afar._lines() <= before)
    afar.server.mailbox.enqueue("for somebody else", to=BOX)
    assert afar.server.mailbox.dequeue(BOX)["message"]["payload"] == "for somebody else"


def test_a_client_that_has_gone_claims_no_thread(afar: RemoteCommands) -> None:
    before = afar._lines()
    waiter = afar.waits("take", "--agent", "builder", "--wait", program="inbox")
    waiter.process.kill()
    waiter.finish()
    eventually(lambda: afar._lines() <= before)
    thread = afar.server.inbox.send()
    assert afar.server.inbox.ok("take", "--agent", "builder")["thread"]["thread_id"] == thread


def test_many_clients_that_have_gone_keep_nobody_from_waiting(afar: RemoteCommands) -> None:
    """Their places are free again."""
    before = afar._lines()
    waiters = [afar.waits("wait", "--session", f"{BOX} {number}") for number in range(5)]
    for waiter in waiters:
        waiter.process.kill()
        waiter.finish()
    eventually(lambda: afar._lines() <= before)
    waiter = afar.waits("wait", "--session", BOX, "--json")
    afar.server.mailbox.enqueue("still there", to=BOX)
    assert waiter.finish().json["message"]["payload"] == "still there"


# Many


def test_threads_share_a_store_and_each_gets_its_own_answer(server: RunningServer) -> None:
    subjects = [f"Shared {next(NAMES)}" for _ in range(20)]
    told: dict[str, Any] = {}
    with closing(postroom.connect(server.url, token=server.ready["token"])) as store:

        def act(subject: str) -> None:
            told[subject] = work.send(store, sender="leader", to="builder", subject=subject).thread.subject

        threads = [Thread(target=act, args=(subject,)) for subject in subjects]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == {subject: subject for subject in subjects}
