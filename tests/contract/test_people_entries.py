"""Entries: what is pushed, noticed and seeded; pages, newest first; read state that follows the data; deletes that never return."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from postroom import people
from postroom.core.errors import InvalidInput, NotFound, Refusal
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import (
    ADA,
    AGENT,
    KIB,
    NOWHERE,
    USER,
    asked,
    at,
    entry_events,
    facts,
    field,
    found,
    happened,
    id_of,
    ids,
    inbox,
    new_workspace,
    persons,
    pushed,
    receipts,
    seeded,
    settled,
    sha256,
    shown,
    steps,
    surfaced,
    timed,
)

BASE = {
    *("id", "ts", "workspaceId", "workspaceLabel", "kind", "from", "door", "readAt", "readBy", "replies"),
    *("title", "activeTs", "parts", "state", "snoozedUntil", "pinned"),
}


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    """A workspace."""
    return new_workspace(store, tmp_path)


# Pushing


def test_a_push_is_an_entry_of_its_workspace(store: Store, clock: Clock, desk: str) -> None:
    entry = people.push(store, desk, docs=[{"path": "report.md"}], comments="Want a take?").to_json()
    assert set(entry) == BASE | {"docs", "comments"}
    assert UUID(entry["id"]).version == 4
    assert entry["ts"] == clock.instant // 1000
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["from"]) == (desk, f"The {AGENT} desk", AGENT)
    assert (entry["kind"], entry["door"], entry["replies"]) == ("push", "library", 0)
    assert (entry["readAt"], entry["comments"]) == (None, "Want a take?")
    assert not entry["readBy"]
    assert entry["docs"] == [{"path": "report.md", "sha256": sha256(b"# Rates\n"), "size": 8}]
    assert inbox(store) == [entry] == [shown(store, entry["id"])]


def test_what_is_absent_is_left_out(store: Store, desk: str) -> None:
    assert set(people.push(store, desk, comments="Only words").to_json()) == BASE | {"comments"}
    assert set(people.push(store, desk, docs=["report.md"]).to_json()) == BASE | {"docs"}
    assert set(people.push(store, desk, docs=["report.md"], comments=" \n\t").to_json()) == BASE | {"docs"}


def test_a_push_of_nothing_is_refused(store: Store, desk: str) -> None:
    before = settled(store)
    for comments in (None, "", "   ", " \n\t "):
        with pytest.raises(InvalidInput):
            people.push(store, desk, comments=comments)
        with pytest.raises(InvalidInput):
            people.push(store, desk, docs=[], comments=comments)
    assert settled(store) == before


def test_comments_come_back_as_they_were_said(store: Store, desk: str) -> None:
    for comments in ("x" * 256 * KIB, "☃" * (256 * KIB // 3), "~$197 (~$188)\n\n# **Bold** <script>", "\u2028 \r\n \x1b[1m"):
        assert shown(store, pushed(store, desk, comments))["comments"] == comments


def test_comments_that_cannot_be_kept_are_refused(store: Store, desk: str) -> None:
    for comments in ("x" * 256 * KIB + "x", "☃" * (256 * KIB // 3 + 1), "a\0b", "\ud800"):
        with pytest.raises(InvalidInput) as refused:
            people.push(store, desk, comments=comments)
        assert field(refused.value) == "comments"
    assert inbox(store) == []


def test_an_entry_is_announced_with_what_it_is_about(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    (event,) = entry_events(store)
    assert (event.event_type, event.message_id, event.thread_id, event.source) == ("entry.created", entry_id, "", AGENT)
    told = facts(event)
    assert (told["entry_id"], told["workspace_id"], told["agent"], told["kind"]) == (entry_id, desk, AGENT, "push")


def test_an_entry_remembers_its_door(store: Store, desk: str) -> None:
    entry = people.push(store.with_door("mcp"), desk, comments="From a tool").to_json()
    assert entry["door"] == "mcp"
    (stored,) = [receipt for receipt in receipts(store, entry["id"]) if receipt["step"] == "stored"]
    assert (stored["by"], stored["door"]) == (AGENT, "mcp")


# Notices and seeds


def test_a_notice_is_in_a_section_of_its_own(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    notice = people.notify(store, sender="cron", text="Backed up").to_json()
    assert (notice["kind"], notice["comments"], notice["workspaceId"], notice["workspaceLabel"]) == ("notice", "Backed up", "", "cron")
    assert (notice["from"], notice["ts"]) == ("cron", clock.instant // 1000)
    assert ids(store) == [entry_id]
    assert ids(store, section="notices") == [notice["id"]]
    assert shown(store, notice["id"]) == notice


def test_people_may_remind_themselves(store: Store) -> None:
    assert people.notify(store, sender=USER, text="Water the plants").to_json()["from"] == USER


WRONG_NOTICES = {
    "empty": ("cron", "", "text"),
    "long": ("cron", "x" * (256 * KIB + 1), "text"),
    "NUL": ("cron", "a\0b", "text"),
    "nobody": ("", "Hello", "sender"),
    "two lines": ("a\nb", "Hello", "sender"),
}


def test_a_notice_that_says_nothing_or_comes_from_nobody_is_refused(store: Store) -> None:
    for what, (sender, text, named) in WRONG_NOTICES.items():
        with pytest.raises(InvalidInput) as refused:
            people.notify(store, sender=sender, text=text)
        assert field(refused.value) in (named, "from" if named == "sender" else named), what
    assert inbox(store, section="notices") == []


def test_a_seeded_entry_is_as_it_was_told(store: Store, clock: Clock) -> None:
    entry = people.seed(store, comments="Seeded").to_json()
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["ts"]) == ("ws-dev", "Seeded", clock.instant // 1000)
    named = "11111111-1111-4111-8111-111111111111"
    told = people.seed(
        store,
        id=named,
        ts=1715789012345,
        workspace_id="ws-abc123",
        workspace_label="Macro",
        docs=[{"path": "no/such/file.md"}],
        comments="Hi",
    ).to_json()
    assert (told["id"], told["ts"], told["workspaceId"], told["workspaceLabel"]) == (named, 1715789012345, "ws-abc123", "Macro")
    assert [doc["path"] for doc in told["docs"]] == ["no/such/file.md"]
    assert ids(store) == [entry["id"], named]


# Pages


def test_history_is_newest_first_and_by_arrival_at_one_instant(store: Store, clock: Clock, desk: str) -> None:
    first, second = pushed(store, desk, "1"), pushed(store, desk, "2")
    clock.advance(1)
    third = pushed(store, desk, "3")
    old = seeded(store, ts=1000)
    assert ids(store) == [third, second, first, old]


def test_pages_show_every_entry_once_also_at_one_instant(store: Store, clock: Clock) -> None:
    every: list[str] = []
    for number in range(7):
        clock.advance(1 if number == 3 else 0)  # three at one instant, four at another
        every.insert(0, seeded(store, str(number)))
    for limit in (1, 2, 3, 7, 8, 500):
        paged: list[str] = []
        for left in range(7, 0, -limit):
            page = people.history(store, limit=limit, before=paged[-1] if paged else None)
            assert page.has_more == (left > limit)
            paged += map(id_of, page.entries)
        assert paged == every
    assert people.history(store, before=every[-1]).entries == ()
    assert not people.history(store, before=every[-1]).has_more


def test_a_page_holds_a_hundred_unless_it_is_said(store: Store) -> None:
    for number in range(101):
        seeded(store, str(number))
    page = people.history(store)
    assert (len(page.entries), page.has_more) == (100, True)
    assert len(people.history(store, limit=101).entries) == 101
    assert not people.history(store, limit=101).has_more


def test_a_page_of_no_sensible_size_is_refused(store: Store) -> None:
    for limit in (0, -1, 501):
        with pytest.raises(InvalidInput) as refused:
            people.history(store, limit=limit)
        assert field(refused.value) == "limit"


def test_a_page_goes_on_from_where_a_deleted_entry_was(store: Store) -> None:
    older, gone, newer = seeded(store), seeded(store), seeded(store)
    people.delete_entry(store, gone, person=USER)
    assert [entry.id for entry in people.history(store, before=gone).entries] == [older]
    assert [entry.id for entry in people.history(store, before=newer).entries] == [older]


def test_a_page_before_an_unknown_entry_is_not_found(store: Store) -> None:
    for unknown in (NOWHERE, "", "no id"):
        with pytest.raises((NotFound, InvalidInput)) as refused:
            people.history(store, before=unknown)
        assert unknown == "" or isinstance(refused.value, NotFound)


def test_an_unknown_section_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.history(store, section="trash")
    assert field(refused.value) == "section"


def test_history_can_be_of_one_workspace(store: Store, tmp_path: Path, desk: str) -> None:
    other = new_workspace(store, tmp_path, "micro")
    mine, theirs = [pushed(store, desk), pushed(store, desk)], [pushed(store, other)]
    assert ids(store, workspace_id=desk) == mine[::-1]
    assert ids(store, workspace_id=other) == theirs
    assert ids(store, workspace_id=desk, before=mine[1]) == [mine[0]]
    page = people.history(store, workspace_id=desk, limit=1)
    assert page.has_more
    assert ids(store, workspace_id="ws_nowhere") == []


def test_history_can_be_of_what_is_unread_or_open(store: Store, desk: str) -> None:
    read, unread, question, closed = pushed(store, desk), pushed(store, desk), asked(store), asked(store)
    people.mark_read(store, read, person=USER)
    people.reply(store, closed, person=USER, body="Yes")
    assert ids(store, unread=True) == [question, unread]
    assert ids(store, open_only=True) == [question]
    people.mark_read(store, question, person=USER)
    assert ids(store, open_only=True) == [question]
    assert ids(store, open_only=True, unread=True) == []
    assert ids(store, unread=True, before=question) == [unread]  # it was on the page before, whatever it is now
    assert ids(store, unread=True, workspace_id=desk) == [unread]


def test_pages_of_what_is_unread_say_whether_there_is_more_of_that(store: Store) -> None:
    several = [seeded(store, str(number)) for number in range(5)]
    for entry_id in several[:3]:
        people.mark_read(store, entry_id, person=USER)
    assert people.history(store, unread=True, limit=1).has_more
    assert not people.history(store, unread=True, limit=2).has_more


# Read and unread


def test_an_entry_is_read_by_somebody_at_a_time(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    clock.advance(5)
    entry = people.mark_read(store, entry_id, person=USER).to_json()
    assert (entry["readAt"], entry["readBy"]) == (at(clock), USER)
    assert inbox(store) == [entry]
    assert steps(store, entry_id) == ["stored", "seen"]
    seen = receipts(store, entry_id)[-1]
    assert (seen["at"], seen["by"], seen["door"]) == (at(clock), USER, "library")
    unread = people.mark_unread(store, entry_id, person=USER).to_json()
    assert unread["readAt"] is None
    assert not unread["readBy"]
    assert happened(store, entry_id) == ["entry.created", "entry.read", "entry.unread"]


def test_reading_twice_is_reading_once(store: Store, clock: Clock, desk: str) -> None:
    persons(store)
    entry_id = pushed(store, desk)
    first = people.mark_read(store, entry_id, person=USER)
    clock.advance(5)
    before = settled(store)
    assert people.mark_read(store, entry_id, person=ADA) == first
    assert settled(store) == before
    people.mark_unread(store, entry_id, person=ADA)
    before = settled(store)
    people.mark_unread(store, entry_id, person=USER)
    assert settled(store) == before


NAMED: dict[str, Callable[..., Any]] = {
    "mark_read": people.mark_read,
    "mark_unread": people.mark_unread,
    "delete_entry": people.delete_entry,
    "reply": lambda s, e, person: people.reply(s, e, person=person, body="Hello"),
}
each_verb = pytest.mark.parametrize("act", NAMED.values(), ids=NAMED.keys())


@each_verb
def test_what_is_not_there_or_was_deleted_is_not_found(store: Store, desk: str, act: Callable[..., Any]) -> None:
    gone = pushed(store, desk)
    people.delete_entry(store, gone, person=USER)
    before = settled(store)
    for unknown in (gone, NOWHERE, "no id"):
        with pytest.raises(NotFound):
            act(store, unknown, person=USER)
        with pytest.raises(NotFound):
            people.show_entry(store, unknown)
    assert settled(store) == before


@each_verb
def test_only_people_act_as_people(store: Store, desk: str, act: Callable[..., Any]) -> None:
    entry_id = pushed(store, desk)
    before = settled(store)
    for nobody in ("", "  ", "two\nlines", "zoe", AGENT):
        with pytest.raises(InvalidInput) as refused:
            act(store, entry_id, person=nobody)
        assert field(refused.value) == "person"
    assert settled(store) == before


# Deleting


def test_a_deleted_entry_is_nowhere_any_more(store: Store, desk: str) -> None:
    kept, gone = pushed(store, desk, "kept apple"), pushed(store, desk, "gone apple")
    people.reply(store, gone, person=USER, body="goodbye")
    people.delete_entry(store, gone, person=USER)
    assert ids(store) == ids(store, workspace_id=desk) == ids(store, unread=True) == [kept]
    assert found(store, "apple") == [kept]
    assert found(store, "goodbye") == []
    assert [id_of(entry) for entry in people.own_entries(store, agent=AGENT).entries] == [kept]
    assert people.old_messages(store, agent=AGENT).messages == ()
    assert happened(store, gone)[-1] == "entry.deleted"


def test_a_deleted_id_never_returns(store: Store) -> None:
    gone = seeded(store)
    people.delete_entry(store, gone, person=USER)
    with suppress(Refusal):  # to refuse it is as good as to make another of it
        people.seed(store, id=gone, comments="Back again")
    assert gone not in ids(store)
    with pytest.raises(NotFound):
        people.show_entry(store, gone)


def test_a_deleted_question_of_a_thread_does_not_surface_again(store: Store) -> None:
    _, entry_id = surfaced(store)
    people.delete_entry(store, entry_id, person=USER)
    people.sync_questions(store)
    assert ids(store) == []


@pytest.mark.parametrize("silence", ["default", "refuse", "escalate"])
def test_a_deleted_question_has_no_deadline_any_more(store: Store, clock: Clock, silence: str) -> None:
    entry_id = timed(store, silence)
    people.delete_entry(store, entry_id, person=USER)
    clock.advance(120)
    assert ids(store) == []
    assert happened(store, entry_id) == ["entry.created", "entry.deleted"]
    assert people.read_messages(store, agent=AGENT) == ()


def test_an_agents_own_entries_are_its_own_newest_first(store: Store, clock: Clock, tmp_path: Path, desk: str) -> None:
    other = new_workspace(store, tmp_path, "micro")
    mine = []
    for number in range(4):
        clock.advance(1)
        desks, agents = (desk, other), (AGENT, "micro")
        mine.append(pushed(store, desks[number % 2]) if number < 2 else asked(store, agent=agents[number % 2]))
    assert [id_of(entry) for entry in people.own_entries(store, agent=AGENT).entries] == [mine[2], mine[0]]
    assert [id_of(entry) for entry in people.own_entries(store, agent=AGENT, before=mine[2]).entries] == [mine[0]]
    assert [id_of(entry) for entry in people.own_entries(store, agent=AGENT, limit=1).entries] == [mine[2]]
    assert people.own_entries(store, agent="stranger").entries == ()
