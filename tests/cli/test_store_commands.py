"""The commands `inbox store …` that say what this machine is like, or leave something behind that a transcript would not show."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.maintenance import policy
from postroom.queues import notifier
from postroom.store.sqlite.engine import SqliteStore
from tests.cli.process import Inbox
from tests.contract.thread_data import shortened


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    commands = Inbox(tmp_path)
    commands.found()
    return commands


@pytest.fixture
def notifier_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path / "notifier"
    monkeypatch.setenv("NOTIFIER_HOME", str(home))
    yield home
    with notifier.open_notifier(str(home)) as opened:
        notifier.stop(opened)


def test_a_policy_is_a_timer_whose_command_prunes(inbox: Inbox, notifier_home: Path) -> None:
    with SqliteStore(str(inbox.db)) as store:
        policy.set_policy(store, older_than_seconds=3600)
        timer_id = policy.add_timer(store)
        assert policy.add_timer(store) == timer_id  # set again, there is still one
        with notifier.open_notifier(str(notifier_home)) as opened:
            (timer,) = notifier.list_timers(opened)
        assert (timer.timer_id, timer.cron) == (timer_id, "@daily")
        ran = subprocess.run(["sh", "-c", timer.command], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (0, "Removed nothing.\n"), ran.stderr
        assert not policy.is_due(store)
        assert policy.remove_timer(store)
        assert not policy.remove_timer(store)


def test_compact_lets_prune_return_the_pages_of_an_old_file(inbox: Inbox) -> None:
    with SqliteStore(str(inbox.db)) as store:
        store.connection.execute("PRAGMA auto_vacuum=NONE")
        store.connection.execute("VACUUM")
        store.connection.execute("CREATE TABLE filler (text TEXT)")
        store.connection.execute("INSERT INTO filler VALUES (zeroblob(400000))")
        store.connection.execute("DROP TABLE filler")
    assert "inbox store compact" in inbox.run("store", "prune", "--json").json["pruned"]["note"]
    sizes = inbox.run("store", "compact", "--json").json
    assert sizes["bytes_before"] - sizes["bytes_after"] > 300_000
    with SqliteStore(str(inbox.db)) as store:
        assert store.connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert inbox.run("store", "prune", "--json").json["pruned"]["note"] == ""


def test_a_thread_whose_pruning_was_interrupted_is_shown_as_such_until_the_next_prune(inbox: Inbox) -> None:
    with SqliteStore(str(inbox.db)) as store:
        thread = shortened(store)
    note = "Pruning removed the beginning of this thread, which ended long ago, and will remove the rest."
    assert f"\n{note}\n" in inbox.run("show", thread).stdout
    assert inbox.run("show", thread, "--json").json["note"] == note
    code, name, message = inbox.run("retry", thread, "--agent", "leader", "--json").error[:3]
    assert (code, name) == (30, "invalid_state")
    assert "its beginning was removed" in message
    assert inbox.run("store", "prune", "--older-than", "0s", "--json").json["pruned"]["threads"] == 1
    assert inbox.run("show", thread, "--json").error[:2] == (40, "not_found")


def test_a_backup_comes_back_by_commands(inbox: Inbox, tmp_path: Path) -> None:
    sent = inbox.run("send", "--from", "leader", "--to", "builder", "--subject", "Build", "--json").json["thread"]["thread_id"]
    assert inbox.run("store", "backup", "monday.db").stdout.startswith("Wrote and verified ")
    assert inbox.run("store", "backup", "monday.db", "--json").error[:2] == (30, "invalid_input")
    erased = inbox.run("store", "erase", "--thread", sent, "--json").json["erased"]
    assert (erased["thread_id"], erased["rows"]) == (sent, 1)
    assert inbox.run("show", sent, "--json").error[:2] == (40, "not_found")
    assert inbox.run("store", "restore", "monday.db", "--json").error[:2] == (30, "invalid_state")
    assert "What it had before is in" in inbox.run("store", "restore", "monday.db", "--replace").stdout
    assert inbox.run("show", sent, "--json").json["thread"]["subject"] == "Build"
    assert inbox.run("store", "erase", "--json").error[:2] == (30, "invalid_input")
    assert inbox.run("store", "restore", "none.db", "--db", "new.db", "--json").error[:2] == (30, "invalid_input")
    assert not (tmp_path / "new.db").exists()


def test_an_export_is_imported_into_a_new_store(inbox: Inbox, tmp_path: Path) -> None:
    inbox.run("send", "--from", "leader", "--to", "builder", "--subject", "Build")
    printed = inbox.run("store", "export").stdout
    assert inbox.run("store", "export", "--to-file", "monday.jsonl", "--json").json["rows"] == printed.count("\n") - 1
    assert (tmp_path / "monday.jsonl").read_text() == printed
    assert (tmp_path / "monday.jsonl").stat().st_mode & 0o777 == 0o600
    assert inbox.run("store", "export", "--to-file", "monday.jsonl", "--json").error[:2] == (30, "invalid_input")
    assert inbox.run("store", "import", "monday.jsonl", "--json").error[:2] == (30, "invalid_state")
    inbox.run("init", "--db", "second.db")
    assert inbox.run("store", "import", "monday.jsonl", "--db", "second.db").stdout == f"Imported {printed.count(chr(10)) - 1} rows.\n"
    assert inbox.run("store", "export", "--db", "second.db").stdout == printed
    for wrong in (("none.jsonl",), ("monday.jsonl", "--format", "csv")):
        assert inbox.run("store", "import", *wrong, "--json").error[:2] == (30, "invalid_input")


def test_issues_of_beads_are_imported(inbox: Inbox, tmp_path: Path) -> None:
    (tmp_path / "issues.jsonl").write_text('{"id": "bd-1", "title": "Add login", "status": "open"}\n')
    command = ("store", "import", "issues.jsonl", "--format", "beads", "--to", "builder")
    assert inbox.run(*command).stdout == "Imported 1 thread. Left out: 0 closed, 0 known.\n"
    assert inbox.run(*command).stdout == "Imported 0 threads. Left out: 0 closed, 1 known.\n"
    assert inbox.run("take", "--agent", "builder", "--json").json["thread"]["thread_id"] == "bd-1"


def test_messages_of_amq_are_imported_once_and_a_bad_file_is_named(inbox: Inbox, tmp_path: Path) -> None:
    folder = tmp_path / ".agent-mail" / "collab" / "agents" / "codex" / "inbox" / "new"
    folder.mkdir(parents=True)
    header = '{"schema": 1, "id": "m1", "from": "claude", "to": ["codex"], "subject": "Review", "created": "2026-01-05T10:00:00Z"}'
    (folder / "m1.md").write_text(f"---json\n{header}\n---\nPlease look.\n")
    command = ("store", "import", ".agent-mail/collab", "--format", "amq")
    assert inbox.run(*command).stdout == "Imported 1 message. Left out: 0 known, 0 read.\n"
    assert inbox.run(*command).stdout == "Imported 0 messages. Left out: 1 known, 0 read.\n"
    (folder / "m2.md").write_text("no header")
    code, name, message = inbox.run(*command, "--json").error[:3]
    assert (code, name) == (30, "invalid_input")
    assert "m2.md is not a message of AMQ" in message
    for wrong in ((".agent-mail", "--format", "amq"), ("issues.jsonl", "--format", "beads", "--include-read")):
        assert inbox.run("store", "import", *wrong, "--json").error[:2] == (30, "invalid_input")


def test_queues_are_backed_up_and_restored_by_commands(inbox: Inbox, tmp_path: Path) -> None:
    inbox.execute(["init", "events"], {}, program="thread")
    inbox.run("queue", "add", "events")
    assert "Copied 1 queue into" in inbox.run("store", "backup", "monday.db", "--with-queues").stdout
    restored = inbox.run("store", "restore", "monday.db", "--db", "new.db", "--with-queues", "again", "--json").json["restored"]
    assert [Path(folder).parent for folder in restored["queues"]] == [tmp_path / "again"]
    assert "exists already" in inbox.run("store", "restore", "monday.db", "--db", "newer.db", "--with-queues", "again").stderr
