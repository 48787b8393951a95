"""No command prints the password of a database: neither when it works, nor when it refuses, in text or JSON."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.process import Finished, Inbox
from tests.postgres_server import Postgres
from tests.server.running_server import RunningServer

PASSWORD = "s3cret-pw"
BARE = "postgresql://boss:{}@127.0.0.1:1/none"


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A schema of its own, by a URL with a password in both places. The test server asks for none."""
    with postgres.schema() as plain:
        scheme, _, rest = plain.partition("://")
        user, at, address = rest.partition("@")
        yield f"{scheme}://{user.partition(':')[0] if at else 'postgres'}:{PASSWORD}@{address if at else rest}&password={PASSWORD}"


def said(finished: Finished) -> str:
    return finished.stdout + finished.stderr


def test_init_says_the_url_without_its_password_and_not_a_path(bare: Inbox, url: str) -> None:
    shown = url.replace(f":{PASSWORD}@", "@").removesuffix(f"&password={PASSWORD}")
    assert bare.ok("init", "--db", url)["db"] == shown
    assert bare.says("init", "--db", url) == f"Already there: {shown}\n"


def test_commands_that_work_print_no_password(bare: Inbox, url: str) -> None:
    bare.ok("init", "--db", url)
    bare.ok("init")
    commands = [("doctor", "--db", url), ("sign-in", "--db", url), ("copy", "--from", str(bare.db), "--to", url), ("version", "--db", url)]
    commands += [("workspace", "add", ".", "--label", "x", "--db", url), ("demo", "--db", url), ("mcp", "--workspace", "ws_x", "--db", url)]
    for command in commands:
        for form in ((), ("--json",)):
            assert PASSWORD not in said(bare.run(*command, *form)), command


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_serve_prints_no_password(bare: Inbox, url: str, words: tuple[str, ...]) -> None:
    bare.ok("init", "--db", url)
    server = RunningServer(bare.folder, "--db", url).open(words=words)
    assert server.close() == 0
    assert PASSWORD not in server.out.read_text() + server.log.read_text()


@pytest.mark.parametrize(
    "location",
    [
        *(BARE.format("s3cret"), BARE.format("s3cret%zz"), BARE.format("s3?cret"), BARE.format("s3[cret"), BARE.format("s3/cret")),
        *(f"{BARE.format('x')}?password=s3cret&nonsense=1", f"{BARE.format('x')}?sslpassword=s3cret&connect_timeout=1"),
        *("postgresql:/boss:s3cret@h/db", "http://boss:s3cret@127.0.0.1:1", "ws://boss:s3cret@h", "mysql://boss:s3cret@h/db"),
        "postgresql://boss:s3cret@127.0.0.1:1/none?schema=NOT",
    ],
)
def test_commands_that_refuse_print_no_password(bare: Inbox, location: str) -> None:
    for command in (("init",), ("list",), ("serve", "--port", "0"), ("copy", "--from", location, "--to", "x.db")):
        finished = bare.run(*command, "--db", location, "--json")
        assert finished.code in (30, 50), finished
        assert finished.json["error"]["hint"]
        assert not [part for part in ("s3", "cret") if part in said(finished)], finished
    assert list(bare.folder.iterdir()) == []
