"""A stage to run real harnesses on: a fresh store and workspace, `inbox serve`, the fake model, and an environment with nothing else in it.

Where things are is told by the environment: KIT_INBOX (the `inbox` command), KIT_BIN (a folder with the harnesses' commands, for
example node_modules/.bin) and KIT_NODE (a folder with a `node` of version 22 or newer). Keys are made up; nothing leaves this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.harness.fake_model import Log, Script, serve

Json = dict[str, Any]


class HarnessStage:
    """`with HarnessStage() as stage:` has everything running, and ends what it started."""

    def __init__(self, agent: str = "ada", folder: Path | None = None, server: bool = True, keep: bool = False) -> None:
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="harness-"))).resolve()
        self.agent = agent
        self._keep = keep
        self._server = server
        self._children: list[subprocess.Popen[Any]] = []
        self._open: list[IO[Any]] = []
        self.over = threading.Event()  # for helpers in threads

    def __enter__(self) -> HarnessStage:
        try:
            self._set_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _set_up(self) -> None:
        self.home, self.work = self.folder / "home", self.folder / "work"
        for place in (self.home, self.work, self.folder / "tmp"):
            place.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        self._model = serve(0, [], self.folder / "model")
        threading.Thread(target=self._model.serve_forever, daemon=True).start()
        self.model_url = f"http://127.0.0.1:{self._model.server_port}"
        self.inbox("init")
        self.server_url = ""
        if self._server:
            serving = self.start([self._command(), "serve", "--port", "0", "--json"], stdout=subprocess.PIPE)
            assert serving.stdout is not None
            ready = json.loads(serving.stdout.readline())
            self.server_url = ready["url"]
        added = self.inbox("workspace", "add", ".", "--label", "HarnessStage", "--agent", self.agent)
        self.workspace_id, self.token = added["workspace"]["workspace_id"], added["token"]
        self.mcp_url, self.mcp_json = added["mcp_url"], added["mcp_json"]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over.set()
        time.sleep(0.3)
        for child in reversed(self._children):
            self.end(child)
        self._end_left()
        self._model.shutdown()
        for file in self._open:
            file.close()
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    # The model

    def script(self, *rules: Json) -> None:
        script: Script = self._model.RequestHandlerClass.script  # type: ignore[attr-defined]
        script.load(list(rules))

    @property
    def log(self) -> Log:
        log: Log = self._model.RequestHandlerClass.log  # type: ignore[attr-defined]
        return log

    def asked(self, match: str = "", after: int = -1, seconds: float = 60) -> Json | None:
        """The first request after number `after` in whose news the pattern is found; None when none came in time."""
        return self.log.wait(match, after, seconds)

    def asked_with_tools(self, match: str, after: int, seconds: float) -> Json | None:
        """The same, among the requests that offer tools: the others are for titles and summaries."""
        until, found = time.monotonic() + seconds, self.asked(match, after, seconds)
        while found is not None and not found["tools"]:
            found = self.asked(match, found["n"], max(until - time.monotonic(), 0))
        return found

    def body(self, number: int) -> Json:
        body: Json = json.loads((self.folder / "model" / "bodies" / f"{number:04}.json").read_text())
        return body

    @property
    def last(self) -> int:
        return len(self.log.records) - 1

    # Processes

    def environment(self, **more: str) -> dict[str, str]:
        places = [str(Path(self._command()).parent), os.environ.get("KIT_NODE", ""), os.environ.get("KIT_BIN", "")]
        path = os.pathsep.join([*filter(None, places), "/usr/local/bin", "/usr/bin", "/bin"])
        own = {"HOME": str(self.home), "TMPDIR": str(self.folder / "tmp")}
        if "POSTROOM_HOOK_LOG" in os.environ:
            own["POSTROOM_HOOK_LOG"] = os.environ["POSTROOM_HOOK_LOG"]
        return {**own, "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color", **more}

    def _command(self) -> str:
        return os.environ.get("KIT_INBOX") or shutil.which("inbox") or "inbox"

    def inbox(self, *words: str, ok: tuple[int, ...] = (0, 10), command: str = "inbox") -> Json:
        """An `inbox` (or `mailbox`) command, from the workspace's folder."""
        program = str(Path(self._command()).with_name(command))
        ran = subprocess.run(
            [program, *words, "--json"], cwd=self.work, env=self.environment(), capture_output=True, text=True, timeout=120, check=False
        )
        if ran.returncode not in ok:
            raise RuntimeError(f"{command} {words}: {ran.returncode} {ran.stdout} {ran.stderr}")
        answer: Json = json.loads(ran.stdout)
        return answer

    def start(self, argv: list[str], env: dict[str, str] | None = None, **how: Any) -> subprocess.Popen[Any]:
        """A child in a process group of its own, which ends with the stage."""
        how.setdefault("stdin", subprocess.DEVNULL)
        how.setdefault("stderr", self._file("stderr"))
        how.setdefault("cwd", self.work)
        child: subprocess.Popen[Any] = subprocess.Popen(argv, env=self.environment(**(env or {})), start_new_session=True, text=True, **how)
        self._children.append(child)
        return child

    def end(self, child: subprocess.Popen[Any]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                try:
                    os.killpg(child.pid, number)
                    child.wait(5)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass

    def _end_left(self) -> None:
        """Daemons that a harness left behind: whatever still runs with this stage's home. Linux only; elsewhere they stay."""
        mine = f"HOME={self.home}\0".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mine in place.read_bytes():
                    os.kill(int(place.parent.name), signal.SIGKILL)
            except OSError:
                continue

    def run(self, argv: list[str], env: dict[str, str] | None = None, seconds: float = 120, **how: Any) -> subprocess.CompletedProcess[str]:
        """A child to its end. Its output is kept; it is ended when the time is over."""
        child = self.start(argv, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end(child)
            out, err = child.communicate()
        return subprocess.CompletedProcess(argv, child.returncode, out, err)

    def _file(self, name: str) -> IO[Any]:
        file = (self.folder / f"{name}-{len(self._open)}.txt").open("w")
        self._open.append(file)
        return file

    # Time

    def pushed(self, comments: str = "for you to see") -> str:
        """The id of an entry that the agent pushed, for a person to reply to."""
        entry: str = self.inbox("push", "--agent", self.agent, "--comments", comments)["entry"]["id"]
        return entry

    def reply(self, entry_id: str, text: str) -> float:
        """A person replies; the instant at which the command had stored it."""
        self.inbox("entry", "reply", entry_id, "--body", text)
        return time.time()


def words(text: str) -> str:
    """A text on one line, for a table."""
    return re.sub(r"\s+", " ", text).strip()
