"""Workspaces, pushes, notices and entries at the command line: what is answered, to programs and to people, and how it exits."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.cli.mailbox_process import Mailbox
from tests.cli.people_workspace import AGENT, LABEL, NOWHERE, REPORT, PeopleWorkspace
from tests.cli.process import Inbox

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ENTRY = {
    *("id", "ts", "workspaceId", "workspaceLabel", "kind", "from", "door", "readAt", "readBy", "replies"),
    *("title", "activeTs", "parts", "state", "snoozedUntil", "pinned"),
}


@pytest.fixture
def desk(inbox: Inbox) -> PeopleWorkspace:
    return PeopleWorkspace(inbox)


def _answer(inbox: Inbox, *argv: str) -> dict[str, Any]:
    """Return the JSON of a command without its head, which is checked."""
    answer: dict[str, Any] = inbox.ok(*argv)
    words = " ".join(argv[:2]) if argv[0] in ("workspace", "entry") else argv[0]
    assert [answer.pop(name) for name in ("ok", "schema_version", "command")] == [True, 1, words]
    return answer


def _steps(desk: PeopleWorkspace, identity: str) -> list[tuple[str, str, str]]:
    receipts = desk.shown(identity)["receipts"]
    assert all(STAMP.fullmatch(receipt["at"]) for receipt in receipts)
    assert [receipt["at"] for receipt in receipts] == sorted(receipt["at"] for receipt in receipts)
    assert all(set(receipt) == {"step", "at", "by", "door", "reply", "answer"} for receipt in receipts)
    return [(receipt["step"], receipt["by"], receipt["door"]) for receipt in receipts]


# workspaces


def test_a_workspace_is_added_with_all_that_its_agent_needs(inbox: Inbox) -> None:
    folder = inbox.folder / AGENT
    folder.mkdir()
    answer = _answer(inbox, "workspace", "add", AGENT, "--label", LABEL)
    workspace = answer["workspace"]
    known = {"label": LABEL, "path": str(folder.resolve()), "agent": AGENT, "focus": None, "muted_at": None}
    assert workspace == {"workspace_id": workspace["workspace_id"], **known}
    assert workspace["workspace_id"].startswith("ws_")
    assert answer["token"].startswith("prw_")
    url = f"http://127.0.0.1:8420/mcp/{workspace['workspace_id']}"
    server = {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${INBOX_TOKEN}"}}
    assert answer == {"workspace": workspace, "token": answer["token"], "mcp_url": url, "mcp_json": {"mcpServers": {"inbox": server}}}


def test_a_new_workspace_tells_people_its_token_and_a_ready_mcp_json(inbox: Inbox) -> None:
    (inbox.folder / AGENT).mkdir()
    said = inbox.says("workspace", "add", AGENT, "--label", LABEL, "--agent", "scribe", "--url", "http://127.0.0.1:9000")
    assert LABEL in said
    assert "scribe" in said
    assert len(re.findall(r"^ *export INBOX_TOKEN=prw_[0-9a-f]+$", said, re.MULTILINE)) == 1
    written = json.loads(said[said.index("\n{") :])
    [workspace] = inbox.ok("workspace", "list")["workspaces"]
    assert written["mcpServers"]["inbox"]["url"] == f"http://127.0.0.1:9000/mcp/{workspace['workspace_id']}"
    assert "prw_" not in json.dumps(written)


def test_workspaces_are_listed_by_label_and_shown(desk: PeopleWorkspace) -> None:
    (desk.inbox.folder / "atlas").mkdir()
    added = desk.inbox.ok("workspace", "add", "atlas", "--label", "Atlas", "--agent", "surveyor")["workspace"]
    answer = _answer(desk.inbox, "workspace", "list")
    mine: dict[str, object] = {"workspace_id": desk.workspace_id, "label": LABEL, "path": str(desk.path.resolve())}
    mine |= {"agent": AGENT, "focus": None, "muted_at": None}
    assert answer == {"workspaces": [added, mine]}
    shown = _answer(desk.inbox, "workspace", "show", desk.workspace_id)
    assert shown == {"workspace": mine, "mcp_url": f"http://127.0.0.1:8420/mcp/{desk.workspace_id}"}
    for said in (desk.inbox.says("workspace", "list"), desk.inbox.says("workspace", "show", desk.workspace_id)):
        assert all(text in said for text in (desk.workspace_id, LABEL, AGENT, str(desk.path)))


def test_a_workspace_is_named_by_all_that_the_list_shows_if_only_one_has_it(inbox: Inbox) -> None:
    ids = {}
    for folder, label in (("here", "Same"), ("there", "Same"), ("yonder", "Other")):
        (inbox.folder / folder).mkdir()
        named = ("--label", label, "--agent", f"{folder}-agent")
        ids[folder] = inbox.ok("workspace", "add", folder, *named)["workspace"]["workspace_id"]
    for name in ("Other", "yonder-agent", str(inbox.folder / "yonder"), "yonder/"):
        assert inbox.ok("workspace", "show", name)["workspace"]["workspace_id"] == ids["yonder"]
    assert inbox.ok("workspace", "set", "yonder-agent", "--label", "Renamed")["workspace"]["workspace_id"] == ids["yonder"]
    refused = inbox.run("workspace", "remove", "Same", "--json")
    error = refused.json["error"]
    assert (refused.code, error["message"]) == (30, "'Same' means 2 workspaces")
    assert [ids[folder] in error["hint"] for folder in ids] == [True, True, False]
    assert inbox.run("workspace", "show", "nowhere").code == 40


def test_without_workspaces_the_list_says_how_to_add_one(inbox: Inbox) -> None:
    assert inbox.ok("workspace", "list")["workspaces"] == []
    assert "inbox workspace add" in inbox.says("workspace", "list")


def test_a_workspace_is_called_by_the_name_of_its_folder_unless_it_gets_a_label(inbox: Inbox) -> None:
    added = inbox.ok("workspace", "add", ".")["workspace"]
    assert (added["label"], added["agent"]) == (inbox.folder.name, inbox.folder.name)
    (inbox.folder / "thesis").mkdir()
    assert inbox.ok("workspace", "add", "thesis/", "--agent", "macro")["workspace"]["label"] == "thesis"
    assert inbox.run("workspace", "add", "thesis", "--label", "", "--json").error[0] == 30


def test_a_workspace_is_found_by_its_real_path(desk: PeopleWorkspace) -> None:
    (desk.inbox.folder / "link").symlink_to(desk.path)
    assert desk.refusal("workspace", "add", "link", "--label", "Again", "--agent", "other")["code"] == "taken"


def test_a_new_token_comes_with_the_same_answer_as_a_new_workspace(desk: PeopleWorkspace) -> None:
    answer = _answer(desk.inbox, "workspace", "token", desk.workspace_id)
    assert set(answer) == {"workspace", "token", "mcp_url", "mcp_json"}
    assert answer["token"].startswith("prw_")
    assert answer["token"] != desk.token
    assert answer["workspace"] == desk.inbox.ok("workspace", "show", desk.workspace_id)["workspace"]


def test_a_removed_workspace_is_gone_and_what_it_pushed_stays(desk: PeopleWorkspace) -> None:
    identity = desk.push("Drafted")
    answer = _answer(desk.inbox, "workspace", "remove", desk.workspace_id)
    assert answer["workspace"]["workspace_id"] == desk.workspace_id
    assert desk.inbox.ok("workspace", "list")["workspaces"] == []
    assert (desk.entry(identity)["workspaceLabel"], desk.entry(identity)["comments"]) == (LABEL, "Drafted")
    assert desk.ids("--workspace", desk.workspace_id) == [identity]
    desk.inbox.ok("workspace", "add", AGENT, "--label", "Once more")


# push and notify


@pytest.mark.parametrize("who", ["--agent", "--workspace"])
def test_a_push_is_an_entry_with_documents_and_comments(desk: PeopleWorkspace, who: str) -> None:
    name = AGENT if who == "--agent" else desk.workspace_id
    entry = _answer(desk.inbox, "push", who, name, "--doc", "report.md", "--comments", "Drafted **it**")["entry"]
    assert set(entry) == ENTRY | {"docs", "comments"}
    assert UUID(entry["id"]).version == 4
    assert isinstance(entry["ts"], int)
    assert entry["docs"] == [{"path": "report.md", "sha256": hashlib.sha256(REPORT).hexdigest(), "size": len(REPORT)}]
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["from"]) == (desk.workspace_id, LABEL, AGENT)
    assert (entry["kind"], entry["door"], entry["comments"]) == ("push", "cli", "Drafted **it**")
    assert (entry["readAt"], entry["readBy"], entry["replies"]) == (None, None, 0)
    [line] = desk.mirror.read_text().splitlines()
    assert json.loads(line) == {name: entry[name] for name in ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments", "title")}


def test_what_was_not_given_is_left_out(desk: PeopleWorkspace) -> None:
    assert "docs" not in _answer(desk.inbox, "push", "--agent", AGENT, "--comments", "Drafted")["entry"]
    assert "comments" not in _answer(desk.inbox, "push", "--agent", AGENT, "--doc", "report.md", "--comments", " \n")["entry"]


def test_documents_are_kept_in_the_order_in_which_they_were_given(desk: PeopleWorkspace) -> None:
    (desk.path / "a b.md").write_text("x")
    entry = desk.inbox.ok("push", "--agent", AGENT, "--doc", "report.md", "--doc", "a b.md")["entry"]
    assert [doc["path"] for doc in entry["docs"]] == ["report.md", "a b.md"]


def test_a_text_may_come_from_a_file_or_standard_input(desk: PeopleWorkspace) -> None:
    (desk.inbox.folder / "note.md").write_text("From a file\n", encoding="utf-8")
    asked = desk.inbox.ok("ask", "--from", "builder", "--question-file", "-", "--no-wait", stdin="Größe?".encode())
    for argv, stdin, expected in (
        (("push", "--agent", AGENT, "--comments-file", "note.md"), b"", "From a file\n"),
        (("push", "--agent", AGENT, "--comments-file", "-"), "é ✓".encode(), "é ✓"),
        (("notify", "--from", "backup", "--text-file", "-"), b"two\nlines", "two\nlines"),
    ):
        assert desk.inbox.ok(*argv, stdin=stdin)["entry"]["comments"] == expected
    identity = asked["answer"]["entry_id"]
    assert desk.entry(identity)["comments"] == "Größe?"
    assert desk.inbox.ok("entry", "reply", identity, "--body-file", "-", stdin=b"- big\n- small")["reply"]["body"] == "- big\n- small"


def test_a_push_tells_people_what_was_pushed(desk: PeopleWorkspace) -> None:
    said = desk.inbox.says("push", "--agent", AGENT, "--doc", "report.md", "--comments", "Drafted")
    assert len(said.splitlines()) == 1
    assert all(text in said for text in (desk.ids()[0], LABEL, "report.md", "Drafted"))


def test_a_notice_stands_in_a_quieter_section_and_not_in_the_mirror(desk: PeopleWorkspace) -> None:
    entry = _answer(desk.inbox, "notify", "--from", "backup", "--text", "12 GB")["entry"]
    assert set(entry) == ENTRY | {"comments"}
    assert (entry["kind"], entry["from"], entry["comments"]) == ("notice", "backup", "12 GB")
    assert (entry["workspaceId"], entry["workspaceLabel"]) == ("", "backup")
    pushed = desk.push()
    assert desk.ids() == [pushed]
    assert desk.ids("--notices") == [entry["id"]]
    assert [json.loads(line)["id"] for line in desk.mirror.read_text().splitlines()] == [pushed]
    assert "backup: 12 GB" in desk.inbox.says("entries", "--notices")


def test_who_pushes_or_notifies_may_be_in_the_environment(desk: PeopleWorkspace) -> None:
    assert desk.inbox.ok("push", "--comments", "x", INBOX_AGENT=AGENT)["entry"]["from"] == AGENT
    assert desk.inbox.ok("notify", "--text", "x", INBOX_AGENT="backup")["entry"]["from"] == "backup"


# entries


def test_entries_are_listed_newest_first_as_they_were_pushed(desk: PeopleWorkspace) -> None:
    ids = [desk.push(text) for text in ("First", "Second", "Third")]
    answer = _answer(desk.inbox, "entries")
    assert set(answer) == {"entries", "hasMore"}
    assert ([entry["id"] for entry in answer["entries"]], answer["hasMore"]) == (ids[::-1], False)
    assert answer["entries"][0] == desk.entry(ids[2])
    said = desk.inbox.says("entries").splitlines()
    assert [identity[:8] in line for identity, line in zip(ids[::-1], said)] == [True] * 3
    assert all("unread" in line for line in said)


def test_pages_hold_every_entry_once(desk: PeopleWorkspace) -> None:
    ids = [desk.push(str(number)) for number in range(5)]
    seen: list[str] = []
    more = True
    while more:
        page = desk.inbox.ok("entries", "--limit", "2", *(("--before", seen[-1]) if seen else ()))
        seen += [entry["id"] for entry in page["entries"]]
        more = page["hasMore"]
    assert seen == ids[::-1]
    assert desk.inbox.says("entries", "--limit", "4").count("\n") == 4 + 1


def test_entries_are_filtered_by_what_is_unread_open_or_of_a_workspace(desk: PeopleWorkspace) -> None:
    pushed, read, asked, answered = desk.push("One"), desk.push("Two"), desk.ask(), desk.ask("Why?")
    desk.inbox.ok("entry", "read", read)
    desk.inbox.ok("entry", "reply", answered, "--body", "Because")
    assert desk.ids("--unread") == [asked, pushed]
    assert desk.ids("--questions") == [asked]
    assert desk.ids("--workspace", desk.workspace_id) == [read, pushed]
    assert desk.ids("--workspace", desk.workspace_id, "--unread") == [pushed]
    assert desk.ids("--questions", "--unread", "--limit", "1") == [asked]


def test_notices_are_filtered_too(desk: PeopleWorkspace) -> None:
    read, unread = desk.notify("One"), desk.notify("Two")
    desk.inbox.ok("entry", "read", read)
    assert desk.ids("--notices", "--unread") == [unread]


def test_entries_are_found_by_every_word_or_its_beginning(desk: PeopleWorkspace) -> None:
    pushed, other, notice = desk.push("The Déjà-vu of rates"), desk.push("The rest"), desk.notify("rates are fine")
    asked = desk.ask("Which?", choices=("zinc", "copper"))
    desk.inbox.ok("entry", "reply", other, "--body", "Mind the gap")
    for words, expected in (("RAT", [notice, pushed]), ("deja rates", [pushed]), ("zin", [asked]), ("gap", [other]), ("macro the", None)):
        found = desk.ids("--search", words)
        assert found == ([other, pushed] if expected is None else expected), words
    page = _answer(desk.inbox, "entries", "--search", "rates", "--limit", "1")
    assert ([entry["id"] for entry in page["entries"]], page["hasMore"]) == ([notice], True)
    assert desk.ids("--search", "nowhere") == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(("--unread",), "unread"), (("--questions",), "question"), (("--notices",), "notice"), (("--workspace", "{workspace}"), "unread")],
)
def test_a_search_keeps_to_the_other_filters_or_refuses_them(desk: PeopleWorkspace, flags: tuple[str, ...], expected: str) -> None:
    ids = {"unread": desk.push("rates"), "read": desk.push("rates"), "notice": desk.notify("rates"), "question": desk.ask("rates")}
    for name in ("read", "notice", "question"):
        desk.inbox.ok("entry", "read", ids[name])
    argv = [word.replace("{workspace}", desk.workspace_id) for word in flags]
    finished = desk.inbox.run("entries", "--search", "rates", *argv, "--json")
    found = [entry["id"] for entry in finished.json.get("entries", [])]
    wanted = [ids["read"], ids["unread"]] if argv[0] == "--workspace" else [ids[expected]]
    assert finished.code == 30 or found == wanted, finished


def test_an_inbox_without_entries_says_so(inbox: Inbox) -> None:
    assert _answer(inbox, "entries") == {"entries": [], "hasMore": False}
    assert len(inbox.says("entries").splitlines()) == 1


# one entry


def test_an_entry_is_marked_read_and_unread_as_often_as_one_likes(desk: PeopleWorkspace) -> None:
    identity = desk.push()
    first = _answer(desk.inbox, "entry", "read", identity, "--agent", "maria")
    again = _answer(desk.inbox, "entry", "read", identity)
    assert set(first) == {"entry"}
    assert STAMP.fullmatch(first["entry"]["readAt"])
    assert first["entry"]["readBy"] == again["entry"]["readBy"] == "maria"
    assert first["entry"]["readAt"] == again["entry"]["readAt"]
    for _ in range(2):
        unread = _answer(desk.inbox, "entry", "unread", identity)["entry"]
        assert (unread["readAt"], unread["readBy"]) == (None, None)
    assert identity in desk.inbox.says("entry", "read", identity)


def test_marking_as_read_and_as_unread_is_not_told_in_the_same_words(desk: PeopleWorkspace) -> None:
    identity = desk.push()
    assert desk.inbox.says("entry", "read", identity) != desk.inbox.says("entry", "unread", identity)


def test_a_reply_reaches_the_agents_mailbox_once(desk: PeopleWorkspace) -> None:
    identity = desk.push()
    answer = _answer(desk.inbox, "entry", "reply", identity, "--body", "Extend it")
    reply = answer["reply"]
    assert (answer["entry"]["replies"], answer["entry"]["readBy"]) == (1, "user")
    assert (reply["entryId"], reply["from"], reply["body"], reply["door"], reply["via"]) == (
        identity,
        "user",
        "Extend it",
        "cli",
        "mailbox",
    )
    assert STAMP.fullmatch(reply["at"])
    assert desk.shown(identity)["replies"] == [reply]
    message = Mailbox(desk.inbox.folder).ok("dequeue", "--session", AGENT)["message"]
    assert (message["msg_id"], message["payload"], message["from"]) == (f"reply:{reply['id']}", "Extend it", "user")
    assert (message["entry_id"], message["reply_id"]) == (identity, reply["id"])
    assert Mailbox(desk.inbox.folder).run("dequeue", "--session", AGENT).code == 10


def test_a_reply_to_a_notice_reaches_the_mailbox_of_who_left_it(desk: PeopleWorkspace) -> None:
    said = desk.inbox.says("entry", "reply", desk.notify(), "--body", "Thanks")
    assert "mailbox of backup" in said
    assert Mailbox(desk.inbox.folder).ok("dequeue", "--session", "backup")["message"]["payload"] == "Thanks"


def test_a_reply_to_a_threads_question_wakes_its_worker(desk: PeopleWorkspace) -> None:
    desk.inbox.send("Paint it", "--thread", "one")
    desk.inbox.ok("claim", "--agent", "builder", "--thread", "one")
    desk.inbox.ok("update", "--agent", "builder", "--thread", "one", "--status", "blocked", "--summary", "Which colour?", "--to", "user")
    waiter = desk.inbox.start("wait-reply", "--agent", "builder", "--thread", "one", "--timeout-seconds", "30", "--json").sleeping()
    [entry] = desk.inbox.ok("entries", "--questions")["entries"]
    assert (entry["kind"], entry["threadId"], entry["from"], entry["comments"]) == ("question", "one", "builder", "Which colour?")
    assert desk.inbox.ok("entry", "reply", entry["id"], "--body", "Blue")["reply"]["via"] == "thread"
    message = waiter.finish().json["message"]
    assert (message["kind"], message["from_agent"], message["verified"]) == ("answer", "user", False)
    assert desk.ids("--questions") == []
    desk.inbox.ok("done", "--agent", "builder", "--thread", "one", "--summary", "Painted")
    assert desk.entry(entry["id"])["question"]["state"] == "answered"
    error = desk.refusal("entry", "reply", entry["id"], "--body", "Red")
    assert (error["exit"], error["code"]) == (30, "invalid_state")
    assert error["hint"]


def test_every_hop_has_a_receipt_with_its_time_and_door(desk: PeopleWorkspace) -> None:
    identity = desk.inbox.ok("push", "--agent", AGENT, "--comments", "Drafted")["entry"]["id"]
    desk.inbox.ok("entry", "read", identity, "--agent", "maria")
    desk.inbox.ok("entry", "reply", identity, "--body", "Extend it")
    assert _steps(desk, identity) == [("stored", AGENT, "cli"), ("seen", "maria", "cli"), ("reply_stored", "user", "cli")]
    mailbox = Mailbox(desk.inbox.folder)
    message = mailbox.ok("dequeue", "--session", AGENT)["message"]
    assert [step for step, _, _ in _steps(desk, identity)][3:] == ["reply_offered"]
    mailbox.ok("ack", "--session", AGENT, "--msg-id", message["msg_id"])
    assert [step for step, _, _ in _steps(desk, identity)][3:] == ["reply_offered", "reply_seen"]


def test_an_entry_is_shown_to_people_with_its_replies_and_receipts(desk: PeopleWorkspace) -> None:
    identity = desk.inbox.ok("push", "--agent", AGENT, "--doc", "report.md", "--comments", "Drafted\n\nTwice")["entry"]["id"]
    desk.inbox.ok("entry", "reply", identity, "--body", "Extend it")
    said = desk.inbox.says("entry", "show", identity)
    for text in (LABEL, identity, "report.md", "Drafted", "Twice", "user", "Extend it", "stored", "seen", "reply_stored", "cli"):
        assert text in said, text


def test_a_deleted_entry_is_gone_for_good_with_its_line(desk: PeopleWorkspace) -> None:
    identity, other = desk.push("One"), desk.push("Two")
    line = desk.mirror.read_text().splitlines()[0]
    assert _answer(desk.inbox, "entry", "delete", identity) == {"deleted": identity}
    assert desk.ids() == [other]
    assert [json.loads(row)["id"] for row in desk.mirror.read_text().splitlines()] == [other]
    with desk.mirror.open("a") as file:
        file.write(f"{line}\n")
    assert desk.ids() == [other]
    assert desk.inbox.run("entry", "delete", identity).code == 40
    assert other in desk.inbox.says("entry", "delete", other)


def test_what_others_append_to_the_mirror_is_listed(desk: PeopleWorkspace) -> None:
    desk.push("Ours")
    with desk.mirror.open("a") as file:
        file.write(json.dumps({"id": NOWHERE, "ts": 1715789012345, "workspaceLabel": "Elsewhere", "comments": "Theirs"}) + "\nnot JSON\n")
    assert [entry["comments"] for entry in desk.inbox.ok("entries")["entries"]] == ["Ours", "Theirs"]
    assert desk.entry(NOWHERE)["workspaceLabel"] == "Elsewhere"


# signing in


def test_a_link_to_sign_in_is_printed_for_a_person(desk: PeopleWorkspace) -> None:
    answer = _answer(desk.inbox, "sign-in", "--person", "maria", "--url", "https://inbox.example")
    assert re.fullmatch(r"https://inbox\.example/sign-in\?token=\w+", answer["sign_in_url"])
    said = desk.inbox.says("sign-in")
    assert re.search(r"^ *http://127\.0\.0\.1:8420/sign-in\?token=\w+$", said, re.MULTILINE)


def test_a_store_elsewhere_is_named_with_db(bare: Inbox) -> None:
    place = Path("elsewhere") / "team.db"
    (bare.folder / "elsewhere").mkdir()
    (bare.folder / AGENT).mkdir()
    bare.ok("init", "--db", str(place))
    bare.ok("workspace", "add", AGENT, "--label", LABEL, "--db", str(place))
    identity = bare.ok("push", "--agent", AGENT, "--comments", "x", "--db", str(place))["entry"]["id"]
    assert [entry["id"] for entry in bare.ok("entries", INBOX_DB=str(place))["entries"]] == [identity]
    assert (bare.folder / "elsewhere" / "data" / "inbox" / "entries.jsonl").exists()


def test_a_workspace_that_contains_the_store_or_the_persons_token_is_added_with_a_warning(inbox: Inbox) -> None:
    below = inbox.folder / "below"
    below.mkdir()
    assert "warnings" not in inbox.ok("workspace", "add", "below", "--label", "Below")
    [store, token] = inbox.ok("workspace", "add", ".", "--label", "Around", "--agent", "around")["warnings"]
    assert "contains the store." in store
    assert "contains your token for scripts." in token
    said = inbox.says("workspace", "add", ".agents", "--label", "Inside", "--agent", "inside")
    assert said.count("Warning: This folder contains the store.") == said.count("Warning:") == 1
