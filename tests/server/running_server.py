"""A fresh store in a folder, and the real server over it, as a real process."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest

from postroom.store import init_store
from tests.cli.fork_client import Forked
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import LIMIT, Finished, Inbox, eventually, installed
from tests.postgres_server import Postgres
from tests.server.event_stream import EventStream

ENGINE = os.environ.get("POSTROOM_TEST_SERVER_ENGINE", "sqlite")  # the other value is postgres

AGENTS = count(1)  # names that no two workspaces of a test run share
JSON = {"Content-Type": "application/json"}


class WorkspaceClient:
    """A workspace: its folder, its agent, its token."""

    def __init__(self, server: RunningServer, added: dict[str, Any]) -> None:
        self.server = server
        self.workspace_id: str = added["workspace"]["workspace_id"]
        self.label: str = added["workspace"]["label"]
        self.agent: str = added["workspace"]["agent"]
        self.path = Path(added["workspace"]["path"])
        self.token: str = added["token"]

    @property
    def http(self) -> httpx.Client:
        """An HTTP client with the agent's token."""
        return self.server.client(self.token)

    @property
    def mcp_url(self) -> str:
        return f"{self.server.url}/mcp/{self.workspace_id}"

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def try_push(self, *docs: str, comments: str | None = None) -> httpx.Response:
        body: dict[str, Any] = {"docs": [{"path": path} for path in docs]} if docs else {}
        if comments is not None:
            body["comments"] = comments
        return self.http.post("/api/inbox/push", json=body)

    def push(self, *docs: str, comments: str | None = None) -> str:
        """A new entry; its id."""
        answer = self.try_push(*docs, comments=comments)
        assert answer.status_code == 201, answer.text
        identity: str = answer.json()["entryId"]
        return identity

    def entries(self, **more: str) -> list[dict[str, Any]]:
        """Return its entries as the person sees them, newest first."""
        found: list[dict[str, Any]] = self.server.get("/api/inbox/history", workspaceId=self.workspace_id, **more)["entries"]
        return found

    def file(self, path: str, **more: str) -> httpx.Response:
        return self.server.person.get(f"/api/workspaces/{self.workspace_id}/file", params={"path": path, **more})

    def shown(self, path: str, **more: str) -> dict[str, Any]:
        """A file of the workspace, as the person is shown it."""
        answer = self.file(path, **more)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


one_server_only = pytest.mark.skipif(ENGINE != "sqlite", reason="on PostgreSQL, each of several servers has a token of its own")


@cache
def _database() -> Postgres:
    """The PostgreSQL of all servers of this test run."""
    server = Postgres()
    atexit.register(server.stop)
    return server


