"""What a command costs beside a bare interpreter of the same environment."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import Report, interleaved, times

INBOX = str(Path(sys.executable).parent / "inbox")
MAILBOX = str(Path(sys.executable).parent / "mailbox")
ROUNDS = 60
MOST_TIMES = {"renew": 1.5, "update": 1.5, "task_list": 2.0}  # of a bare interpreter. Every other command: 1.7


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
        measured = interleaved(
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
    floor = measured.pop("floor")
    report.row("only `import argparse, json, sqlite3`, for comparison", times(measured.pop("obvious") / floor))
    for name in ("list", "send"):
        ratio = measured.pop(f"far_{name}") / floor
        report.row(f"inbox {name}, against a Unix socket", times(ratio), "at most 3.5", met=ratio <= 3.5)
    for name, seconds in measured.items():
        program = "mailbox" if name.endswith("queue") else "inbox"
        most = MOST_TIMES.get(name, 1.7)
        report.row(f"{program} {name.replace('_', ' ')}", times(seconds / floor), f"at most {most}", met=seconds / floor <= most)


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
