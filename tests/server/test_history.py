"""What the person sees, page by page, newest first."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server.office import Desk, Office, refusal

HISTORY = "/api/inbox/history"


def _ids(desk: Desk, **more: str) -> list[str]:
    return [entry["id"] for entry in desk.entries(**more)]


def test_the_newest_entry_comes_first(desk: Desk) -> None:
    pushed = [desk.push(comments=f"Number {number}") for number in range(4)]
    assert _ids(desk) == pushed[::-1]


def test_an_entry_looks_as_the_document_says(desk: Desk) -> None:
    desk.write("research/macro.md", "# Macro\n")
    answer = desk.try_push("research/macro.md", comments="Drafted the FOMC piece.").json()
    (entry,) = desk.entries()
    assert uuid.UUID(entry["id"]).version == 4
    assert (entry["id"], entry["ts"]) == (answer["entryId"], answer["ts"])
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["from"]) == (desk.workspace_id, desk.label, desk.agent)
    assert [document["path"] for document in entry["docs"]] == ["research/macro.md"]
    assert (entry["comments"], entry["kind"]) == ("Drafted the FOMC piece.", "push")
    assert (entry["readAt"], entry["replies"]) == (None, 0)
    assert "question" not in entry
    assert "threadId" not in entry


def test_what_was_not_pushed_is_left_out(desk: Desk) -> None:
    desk.write("a.txt", "a")
    desk.push("a.txt")
    desk.push(comments="Only words")
    words, document = desk.entries()
    assert "docs" not in words
    assert "comments" not in document


def test_a_page_says_whether_there_is_more(office: Office, desk: Desk) -> None:
    one, two, three, four, five = [desk.push(comments=f"Number {number}") for number in range(5)]

    def page(**more: str) -> tuple[list[str], bool]:
        answer = office.get(HISTORY, workspaceId=desk.workspace_id, **more)
        assert set(answer) >= {"entries", "hasMore"}
        return [entry["id"] for entry in answer["entries"]], answer["hasMore"]

    assert page(limit="2") == ([five, four], True)
    assert page(limit="2", before=four) == ([three, two], True)
    assert page(limit="2", before=two) == ([one], False)
    assert page(limit="2", before=three) == ([two, one], False)
    assert page(limit="5") == ([five, four, three, two, one], False)
    assert page(before=one) == ([], False)


def test_a_page_holds_a_hundred_unless_asked_otherwise(office: Office, desk: Desk) -> None:
    for number in range(101):
        desk.push(comments=f"Number {number}")
    page = office.get(HISTORY, workspaceId=desk.workspace_id)
    assert (len(page["entries"]), page["hasMore"]) == (100, True)


def test_entries_of_one_moment_are_neither_skipped_nor_repeated_by_pages(office: Office, desk: Desk) -> None:
    with ThreadPoolExecutor(8) as crowd:
        pushed = set(crowd.map(lambda number: desk.push(comments=f"Number {number}"), range(24)))
    walked: list[str] = []
    page = office.get(HISTORY, workspaceId=desk.workspace_id, limit="5")
    walked += [entry["id"] for entry in page["entries"]]
    while page["hasMore"]:
        page = office.get(HISTORY, workspaceId=desk.workspace_id, limit="5", before=walked[-1])
        walked += [entry["id"] for entry in page["entries"]]
    assert len(walked) == 24
    assert set(walked) == pushed


def test_a_workspace_is_seen_alone_or_among_all(office: Office, desk: Desk, other: Desk) -> None:
    mine, theirs = desk.push(comments="Mine"), other.push(comments="Theirs")
    assert (_ids(desk), _ids(other)) == ([mine], [theirs])
    everything = [entry["id"] for entry in office.get(HISTORY, limit="500")["entries"]]
    assert everything.index(theirs) < everything.index(mine)


def test_the_unread_are_seen_alone(office: Office, desk: Desk) -> None:
    read, unread = desk.push(comments="One"), desk.push(comments="Two")
    office.person.put(f"/api/inbox/{read}/read")
    assert _ids(desk, unread="true") == [unread]
    assert _ids(desk, unread="false") == [unread, read]


def test_the_open_questions_are_seen_alone(office: Office, desk: Desk) -> None:
    desk.push(comments="No question")
    first = office.ask(desk.agent, "Ship it?")
    second = office.ask(desk.agent, "Really?")
    assert _ids(desk, open="true") == [second, first]
    office.reply(first, "Yes")
    assert _ids(desk, open="true") == [second]


def test_notices_have_a_section_of_their_own(office: Office) -> None:
    notice = office.notify("backup-cron", "The backup took 3 minutes")
    everything = [entry["id"] for entry in office.get(HISTORY, limit="500")["entries"]]
    assert notice not in everything
    notices = office.get(HISTORY, section="notices")["entries"]
    (found,) = [entry for entry in notices if entry["id"] == notice]
    assert (found["kind"], found["comments"], found["from"]) == ("notice", "The backup took 3 minutes", "backup-cron")
    assert (found["workspaceId"], found["workspaceLabel"]) == ("", "backup-cron")


def test_the_entries_of_a_removed_workspace_stay(office: Office, desk: Desk) -> None:
    identity = desk.push(comments="Before it went")
    office.inbox.ok("workspace", "remove", desk.workspace_id)
    assert _ids(desk) == [identity]
    assert desk.workspace_id not in [workspace["workspace_id"] for workspace in office.get("/api/workspaces")["workspaces"]]


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=-1", "limit=ten", "limit=", "section=elsewhere", "unread=perhaps"])
def test_a_page_that_cannot_be_is_refused(office: Office, query: str) -> None:
    refusal(office.person.get(f"{HISTORY}?{query}"), 400, "invalid_input")


def test_a_page_before_an_entry_that_never_was_is_refused(office: Office) -> None:
    refusal(office.person.get(HISTORY, params={"before": str(uuid.uuid4())}), 404, "not_found")


def test_history_is_for_who_signed_in(office: Office) -> None:
    refusal(office.stranger.get(HISTORY), 401, "unauthenticated")
    refusal(office.client("made-up").get(HISTORY), 401, "unauthenticated")


def test_the_command_and_the_server_show_the_same(office: Office, desk: Desk) -> None:
    desk.write("a.md", "# A")
    desk.push("a.md", comments="One")
    shown = [entry for entry in office.inbox.ok("entries", "--limit", "500")["entries"] if entry["workspaceId"] == desk.workspace_id]
    assert shown == desk.entries()
