"""Starting something by keys alone, finding it again, and the looks that a person chooses."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient

BEHIND = "window.isBehind = true; Object.defineProperty(document, 'hidden', {get: () => window.isBehind});"
SWIPE = """(element, across) => {
  const {left, top, height, width} = element.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const touch = (at) => new Touch({identifier: 1, target: element, clientX: at, clientY: y});
  const tell = (name, at) => element.dispatchEvent(
    new TouchEvent(name, {bubbles: true, touches: name === 'touchend' ? [] : [touch(at)], changedTouches: [touch(at)]}));
  tell('touchstart', x);
  tell('touchmove', x + across);
  tell('touchend', x + across);
}"""


def test_work_is_sent_and_found_again_without_a_mouse(server: RunningServer, visit: BrowserTabs) -> None:
    builder, other = server.add_workspace().agent, server.add_workspace().agent
    subject = f"Mend the door of {builder}"
    reader = visit(server)
    reader.press("c")
    dialog = reader.dialog("New message")
    expect(dialog.get_by_label("To")).to_be_focused()
    for text in (f"@{builder}", "", subject, f"It squeaks. @{other} should know."):  # each field after the one before
        reader.page.keyboard.type(text)
        if text != f"It squeaks. @{other} should know.":
            reader.press("Tab")
    reader.press("Control+Enter")
    expect(reader.toasts).to_contain_text(f"Sent to {builder}, and told {other}")
    expect(reader.page).to_have_url(re.compile("/threads/thr_"))
    expect(reader.page).to_have_title(re.compile(re.escape(f"{subject} · Threads · Postroom")))
    (thread,) = (each for each in server.get("/api/threads", agent=builder)["threads"] if each["subject"] == subject)
    assert (thread["created_by"], thread["assigned_to"]) == ("user", builder)
    (told,) = server.get(f"/api/mailbox/{other}")["messages"]
    assert told["from"] == "user"
    reader.press("g", "i")
    expect(reader.rooms.locator('[aria-current="page"]')).to_contain_text("Inbox")
    reader.press("Control+k")
    reader.page.keyboard.type(subject.lower())
    expect(reader.dialog("Command palette").get_by_role("option", name=f"Thread: {subject}")).to_be_visible()
    reader.press("Enter")
    reader.expect_path(f"/threads/{thread['thread_id']}")


def test_rows_of_one_line_and_heads_that_stick(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    for number in range(40):
        workspace.push(comments=f"Number {number}")
    reader = visit(emptied)
    sticky = reader.page.locator(".group.sticky")
    expect(sticky).to_be_hidden()
    reader.entries.evaluate("list => { list.scrollTop = 300 }")
    expect(sticky).to_have_text("Today")
    high = reader.rows.first.bounding_box()
    reader.press("Control+k")
    reader.page.keyboard.type("one line")
    reader.press("Enter")
    expect(reader.rows.first).to_have_css("height", "36px")
    reader.page.reload()
    expect(reader.rows.first).to_have_css("height", "36px")  # the browser keeps it
    first, second = reader.rows.nth(0).bounding_box(), reader.rows.nth(1).bounding_box()
    assert high is not None
    assert first is not None
    assert second is not None
    assert second["y"] - first["y"] == 36 < high["height"]


def test_rooms_have_names_in_a_narrow_window_if_they_are_wanted(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server, viewport={"width": 1000, "height": 700})
    link = reader.rooms.get_by_role("link", name=re.compile("^Threads"))
    fold = reader.page.get_by_role("button", name="Names of the rooms")
    expect(fold).to_have_attribute("aria-expanded", "false")
    narrow = link.bounding_box()
    fold.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    wide = link.bounding_box()
    assert narrow is not None
    assert wide is not None
    assert wide["width"] > 2 * narrow["width"]


def test_a_swipe_puts_away_and_postpones(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    done, later = workspace.push(comments="Put me away"), workspace.push(comments="Later")
    reader = visit(server, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    with reader.page.expect_response(re.compile(f"{done}/state")):
        reader.row(done).evaluate(SWIPE, 150)
    expect(reader.row(done)).to_have_count(0)
    reader.row(later).evaluate(SWIPE, -150)
    with reader.page.expect_response(re.compile(f"{later}/state")):
        reader.page.get_by_role("button", name="Until something new arrives").click()
    expect(reader.row(later)).to_have_count(0)
    assert [server.entry(each)["state"] for each in (done, later)] == ["done", "snoozed"]
    workspace.http.post("/api/inbox/push", json={"comments": "Here it is", "entryId": later})
    expect(reader.row(later)).to_be_visible()


def test_a_swipe_in_the_notices_marks_the_swiped_one_as_read(server: RunningServer, visit: BrowserTabs) -> None:
    first, second = (server.notify("cron", text) for text in ("One", "Two"))
    reader = visit(server, "/notices", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    with reader.page.expect_response(re.compile(f"{first}/read")):
        reader.row(first).evaluate(SWIPE, 150)
    assert server.entry(first)["readAt"]
    assert not server.entry(second)["readAt"]


def test_an_entry_counts_as_read_once_its_tab_is_looked_at(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    entry = workspace.push(comments="In a tab behind")
    reader = visit(server, f"/inbox/{entry}", scripts=(BEHIND,))
    expect(reader.main.get_by_role("heading", name="In a tab behind")).to_be_visible()
    assert not server.entry(entry)["readAt"]
    with reader.page.expect_response(re.compile(f"{entry}/read")):
        reader.page.evaluate("window.isBehind = false; document.dispatchEvent(new Event('visibilitychange'))")
    assert server.entry(entry)["readAt"]


def test_a_search_finds_threads_and_mail_beside_entries(own: RunningServer, visit: BrowserTabs) -> None:
    workspace = own.add_workspace()
    entry = workspace.push(comments="The invoices are paid")
    sent = own.inbox.ok("send", "--from", "user", "--to", "clerk", "--subject", "Ledger", "--body", "Count the invoices of October")
    own.person.post("/api/mailbox", json={"to": "clerk", "payload": "Two invoices are missing", "msg_id": "m1"}).raise_for_status()
    reader = visit(own)
    reader.search.fill("invoices")
    expect(reader.row(entry)).to_be_visible()
    elsewhere = reader.page.get_by_role("region", name="Threads and mail")
    expect(elsewhere.get_by_role("link")).to_have_count(2)
    expect(elsewhere.get_by_role("link").nth(0)).to_contain_text("Thread: Ledger")
    expect(elsewhere.get_by_role("link").nth(0)).to_contain_text("Count the invoices of October")
    expect(elsewhere.get_by_role("link").nth(1)).to_contain_text("Mail: Mail for clerk")
    reader.search.fill("is:unread invoices")
    expect(elsewhere).to_have_count(0)
    reader.search.fill("october")
    expect(elsewhere.get_by_role("link")).to_have_count(1)
    elsewhere.get_by_role("link").click()
    reader.expect_path(f"/threads/{sent['thread']['thread_id']}")
    reader.press("Control+k")
    expect(reader.dialog("Command palette")).to_be_visible()
    reader.page.keyboard.type("missing")
    reader.dialog("Command palette").get_by_role("option").filter(has_text="Mail for clerk: Two invoices are missing").click()
    reader.expect_path("/mailboxes/clerk")


def _compose(reader: BrowserPage, to: str, kind: str, subject: str, body: str) -> Locator:
    reader.press("c")
    dialog = reader.dialog("New message")
    expect(dialog.get_by_label("To")).to_be_focused()
    dialog.get_by_label("To").fill(to)
    dialog.get_by_label("Kind").select_option(kind)
    dialog.get_by_label("Subject").fill(subject)
    dialog.get_by_role("textbox", name="Text").fill(body)
    return dialog


def test_a_task_is_given_and_found_in_the_palette(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    server.inbox.ok("agent", "register", workspace.agent)
    reader = visit(server)
    _compose(reader, f"@{workspace.agent}", "task", f"Sort the shelf of {workspace.agent}", "By colour.")
    reader.press("Control+Enter")
    expect(reader.page).to_have_url(re.compile("/tasks/"))
    (task,) = server.get("/api/tasks", agent=workspace.agent)["tasks"]
    assert (task["source_agent"], task["description"]) == ("user", f"Sort the shelf of {workspace.agent}\n\nBy colour.")
    expect(reader.main.get_by_role("heading", level=1)).to_have_text(f"Sort the shelf of {workspace.agent}")
    reader.press("g", "i")
    reader.press("Control+k")
    expect(reader.dialog("Command palette")).to_be_visible()
    reader.page.keyboard.type(f"shelf of {workspace.agent}")
    reader.dialog("Command palette").get_by_role("option").filter(has_text="Task: Sort the shelf").first.click()
    reader.expect_path(f"/tasks/{task['task_id']}")


def test_a_text_file_goes_with_a_message(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("First line\n```\nfenced\n````\nfenced again\n````\n```\n")
    reader = visit(server)
    dialog = _compose(reader, f"@{workspace.agent}", "thread", "With notes", "See the file.")
    dialog.get_by_label("Attach a text file").set_input_files(notes)
    dialog.get_by_role("button", name="Send").click()
    expect(reader.page).to_have_url(re.compile("/threads/thr_"))
    expect(reader.main.locator(".markdown pre")).to_have_text(notes.read_text())  # no fence inside ends it
    (thread,) = server.get("/api/threads", agent=workspace.agent)["threads"]
    (message,) = server.get(f"/api/threads/{thread['thread_id']}")["messages"]
    assert message["body"] == f"See the file.\n\n`notes.txt`:\n\n`````\n{notes.read_text()}\n`````"


def test_a_file_that_no_message_can_carry_is_refused_with_the_limit(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs, tmp_path: Path
) -> None:
    picture, long, fit = tmp_path / "picture.bin", tmp_path / "long.txt", tmp_path / "fit.txt"
    picture.write_bytes(b"\0\1\2")
    long.write_text("x" * 200_001)
    fit.write_text("y" * 90_001)
    reader = visit(server)
    dialog = _compose(reader, f"@{workspace.agent}", "thread", "With a file", "See the file.")
    expect(dialog).to_contain_text("A text of at most 200 KB")
    file, said = dialog.get_by_label("Attach a text file"), dialog.get_by_role("alert")
    instead = "Put it into the folder of the agent, and write its path."
    for refused, why in ((picture, "picture.bin is not a text"), (long, "long.txt is larger")):  # said as soon as it is chosen
        file.set_input_files(refused)
        expect(said).to_have_text(f"{why}. A message carries texts of at most 200 KB. {instead}")
    reader.press("Control+Enter")
    expect(reader.toasts).to_contain_text("long.txt is larger")
    file.set_input_files(fit)
    expect(said).to_be_hidden()
    dialog.get_by_label("Kind").select_option("task")
    expect(said).to_have_text(f"fit.txt is larger. A task carries texts of at most 90 KB. {instead}")
    assert not server.get("/api/threads", agent=workspace.agent)["threads"]


def test_a_person_who_is_mentioned_or_written_to_is_told_in_the_inbox(own: RunningServer, visit: BrowserTabs) -> None:
    """A person reads no mailbox: what is for them appears among the notices of the page."""
    agent = own.add_workspace().agent
    own.inbox.ok("agent", "add", "ada", "--kind", "human")
    reader = visit(own)
    _compose(reader, f"@{agent}", "thread", "Paint the door", "Blue, as @ada said.")
    reader.press("Control+Enter")
    expect(reader.toasts).to_contain_text(f"Sent to {agent}, and told ada")
    reader.press("g", "i")
    _compose(reader, "@ada", "message", "Lunch", "At one?")
    reader.press("Control+Enter")
    expect(reader.toasts).to_contain_text("Sent to ada")
    reader.room("Notices")
    expect(reader.rows).to_have_count(2)
    reader.rows.filter(has_text="@ada: Paint the door").locator("a").click()
    expect(reader.detail).to_contain_text("Blue, as @ada said.")
    thread = own.get("/api/threads", agent=agent)["threads"][0]["thread_id"]
    expect(reader.detail.get_by_role("link", name="The thread")).to_have_attribute("href", f"{own.url}/threads/{thread}")
    expect(reader.rows.filter(has_text="@ada: Lunch")).to_be_visible()
