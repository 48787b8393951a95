"""Servers to measure, each a process of its own: the real one, the same without group commit, and one that answers with a constant."""

from __future__ import annotations

import json
import select
import shlex
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Self
from urllib.parse import urlsplit

import postroom
from bench.commands import INBOX
from bench.load import HOST, request
from bench.processes import read_cpu_seconds, read_resident_bytes
from postroom import people
from postroom.core import clock
from postroom.core.records.people import WorkspaceRegistration
from postroom.store.sqlite import statements as sql

PATIENCE = 60.0
RATE = "1000000"
COMMENT = "The analysis of the auth module is finished. Two findings need a decision; see the report."


class Served:
    """A server that is ready, until the block ends."""

    def __init__(self, *argv: str) -> None:
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        try:
            told = json.loads(self._first_line())
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.token: str = Path(told["token_file"]).read_text(encoding="ascii").strip() if "token_file" in told else ""
        self.port = urlsplit(told["url"]).port or 0

    def get(self, path: str) -> bytes:
        """A person's request."""
        return request("GET", path, self.port, self.token)

    def memory(self) -> int:
        """Resident bytes."""
        return read_resident_bytes(self.pid)

    def cpu(self) -> float:
        """Seconds on a CPU, of all its threads."""
        return read_cpu_seconds(self.pid)

    def quiet(self) -> None:
        """Wait until it has nothing to do. Two looks: on a busy machine it may only have been kept from doing it."""
        until, idle, seen = monotonic() + PATIENCE, 0, self.cpu()
        while idle < 2 and monotonic() < until:
            sleep(0.2)
            before, seen = seen, self.cpu()
            idle = idle + 1 if seen - before < 0.003 else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _first_line(self) -> str:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], PATIENCE)[0]:
            raise TimeoutError("the server did not become ready")
        return out.readline()


def serve(place: str) -> Served:
    return Served(INBOX, *_settings(place))


def serve_alone(place: str) -> Served:
    """The same program, one commit a request."""
    return Served(sys.executable, "-m", "bench.serving", "alone", *_settings(place))


def serve_single(place: str) -> Served:
    """The same program, one commit a request, on one connection to a database server."""
    return Served(sys.executable, "-m", "bench.serving", "single", *_settings(place))


def serve_forgetful(place: str) -> Served:
    """The same program, which makes every page anew, as it must after each commit."""
    return Served(sys.executable, "-m", "bench.serving", "forgetful", *_settings(place))


def serve_unchecked(place: str) -> Served:
    """The same program, which identifies its callers and lets each of them do everything."""
    return Served(sys.executable, "-m", "bench.serving", "unchecked", *_settings(place))


def serve_logged(place: str) -> Served:
    """The same program, which logs each request as JSON, into a file."""
    settings = shlex.join((INBOX, *_settings(place), "--log-level", "info", "--log-format", "json"))
    return Served("sh", "-c", f"exec {settings} 2> {shlex.quote(place)}.log")


def serve_unobserved(place: str) -> Served:
    """The same program without logs, metrics and traces."""
    return Served(sys.executable, "-m", "bench.serving", "unobserved", *_settings(place))


def serve_constant(body: Path) -> Served:
    return Served(sys.executable, "-m", "bench.serving", "constant", str(body))


def _settings(place: str) -> tuple[str, ...]:
    return ("serve", "--json", "--port", "0", "--db", place, "--rate", RATE)


def office(folder: str, name: str, place: str = "") -> tuple[str, WorkspaceRegistration]:
    """A store with one workspace, in a folder of its own, where its mirror is too; or at a place on a database server."""
    root = Path(folder) / name
    (root / "project").mkdir(parents=True)
    place = place or str(root / "coord.db")
    postroom.init(place)
    with closing(postroom.open(place)) as store:
        return place, people.add_workspace(store, str(root / "project"), label="Atlas", agent="atlas")


