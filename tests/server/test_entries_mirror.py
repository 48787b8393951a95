"""When the server writes the mirror of the entries, and when it leaves it alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.process import eventually
from tests.server.running_server import RunningServer
from tests.server.wires import wired

Found = Callable[..., RunningServer]


def position_of(mirror: Path) -> tuple[bytes, int]:
    """The recorded position of a mirror, which holds the newest event, and when it was written: every sync writes it."""
    positions = mirror.parent / ".entries"
    return positions.read_bytes(), positions.stat().st_mtime_ns


def ids_in(mirror: Path) -> list[str]:
    return [json.loads(line)["id"] for line in mirror.read_text().splitlines()] if mirror.exists() else []


def test_mail_does_not_touch_the_mirror_and_an_entry_does(found: Found) -> None:
    server = found().open()
    workspace = server.add_workspace()
    first = workspace.push(comments="First")
    before = position_of(server.mirror)
    with wired(server, "session") as wire:
        wire.ok("credit", n=3)
        for payload in ("one", "two", "three"):
            stored = wire.ok("enqueue", message={"to": "session", "payload": payload})
            wire.ok("ack", msg_id=stored["msg_id"], delivery_token=wire.delivery()["delivery_token"])
    assert server.person.post("/api/mailbox", json={"to": "session", "payload": "four"}).status_code == 201
    assert position_of(server.mirror) == before
    second = workspace.push(comments="Second")
    assert ids_in(server.mirror) == [first, second]
    assert position_of(server.mirror) != before
    assert server.person.delete(f"/api/inbox/{first}").status_code == 204
    assert ids_in(server.mirror) == [second]


def test_entries_of_other_processes_reach_a_mirror_that_only_the_server_keeps(found: Found, tmp_path: Path) -> None:
    mirror = tmp_path / "kept" / "inbox" / "entries.jsonl"
    server = found("--data", str(tmp_path / "kept")).open()
    entry = server.ask("builder")
    assert ids_in(server.mirror) == [entry]
    eventually(lambda: ids_in(mirror) == [entry])
    server.inbox.ok("entry", "delete", entry)
    eventually(lambda: ids_in(mirror) == [])
