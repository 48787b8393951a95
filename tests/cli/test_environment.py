"""The environment: variables, where the store is found, terminals, pipes, locales."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest

from postroom.store.sqlite.engine import MAX_WAL_BYTES
from tests.cli.process import LIMIT, SCRIPT, Inbox

ESCAPE = "\x1b["


def test_inbox_db_names_the_store_and_the_flag_wins(bare: Inbox) -> None:
    bare.ok("init", INBOX_DB="a.db")
    bare.ok("init", "--db", "b.db", INBOX_DB="a.db")
    bare.ok("send", "--from", "leader", "--to", "builder", "--subject", "in b", "--db", "b.db", INBOX_DB="a.db")
    assert bare.ok("list", INBOX_DB="a.db")["threads"] == []
    assert len(bare.ok("list", INBOX_DB="b.db")["threads"]) == 1
    assert sorted(file.name for file in bare.folder.glob("*.db")) == ["a.db", "b.db"]


def test_inbox_db_wins_over_a_store_nearby(inbox: Inbox) -> None:
    refused = inbox.run("list", "--json", INBOX_DB="elsewhere.db")
    assert refused.error == (40, "no_store", "there is no store at elsewhere.db")


def test_an_empty_inbox_db_is_as_good_as_none(inbox: Inbox) -> None:
    assert inbox.ok("list", INBOX_DB="")["threads"] == []


def test_the_store_is_found_upward_as_git_finds_its_folder(inbox: Inbox) -> None:
    inbox.send("Found")
    below = Inbox(inbox.folder / "src" / "deep")
    below.folder.mkdir(parents=True)
    assert [thread["subject"] for thread in below.ok("list")["threads"]] == ["Found"]


def test_the_nearest_store_wins(inbox: Inbox) -> None:
    inbox.send("Far")
    near = Inbox(inbox.folder / "near")
    near.folder.mkdir()
    near.ok("init")
    near.send("Near")
    assert [thread["subject"] for thread in near.ok("list")["threads"]] == ["Near"]
    assert [thread["subject"] for thread in inbox.ok("list")["threads"]] == ["Far"]


def test_init_makes_a_store_here_though_there_is_one_above(inbox: Inbox) -> None:
    here = Inbox(inbox.folder / "here")
    here.folder.mkdir()
    assert here.ok("init") == {"ok": True, "schema_version": 1, "command": "init", "db": str(here.db.resolve()), "created": True}


def test_inbox_agent_says_who_one_is_and_the_flag_wins(inbox: Inbox) -> None:
    thread = inbox.ok("send", "--to", "builder", "--subject", "x", INBOX_AGENT="leader")["thread"]
    assert thread["created_by"] == "leader"
    assert inbox.ok("fetch", INBOX_AGENT="builder")["threads"][0]["thread_id"] == thread["thread_id"]
    claimed = inbox.ok("claim", "--agent", "other", "--thread", thread["thread_id"], INBOX_AGENT="builder")
    assert claimed["lease"]["agent_id"] == "other"


def test_from_wins_over_inbox_agent(inbox: Inbox) -> None:
    sent = inbox.ok("send", "--from", "leader", "--to", "builder", "--subject", "x", INBOX_AGENT="builder")
    assert sent["message"]["from_agent"] == "leader"


def test_inbox_agent_does_not_narrow_a_list(inbox: Inbox) -> None:
    inbox.send()
    assert len(inbox.ok("list", INBOX_AGENT="somebody")["threads"]) == 1
    assert inbox.ok("list", "--agent", "somebody", INBOX_AGENT="somebody")["threads"] == []


def test_a_worker_that_was_started_for_a_thread_needs_no_flags(inbox: Inbox) -> None:
    thread = inbox.send()
    token = inbox.ok("claim", "--agent", "builder", "--thread", thread)["lease_token"]
    worker = {"INBOX_AGENT": "builder", "INBOX_THREAD": thread, "INBOX_LEASE_TOKEN": token}
    assert inbox.ok("renew", **worker)["lease_token"] == token
    assert inbox.ok("update", "--summary", "Halfway", **worker)["thread"]["status"] == "in_progress"
    assert inbox.ok("show", **worker)["thread"]["thread_id"] == thread
    assert inbox.ok("done", "--summary", "Done", **worker)["thread"]["status"] == "done"


def test_a_worker_that_was_replaced_is_refused_by_the_token_of_its_environment(inbox: Inbox) -> None:
    thread = inbox.send()
    stale = inbox.ok("claim", "--agent", "builder", "--thread", thread)["lease_token"]
    inbox.ok("claim", "--agent", "builder", "--thread", thread, "--takeover")
    refused = inbox.run("done", "--json", INBOX_AGENT="builder", INBOX_THREAD=thread, INBOX_LEASE_TOKEN=stale)
    assert refused.error[:2] == (20, "lease_lost")


def test_the_token_of_the_environment_is_only_for_its_own_thread_and_agent(inbox: Inbox) -> None:
    own, other = inbox.send("Own"), inbox.send("Other")
    token = inbox.ok("claim", "--agent", "builder", "--thread", own)["lease_token"]
    inbox.ok("claim", "--agent", "builder", "--thread", other)
    inbox.ok("renew", "--thread", other, INBOX_AGENT="builder", INBOX_THREAD=own, INBOX_LEASE_TOKEN=token)
    third = inbox.send("Third")
    inbox.ok("claim", "--agent", "helper", "--thread", third)
    inbox.ok("renew", "--agent", "helper", INBOX_AGENT="builder", INBOX_THREAD=third, INBOX_LEASE_TOKEN=token)


def _on_a_terminal(inbox: Inbox, *argv: str, **environment: str) -> str:
    """Return the output of a command on a terminal, as it reaches the screen."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [SCRIPT, *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=inbox.folder,
            env=inbox.environment(**{"TERM": "xterm", **environment}),
        )
        os.close(theirs)
        printed = b""
        while part := _read(ours):
            printed += part
        process.wait(LIMIT)
    finally:
        os.close(ours)
    return printed.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says EIO once nobody holds the other end
        return b""


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("argv", [("list",), ("show", "--thread", "one"), ("fetch", "--agent", "builder"), ("list", "--zzz")])
def test_a_terminal_gets_colour_and_a_pipe_does_not(inbox: Inbox, argv: tuple[str, ...]) -> None:
    inbox.send("One", "--thread", "one")
    on_terminal, piped = _on_a_terminal(inbox, *argv), inbox.run(*argv)
    assert ESCAPE in on_terminal
    assert ESCAPE not in piped.stdout + piped.stderr
    plain = [line.split() for line in _plain(on_terminal).splitlines()]
    assert [line[:3] for line in plain] == [line.split()[:3] for line in (piped.stdout + piped.stderr).splitlines()]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"NO_COLOR": "anything"}, {"TERM": "dumb"}])
