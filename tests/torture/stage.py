"""The stage: a store on one engine, a server in front of it, a queue, and the processes of the actors."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import postroom
from postroom import mail, people, queues, work
from postroom.tasks import Conductor
from tests.postgres_server import Postgres
from tests.torture.actors import BOXES, CONSUMERS, ROLES, TASK_AGENTS, Actor, Setting
from tests.torture.maintenance import MAINTAINERS
from tests.torture.verbs import ATLAS, BUILDER, INFLIGHT_SECONDS, LEADER

SQLITE, POSTGRES = "sqlite", "postgres"
READY_SECONDS = 30.0
INBOX = Path(sys.executable).parent / "inbox"

# A role, and the doors by which its processes come in: the file or database itself, a Unix socket, HTTP or a WebSocket.
CAST = (
    ("send_threads", ("direct", "http")),
    ("work_threads", ("direct", "direct", "unix", "http", "ws")),
    ("watch_threads", ("direct", "unix")),
    ("send_mail", ("direct", "http")),
    ("receive_mail", ("direct", "unix")),
    ("give_tasks", ("direct", "unix")),
    ("conduct_sheets", ("direct", "direct", "http")),
    ("accept_tasks", ("direct", "unix")),
    ("push_events", ("direct", "direct")),
    ("push_entries", ("direct", "http")),
    ("answer_entries", ("direct", "unix")),
)


class TortureStage:
    """Sets the store up, starts and ends actors, and starts the server again when it was killed."""

    def __init__(self, engine: str, folder: Path, *, seed: int, pace_seconds: float = 0) -> None:
        self.engine, self.folder, self.seed, self.pace_seconds = engine, folder, seed, pace_seconds
        self.history, self.control = folder / "history", folder / "control"
        self.history.mkdir(parents=True)
        self.control.mkdir()
        (folder / "backups").mkdir()
        self.queue = folder / "queue"
        self.postgres = Postgres(throwaway=True) if engine == POSTGRES else None
        self.location = str(folder / "coord.db") if self.postgres is None else self.postgres.at("torture")
        self.actors: dict[str, int] = {}  # their process ids, by name
        self.casting: dict[str, tuple[str, str]] = {}
        self.server: subprocess.Popen[str] | None = None
        self.mirror = folder / "data" / "inbox" / "entries.jsonl"
        self._port = _free_port()
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        os.environ["INBOX_DATA"] = str(folder / "data")
        self._prepare_store()

    def _prepare_store(self) -> None:
        postroom.init(self.location)
        queues.init_queue(str(self.queue))
        (self.folder / "project").mkdir()
        with closing(postroom.open(self.location)) as store:
            self.workspace_id = people.add_workspace(
                store, str(self.folder / "project"), label="Torture", agent=ATLAS
            ).workspace.workspace_id
            for name in (LEADER, BUILDER):
                work.add_agent(store, name)
            for agent in TASK_AGENTS:
                Conductor(store).register(agent)
            people.add_queue(store, str(self.queue))
            for box in BOXES:
                mail.set_policy(store, box, base_backoff_secs=0.1, max_retries=12, inflight_timeout_secs=INFLIGHT_SECONDS)
        with queues.open_queue(str(self.queue)) as queue:
            for consumer in CONSUMERS:
                queues.subscribe(queue, consumer, handler="true", last_event_id=0)

    # The server

    def start_server(self, *, ready: bool = True) -> None:
        """Start the server, and wait until it is ready unless told otherwise."""
        flags = ["--json", "--port", str(self._port), "--uds", str(self.folder / "socket"), "--db", self.location, "--rate", "1000000"]
        log = (self.folder / "server.log").open("a")
        self.server = subprocess.Popen([str(INBOX), "serve", *flags], stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        out = self.server.stdout
        assert out is not None
        if not ready:
            return  # its token is as before
        line = out.readline() if select.select([out], [], [], READY_SECONDS)[0] else ""
        if line:
            os.environ["INBOX_TOKEN"] = Path(json.loads(line)["token_file"]).read_text().strip()

    def kill_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            if self.server.stdout is not None:
                self.server.stdout.close()

    def address_of(self, door: str) -> str:
        addresses = {
            "unix": f"unix:{self.folder / 'socket'}",
            "http": f"http://127.0.0.1:{self._port}",
            "ws": f"ws://127.0.0.1:{self._port}",
        }
        return addresses.get(door, self.location)

    # Actors

    def start_cast(self) -> None:
        for role, doors in CAST:
            for number, door in enumerate(doors):
                self.start(f"{role}-{number}-{door}", role, door)
        for consumer in CONSUMERS:
            self.start(f"consume_events:{consumer}", "consume_events", "direct")

    def start_maintainers(self) -> None:
        for role in MAINTAINERS:
            self.start(role, role, "direct")

    def start(self, name: str, role: str, door: str) -> None:
        self.casting[name] = (role, door)
        self.actors[name] = self.fork(name, {**ROLES, **MAINTAINERS}[role], door)

    def fork(self, name: str, run: Callable[[Actor], None], door: str = "direct") -> int:
        """Run something as an actor in a process of its own, and return its id."""
        sys.stdout.flush()
        process_id = os.fork()
        if process_id:
            return process_id
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            faulthandler.register(signal.SIGUSR1, file=(self.folder / f"stack-{name}").open("w"))
            place = (self.address_of(door), str(self.queue), self.workspace_id)
            _run_actor(Setting(name, *place, self.seed, self.history, self.control, self.pace_seconds), run)
            code = 0
        except BaseException:
            (self.folder / f"crash-{name}-{os.getpid()}").write_text(traceback.format_exc())
        finally:
            os._exit(code)

    def restart(self, name: str) -> None:
        """Kill an actor and start it anew."""
        os.kill(self.actors[name], signal.SIGKILL)
        os.waitpid(self.actors[name], 0)
        self.start(name, *self.casting[name])

    def bury(self) -> list[str]:
        """Start the actors again that ended by themselves, which happens if they could not open the store. Return their names."""
        ended = [name for name, process_id in self.actors.items() if os.waitpid(process_id, os.WNOHANG)[0]]
        for name in ended:
            self.start(name, *self.casting[name])
        return ended

    def stop_actors(self, patience_seconds: float) -> list[str]:
        """Tell all actors to stop, and wait. Return the names of those that did not end: each is killed after it has shown its stack."""
        (self.control / "stop").touch()
        wedged = wait_all(self.actors, patience_seconds)
        self.actors.clear()
        (self.control / "stop").unlink()
        return wedged

    def close(self) -> None:
        for process_id in self.actors.values():
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
        self.kill_server()
        if self.postgres is not None:
            self.postgres.stop()


def _run_actor(setting: Setting, run: Callable[[Actor], None]) -> None:
    """Run an actor whose store may not be there yet: it tries again until it is told to stop."""
    from postroom.core.errors import Refusal

    while True:
        try:
            actor = Actor(setting)
            break
        except Refusal:
            if setting.is_over():
                return
            sleep(0.1)
    run(actor)


def wait_all(processes: dict[str, int], patience_seconds: float) -> list[str]:
    """Wait until all processes have ended. Kill those that do not, and return their names."""
    until = monotonic() + patience_seconds
    left = dict(processes)
    while left and monotonic() < until:
        left = {name: process_id for name, process_id in left.items() if not os.waitpid(process_id, os.WNOHANG)[0]}
        sleep(0.02)
    for process_id in left.values():
        os.kill(process_id, signal.SIGUSR1)
        sleep(0.2)
        os.kill(process_id, signal.SIGKILL)
        os.waitpid(process_id, 0)
    return sorted(left)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port