def fill(place: str, size: int) -> str:
    """Entries as pushes leave them, seen already; with their events, their words and their mirror. The id of the one in the middle."""
    now = clock.now()
    with closing(sqlite3.connect(place)) as database:
        for pragma in ("synchronous=OFF", "journal_mode=OFF", "cache_size=-400000"):  # nobody else is there yet
            database.execute(f"PRAGMA {pragma}")
        workspace = database.execute("SELECT workspace_id, label, agent FROM workspaces").fetchone()
        (last,) = database.execute("SELECT coalesce(max(event_id), 0) FROM events").fetchone()
        binds = {"size": size, "last": last, "ts": now // 1000 - size, "now": clock.format_stamp(now), "comment": COMMENT}
        binds |= dict(zip(("workspace", "label", "agent"), workspace))
        database.execute(f"{_COUNTED} INSERT INTO events {_columns(_EVENT)}", binds)
        database.execute(f"{_COUNTED} INSERT INTO entries {_columns(_ENTRY)}", binds)
        database.execute(sql.words_settle)
        (middle,) = database.execute("SELECT id FROM entries WHERE seq = ?", (last + size // 2,)).fetchone()
        database.commit()
        database.execute("PRAGMA journal_mode=WAL")
    with closing(postroom.open(place)) as store:
        assert store.data_folder is not None
        people.EntriesMirror(store, store.data_folder).sync()
    return str(middle)


def _columns(values: dict[str, str]) -> str:
    return f"({', '.join(values)}) SELECT {', '.join(values.values())} FROM counted"


_COUNTED = "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :size)"
_UUID = "printf('%08x-0000-4000-8000-%012x', n * 2654435761 % 4294967296, n)"  # not in the order of arrival
_EVENT = {
    "event_id": ":last + n",
    **dict.fromkeys(("run_id", "task_id", "thread_id", "summary"), "''"),
    "source": ":agent",
    "event_type": "'entry.created'",
    "message_id": _UUID,
    "payload_json": f"json_object('entry_id', {_UUID}, 'agent', :agent, 'workspace_id', :workspace, 'kind', 'push', 'section', 'inbox')",
    "created_at": ":now",
}
_ENTRY = {
    "seq": ":last + n",
    "id": _UUID,
    "section": "'inbox'",
    "kind": "'push'",
    "ts": ":ts + n",
    "active_ts": ":ts + n",
    "workspace_id": ":workspace",
    "workspace_label": ":label",
    "agent": ":agent",
    "docs_json": "json_array(json_object('path', 'reports/' || n || '.md', 'sha256', printf('%064x', n), 'size', 4096))",
    "comments": ":comment || ' ' || n",
    "door": "'mcp'",
    "stored_at": ":now",
    **dict.fromkeys(("is_open", "replies"), "0"),
    **dict.fromkeys(("offered_at", "read_at"), ":now"),
    **dict.fromkeys(("offered_to", "read_by"), "'user'"),
    **dict.fromkeys(("offered_door", "read_door"), "'web'"),
    "extra_json": "'{}'",
    "words": "'atlas the analysis of auth module is finished two findings need a decision see report reports md ' || n",
}


# In those processes


def _alone(argv: list[str]) -> int:
    from postroom.cli import inbox as entry
    from postroom.server.runtime import writer

    writer.MAX_BATCH_VERBS = 1
    return entry.run(argv)


def _single(argv: list[str]) -> int:
    from postroom.server.runtime import store_access

    store_access.SERVER_WRITE_THREADS = 1
    return _alone(argv)


def _forgetful(argv: list[str]) -> int:
    from postroom.cli import inbox as entry
    from postroom.server.runtime import store_access

    store_access.MAX_CACHED_PAGES = 0
    return entry.run(argv)


def _constant(body: bytes) -> int:
    """Starlette and uvicorn as the real server has them, and nothing else."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def constant(request: Request) -> Response:
        return Response(body, media_type="application/json")

    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind((HOST, 0))
    bound.listen(1024)
    app = Starlette(routes=[Route("/api/inbox/history", constant)])
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", log_level="error", access_log=False, server_header=False, proxy_headers=False
    )
    print(json.dumps({"url": f"http://{HOST}:{bound.getsockname()[1]}"}), flush=True)
    uvicorn.Server(config).run(sockets=[bound])  # on uvloop, with httptools
    return 0


def _unobserved(argv: list[str]) -> int:
    from postroom.cli import inbox as entry
    from postroom.server import app
    from postroom.server.observability import metrics

    app.RequestObserver = lambda application, log: application  # type: ignore[assignment, attr-defined, return-value]
    metrics.note_verb = lambda outcome: None
    metrics.COMMIT_VERBS.observe = lambda amount, exemplar=None: None  # type: ignore[method-assign]
    return entry.run(argv)


def _unchecked(argv: list[str]) -> int:
    from postroom.cli import inbox as entry
    from postroom.server.rpc import permissions

    permissions.authorise = lambda tx, caller, verb, arguments: None
    return entry.run(argv)


if __name__ == "__main__":
    programs = {"alone": _alone, "single": _single, "forgetful": _forgetful, "unchecked": _unchecked, "unobserved": _unobserved}
    sys.exit(programs[sys.argv[1]](sys.argv[2:]) if sys.argv[1] in programs else _constant(Path(sys.argv[2]).read_bytes()))
