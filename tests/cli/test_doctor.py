"""`inbox doctor` says whether the promises can be kept here."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from postroom.store.location import URL_NOTE, state_folder
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Inbox
from tests.postgres_server import Postgres


def checks(inbox: Inbox, code: int) -> dict[str, str]:
    finished = inbox.run("doctor", "--json")
    assert finished.code == code, finished
    return {check["what"]: check["state"] for check in finished.json["checks"]}


def test_a_healthy_store_is_called_healthy(inbox: Inbox) -> None:
    inbox.send()
    inbox.ok("take", "--agent", "builder")
    found = checks(inbox, 0)
    assert set(found.values()) == {"ok"}
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
    """The state, and what was found, why it matters and what mends it, in one text."""
    finished = inbox.run("doctor", "--json", *argv)
    assert (finished.code == 0) == all(check["state"] == "ok" for check in finished.json["checks"]) == finished.json["healthy"]
    assert all(bool(check["why"] and check["mend"]) == (check["state"] != "ok") for check in finished.json["checks"])
    found = next(check for check in finished.json["checks"] if check["what"] == what)
    return found["state"], " / ".join(text for text in (found["says"], found["why"], found["mend"]) if text)


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


def _place(inbox: Inbox, database: str, *argv: str) -> tuple[str, str]:
    return said(inbox, "place", "--db", database, *argv)


def test_a_copy_of_a_store_is_named_and_may_become_a_store_of_its_own(bare: Inbox) -> None:
    bare.ok("init")
    assert _place(bare, ".agents/coord.db") == ("ok", "where it belongs")
    shutil.copytree(bare.db.parent, bare.folder / "copied")
    state, text = _place(bare, "copied/coord.db")
    assert (state, text.startswith(f"a copy of {bare.db}, which is still there / Both give out the same work")) == ("warn", True)
    assert _place(bare, "copied/coord.db", "--fix") == ("ok", "where it belongs")
    assert _place(bare, "copied/coord.db") == _place(bare, ".agents/coord.db") == ("ok", "where it belongs")


def test_a_store_that_was_moved_with_its_folder_is_named(bare: Inbox) -> None:
    bare.ok("init")
    bare.send()
    bare.db.parent.rename(bare.folder / "moved")
    state, text = _place(bare, "moved/coord.db")
    assert (state, text.startswith(f"moved from {bare.db} / The person's token")) == ("warn", True)
    assert _place(bare, "moved/coord.db", "--fix") == ("ok", "where it belongs")


def test_a_store_that_was_moved_without_its_log_is_named(bare: Inbox) -> None:
    bare.ok("init")
    bare.send()  # a command leaves its change in the log
    bare.db.rename(bare.folder / "alone.db")
    state, text = _place(bare, "alone.db")
    assert (state, text.startswith(f"moved from {bare.db} without {bare.db}-wal / The newest changes")) == ("fail", True)


def test_one_file_with_two_names_is_no_copy(bare: Inbox) -> None:
    bare.ok("init")
    (bare.folder / "linked.db").hardlink_to(bare.db)
    assert _place(bare, "linked.db") == ("ok", f"also known as {bare.db}")
    (bare.folder / "folder").symlink_to(bare.db.parent)
    assert _place(bare, "folder/coord.db") == ("ok", "where it belongs")


def test_a_copy_by_command_and_an_export_leave_the_place_out(bare: Inbox) -> None:
    bare.ok("init")
    bare.run("copy", "--from", str(bare.db), "--to", "second.db", "--json")
    assert _place(bare, "second.db") == ("ok", "where it belongs")
    bare.run("copy", "--from", str(bare.db), "--to", "second.db", "--json")  # as of yesterday
    assert _place(bare, "second.db") == ("ok", "where it belongs")
    assert str(bare.db) not in bare.says("store", "export")


def test_the_place_of_an_older_store_is_noted_by_init(inbox: Inbox) -> None:
    with closing(sqlite3.connect(inbox.db)) as database, database:
        database.execute("DELETE FROM settings")
    assert _place(inbox, ".agents/coord.db") == ("ok", "not noted: `inbox init` does")
    assert inbox.ok("init")["created"] is False
    assert _place(inbox, ".agents/coord.db") == ("ok", "where it belongs")


def test_the_place_may_have_a_name_that_is_not_utf8(bare: Inbox) -> None:
    folder = os.fsencode(bare.folder) + b"/caf\xe9"
    assert bare.run("init", "--db", folder + b"/coord.db").code == 0
    found = bare.run("doctor", "--json", "--db", folder + b"/coord.db").json["checks"]
    assert [check["says"] for check in found if check["what"] == "place"] == ["where it belongs"]


def test_a_wrong_journal_mode_is_found_and_mended(inbox: Inbox) -> None:
    with sqlite3.connect(inbox.db) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    database.close()
    state, text = said(inbox, "journal")
    assert (state, text.endswith("/ inbox doctor --fix")) == ("fail", True)
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
    state, text = said(inbox, "mailboxes")
    assert (state, text[:14], text.rpartition(" / ")[2]) == ("warn", "1 dead letters", "mailbox peek-dead-letter --session box")


def test_a_database_server_that_may_lose_commits_is_found(postgres: Postgres, bare: Inbox) -> None:
    with postgres.store() as url:
        assert bare.run("doctor", "--db", url, "--json").code == 0
        joint = "&" if "?" in url else "?"
        finished = bare.run("doctor", "--db", f"{url}{joint}options=-csynchronous_commit%3Doff", "--json")
    assert finished.code == 50
    assert {check["what"]: check["state"] for check in finished.json["checks"]}["durability"] == "fail"


def test_work_whose_lease_ran_out_is_found(inbox: Inbox) -> None:
    inbox.send()
    inbox.ok("take", "--agent", "builder", "--lease-seconds", "0.001")
    state, text = said(inbox, "held work")
    assert (state, "of builder" in text, "inbox reassign --agent leader --thread" in text) == ("warn", True, True)


def test_a_task_that_nobody_accepts_is_found(inbox: Inbox) -> None:
    for name in ("leader", "ada"):
        inbox.ok("agent", "register", name)
    inbox.ok("task", "submit", "--from", "leader", "--to", "ada", "--description", "x")
    assert said(inbox, "tasks") == ("ok", "1 wait")
    with closing(sqlite3.connect(inbox.db)) as database, database:
        database.execute("UPDATE tasks SET created_at = '2020' || substr(created_at, 5)")
    state, text = said(inbox, "tasks")
    assert (state, "for ada" in text, "inbox task show" in text) == ("warn", True, True)


def test_a_workspace_and_a_queue_that_are_gone_are_found(inbox: Inbox) -> None:
    for name in ("site", "queue"):
        (inbox.folder / name).mkdir()
    inbox.ok("workspace", "add", "site", "--label", "Site")
    assert inbox.execute(["init", "queue/events"], {}, program="thread").code == 0
    inbox.ok("queue", "add", "queue/events")
    assert (said(inbox, "workspaces")[0], said(inbox, "queues")[0]) == ("ok", "ok")
    for name in ("site", "queue"):
        shutil.rmtree(inbox.folder / name)
    state, text = said(inbox, "workspaces")
    assert (state, "inbox workspace remove" in text) == ("warn", True)
    state, text = said(inbox, "queues")
    assert (state, "inbox queue remove" in text) == ("warn", True)


def test_a_clock_that_was_set_back_is_found(inbox: Inbox) -> None:
    inbox.send()
    with closing(sqlite3.connect(inbox.db)) as database, database:
        database.execute("UPDATE events SET created_at = '2999' || substr(created_at, 5)")
    state, text = said(inbox, "clock")
    assert (state, "in the future" in text) == ("warn", True)


def test_loose_permissions_are_found_and_mended(inbox: Inbox) -> None:
    inbox.db.chmod(0o644)
    state, text = said(inbox, "privacy")
    assert (state, text.endswith("inbox doctor --fix")) == ("warn", True)
    assert said(inbox, "privacy", "--fix") == ("ok", "for you alone")


def test_a_server_that_left_its_address_and_does_not_answer_is_found(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(inbox, "server")[0] == "ok"
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(inbox.folder))
    note = Path(state_folder(str(inbox.db)), URL_NOTE)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("http://127.0.0.1:9\n")  # the port of `discard`: nothing listens there
    state, text = said(inbox, "server")
    assert (state, text.endswith("inbox serve")) == ("warn", True)


def test_a_database_that_is_away_is_one_finding(bare: Inbox) -> None:
    finished = bare.run("doctor", "--db", "postgresql://ann:secretpw@/postgres?host=/nowhere", "--json")
    assert (finished.code, "secretpw" in finished.stdout) == (50, False)
    assert [check["what"] for check in finished.json["checks"] if check["state"] != "ok"] == ["store"]
