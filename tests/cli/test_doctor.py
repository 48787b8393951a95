"""`inbox doctor` says whether the promises can be kept here."""

from __future__ import annotations

import shutil
import sqlite3

from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox
from tests.postgres_server import Postgres


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


def said(inbox: Inbox, what: str, *argv: str) -> tuple[str, str]:
    checks = inbox.run("doctor", "--json", *argv).json["checks"]
    return next((check["state"], check["says"]) for check in checks if check["what"] == what)


def test_a_store_that_was_copied_as_one_file_is_healthy(inbox: Inbox) -> None:
    inbox.send()
    with sqlite3.connect(inbox.db) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(inbox.db, inbox.folder / "copy.db")
    found = inbox.run("doctor", "--db", "copy.db", "--json").json["checks"]
    assert {check["what"]: check["state"] for check in found if check["what"] in ("permissions", "waking")} == {
        "permissions": "ok",
        "waking": "ok",
    }


def test_a_wrong_journal_mode_is_found_and_mended(inbox: Inbox) -> None:
    with sqlite3.connect(inbox.db) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    database.close()
    state, text = said(inbox, "journal")
    assert (state, "`inbox doctor --fix`" in text) == ("fail", True)
    assert said(inbox, "journal", "--fix") == ("ok", "wal")
    assert said(inbox, "journal") == ("ok", "wal")


def test_a_file_that_is_no_database_is_a_finding(inbox: Inbox) -> None:
    inbox.db.write_bytes(b"not a database" * 1000)
    found = checks(inbox, 50)
    assert (found["store"], found["file"]) == ("fail", "fail")
    assert found["disk"] in ("ok", "warn")


def test_work_for_a_name_that_was_never_seen_is_found(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "leader", "--to", "adda", "--subject", "x")
    state, text = said(inbox, "pending work")
    assert (state, "never seen: adda" in text) == ("warn", True)


def test_dead_letters_are_found(inbox: Inbox) -> None:
    mailbox = Mailbox(inbox.folder)
    mailbox.ok("policy", "--session", "box", "--max-retries", "0")
    mailbox.ok("enqueue", "--from", "ann", "--to", "box", "--payload", "x", "--msg-id", "m1")
    mailbox.ok("dequeue", "--session", "box")
    mailbox.ok("nack", "--session", "box", "--msg-id", "m1")
    assert said(inbox, "mailboxes") == ("warn", "1 dead letters: see `mailbox peek-dead-letter --session box`")


def test_a_database_server_that_may_lose_commits_is_found(postgres: Postgres, bare: Inbox) -> None:
    with postgres.store() as url:
        assert bare.run("doctor", "--db", url, "--json").code == 0
        joint = "&" if "?" in url else "?"
        finished = bare.run("doctor", "--db", f"{url}{joint}options=-csynchronous_commit%3Doff", "--json")
    assert finished.code == 50
    assert {check["what"]: check["state"] for check in finished.json["checks"]}["durability"] == "fail"
