"""`inbox doctor` says whether the promises can be kept here."""

from __future__ import annotations

import sqlite3

from tests.cli.process import Inbox


def checks(inbox: Inbox, code: int) -> dict[str, str]:
    finished = inbox.run("doctor", "--json")
    assert finished.code == code, finished
    return {check["what"]: check["state"] for check in finished.json["checks"]}


def test_a_healthy_store_is_called_healthy(inbox: Inbox) -> None:
    inbox.send()
    found = checks(inbox, 0)
    assert {found[what] for what in ("store", "journal", "integrity", "references", "file system", "permissions")} == {"ok"}


def test_a_stray_row_is_found(inbox: Inbox) -> None:
    thread = inbox.send()
    database = sqlite3.connect(inbox.db)
    database.execute("PRAGMA foreign_keys=OFF")
    database.execute("DELETE FROM threads WHERE thread_id = ?", (thread,))
    database.commit()
    database.close()
    assert checks(inbox, 50)["references"] == "fail"


def test_a_damaged_file_is_found(inbox: Inbox) -> None:
    for number in range(40):
        inbox.send(f"thread {number}")
    sqlite3.connect(inbox.db).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with inbox.db.open("r+b") as file:
        file.seek(4096 * 3)  # past the schema, so that the file still opens
        file.write(b"\xff" * 4096 * 4)
    finished = inbox.run("doctor", "--json")
    assert finished.code == 50
    assert "Traceback" not in finished.stderr


def test_a_missing_store_is_not_called_healthy(bare: Inbox) -> None:
    assert bare.run("doctor", "--json").error[:2] == (40, "no_store")


def test_it_can_be_read(inbox: Inbox) -> None:
    assert "ok    journal: wal" in inbox.says("doctor")
