"""The list: groups, filters, search, previews, and the count in the title."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Locator, expect

import postroom
from postroom import people
from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient


def _seeded(server: RunningServer, text: str, when: datetime) -> str:
    """An entry as it was pushed back then."""
    store = postroom.open(server.place)
    return people.seed(store, workspace_id="ws-past", workspace_label="The past", comments=text, ts=int(when.timestamp() * 1000)).id


def _groups(reader: BrowserPage) -> Locator:
    return reader.entries.locator(".group")


def _noon(days_ago: int) -> datetime:
    today = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days_ago)


def test_entries_are_grouped_by_date_newest_first(emptied: RunningServer, visit: BrowserTabs) -> None:
    old = _noon(12)
    texts = {"Long ago": old, "The day before": _noon(1), "A bit earlier": _noon(1) + timedelta(hours=1)}
    for text, when in texts.items():
        _seeded(emptied, text, when)
    emptied.add_workspace().push(comments="Just now")
    reader = visit(emptied)
    expect(reader.rows).to_have_text([re.compile(text) for text in ("Just now", "A bit earlier", "The day before", "Long ago")])
    expect(_groups(reader)).to_have_text([re.compile("Today"), re.compile("Yesterday"), re.compile(f"{old:%A} {old.day} {old:%B}")])


def test_entries_can_be_grouped_by_workspace_which_is_remembered(emptied: RunningServer, visit: BrowserTabs) -> None:
    thesis, billing = emptied.add_workspace("Macro thesis"), emptied.add_workspace("Billing")
    for workspace in (thesis, billing, thesis):
        workspace.push(comments=f"From {workspace.label}")
    reader = visit(emptied)
    expect(_groups(reader)).to_have_text([re.compile("Today")])
    reader.page.get_by_role("combobox", name="Group by").select_option("workspace")
    expect(_groups(reader)).to_have_count(2)
    expect(_groups(reader).filter(has_text="Macro thesis")).to_have_count(1)
    labels = [re.compile("thesis"), re.compile("thesis"), re.compile("Billing")]
    expect(reader.rows).to_have_text(labels)  # the group with the newest entry comes first
    reader.page.reload()
    expect(_groups(reader)).to_have_count(2)
    expect(reader.page.get_by_role("combobox", name="Group by")).to_have_value(re.compile("workspace", re.IGNORECASE))
    pushed = billing.push(comments="Live into its group")
    expect(reader.row(pushed)).to_be_visible()
    expect(_groups(reader)).to_have_count(2)


def test_filters_show_what_they_say_and_follow_what_happens(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace, other = emptied.add_workspace(), emptied.add_workspace()
    read, unread = workspace.push(comments="Read"), other.push(comments="Unread")
    emptied.person.put(f"/api/inbox/{read}/read")
    asked = emptied.ask(workspace.agent, "A question?")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(3)
    expect(reader.filter("All")).to_have_attribute("aria-pressed", "true")
    reader.filter("Unread").click()
    expect(reader.filter("Unread")).to_have_attribute("aria-pressed", "true")
    expect(reader.filter("All")).to_have_attribute("aria-pressed", "false")
    expect(reader.rows).to_have_count(2)
    expect(reader.row(read)).to_have_count(0)
    fresh = workspace.push(comments="Fresh and unread")
    expect(reader.row(fresh)).to_be_visible()
    reader.filter("Questions").click()
    expect(reader.rows).to_have_count(1)
    expect(reader.row(asked)).to_be_visible()
    reader.filter("All").click()
    expect(reader.rows).to_have_count(4)
    choice = reader.page.get_by_role("combobox", name="Workspace")
    expect(choice.locator("option").first).to_have_text("All workspaces")
    choice.select_option(label=other.label)
    expect(reader.rows).to_have_count(1)
    expect(reader.row(unread)).to_be_visible()
    workspace.push(comments="Of the other workspace")
    here = other.push(comments="Of this workspace")
    expect(reader.row(here)).to_be_visible()
    expect(reader.rows).to_have_count(2)
    reader.page.get_by_role("combobox", name="Workspace").select_option("All workspaces")
    expect(reader.rows).to_have_count(6)


def test_opening_an_unread_entry_under_the_filter_does_not_pull_it_away(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    identity = workspace.push(comments="Stay while I read you")
    reader = visit(emptied)
    reader.filter("Unread").click()
    reader.open(identity)
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    expect(reader.of(identity)).to_be_visible()


def test_search_finds_words_anywhere_and_says_when_there_is_no_hit(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace("Macro thesis")
    workspace.write("reports/zebra.md", "# Stripes\n")
    by_path, by_words = workspace.push("reports/zebra.md"), workspace.push(comments="The café is closed")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(2)
    reader.search.fill("zebr")
    expect(reader.rows).to_have_count(1)
    expect(reader.row(by_path)).to_be_visible()
    reader.search.fill("CAFE")
    expect(reader.row(by_words)).to_be_visible()
    expect(reader.rows).to_have_count(1)
    reader.search.fill("nothing-holds-this")
    expect(reader.rows).to_have_count(0)
    show_all = reader.page.get_by_role("button", name="Show all")
    show_all.click()
    expect(reader.rows).to_have_count(2)
    expect(reader.search).to_have_value("")


def test_the_title_counts_what_is_unread_and_says_what_is_shown(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    reader = visit(emptied)
    expect(reader.page).to_have_title("Inbox · Postroom")
    first = workspace.push(comments="One")
    expect(reader.page).to_have_title("(1) Inbox · Postroom")
    second = workspace.push(comments="Two")
    expect(reader.page).to_have_title("(2) Inbox · Postroom")
    reader.open(first)
    expect(reader.page).to_have_title("(1) One · Inbox · Postroom")
    emptied.person.put(f"/api/inbox/{second}/read")
    expect(reader.page).to_have_title("One · Inbox · Postroom")
    reader.press("u")
    expect(reader.page).to_have_title("(1) One · Inbox · Postroom")
    reader.room("Threads")
    expect(reader.page).to_have_title("(1) Threads · Postroom")


def test_a_row_previews_what_it_holds(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("report.md", "# The report\n")
    with_words = workspace.push(comments="**Bold** words with `code` and a [link](https://example.com)\n\nA second paragraph")
    with_table = workspace.push(comments="The numbers:\n\n| a | b |\n|---|---|\n| 41 | 43 |\n\nThey are final.")
    with_document = workspace.push("report.md")
    reader = visit(server)
    expect(reader.row(with_words)).to_contain_text("Bold words with code and a link")
    expect(reader.row(with_words)).not_to_contain_text("**")
    expect(reader.row(with_document)).to_contain_text("report.md")
    expect(reader.row(with_table).locator(".words")).to_have_text("They are final.")


def test_the_keys_go_from_the_search_to_what_it_found(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    word = f"quux{workspace.agent.replace('-', '')}"
    older, newer = workspace.push(comments=f"{word} one"), workspace.push(comments=f"{word} two")
    workspace.push(comments="Another")
    reader = visit(server)
    reader.press("/")
    reader.page.keyboard.type(word)
    reader.press("Enter")
    expect(reader.cursor).to_have_attribute("data-id", newer)
    reader.press("j", "Enter")
    expect(reader.of(older)).to_be_visible()


def test_a_row_says_what_is_asked_and_then_what_was_added_last(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    matter = workspace.push(comments="Drafted.")
    server.ask(workspace.agent, "Publish week 1?", "--choice", "Yes", "--choice", "No", "--add-to", matter)
    reader = visit(server, "/questions")
    expect(reader.row(matter).locator(".words")).to_have_text("Publish week 1?")
    expect(reader.row(matter)).not_to_contain_text(re.compile("Question$"))
    reader.row(matter).get_by_role("button", name="Yes").click()
    reader.press("Enter")
    expect(reader.row(matter)).to_have_count(0)
    reader.room("Inbox")
    expect(reader.row(matter).locator(".words")).to_have_text("Publish week 1?")
    reader.open(matter)
    workspace.http.post("/api/inbox/push", json={"entryId": matter, "comments": "It is out."})
    expect(reader.conversation).to_contain_text("It is out.")
    expect(reader.row(matter).locator(".words")).to_have_text("It is out.")


def test_notices_are_in_a_room_of_their_own(emptied: RunningServer, visit: BrowserTabs) -> None:
    pushed = emptied.add_workspace().push(comments="Of an agent")
    notice = emptied.notify("backup", "Nightly backup done")
    reader = visit(emptied)
    expect(reader.row(pushed)).to_be_visible()
    expect(reader.row(notice)).to_have_count(0)
    reader.room("Notices")
    reader.expect_path("/notices")
    expect(reader.row(notice)).to_contain_text("Nightly backup done")
    expect(reader.row(pushed)).to_have_count(0)
    later = emptied.notify("backup", "And another one")
    expect(reader.row(later)).to_be_visible()
    reader.open(notice)
    reader.send("Thank you")
    expect(reader.conversation).to_contain_text("Thank you")
    assert emptied.mailbox.answers("peek", "--session", "backup")["total"] == 1


def test_an_entry_that_nobody_vouches_for_is_marked_in_the_list_and_when_it_is_open(emptied: RunningServer, visit: BrowserTabs) -> None:
    seeded = _seeded(emptied, "From a file", _noon(1))
    pushed = emptied.add_workspace().push(comments="From a workspace")
    reader = visit(emptied)
    expect(reader.row(seeded).get_by_role("img", name="unverified")).to_be_visible()
    expect(reader.row(pushed)).to_be_visible()
    expect(reader.row(pushed).get_by_role("img", name="unverified")).to_have_count(0)
    reader.row(seeded).click()
    expect(reader.page.locator("header.head").get_by_text("unverified")).to_be_visible()
