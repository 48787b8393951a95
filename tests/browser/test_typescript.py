"""The client in clients/typescript is what the generator writes, compiles, and works against a real server in Node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docs.make_typescript import TARGET, routes
from tests.browser.chromium import judge
from tests.browser.conftest import needed
from tests.cli.process import LIMIT
from tests.server.running_server import RunningServer

NODE = str(Path(sys.executable).parent / "node")


def _node(*words: str) -> tuple[int, str, str]:
    ended = subprocess.run([NODE, *words], cwd=TARGET.parent, capture_output=True, text=True, timeout=LIMIT, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def _compile(folder: Path) -> tuple[int, str, str]:
    return _node(str(needed(lambda: judge("typescript/bin/tsc"))), "--project", str(folder))


def test_the_routes_are_those_of_the_openapi_file() -> None:
    assert TARGET.read_text() == routes(), "run `make reference`"


def test_the_client_compiles() -> None:
    assert _compile(TARGET.parent) == (0, "", "")


def test_a_wrong_body_and_an_unknown_route_do_not_compile(tmp_path: Path) -> None:
    for name in ("client.ts", "routes.ts", "tsconfig.json"):
        (tmp_path / name).write_text((TARGET.parent / name).read_text())
    calls = ['"POST /api/mailbox", { body: { to: 7, payload: "x" } }', '"POST /api/mailboxes", {}', '"POST /api/mailbox"']
    lines = [
        'import { Postroom } from "./client.ts";',
        'const inbox = new Postroom("", "");',
        *(f"await inbox.call({call});" for call in calls),
    ]
    (tmp_path / "wrong.ts").write_text("\n".join(lines))
    code, said, _ = _compile(tmp_path)
    assert code != 0
    assert {number for number in range(1, 6) if f"wrong.ts({number}," in said} == {3, 4, 5}, said


MADE = """
import { Postroom } from "./client.ts";
const refused = ["http://192.0.2.2:8420", "http://127.0.0.1.example.org", "ftp://127.0.0.1"];
for (const url of [...refused, "http://127.0.0.1:8420", "http://[::1]", "https://a.org"]) {
  try { new Postroom(url, "t"); console.log("made"); } catch (error) { console.log((error as Error).name); }
}
new Postroom("http://192.0.2.2:8420", "t", { insecure: true });
try {
  await new Postroom("http://127.0.0.1:9", "t").call("DELETE /api/mailbox/{session}", { path: { session: ".." } });
} catch (error) { console.log((error as Error).message); }
"""


def test_a_token_is_not_sent_in_clear_to_another_machine_and_a_name_cannot_change_the_route(tmp_path: Path) -> None:
    for name in ("client.ts", "routes.ts"):
        (tmp_path / name).write_text((TARGET.parent / name).read_text())
    (tmp_path / "made.ts").write_text(MADE)
    code, said, trouble = _node(str(tmp_path / "made.ts"))
    expected = ["TypeError", "TypeError", "TypeError", "made", "made", "made", '".." cannot be a part of an address']
    assert (code, said.splitlines()) == (0, expected), trouble


def test_a_message_goes_round_in_node(server: RunningServer) -> None:
    token = server.inbox.ok("agent", "token", "typist")["token"]
    code, said, trouble = _node("example.ts", server.url, token, "typist")
    assert (code, said.splitlines()) == (0, ["stored a/1", "acked grüße / 1", "then null", "refused 403 forbidden"]), trouble
