"""Needs you, answers that can be taken back, proposals, and what a person puts away: all from the list and by keys."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.browser.browser_page import BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient


def _state(server: RunningServer, identity: str) -> str:
    return str(server.entry(identity)["question"]["state"])


def test_open_questions_are_counted_until_they_are_answered(emptied: RunningServer, visit: BrowserTabs) -> None:
    agent = emptied.add_workspace().agent
    later = emptied.ask(agent, "Some day?", "--choice", "Yes", "--choice", "No")
    soon = emptied.ask(agent, "Drop it?", "--choice", "Drop", "--choice", "Keep", "--dangerous", "Drop", "--deadline-seconds", "600")
    reader = visit(emptied, "/questions")
    expect(reader.rows).to_have_count(2)
    expect(reader.rows.first).to_have_attribute("data-id", soon)
    expect(reader.row(soon)).to_contain_text(re.compile(r"(9:\d\d|10:00) left"))
    expect(reader.page).to_have_title(re.compile(r"^\(2\) Needs you"))
    expect(reader.page.locator('link[rel="icon"]')).to_have_attribute("data-count", "2")
    reader.open(later)
    expect(reader.rooms.locator('[data-room="questions"] .count')).to_have_text("2")
    reader.press("n")
    expect(reader.of(soon).get_by_role("group", name="Choices")).to_be_visible()
    reader.press("1")
    expect(reader.dialog("Are you sure?")).to_contain_text("Drop")
    reader.dialog("Are you sure?").get_by_role("button", name="Cancel").click()
    assert _state(emptied, soon) == "open"
    reader.go("/questions")
    reader.row(soon).get_by_role("button", name="Keep").click()
    expect(reader.row(soon)).to_have_count(0)
    reader.press("z")
    expect(reader.row(soon)).to_be_visible()
    assert _state(emptied, soon) == "open"
    reader.row(soon).get_by_role("button", name="Keep").click()
    reader.press("Enter")
    eventually(lambda: emptied.entry(soon)["question"]["choice"] == "Keep")
    expect(reader.page).to_have_title(re.compile(r"^\(1\)"))
    reader.row(later).get_by_role("button", name="Yes").click()
    reader.go("/threads")  # leaving the page sends it
    eventually(lambda: _state(emptied, later) == "answered")


def test_a_proposal_is_edited_in_place(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I send it?", "--propose-json", '{"action": "send_mail", "args": {"amount": 12}}')
    reader = visit(server, f"/inbox/{identity}")
    field = reader.page.get_by_role("textbox", name="Proposal")
    field.fill("not json")
    reader.page.get_by_role("button", name="Approve with changes").click()
    expect(reader.detail).to_contain_text("The arguments are not JSON")
    field.fill('{"amount": 7}')
    reader.page.get_by_role("button", name="Approve with changes").click()
    reader.press("Enter")
    expect(reader.detail.locator(".question")).to_contain_text("Approved with changes by user")
    decision = server.entry(identity)["question"]["decision"]
    assert (decision["type"], decision["proposal"]["args"]) == ("edit", {"amount": 7})


def test_an_edited_proposal_is_kept_until_it_is_sent(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I send it?", "--propose", "Dear Globex, no.")
    reader = visit(server, f"/questions/{identity}")
    expect(reader.row(identity)).to_contain_text("Proposal")
    field, approve = reader.page.get_by_role("textbox", name="Proposal"), reader.detail.get_by_role("button", name="Approve")
    field.fill("Dear Globex, yes.")
    reader.page.get_by_role("textbox", name="Reason").fill("Too short")
    approve.click()
    expect(reader.detail.locator(".question")).to_contain_text("goes out in a moment")
    expect(field).to_have_value("Dear Globex, yes.")
    expect(reader.conversation).to_have_count(0)  # it is said once
    reader.press("z")
    expect(reader.detail.locator(".question")).not_to_contain_text("goes out in a moment")
    expect(field).to_have_value("Dear Globex, yes.")
    reader.page.reload()
    expect(field).to_have_value("Dear Globex, yes.")
    expect(reader.page.get_by_role("textbox", name="Reason")).to_have_value("Too short")
    expect(approve).to_have_text("Approve with changes")
    approve.click()
    reader.press("Enter")
    expect(reader.detail.locator(".question")).to_contain_text("Approved with changes by user")
    assert server.entry(identity)["question"]["decision"]["proposal"] == {"text": "Dear Globex, yes."}
    eventually(lambda: reader.value(f"localStorage.getItem('postroom.draft.proposal:{identity}')") is None)


def test_a_dangerous_choice_is_marked_and_one_key_too_many_does_not_take_it(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    flags = ("--choice", "Drop", "--choice", "Leave it", "--dangerous", "Drop")
    identity = server.ask(workspace.agent, "Drop it?", *flags)
    reader = visit(server, f"/questions/{identity}")
    marked = reader.page.locator(f'[data-id="{identity}"] button.danger')
    expect(marked).to_have_text(["Drop", "Drop"])  # in the row and in the entry
    reader.press("1", "Enter")
    expect(reader.page.get_by_role("dialog")).to_have_count(0)
    expect(reader.toasts.get_by_text("Sending:")).to_have_count(0)
    assert _state(server, identity) == "open"
    reader.press("1")
    reader.dialog("Are you sure?").get_by_role("button", name="Drop").click()
    expect(reader.toasts).to_contain_text("Sending: Drop")
    reader.press("z")
    expect(reader.detail.locator(".question")).not_to_contain_text("goes out in a moment")
    assert _state(server, identity) == "open"


def test_an_entry_is_pinned_and_snoozed_by_the_buttons_of_its_head(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Look at me later")
    reader = visit(server, f"/inbox/{identity}")
    pin = reader.detail.get_by_role("button", name="Pin")
    expect(pin).to_have_attribute("aria-pressed", "false")
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    assert server.entry(identity)["pinned"] is True
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "false")
    reader.detail.get_by_role("button", name="Snooze").click()
    reader.dialog("Snooze").get_by_role("button", name=re.compile("Tomorrow")).click()
    expect(reader.row(identity)).to_have_count(0)
    eventually(lambda: server.entry(identity)["state"] == "snoozed")


def test_a_reply_comes_back_into_the_field_when_it_is_taken_back(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="What do you think?")
    reader = visit(server, f"/inbox/{identity}")
    reader.reply.fill("Not bad")
    reader.page.get_by_role("button", name="Send").click()
    expect(reader.conversation).to_contain_text("Goes out in a moment")
    reader.toasts.get_by_role("button", name="Undo").click()
    expect(reader.reply).to_have_value("Not bad")
    assert server.entry(identity)["replies"] == 0
    reader.send("Good")
    expect(reader.conversation).to_contain_text("Not seen yet")


def test_an_inbox_can_be_emptied(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    kept, snoozed, *others = (workspace.push(comments=f"Entry {number}") for number in range(4))
    reader = visit(emptied)
    expect(reader.rows).to_have_count(4)
    reader.press("j", "x", "J")
    expect(reader.page.get_by_role("group", name="Chosen entries")).to_contain_text("2 chosen")
    reader.press("e")
    expect(reader.rows).to_have_count(2)
    eventually(lambda: [emptied.entry(entry)["state"] for entry in others] == ["done", "done"])
    expect(reader.cursor).to_have_attribute("data-id", snoozed)
    reader.press("h")
    reader.dialog("Snooze").get_by_role("button", name=re.compile("Tomorrow")).click()
    expect(reader.row(snoozed)).to_have_count(0)
    eventually(lambda: emptied.entry(snoozed)["state"] == "snoozed")
    reader.press("p")
    expect(reader.entries).to_contain_text("Pinned")
    with reader.page.expect_response("**/api/inbox/history*pinned=true*"):  # the list is read again, and it stays away
        reader.press("e")
    expect(reader.main).to_contain_text("All done")
    reader.press("z")
    expect(reader.row(kept)).to_be_visible()
    reader.page.get_by_label("State").select_option("snoozed")
    expect(reader.row(snoozed)).to_be_visible()
    added = workspace.http.post("/api/inbox/push", json={"entryId": others[0], "comments": "There is more", "title": "More"})
    assert added.status_code == 201
    reader.page.get_by_label("State").select_option("inbox")
    expect(reader.row(others[0])).to_have_attribute("data-read", "false")
    reader.open(others[0])
    expect(reader.conversation).to_contain_text("There is more")


def test_a_done_entry_does_not_come_back_while_the_server_is_told(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    kept, done = workspace.push(comments="Keep me"), workspace.push(comments="I am done")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(2)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    reader.page.route("**/state", hold)
    reader.press("j", "e")
    expect(reader.cursor).to_have_attribute("data-id", kept)
    added = workspace.push(comments="Just arrived")
    expect(reader.row(added)).to_be_visible()  # from a list that the server made before it was told
    expect(reader.row(done)).to_have_count(0)
    held[0].continue_()
    eventually(lambda: emptied.entry(done)["state"] == "done")
    last = workspace.push(comments="The last one")
    expect(reader.row(last)).to_be_visible()
    expect(reader.rows).to_have_count(3)


def test_an_entry_that_could_not_be_moved_comes_back(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Stay here")
    reader = visit(server)
    reader.allow("status of 500")
    reader.page.route("**/state", lambda route: route.fulfill(status=500, json={"error": {"code": "broken", "message": "No", "hint": ""}}))
    expect(reader.row(identity)).to_be_visible()
    reader.row(identity).hover()
    reader.row(identity).get_by_role("button", name="Done").click()
    expect(reader.toasts).to_contain_text("It could not be moved.")
    expect(reader.row(identity)).to_be_visible()
    added = workspace.push(comments="Just arrived")
    expect(reader.row(added)).to_be_visible()
    expect(reader.row(identity)).to_be_visible()
