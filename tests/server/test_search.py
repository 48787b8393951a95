"""Finding an entry again by its words."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.server.office import Desk, Office, refusal


@pytest.fixture
def mark() -> str:
    """A word that no other test says."""
    return f"m{uuid4().hex}"


def _found(office: Office, q: str, **more: str) -> list[str]:
    return [entry["id"] for entry in office.get("/api/inbox/search", q=q, **more)["entries"]]


def test_an_entry_is_found_by_what_its_agent_said(office: Office, desk: Desk, mark: str) -> None:
    identity = desk.push(comments=f"The {mark} report is done")
    assert _found(office, mark) == [identity]
    assert office.get("/api/inbox/search", q=mark)["entries"] == desk.entries()


def test_an_entry_is_found_by_its_label(office: Office, mark: str) -> None:
    desk = office.desk(label=f"Thesis {mark}")
    identity = desk.push(comments="Done")
    assert _found(office, mark) == [identity]


def test_an_entry_is_found_by_the_path_of_a_document(office: Office, desk: Desk, mark: str) -> None:
    desk.write(f"research/{mark}.md", "# A")
    identity = desk.push(f"research/{mark}.md")
    assert _found(office, mark) == [identity]


def test_an_entry_is_found_by_its_question_its_choices_and_the_replies(office: Office, desk: Desk) -> None:
    question, choice, reply = (f"m{uuid4().hex}" for _ in range(3))
    identity = office.ask(desk.agent, question, "--choice", choice, "--choice", "other")
    office.reply(identity, reply)
    for word in (question, choice, reply):
        assert _found(office, word) == [identity]


def test_the_newest_is_found_first_and_in_pages(office: Office, desk: Desk, mark: str) -> None:
    pushed = [desk.push(comments=f"{mark} {number}") for number in range(4)]
    assert _found(office, mark) == pushed[::-1]
    page = office.get("/api/inbox/search", q=mark, limit="3")
    assert ([entry["id"] for entry in page["entries"]], page["hasMore"]) == (pushed[:0:-1], True)


def test_every_word_counts_and_the_beginning_of_a_word_suffices(office: Office, desk: Desk, mark: str) -> None:
    both, one = desk.push(comments=f"{mark} inflation rates"), desk.push(comments=f"{mark} rates")
    assert _found(office, f"{mark} rates") == [one, both]
    assert _found(office, f"infla {mark}") == [both]
    assert _found(office, mark[:20]) == [one, both]
    assert _found(office, f"{mark} flation") == []


def test_case_and_accents_do_not_count(office: Office, desk: Desk, mark: str) -> None:
    identity = desk.push(comments=f"{mark} Übermäßig CAFÉ naïve")
    for words in (f"{mark.upper()} cafe", f"{mark} Café", f"{mark} ubermaßig", f"{mark} NAIVE"):
        assert _found(office, words) == [identity], words


def test_notices_are_found_too(office: Office, mark: str) -> None:
    notice = office.notify("cron", f"Backup {mark}")
    assert _found(office, mark) == [notice]


def test_what_was_deleted_is_not_found(office: Office, desk: Desk, mark: str) -> None:
    identity = desk.push(comments=mark)
    office.reply(identity, f"reply-{mark}")
    office.person.delete(f"/api/inbox/{identity}")
    assert _found(office, mark) == []


@pytest.mark.parametrize(
    "q",
    [
        '"',
        "'",
        "*",
        "a*",
        '"a',
        "a OR b",
        "NEAR(a b)",
        "a AND",
        "comments:a",
        "-a",
        "^a",
        "%",
        "_",
        "\\",
        "a;DROP TABLE entries",
        "()",
        "💥",
        "ß",
    ],
)
def test_no_word_is_an_operator(office: Office, desk: Desk, mark: str, q: str) -> None:
    identity = desk.push(comments=f"{mark} {q} a OR b AND near x")
    answer = office.person.get("/api/inbox/search", params={"q": f"{mark} {q}"})
    assert answer.status_code == 200, answer.text
    assert [entry["id"] for entry in answer.json()["entries"]] == [identity]


@pytest.mark.parametrize("query", ["", "q=", "q=%20", "q=***", "q=%22", "q=a&limit=0", "q=a&limit=x"])
def test_a_search_for_nothing_is_refused(office: Office, query: str) -> None:
    refusal(office.person.get(f"/api/inbox/search?{query}"), 400, "invalid_input")


def test_the_command_finds_the_same(office: Office, desk: Desk, mark: str) -> None:
    desk.push(comments=mark)
    assert office.inbox.ok("entries", "--search", mark)["entries"] == desk.entries()