class RunningServer:
    """The server, the commands beside it, and the person who reads."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.flags = flags
        self.inbox = Inbox(folder)
        self.mailbox = Mailbox(folder)
        self.ready: dict[str, Any] = {}
        self._clients: dict[tuple[str, str], httpx.Client] = {}
        self._starts = count(1)
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self.place = str(self.inbox.db)  # of the store
        if ENGINE == "postgres":
            self._use_schema()
        else:
            self.inbox.found()

    def _use_schema(self) -> None:
        """Have the server and the commands use a store on PostgreSQL: a schema for each folder, so that a second start finds its store."""
        self.place = _database().at(f"s_{sha256(str(self.folder).encode()).hexdigest()[:16]}")
        init_store(self.place)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.inbox.served = self.mailbox.served = {"INBOX_DB": self.place, "INBOX_DATA": str(self.data)}

    def open(self, *flags: str, words: tuple[str, ...] = ("--json",)) -> Self:
        """Start the server, and return when it says that it is ready."""
        number = next(self._starts)
        self.out, self.log = self.folder / f"serve-{number}.out", self.folder / f"serve-{number}.log"
        given = (*self.flags, *flags)
        argv = ["serve", *words, *(() if "--port" in given or "--no-tcp" in given else ("--port", "0")), *given]
        with self.out.open("wb") as out, self.log.open("wb") as log:
            self._process = installed("inbox").start(
                argv, folder=self.folder, environment=self.inbox.environment(), stdout=out.fileno(), stderr=log.fileno()
            )
        eventually(lambda: not self.alive() or self._is_ready(words))
        assert self.alive(), self.log.read_text() + self.out.read_text()
        if words:
            self.ready = json.loads(self.out.read_text())
            self.ready["token"] = Path(self.ready["token_file"]).read_text().strip()
        return self

    def _is_ready(self, words: tuple[str, ...]) -> bool:
        said = self.out.read_text()
        return said.endswith("\n") and (bool(words) or "/sign-in?token=" in said or "--unix-socket" in said)

    @property
    def process(self) -> subprocess.Popen[bytes] | Forked:
        assert self._process is not None, "the server was never started"
        return self._process

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> int:
        """Ask the server to stop; its exit code. Nothing that it said is a traceback."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        code = self.ended()
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        assert not self.failures(), self.log.read_text()
        return code

    def failures(self) -> list[str]:
        """Return the failures that it logged. A client that leaves is none."""
        return self.log.read_text().split("Traceback (most recent call last):\n")[1:]

    def ended(self) -> int:
        return self.process.wait(LIMIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)

    @property
    def url(self) -> str:
        url: str = self.ready["url"].rstrip("/")
        return url

    @property
    def data(self) -> Path:
        """Where the mirror of the entries is."""
        return self.inbox.db.parent / "data"

    @property
    def mirror(self) -> Path:
        return self.data / "inbox" / "entries.jsonl"

    def client(self, token: str = "") -> httpx.Client:
        """A client with a token, or with none. It is used again, and remembers no cookie."""
        key = (self.url, token)
        if key not in self._clients:
            self._clients[key] = self._make(token)
        self._clients[key].cookies.clear()
        return self._clients[key]

    def browser(self) -> httpx.Client:
        """A client of its own, which remembers its cookies."""
        made = self._make("")
        self._clients[self.url, f"browser {len(self._clients)}"] = made
        return made

    def _make(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=LIMIT, trust_env=False, verify=False)

    def local(self, token: str = "", **headers: str) -> httpx.Client:
        """A client that comes by the Unix socket."""
        sent = {**headers, "Authorization": f"Bearer {token}"} if token else headers
        transport = httpx.HTTPTransport(uds=self.ready["uds"], verify=False)
        made = httpx.Client(transport=transport, base_url="http://localhost", headers=sent, timeout=LIMIT)
        self._clients["unix", f"client {len(self._clients)}"] = made
        return made

    @property
    def person(self) -> httpx.Client:
        return self.client(self.ready["token"])

    @property
    def stranger(self) -> httpx.Client:
        """Somebody without any credentials."""
        return self.client()

    def signed_in(self, link: str = "") -> httpx.Client:
        """The person's browser, after the link was opened; by default with a new link."""
        browser = self.browser()
        answer = browser.get(f"/sign-in?token={link or self.link()}")
        assert answer.status_code == 303, answer.text
        browser.headers["X-Postroom-Key"] = answer.headers["location"].partition("#key=")[2]
        return browser

    @property
    def cookie_name(self) -> str:
        return f"postroom_session_{urlsplit(self.url).port}"

    def link(self, *more: str) -> str:
        """The token of a new sign-in link."""
        said = self.inbox.says("sign-in", *more)
        return said.split("/sign-in?token=")[1].split()[0].strip("\"'<>")

    def add_workspace(self, label: str = "", agent: str = "") -> WorkspaceClient:
        """A new workspace with an empty folder."""
        number = next(AGENTS)
        folder = self.folder / "desks" / f"desk-{number}"
        folder.mkdir(parents=True)
        named = ("--agent", agent) if agent else ()
        added = self.inbox.ok("workspace", "add", str(folder), "--label", label or f"Label {number}", "--url", self.url, *named)
        return WorkspaceClient(self, added)

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return what the person gets from a path that must exist."""
        answer = self.person.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def entry(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/inbox/{identity}")["entry"]
        return found

    def conversation(self, identity: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """An entry and its replies, without who looked at them when."""
        detail = self.get(f"/api/inbox/{identity}")
        return detail["entry"], detail["replies"]

    def steps(self, identity: str) -> list[str]:
        return [receipt["step"] for receipt in self.get(f"/api/inbox/{identity}")["receipts"]]

    def reply(self, identity: str, body: str, **more: object) -> dict[str, Any]:
        answer = self.person.post(f"/api/inbox/{identity}/reply", json={"body": body, **more})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def notify(self, sender: str, text: str) -> str:
        identity: str = self.inbox.ok("notify", "--from", sender, "--text", text)["entry"]["id"]
        return identity

    def ask(self, agent: str, question: str = "Ship it?", *more: str) -> str:
        """A question of an agent that does not wait for its answer; its entry."""
        identity: str = self.inbox.ok("ask", "--from", agent, "--question", question, *more, "--no-wait")["answer"]["entry_id"]
        return identity

    def entry_from(self, name: str, **more: str) -> dict[str, Any]:
        """The newest entry of an agent, once there is one."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [entry for entry in self.get("/api/inbox/history", **more)["entries"] if entry["from"] == name]
            return bool(found)

        eventually(there)
        return found[0]

    @contextmanager
    def listen(self, *, last: str | None = None, **parameters: str) -> Iterator[EventStream]:
        """The person listens; what happens from now on is heard."""
        headers = {} if last is None else {"Last-Event-ID": last}
        with self.person.stream("GET", "/api/events", params=parameters, headers=headers) as response:
            yield EventStream(response)


def refusal(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """How a request was refused: the one shape of every error."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/json"), answer.headers
    said = answer.json()
    assert said["ok"] is False
    error: dict[str, Any] = said["error"]
    assert {"code", "message", "hint"} <= set(error)
    assert error["message"]
    assert len(error["message"]) < 1000, "a refusal does not echo pages"
    if code is not None:
        assert error["code"] == code, error
    return error


def serve_refused(server: RunningServer, *flags: str) -> Finished:
    """A server that must not start."""
    finished = server.inbox.run("serve", "--json", *flags)
    assert finished.code != 0, finished
    assert "Traceback" not in finished.stdout + finished.stderr, finished
    return finished
