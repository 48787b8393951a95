"""The cost of a command beside a bare interpreter of the same environment."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.blocks import interleave
from bench.report import Report, times
from bench.results import OURS, SECONDS
from bench.scale import choose

INBOX = str(Path(sys.executable).parent / "inbox")
MAILBOX = str(Path(sys.executable).parent / "mailbox")
ROUNDS = choose(60, 10)
FLOOR = "`python -c pass`"
COMMANDS = {  # by name: as the table shows it, and the most times of a bare interpreter
    "obvious": ("only `import argparse, json, sqlite3`, for comparison", 0.0),
    "renew": ("inbox renew", 1.5),
    "update": ("inbox update", 1.5),
    "send": ("inbox send", 1.7),
    "fetch": ("inbox fetch", 1.7),
    "task_list": ("inbox task list", 2.0),
    "enqueue": ("mailbox enqueue", 1.7),
    "dequeue": ("mailbox dequeue", 1.7),
    "far_list": ("inbox list, against a Unix socket", 3.5),
    "far_send": ("inbox send, against a Unix socket", 3.5),
}


def run(report: Report) -> None:
    report.section("A command, beside `python -c pass` of the same environment")
    subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], check=True)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        database = str(Path(folder) / "coord.db")
        _json("init", "--db", database)
        thread = _json("send", "--db", database, "--from", "leader", "--to", "w", "--subject", "bench")["thread"]["thread_id"]
        _json("claim", "--db", database, "--agent", "w", "--thread", thread)
        mine = ("--db", database, "--agent", "w", "--thread", thread)
        far = ("--db", f"unix:{_served(stack, folder, database)}")
        measured = interleave(
            ROUNDS,
            floor=lambda: _run(sys.executable, "-c", "pass"),
            obvious=lambda: _run(sys.executable, "-c", "import argparse, json, sqlite3"),
            renew=lambda: _run(INBOX, "renew", *mine),
            update=lambda: _run(INBOX, "update", *mine, "--summary", "half way", "--json"),
            send=lambda: _run(INBOX, "send", "--db", database, "--from", "leader", "--to", "x", "--subject", "more", "--json"),
            fetch=lambda: _run(INBOX, "fetch", "--db", database, "--agent", "w", "--status", "pending", "--json"),
            task_list=lambda: _run(INBOX, "task", "list", "--db", database, "--json"),
            enqueue=lambda: _run(MAILBOX, "enqueue", "--db", database, "--from", "lead", "--to", "x", "--payload", "more", "--json"),
            dequeue=lambda: _run(MAILBOX, "dequeue", "--db", database, "--session", "x", "--json"),
            far_list=lambda: _run(INBOX, "list", *far, "--json"),
            far_send=lambda: _run(INBOX, "send", *far, "--from", "leader", "--to", "x", "--subject", "more", "--json"),
        )
    for name, (command, most) in COMMANDS.items():
        ratio = measured.ratio("floor", name)
        report.row(command, times(ratio), f"at most {most}" if most else "", met=ratio <= most if most else None)
        report.record("commands", command, OURS, SECONDS, measured.seconds(name))
        report.record("commands", command, FLOOR, SECONDS, measured.seconds("floor"))


def _served(stack: ExitStack, folder: str, database: str) -> str:
    """The socket of a server over the store, until the stack ends."""
    path = str(Path(folder) / "socket")
    argv = (INBOX, "serve", "--json", "--db", database, "--uds", path, "--no-tcp", "--rate", "1000000")
    server = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
    stack.callback(server.terminate)
    assert server.stdout is not None
    assert server.stdout.readline()
    return path


def _run(*argv: str) -> None:
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)


def _json(*argv: str) -> dict[str, dict[str, str]]:
    answer: dict[str, dict[str, str]] = json.loads(subprocess.run([INBOX, *argv, "--json"], capture_output=True, check=True).stdout)
    return answer
