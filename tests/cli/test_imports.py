"""The hot path imports nothing that it does not need: each of these costs more than a fifth of a bare interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.process import Inbox

COSTLY = [
    "json",
    "argparse",
    "re",
    "typing",
    "dataclasses",
    "enum",
    "functools",
    "contextlib",
    "pathlib",
    "datetime",
    "subprocess",
    "sqlite3",
    "logging",
    "inspect",
    "signal",
    "collections",
    "random",
    "secrets",
    "uuid",
    "shutil",
    "tempfile",
    "difflib",
    "textwrap",
    "importlib.resources",
    "ctypes",
    "socket",
    "asyncio",
]
RUN = """
import sys
before = set(sys.modules)
from postroom.cli.inbox import run
code = run(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write(" ".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""


def _imported(inbox: Inbox, *argv: str) -> set[str]:
    """Return the modules that a command, which must succeed, imports beyond those of a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *argv], capture_output=True, text=True, cwd=inbox.folder, env=inbox.environment(), check=False
    )
    assert done.returncode == 0, done
    assert '"ok": true' in done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "argv",
    [
        ("renew",),
        ("renew", "--lease-seconds", "60"),
        ("update", "--summary", "Halfway"),
        ("update", "--status", "blocked", "--payload-json", '{"question": "Which?"}', "--artifact", "a.log"),
        ("release", "--reason", "later"),
        ("done", "--summary", "Done", "--take-next"),
        ("fail", "--summary", "Gone"),
        ("claim", "--takeover"),
    ],
    ids=lambda argv: argv[0],
)
def test_a_holders_command_imports_nothing_costly(inbox: Inbox, argv: tuple[str, ...]) -> None:
    thread = inbox.send()
    inbox.ok("claim", "--agent", "builder", "--thread", thread)
    imported = _imported(inbox, *argv, "--agent", "builder", "--thread", thread, "--json")
    assert imported & set(COSTLY) == set()
    assert "postroom.cli.inbox" in imported


@pytest.mark.parametrize(
    "argv",
    [
        ("send", "--from", "leader", "--to", "builder", "--subject", "x", "--payload-json", '{"a": 1}', "--body", "é"),
        ("reply", "--from", "leader", "--thread", "one", "--summary", "x"),
        ("fetch", "--agent", "builder"),
        ("take", "--agent", "builder"),
        ("task", "list", "--from", "leader"),
        ("list",),
        ("show", "--thread", "one"),
    ],
    ids=lambda argv: argv[0],
)
def test_the_other_commands_of_the_loop_import_nothing_costly(inbox: Inbox, argv: tuple[str, ...]) -> None:
    inbox.send("One", "--thread", "one")
    assert _imported(inbox, *argv, "--json") & set(COSTLY) == set()


def test_a_command_imports_only_its_own_part_of_the_room(inbox: Inbox) -> None:
    inbox.send("One", "--thread", "one")
    inbox.ok("claim", "--agent", "builder", "--thread", "one")
    imported = _imported(inbox, "renew", "--agent", "builder", "--thread", "one", "--json")
    unneeded = {
        "postroom.work.waiting",
        "postroom.work.threads",
        "postroom.cli.framework.terminal",
        "postroom.cli.framework.completion",
        "postroom.store.sqlite.file_watcher",
    }
    assert imported & unneeded == set()
