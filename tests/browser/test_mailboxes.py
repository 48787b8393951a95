"""Mailboxes and queues: counts by state, dead letters with their reasons, lag, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from postroom import queues
from tests.browser.reader import House, Visits
from tests.cli.process import eventually
from tests.server.office import Desk, Office


def _dead(office: Office, session: str) -> int:
    return len(office.mailbox.answers("peek-dead-letter", "--session", session)["entries"])


def test_mailboxes_are_counted_by_state(office: Office, desk: Desk, visit: Visits) -> None:
    session = f"box-{desk.agent}"
    for number in range(3):
        office.mailbox.enqueue(f"Message {number}", to=session)
    reader = visit(office, "/mailboxes")
    row = reader.main.get_by_role("row").filter(has_text=session)
    expect(row).to_contain_text("3")
    heads = reader.main.get_by_role("columnheader").all_inner_texts()
    assert [re.search(word, " ".join(heads), re.IGNORECASE) is not None for word in ("pending", "in flight", "dead")] == [True] * 3
    office.mailbox.enqueue("One more", to=session)
    expect(row).to_contain_text("4")
    row.get_by_role("link", name=session).click()
    reader.expect_path(f"/mailboxes/{session}")


def test_dead_letters_are_retried_and_purged_one_by_one(office: Office, desk: Desk, visit: Visits) -> None:
    session = f"box-{desk.agent}"
    first, second = office.mailbox.dead("no such table", session), office.mailbox.dead("out of memory", session)
    reader = visit(office, f"/mailboxes/{session}")
    letter = reader.main.locator("li, tr, article").filter(has=reader.page.get_by_role("button", name="Retry", exact=True))
    expect(letter).to_have_count(2)
    retried, purged = letter.filter(has_text="no such table"), letter.filter(has_text="out of memory")
    retried.get_by_role("button", name="Retry", exact=True).click()
    eventually(lambda: office.mailbox.state(first) == "pending")
    expect(letter).to_have_count(1)
    purged.get_by_role("button", name="Purge", exact=True).click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert office.mailbox.state(second) == "dead_letter"
    dialog.get_by_role("button", name=re.compile("^Purge")).click()
    eventually(lambda: office.mailbox.state(second) == "purged")
    expect(letter).to_have_count(0)


def test_all_dead_letters_are_retried_or_purged_at_once(office: Office, desk: Desk, visit: Visits) -> None:
    session = f"box-{desk.agent}"
    for number in range(3):
        office.mailbox.dead(f"reason {number}", session)
    reader = visit(office, f"/mailboxes/{session}")
    reader.main.get_by_role("button", name="Purge all").click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    reader.press("Escape")
    expect(dialog).to_have_count(0)
    assert _dead(office, session) == 3
    reader.main.get_by_role("button", name="Retry all").click()
    eventually(lambda: _dead(office, session) == 0)
    expect(reader.main).not_to_contain_text("reason 1")
    for _ in range(3):  # in the order in which they are delivered
        message = office.mailbox.dequeue(session)["message"]["msg_id"]
        office.mailbox.answers("nack", "--session", session, "--msg-id", message, "--reason=again in vain")
    expect(reader.main.get_by_text("again in vain").first).to_be_visible()
    reader.main.get_by_role("button", name="Purge all").click()
    dialog.get_by_role("button", name=re.compile("^Purge")).click()
    eventually(lambda: _dead(office, session) == 0)


def test_a_registered_queue_shows_its_rate_and_who_is_behind(emptied: Office, visit: Visits, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    queues.init_queue(str(folder))
    with queues.open_queue(str(folder)) as queue:
        queues.subscribe(queue, "indexer", handler="true")
        queues.subscribe(queue, "archiver", handler="true")
        last = queues.push_batch(queue, [{"content": str(n)} for n in range(9)], source="internal:dm:default:warden", type="message")[-1].id
        queues.ack(queue, "indexer", last_event_id=last)
        queues.ack(queue, "archiver", last_event_id=last - 4)
    emptied.inbox.ok("queue", "add", str(folder), "--label", "House events")
    reader = visit(emptied, "/queues")
    expect(reader.main).to_contain_text("House events")
    expect(reader.main.locator("svg").first).to_be_visible()
    behind = reader.main.locator("li, tr").filter(has_text="archiver").last
    expect(behind).to_contain_text("4")
    expect(reader.main.locator("li, tr").filter(has_text="indexer").last).to_contain_text("0")


def test_the_last_runs_of_a_queue_say_what_went_wrong(house: House, visit: Visits) -> None:
    reader = visit(house.office, "/queues")
    expect(reader.main).to_contain_text("archive: the disk is full")
    expect(reader.main).to_contain_text("37")


def test_a_queue_that_is_gone_is_said_to_be_and_the_others_are_shown(emptied: Office, visit: Visits, tmp_path: Path) -> None:
    for name in ("here", "gone"):
        folder = tmp_path / name
        folder.mkdir()
        queues.init_queue(str(folder))
        emptied.inbox.ok("queue", "add", str(folder), "--label", f"Queue {name}")
    for file in sorted((tmp_path / "gone").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (tmp_path / "gone").rmdir()
    reader = visit(emptied, "/queues")
    expect(reader.main).to_contain_text("Queue here")
    gone = reader.main.locator("article, section, li").filter(has_text="Queue gone").last
    expect(gone).to_contain_text(re.compile("no queue|not there|cannot|gone|no such", re.IGNORECASE))


def test_without_a_queue_the_room_says_how_to_add_one(office: Office, visit: Visits) -> None:
    reader = visit(office, "/queues")
    expect(reader.main).to_contain_text("inbox queue add")
