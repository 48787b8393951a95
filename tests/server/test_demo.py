"""`inbox serve --demo`, which is `make run`: a newcomer sees things arrive, and answers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.process import eventually
from tests.server.running_server import RunningServer, serve_refused


def test_entries_questions_and_notices_arrive_and_an_answer_is_obeyed(found: Callable[..., RunningServer]) -> None:
    server = found().open("--demo")

    def history(**more: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = server.get("/api/inbox/history", **more)["entries"]
        return entries

    def asked() -> list[dict[str, Any]]:
        return [entry for entry in history(open="true") if entry["title"] == "Rates, week 1"]

    eventually(lambda: bool(asked()))
    [pushed] = [entry for entry in history() if entry["kind"] == "push"]
    path = pushed["docs"][0]["path"]
    found_file = server.person.get(f"/api/workspaces/{pushed['workspaceId']}/file", params={"path": path, "entry": pushed["id"]}).json()
    assert (found_file["kind"], found_file["changed"]) == ("markdown", False)
    assert [entry["from"] for entry in history(section="notices")] == ["backup"]
    server.reply(asked()[0]["id"], "Publish")
    eventually(lambda: any("Publish" in part["comments"] for part in server.get(f"/api/inbox/{pushed['id']}")["parts"]))
    eventually(lambda: bool(asked()) and asked()[0]["question"]["proposal"] is not None)  # the mail to the readers
    assert [entry["id"] for entry in history() if entry["kind"] == "push"] == [pushed["id"]], "one matter is one row"
    url = f"/api/inbox/{asked()[0]['question']['entryId']}/reply"
    assert (
        server.person.post(url, json={"decision": {"type": "edit", "proposal": {"text": "Dear readers, all is well."}}}).status_code == 201
    )
    eventually(lambda: server.get(f"/api/inbox/{pushed['id']}")["parts"][-1]["comments"] == "The mail is out, as you wrote it.")
    folder = Path(server.get("/api/workspaces")["workspaces"][0]["path"]).parent
    assert server.close() == 0
    assert not folder.exists()


def test_closing_the_terminal_deletes_the_store_of_the_demonstration(found: Callable[..., RunningServer]) -> None:
    server = found().open("--demo")
    eventually(lambda: bool(server.get("/api/workspaces")["workspaces"]))
    folder = Path(server.get("/api/workspaces")["workspaces"][0]["path"]).parent
    assert folder.exists()
    server.process.send_signal(signal.SIGHUP)
    assert server.ended() == 0
    assert not folder.exists()


def test_the_demonstration_wants_a_store_of_its_own(found: Callable[..., RunningServer]) -> None:
    assert serve_refused(found(), "--demo", "--db", "coord.db").error[:2] == (30, "invalid_input")
