"""Mailboxes and queues: counts by state, dead letters with their reasons, lag, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from postroom import queues
from tests.browser.browser_page import BrowserTabs, SampleServer
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient


def _dead(server: RunningServer, session: str) -> int:
    return len(server.mailbox.answers("peek-dead-letter", "--session", session)["entries"])


def test_mailboxes_are_counted_by_state(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    session = f"box-{workspace.agent}"
    for number in range(3):
        server.mailbox.enqueue(f"Message {number}", to=session)
    reader = visit(server, "/mailboxes")
    row = reader.main.get_by_role("row").filter(has_text=session)
    expect(row).to_contain_text("3")
    heads = reader.main.get_by_role("columnheader").all_inner_texts()
    assert [re.search(word, " ".join(heads), re.IGNORECASE) is not None for word in ("pending", "in flight", "dead")] == [True] * 3
    server.mailbox.enqueue("One more", to=session)
    expect(row).to_contain_text("4")
    row.get_by_role("link", name=session).click()
    reader.expect_path(f"/mailboxes/{session}")


def test_dead_letters_are_retried_and_purged_one_by_one(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    session = f"box-{workspace.agent}"
    first, second = server.mailbox.dead("no such table", session), server.mailbox.dead("out of memory", session)
    reader = visit(server, f"/mailboxes/{session}")
    letter = reader.main.locator("li, tr, article").filter(has=reader.page.get_by_role("button", name="Retry", exact=True))
    expect(letter).to_have_count(2)
    retried, purged = letter.filter(has_text="no such table"), letter.filter(has_text="out of memory")
    retried.get_by_role("button", name="Retry", exact=True).click()
    eventually(lambda: server.mailbox.state(first) == "pending")
    expect(letter).to_have_count(1)
    purged.get_by_role("button", name="Purge", exact=True).click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert server.mailbox.state(second) == "dead_letter"
    dialog.get_by_role("button", name=re.compile("^Purge")).click()
    eventually(lambda: server.mailbox.state(second) == "purged")
    expect(letter).to_have_count(0)


def test_all_dead_letters_are_retried_or_purged_at_once(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    session = f"box-{workspace.agent}"
    for number in range(3):
        server.mailbox.dead(f"reason {number}", session)
    reader = visit(server, f"/mailboxes/{session}")
    reader.main.get_by_role("button", name="Purge all").click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    reader.press("Escape")
    expect(dialog).to_have_count(0)
    assert _dead(server, session) == 3
    reader.main.get_by_role("button", name="Retry all").click()
    eventually(lambda: _dead(server, session) == 0)
    expect(reader.main).not_to_contain_text("reason 1")
    for _ in range(3):  # in the order in which they are delivered
        message = server.mailbox.dequeue(session)["message"]["msg_id"]
        server.mailbox.answers("nack", "--session", session, "--msg-id", message, "--reason=again in vain")
    expect(reader.main.get_by_text("again in vain").first).to_be_visible()
    reader.main.get_by_role("button", name="Purge all").click()
    dialog.get_by_role("button", name=re.compile("^Purge")).click()
    eventually(lambda: _dead(server, session) == 0)


def test_a_registered_queue_shows_its_rate_and_who_is_behind(emptied: RunningServer, visit: BrowserTabs, tmp_path: Path) -> None:
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


def test_charts_say_their_scale(own: RunningServer, visit: BrowserTabs, tmp_path: Path) -> None:
    for name, number in (("busy", 9), ("calm", 0)):
        queues.init_queue(str(tmp_path / name))
        with queues.open_queue(str(tmp_path / name)) as queue:
            events = [{"content": str(each)} for each in range(number)]
            events and queues.push_batch(queue, events, source="internal:dm:default:warden", type="message")
        own.inbox.ok("queue", "add", str(tmp_path / name), "--label", name)
    agent = own.add_workspace().agent
    for number in range(3):
        own.person.post("/api/mailbox", json={"to": agent, "payload": "Hello", "msg_id": f"m{number}"}).raise_for_status()
    reader = visit(own, "/queues")
    for name, story, scale in (("busy", "9 in all, at most 9 in an hour", "peak 9/h"), ("calm", "none", "none")):
        card = reader.main.get_by_role("article", name=name)
        expect(card.get_by_role("img")).to_have_accessible_name(f"Events of {name} in the last 24 hours, by hour: {story}")
        expect(card.locator(".scale")).to_have_text(scale)
    reader.room("Mailboxes")
    expect(reader.main.get_by_role("row").filter(has_text=agent).locator(".scale")).to_have_text(re.compile("^peak [123]/h$"))
    reader.room("Agents")
    expect(reader.main.locator("li.agent").filter(has_text="user (you)").locator(".scale")).to_have_text(re.compile("^peak [123]/h$"))
    expect(reader.main.locator("li.agent").filter(has_text=agent).locator(".scale")).to_have_text("none")


def test_the_last_runs_of_a_queue_say_what_went_wrong(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, "/queues")
    expect(reader.main).to_contain_text("archive: the disk is full")
    expect(reader.main).to_contain_text("37")


def test_a_queue_that_is_gone_is_said_to_be_and_the_others_are_shown(emptied: RunningServer, visit: BrowserTabs, tmp_path: Path) -> None:
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


def test_without_a_queue_the_room_says_how_to_add_one(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server, "/queues")
    expect(reader.main).to_contain_text("inbox queue add")
