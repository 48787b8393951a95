"""Commands that automation calls every minute import nothing of the server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.people_workspace import AGENT, PeopleWorkspace
from tests.cli.process import LIMIT, Inbox

SERVER = {"uvicorn", "starlette", "mcp", "pydantic", "asyncio", "anyio", "markdown_it", "nh3", "pygments", "orjson", "postroom.server"}
RUN = """
import sys
before = set(sys.modules)
from postroom.cli.inbox import run
code = run(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write(" ".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "argv",
    [
        ("notify", "--from", "backup", "--text", "12 GB"),
        ("push", "--agent", AGENT, "--comments", "Drafted"),
        ("push", "--agent", AGENT, "--doc", "report.md"),
        ("entries",),
        ("entries", "--search", "drafted"),
        ("entry", "show", "{entry}"),
        ("entry", "reply", "{entry}", "--body", "Good"),
        ("ask", "--from", "builder", "--question", "Ship it?", "--no-wait"),
        ("workspace", "list"),
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_a_command_about_entries_imports_nothing_of_the_server(inbox: Inbox, argv: tuple[str, ...]) -> None:
    entry = PeopleWorkspace(inbox).push()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *(word.replace("{entry}", entry) for word in argv), "--json"],
        capture_output=True,
        text=True,
        cwd=inbox.folder,
        env=inbox.environment(),
        timeout=LIMIT,
        check=False,
    )
    assert '"ok": true' in done.stdout, done
    imported = set(done.stderr.split())
    assert "postroom.cli.inbox" in imported
    assert imported & SERVER == set()
