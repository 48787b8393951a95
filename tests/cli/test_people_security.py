"""Texts of strangers cannot steer a terminal or forge a line; tokens and files are for their owner alone; a workspace has an edge."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postroom import people
from postroom.core.errors import NotFound
from postroom.core.limits import MAX_NAME_CHARS
from postroom.store import open_store
from postroom.store.location import state_folder
from tests.cli.people_workspace import AGENT, ATTACK, FORGED, HARMFUL, PeopleWorkspace
from tests.cli.process import LIMIT, Inbox, Waiter

TOKEN = re.compile(r"\bpr[a-z]_[0-9a-f]{16,}")
PUSHED, ASKED, NOTICE, THREAD, WORKSPACE = "{pushed}", "{asked}", "{notice}", "{thread}", "{workspace}"


class Attacked:
    """A workspace in which every text that a stranger may choose is the attack."""

    def __init__(self, folder: Path) -> None:
        self.desk = PeopleWorkspace(Inbox(folder))
        inbox = self.desk.inbox
        pushed, asked, notice = self.desk.push(ATTACK), self.desk.ask(ATTACK), self.desk.notify(ATTACK)
        inbox.ok("send", "--from", "leader", "--to", "builder", "--subject", ATTACK, "--thread", "one")
        inbox.ok("claim", "--agent", "builder", "--thread", "one")
        inbox.ok(
            "update", "--agent", "builder", "--thread", "one", "--status", "blocked", "--to", "user", "--summary", ATTACK, "--body", ATTACK
        )
        for identity in (pushed, notice):
            inbox.ok("entry", "reply", identity, "--body", ATTACK)
        label = ATTACK[:100] + ATTACK[-100:]  # a longer one is not taken in: it keeps the forged line and the reversed text
        assert FORGED in label
        assert len(label) == MAX_NAME_CHARS
        foreign = {"id": "f" * 8 + "-0000-4000-8000-000000000000", "ts": 1, "workspaceLabel": label, "comments": ATTACK}
        foreign["docs"] = [{"path": ATTACK}]
        with self.desk.mirror.open("a") as file:
            file.write(json.dumps(foreign) + "\n")
        [thread] = [entry["id"] for entry in inbox.ok("entries")["entries"] if entry.get("threadId") == "one"]
        self.ids = {PUSHED: pushed, ASKED: asked, NOTICE: notice, THREAD: thread, WORKSPACE: self.desk.workspace_id}

    def argv(self, argv: tuple[str, ...]) -> list[str]:
        return [self.ids.get(word, word) for word in argv]


@pytest.fixture
def desk(inbox: Inbox) -> PeopleWorkspace:
    return PeopleWorkspace(inbox)


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    return Attacked(tmp_path)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """The same, for tests that only look."""
    return Attacked(tmp_path_factory.mktemp("seen"))


def _harmless(text: str) -> None:
    assert not HARMFUL & set(text)
    assert not [line for line in text.splitlines() if line.startswith((FORGED, "error:", "harmless"))]


# terminals


@pytest.mark.parametrize(
    "argv",
    [
        ("entries",),
        ("entries", "--unread"),
        ("entries", "--questions"),
        ("entries", "--notices"),
        ("entries", "--search", "harmless"),
        ("entry", "show", PUSHED),
        ("entry", "show", ASKED),
        ("entry", "show", NOTICE),
        ("entry", "show", THREAD),
        ("entry", "show", "ffffffff-0000-4000-8000-000000000000"),
        ("workspace", "list"),
        ("workspace", "show", WORKSPACE),
    ],
    ids=" ".join,
)
def test_what_only_looks_lets_no_text_steer_the_terminal_or_forge_a_line(seen: Attacked, argv: tuple[str, ...]) -> None:
    _harmless(seen.desk.inbox.says(*seen.argv(argv)))


@pytest.mark.parametrize(
    "argv",
    [
        ("push", "--agent", AGENT, "--comments", ATTACK),
        ("notify", "--from", "backup", "--text", ATTACK),
        ("ask", "--from", "builder", "--question", ATTACK, "--no-wait"),
        ("entry", "reply", PUSHED, "--body", ATTACK),
        ("entry", "reply", THREAD, "--body", ATTACK),
        ("entry", "read", PUSHED),
        ("entry", "unread", PUSHED),
        ("entry", "delete", PUSHED),
        ("workspace", "remove", WORKSPACE),
    ],
    ids=lambda argv: " ".join(argv[:3:2]),
)
def test_what_acts_lets_no_text_steer_the_terminal_or_forge_a_line(attacked: Attacked, argv: tuple[str, ...]) -> None:
    _harmless(attacked.desk.inbox.says(*attacked.argv(argv)))


def test_an_answer_that_is_an_attack_is_told_harmlessly(attacked: Attacked) -> None:
    attacked.desk.inbox.ok("entry", "reply", attacked.ids[ASKED], "--body", ATTACK)
    said = attacked.desk.inbox.says("ask", "--entry", attacked.ids[ASKED])
    _harmless(said)
    assert all(line.startswith("  ") for line in said.splitlines()[1:]), said
    _harmless(attacked.desk.inbox.says("entry", "show", attacked.ids[ASKED]))


def test_a_default_that_is_an_attack_is_told_harmlessly(desk: PeopleWorkspace) -> None:
    identity = desk.ask(deadline_seconds=0.001, on_silence="default", default=ATTACK)
    for argv in (("ask", "--entry", identity), ("entry", "show", identity), ("entries",)):
        _harmless(desk.inbox.says(*argv))


def test_an_entry_in_a_list_stays_on_its_own_line(seen: Attacked) -> None:
    for flags in ((), ("--notices",), ("--search", "harmless")):
        count = len(seen.desk.ids(*flags))
        assert len(seen.desk.inbox.says("entries", *flags).splitlines()) == count > 0


def test_what_a_stranger_wrote_is_indented_and_what_is_not_is_ours(seen: Attacked) -> None:
    ours = [line for line in seen.desk.inbox.says("entry", "show", seen.ids[PUSHED]).splitlines() if line and not line.startswith("  ")]
    assert len(ours) == 2, ours
    assert seen.ids[PUSHED] in ours[0]
    assert "user" in ours[1]


def test_json_carries_a_text_exactly_and_on_one_line(seen: Attacked) -> None:
    shown = seen.desk.inbox.run("entry", "show", seen.ids[PUSHED], "--json")
    assert shown.raw.count(b"\n") == 1
    assert (shown.json["entry"]["comments"], [reply["body"] for reply in shown.json["replies"]]) == (ATTACK, [ATTACK])
    lines = [json.loads(line) for line in seen.desk.mirror.read_text(encoding="utf-8").split("\n") if line]
    assert {line["comments"] for line in lines} >= {ATTACK}


def test_names_of_files_that_steer_a_terminal_are_not_pushed(desk: PeopleWorkspace) -> None:
    for name in ("\x1b[2J.md", "two\nlines.md", "\u202etxt.exe"):
        (desk.path / name).write_text("x")
        assert desk.refusal("push", "--agent", AGENT, "--doc", name)["exit"] == 30, name


def test_sql_in_a_text_is_a_text(desk: PeopleWorkspace) -> None:
    text = "x'; DROP TABLE entries; --"
    desk.inbox.ok("notify", "--from", text, "--text", text)
    assert [entry["from"] for entry in desk.inbox.ok("entries", "--search", "drop table")["entries"]] == [text]


# tokens


def test_a_token_is_printed_when_it_is_made_and_never_again(desk: PeopleWorkspace) -> None:
    token = desk.inbox.ok("workspace", "token", desk.workspace_id)["token"]
    pushed, asked = desk.push(), desk.ask()
    for argv in (
        ("workspace", "list"),
        ("workspace", "show", desk.workspace_id),
        ("push", "--agent", AGENT, "--comments", "x"),
        ("notify", "--from", AGENT, "--text", "x"),
        ("ask", "--from", AGENT, "--question", "x", "--no-wait"),
        ("entries",),
        ("entry", "show", pushed),
        ("entry", "reply", asked, "--body", "x"),
        ("agent", "list"),
        ("agent", "show", AGENT),
        ("watch", "--after-event", "0", "--timeout-seconds", "0.05"),
        ("doctor",),
    ):
        for form in ((), ("--json",)):
            finished = desk.inbox.run(*argv, *form)
            assert finished.stdout, argv
            assert not TOKEN.search(finished.stdout + finished.stderr), argv
    assert not TOKEN.search(desk.inbox.says("workspace", "remove", desk.workspace_id))
    assert token not in json.dumps(desk.contents()[0])


def test_the_store_holds_only_hashes_of_tokens(desk: PeopleWorkspace) -> None:
    link = desk.inbox.ok("sign-in")["sign_in_url"]
    made = [desk.token, desk.inbox.ok("workspace", "token", desk.workspace_id)["token"], link.partition("token=")[2]]
    assert all(TOKEN.fullmatch(token) for token in made)
    desk.push()
    held = b"".join(file.read_bytes() for file in desk.inbox.db.parent.rglob("*") if file.is_file())
    assert [token for token in made if token.encode() in held or token.partition("_")[2].encode() in held] == []


def test_a_new_token_voids_the_old_and_removing_voids_both(desk: PeopleWorkspace) -> None:
    made = desk.inbox.ok("workspace", "token", desk.workspace_id)["token"]
    with closing(open_store(str(desk.inbox.db))) as store:
        assert people.workspace_of(store, made).workspace_id == desk.workspace_id
        with pytest.raises(NotFound):
            people.workspace_of(store, desk.token)
        desk.inbox.ok("workspace", "remove", desk.workspace_id)
        with pytest.raises(NotFound):
            people.workspace_of(store, made)


# files


def _mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def _loose(folder: Path) -> list[str]:
    """Return the files that others may read or write."""
    return [f"{path.name} {_mode(path)}" for path in (folder, *sorted(folder.rglob("*"))) if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_the_data_folder_and_all_in_it_are_for_their_owner_alone(desk: PeopleWorkspace, umask: int) -> None:
    before = os.umask(umask)
    try:
        desk.inbox.ok("push", "--agent", AGENT, "--comments", "x")
        desk.inbox.ok("entry", "delete", desk.inbox.ok("push", "--agent", AGENT, "--comments", "y")["entry"]["id"])
    finally:
        os.umask(before)
    data = desk.inbox.db.parent / "data"
    assert (_mode(data / "inbox"), _mode(desk.mirror)) == ("0o700", "0o600")
    assert _loose(data / "inbox") == []
    assert _mode(data) == "0o700"


def test_a_fresh_store_makes_no_data_folder_until_something_is_pushed(bare: Inbox) -> None:
    bare.ok("init", "--db", "team.db")
    (bare.folder / AGENT).mkdir()
    for argv in (("entries",), ("workspace", "list"), ("workspace", "add", AGENT, "--label", "x"), ("entries", "--notices")):
        bare.ok(*argv, "--db", "team.db")
    assert not (bare.folder / "data").exists()
    bare.ok("push", "--agent", AGENT, "--comments", "x", "--db", "team.db")
    assert (bare.folder / "data" / "inbox" / "entries.jsonl").exists()


def test_a_data_folder_that_cannot_be_written_fails_no_verb(desk: PeopleWorkspace) -> None:
    """The mirror is a copy: what was accepted is in the store."""
    data = desk.inbox.db.parent / "data"
    data.write_text("in the way")
    identity = desk.inbox.ok("push", "--agent", AGENT, "--comments", "x")["entry"]["id"]
    assert desk.ids() == [identity]
    data.unlink()
    second = desk.inbox.ok("push", "--agent", AGENT, "--comments", "y")["entry"]["id"]
    assert [json.loads(line)["id"] for line in desk.mirror.read_text().splitlines()] == [identity, second]


def _ready(waiter: Waiter) -> Any:
    assert waiter.process.stdout is not None
    return json.loads(waiter.process.stdout.readline())


def test_a_server_prints_no_token_keeps_its_files_private_and_stops_cleanly(desk: PeopleWorkspace) -> None:
    waiter = desk.inbox.start("serve", "--port", "0", "--data", "kept", "--json")
    try:
        ready = _ready(waiter)
        assert set(ready) == {"ok", "schema_version", "command", "url", "token_file", "sign_in_url"}
        assert ready["sign_in_url"].startswith(f"{ready['url']}/sign-in?token=")
        assert TOKEN.fullmatch(Path(ready["token_file"]).read_text().strip())
        assert _loose(Path(ready["token_file"]).parent) == []
    finally:
        waiter.process.send_signal(signal.SIGTERM)
        stdout, stderr = waiter.process.communicate(timeout=LIMIT)
    assert (waiter.process.returncode, stdout) == (0, b"")
    assert not TOKEN.search(stderr.decode())
    assert _loose(desk.inbox.folder / "kept") == []


@pytest.mark.parametrize("flags", [(), ("--data", "kept")], ids=["data beside the store", "data elsewhere"])
def test_the_server_that_runs_is_the_one_that_addresses_name(desk: PeopleWorkspace, flags: tuple[str, ...]) -> None:
    waiter = desk.inbox.start("serve", "--port", "0", *flags, "--json")
    try:
        url = _ready(waiter)["url"]
        assert desk.inbox.ok("workspace", "show", desk.workspace_id)["mcp_url"] == f"{url}/mcp/{desk.workspace_id}"
        assert desk.inbox.ok("workspace", "token", desk.workspace_id)["mcp_url"] == f"{url}/mcp/{desk.workspace_id}"
        assert desk.inbox.ok("sign-in")["sign_in_url"].startswith(f"{url}/sign-in?token=")
    finally:
        waiter.process.terminate()
        waiter.process.communicate(timeout=LIMIT)
    assert desk.inbox.ok("workspace", "show", desk.workspace_id)["mcp_url"].startswith("http://127.0.0.1:8420/")


# the edge of a workspace


def test_links_that_stay_inside_are_followed_and_those_that_lead_out_are_refused(desk: PeopleWorkspace) -> None:
    secret = desk.inbox.folder / "secret.txt"
    secret.write_text("secret")
    (desk.path / "inside.md").symlink_to("report.md")
    (desk.path / "absolute.md").symlink_to(desk.path / "report.md")
    for name in ("inside.md", "absolute.md"):
        [doc] = desk.inbox.ok("push", "--agent", AGENT, "--doc", name)["entry"]["docs"]
        assert doc["path"] == name
    (desk.path / "out.txt").symlink_to(secret)
    (desk.path / "up").symlink_to("..")
    (desk.path / "far").symlink_to(desk.path / "up")
    (desk.path / "loop").symlink_to("loop")
    for name in ("out.txt", "up/secret.txt", "far/secret.txt", f"up/{AGENT}/report.md", "loop"):
        error = desk.refusal("push", "--agent", AGENT, "--doc", name)
        assert (error["exit"], error["code"]) in ((30, "invalid_input"), (40, "not_found")), (name, error)
        assert error["exit"] == 30 or name == "loop", (name, error)


def test_whether_a_file_outside_exists_is_not_told(desk: PeopleWorkspace) -> None:
    (desk.inbox.folder / "secret.txt").write_text("secret")
    (desk.path / "up").symlink_to("..")
    told = []
    for name in ("up/secret.txt", "up/nothing.txt"):
        error = desk.refusal("push", "--agent", AGENT, "--doc", name)
        told.append((error["exit"], error["code"], error["message"].replace(name, "NAME")))
    assert told[0] == told[1]


def test_an_agent_pushes_only_from_its_own_workspace(desk: PeopleWorkspace) -> None:
    other = desk.inbox.folder / "other"
    other.mkdir()
    (other / "theirs.md").write_text("x")
    desk.inbox.ok("workspace", "add", "other", "--label", "Other")
    assert desk.refusal("push", "--agent", AGENT, "--doc", "theirs.md")["exit"] == 40


def test_a_file_that_cannot_be_read_is_refused_and_not_a_fault_of_ours(desk: PeopleWorkspace) -> None:
    (desk.path / "report.md").chmod(0)
    finished = desk.inbox.run("push", "--agent", AGENT, "--doc", "report.md", "--json", unprivileged=True)
    assert finished.error[:2] in ((30, "invalid_input"), (40, "not_found")), finished
    assert "bug in Postroom" not in finished.stdout


def test_a_workspace_whose_folder_is_gone_says_so(desk: PeopleWorkspace) -> None:
    desk.path.rename(desk.inbox.folder / "moved")
    finished = desk.inbox.run("push", "--agent", AGENT, "--doc", "report.md", "--json")
    assert finished.error[:2] in ((30, "invalid_input"), (40, "not_found")), finished
    assert finished.json["error"]["hint"]


# A workspace and what is the person's alone


def test_a_workspace_that_holds_what_is_the_persons_alone_is_added_with_a_warning(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(inbox.folder))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    store, state = inbox.db, Path(state_folder(str(inbox.db)))
    state.mkdir(parents=True)  # as `inbox serve` makes it
    (inbox.folder / "link").symlink_to(inbox.folder / ".agents", target_is_directory=True)
    through_link = inbox.folder / "link" / store.name  # the same store, under another name
    cases = [
        (Path("/"), {"store", "token"}, store),
        (state, {"token"}, store),  # the folder itself
        (state.parent, {"token"}, store),
        (store.parent, {"store"}, through_link),
    ]
    for number, (folder, warned, place) in enumerate(cases):
        added = inbox.ok("workspace", "add", str(folder), "--label", "L", "--agent", f"agent-{number}", "--db", str(place))
        found = {what for what in ("store", "token") for warning in added.get("warnings", ()) if f" {what}" in warning.partition(".")[0]}
        assert found == warned, (folder, added.get("warnings"))


def test_a_workspace_beside_the_store_and_the_token_is_added_without_a_warning(inbox: Inbox) -> None:
    beside = inbox.folder / ".agents-of-others"  # begins like the folder of the store
    beside.mkdir()
    assert "warnings" not in inbox.ok("workspace", "add", str(beside), "--label", "L", "--agent", "beside")
