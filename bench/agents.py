"""What programs of agents pay for their connection: hooks that find nothing, the first answers of the MCP server, sessions that wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import sleep

from bench.blocks import Action, interleave
from bench.commands import INBOX
from bench.processes import read_cpu_seconds
from bench.report import Report, times
from bench.scale import choose
from bench.waiters import measure_idle

ROUNDS = choose(60, 10)
SESSIONS = choose(20, 3)
SETTLE_SECONDS = choose(6.0, 3.0)
MOST_TIMES = {"hook tool": 2.0, "hook prompt": 2.0, "hook stop": 2.0, "initialize": 2.5, "server/discover": 2.5, "tools/list": 2.5}
MOST_CORE_SHARE = 0.005  # that is 0 % of a core
PROTOCOL = "2025-11-25"


def run(report: Report) -> None:
    report.section("Programs of agents: beside `python -c pass` of the same environment, and sessions that wait")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {**os.environ, "HOME": folder, "XDG_STATE_HOME": str(place / "state"), "CLAUDE_CODE_ENTRYPOINT": "cli"}
        commands = _Commands(place, environment)
        actions: dict[str, Action] = {"floor": partial(commands.run, sys.executable, "-c", "pass")}
        for name in MOST_TIMES:
            is_hook = name.startswith("hook ")
            actions[name] = partial(commands.run_hook, name.split()[1]) if is_hook else partial(commands.ask_server, name)
        measured = interleave(ROUNDS, 1, **actions)
        for name, most in MOST_TIMES.items():
            shown = f"`inbox {name}` that finds nothing" if name.startswith("hook ") else f"`inbox mcp` until it has answered `{name}`"
            ratio = measured.ratio("floor", name)
            report.row(shown, times(ratio), f"at most {most}", met=ratio <= most)
        share = commands.measure_waiting()
        report.row(f"{SESSIONS} sessions that wait, together", f"{share:.2%} of a core", "0 %", met=share < MOST_CORE_SHARE)


class _Commands:
    """The commands of one agent in a workspace where nothing waits."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self.run(INBOX, "init")
        self.run(INBOX, "workspace", "add", ".", "--agent", "ada")
        self.run_hook("start")
        self.run_hook("tool")

    def run(self, *argv: str, text: str = "") -> None:
        subprocess.run(argv, input=text, text=True, stdout=subprocess.DEVNULL, cwd=self._folder, env=self._environment, check=True)

    def _hook_line(self, event: str) -> tuple[str, ...]:
        return (INBOX, "hook", event, "--harness", "claude", "--agent", "ada", "--owner", str(os.getpid()))

    def run_hook(self, event: str) -> None:
        self.run(*self._hook_line(event), text=json.dumps({"session_id": "s-1", "cwd": str(self._folder)}))

    def ask_server(self, method: str) -> None:
        """Start the MCP server, and wait for its first answer."""
        parameters = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters if method == "initialize" else {}}
        pipe = subprocess.PIPE
        with subprocess.Popen([INBOX, "mcp"], stdin=pipe, stdout=pipe, cwd=self._folder, env=self._environment) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(asked).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            server.kill()
        assert "result" in answer, answer

    def measure_waiting(self) -> float:
        """Return the share of a core that sessions at rest take together."""
        with ExitStack() as stack:
            waiting = [stack.enter_context(self._wait_in(f"s-{number}")) for number in range(SESSIONS)]
            sleep(SETTLE_SECONDS)
            shares = measure_idle(lambda: sum(read_cpu_seconds(child.pid) for child in waiting))
            for child in waiting:
                child.kill()
        return mean(shares)  # each session looks every five seconds whether its program lives

    def _wait_in(self, session: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(self._hook_line("wait"), stdin=subprocess.PIPE, text=True, cwd=self._folder, env=self._environment)
        assert child.stdin is not None
        child.stdin.write(json.dumps({"session_id": session, "cwd": str(self._folder), "hook_event_name": "SessionStart"}))
        child.stdin.close()
        return child