def test_no_color_and_dumb_terminals_get_none(inbox: Inbox, environment: dict[str, str]) -> None:
    inbox.send("One", "--thread", "one")
    for argv in (("list",), ("show", "--thread", "one"), ("list", "--zzz")):
        assert ESCAPE not in _on_a_terminal(inbox, *argv, **environment)


def test_json_on_a_terminal_is_json_without_colour(inbox: Inbox) -> None:
    inbox.send("One", "--thread", "one")
    assert _on_a_terminal(inbox, "list", "--json") == inbox.run("list", "--json").stdout


def test_coloured_columns_stay_aligned(inbox: Inbox) -> None:
    inbox.send("One", "--thread", "one")
    inbox.send("Two", "--thread", "two")
    inbox.ok("claim", "--agent", "builder", "--thread", "one")
    inbox.ok("update", "--agent", "builder", "--thread", "one")
    rows = _plain(_on_a_terminal(inbox, "list", COLUMNS="200")).splitlines()
    assert len({row.index(word) for row, word in zip(rows, ("PRIORITY", "normal", "normal"))}) == 1


def test_wide_and_combining_letters_do_not_break_the_columns(inbox: Inbox) -> None:
    inbox.ok("send", "--from", "リーダー", "--to", "builder", "--subject", "X")
    inbox.ok("send", "--from", "jacq\u0301", "--to", "builder", "--subject", "X")
    heads, *rows = inbox.says("list").splitlines()
    columns = {_cells(row[: row.index("builder")]) for row in rows}
    assert columns == {heads.index("TO ")}


