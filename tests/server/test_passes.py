"""Passes at the server: where the person's token is kept, who sees it, and that a person or an agent can be sent away at once."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from postroom import people
from postroom.store import open_store
from tests.cli.process import LIMIT, SCRIPT, eventually
from tests.server.running_server import RunningServer, one_server_only, refusal

Found = Callable[..., RunningServer]


def test_the_token_is_kept_in_the_state_folder_of_the_user_and_not_beside_the_store(found: Found) -> None:
    server = found()
    server.data.mkdir()
    (server.data / "token").write_text("prp_of_version_0_1\n")
    (server.data / "server").write_text("http://evil.example\n")
    leak = server.folder / "leak.txt"
    (server.data / "token.new").symlink_to(leak)
    server.open()
    file = Path(server.ready["token_file"])
    assert file.parents[1] == server.folder / ".local" / "state" / "postroom"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, file.parents[1])] == [0o600, 0o700, 0o700]
    assert not leak.exists()
    assert server.inbox.ok("sign-in")["sign_in_url"].startswith(f"{server.url}/sign-in?token=")
    beside = [path for path in server.inbox.db.parent.rglob("*") if path.is_file()]
    assert not [path for path in beside if path.name.startswith("token") or server.ready["token"].encode() in path.read_bytes()]
    assert server.close() == 0


@one_server_only
def test_a_new_token_of_the_server_voids_the_one_before(found: Found) -> None:
    server = found().open()
    before = server.ready["token"]
    server.kill()
    Path(server.ready["token_file"]).unlink()
    server.open()
    assert server.ready["token"] != before
    refusal(server.client(before).get("/api/summary"), 401)
    assert server.person.get("/api/summary").status_code == 200


def test_a_state_folder_that_cannot_be_written_is_refused(found: Found) -> None:
    server = found()
    (server.folder / ".local").write_text("no folder")
    refused = server.inbox.run("serve", "--port", "0", "--json")
    assert refused.error[:2] == (50, "storage_error")
    assert "XDG_STATE_HOME" in refused.json["error"]["hint"]


def test_the_token_is_printed_on_a_terminal_only(found: Found) -> None:
    server = found()
    terminal, ours = pty.openpty()
    argv = [SCRIPT, "serve", "--port", "0", "--json"]
    with subprocess.Popen(argv, stdout=ours, cwd=server.folder, env=server.inbox.environment()) as process:
        os.close(ours)
        said = b""
        while not said.endswith(b"\n"):
            said += os.read(terminal, 65536)
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    os.close(terminal)
    ready = json.loads(said)
    token = Path(ready["token_file"]).read_text().strip()
    assert ready["token"] == token
    server.open(words=())
    assert server.close() == 0
    assert token not in server.out.read_text() + server.log.read_text()
    assert f"Bearer $(cat {ready['token_file']})" in server.out.read_text()


def test_a_person_who_becomes_an_agent_is_sent_away_at_once(server: RunningServer) -> None:
    server.inbox.ok("agent", "add", "bob", "--kind", "human")
    browser, unused = server.signed_in(server.link("--person", "bob")), server.link("--person", "bob")
    assert browser.get("/api/summary").json()["person"] == "bob"
    assert browser.get("/api/inbox/history").status_code == 200
    server.inbox.ok("agent", "add", "bob", "--kind", "agent")
    refusal(browser.get("/api/inbox/history"), 401)  # this page is cached
    refusal(browser.get("/api/summary"), 401)
    assert server.browser().get(f"/sign-in?token={unused}").status_code == 404


def test_a_revoked_session_and_a_revoked_token_end_at_once(server: RunningServer) -> None:
    server.inbox.ok("agent", "add", "eve", "--kind", "human")
    browser, agent = server.signed_in(server.link("--person", "eve")), server.client(server.inbox.ok("agent", "token", "mole")["token"])
    assert (browser.get("/api/summary").status_code, agent.get("/api/mailbox/mole").status_code) == (200, 200)
    assert [browser.get("/api/inbox/history").status_code for _ in range(2)] == [200, 200]
    for name in ("eve", "mole"):
        [revoked] = server.inbox.ok("pass", "revoke", "--person", name)["revoked"]
        assert revoked["name"] == name
    refusal(browser.get("/api/inbox/history"), 401)  # this page is cached, and its caller was known
    refusal(browser.get("/api/summary"), 401)
    refusal(agent.get("/api/mailbox/mole"), 401)


def test_the_use_of_a_pass_is_recorded(server: RunningServer) -> None:
    agent = server.client(server.inbox.ok("agent", "token", "courier")["token"])
    assert agent.get("/api/mailbox/courier").status_code == 200
    with closing(open_store(server.place)) as store:
        eventually(lambda: people.list_passes(store, person="courier").passes[0].last_used_at is not None)