def _cells(text: str) -> int:
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


@pytest.mark.parametrize("argv", ["list", "list --json", "help", "show --thread one", "watch --after-event 0"])
def test_a_reader_that_goes_away_is_no_failure(inbox: Inbox, argv: str) -> None:
    inbox.send("One", "--thread", "one")
    inbox.ok("reply", "--from", "leader", "--thread", "one", "--body-file", "-", stdin=b"x" * 500_000)
    finished = inbox.shell(f'set -o pipefail; "$0" {argv} | head -c 0')
    assert (finished.stdout, finished.stderr) == ("", "")
    assert finished.code in (0, 141)


def test_closed_standard_streams_do_no_harm(inbox: Inbox) -> None:
    """The first file that is opened then gets the number of a stream: an answer must not be written into it."""
    inbox.shell('"$0" send --from leader --to builder --subject "Kept" >&- 2>&- <&-')
    assert [thread["subject"] for thread in inbox.ok("list")["threads"]] == ["Kept"]
    beside = {file.name: file.read_bytes() for file in inbox.db.parent.iterdir() if file.suffix in (".lock", ".bell")}
    assert not [content for content in beside.values() if b"Kept" in content], beside


def test_a_refusal_keeps_its_exit_code_when_standard_error_is_closed(inbox: Inbox) -> None:
    assert inbox.shell('"$0" list --zzz 2>&-').code == 30


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("environment", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "no_such_locale"}, ASCII])
def test_unicode_passes_whatever_the_locale(inbox: Inbox, environment: dict[str, str]) -> None:
    sent = inbox.execute(["send", "--from", "leader", "--to", "builder", "--subject", "Grüße ☃", "--json"], environment)
    assert sent.code == 0, sent
    assert sent.json["thread"]["subject"] == "Grüße ☃"
    shown = inbox.says("show", "--thread", sent.json["thread"]["thread_id"], **environment)
    assert shown.startswith("Grüße ☃\n")
    assert " → " in shown


def test_paths_and_output_are_utf8_whatever_the_locale(inbox: Inbox) -> None:
    (inbox.folder / "Grüße.md").write_text("Größe ☃", encoding="utf-8")
    sent = inbox.execute(["send", "--from", "leader", "--to", "ada", "--subject", "x", "--body-file", "Grüße.md", "--json"], ASCII)
    assert sent.json["message"]["body"] == "Größe ☃"


def test_a_folder_that_is_gone_is_refused_without_a_traceback(inbox: Inbox) -> None:
    finished = inbox.shell('mkdir gone; cd gone; rmdir "$PWD"; "$0" list --json')
    assert "Traceback" not in finished.stderr
    assert finished.error[0] in (40, 50)
    assert "bug in Postroom" not in finished.stdout


def test_the_log_of_a_store_that_only_commands_use_stays_short(inbox: Inbox) -> None:
    """SQLite alone never starts it over: each command writes once, and leaves."""
    log = inbox.db.parent / "coord.db-wal"
    longest = 0
    for _ in range(40):
        inbox.run("send", "--from", "leader", "--to", "builder", "--subject", "More")
        longest = max(longest, log.stat().st_size)
    assert MAX_WAL_BYTES * 0.9 < longest < MAX_WAL_BYTES * 1.1
    assert len(inbox.run("list", "--limit", "1000", "--json").json["threads"]) == 40


def test_a_tilde_that_no_shell_has_expanded_is_the_home_folder(bare: Inbox) -> None:
    assert bare.ok("init", INBOX_DB="~/x.db")["db"] == str((bare.folder / "x.db").resolve())
    assert not (bare.folder / "~").exists()


@pytest.mark.parametrize("location", ["file:x.db", "postgresql:x"])
def test_a_mistyped_location_is_refused_and_makes_no_file(bare: Inbox, location: str) -> None:
    assert bare.run("init", "--json", INBOX_DB=location).error[:2] == (30, "invalid_input")
    assert bare.run("list", "--json", "--db", location).error[:2] == (30, "invalid_input")
    assert not list(bare.folder.glob("*x*"))
