"""Smaller tools of the inbox: mute, mark all as read, reject with a reason, saved searches, diagrams, contents, copies and comments."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

SELECT = """element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  element.dispatchEvent(new MouseEvent('mouseup', {bubbles: true}));
}"""
LONG = "\n\n".join(f"## Part {number}\n\nWords of part {number}." for number in range(1, 40))


def test_a_muted_workspace_arrives_as_done_until_it_is_heard_again(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    first = workspace.push(comments="Before")
    reader = visit(emptied)
    expect(reader.row(first)).to_be_visible()
    reader.page.get_by_label("Workspace", exact=True).select_option(workspace.workspace_id)
    reader.page.get_by_role("button", name="Mute this workspace").click()
    expect(reader.toasts).to_contain_text("arrives as done")
    muted = workspace.push(comments="While muted")
    assert emptied.entry(muted)["state"] == "done"
    reader.page.get_by_role("button", name="Unmute this workspace").click()
    heard = workspace.push(comments="Heard again")
    expect(reader.row(heard)).to_be_visible()
    expect(reader.row(muted)).to_have_count(0)


def test_everything_is_marked_as_read_at_once(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    pushed = [workspace.push(comments=f"Number {number}") for number in range(3)]
    reader = visit(emptied)
    expect(reader.entries.get_by_role("img", name="Unread")).to_have_count(3)
    reader.page.get_by_role("button", name="Mark all as read").click()
    expect(reader.toasts).to_contain_text("3 entries are read")
    expect(reader.entries.get_by_role("img", name="Unread")).to_have_count(0)
    assert all(emptied.entry(identity)["readAt"] for identity in pushed)


def test_a_proposal_is_rejected_with_a_reason(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I send it?", "--propose", "Dear Ada, no.")
    reader = visit(server)
    reader.open(identity)
    reader.detail.get_by_label("Reason").fill("Too short")
    reader.detail.get_by_role("button", name="Reject").click()
    expect(reader.toasts).to_contain_text("Sending: Reject")
    reader.press("Enter")
    expect(reader.detail.locator(".question")).to_contain_text("Rejected by user")
    expect(reader.detail.locator(".question")).to_contain_text("Too short")
    assert server.entry(identity)["question"]["decision"] == {"type": "reject", "reason": "Too short", "proposal": None}


def test_a_proposal_is_decided_by_keys(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    first = server.ask(workspace.agent, "May I send it?", "--propose", "Dear Globex")
    second = server.ask(workspace.agent, "And this?", "--propose", "Dear Initech")
    reader = visit(server, f"/inbox/{first}")
    expect(reader.detail.get_by_role("button", name="Approve")).to_be_visible()
    reader.press("1", "Enter")
    expect(reader.detail.locator(".question")).to_contain_text("Approved by user")
    reader.go(f"/inbox/{second}")
    expect(reader.detail.get_by_role("button", name="Reject")).to_be_visible()
    reader.press("2", "Enter")
    expect(reader.detail.locator(".question")).to_contain_text("Rejected by user")
    types = [server.entry(each)["question"]["decision"]["type"] for each in (first, second)]
    assert types == ["approve", "reject"]


def test_a_search_is_saved_used_again_and_forgotten(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments=f"About the harvest of {workspace.agent}")
    words = f"harvest {workspace.agent}"
    reader = visit(server)
    reader.search.fill(words)
    reader.page.get_by_role("button", name="Save this search").click()
    expect(reader.page.get_by_role("button", name="Save this search")).to_have_count(0)
    reader.page.reload()
    reader.search.fill("something else")
    reader.page.get_by_role("button", name=words, exact=True).click()
    expect(reader.search).to_have_value(words)
    expect(reader.rows).to_have_count(1)
    expect(reader.row(identity)).to_be_visible()
    reader.page.get_by_role("button", name=f"Forget {words}").click()
    expect(reader.page.get_by_role("button", name=words, exact=True)).to_have_count(0)


def test_a_diagram_is_drawn_and_a_wrong_one_stays_readable(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="The way:\n\n```mermaid\ngraph TD; Start-->Finish\n```\n\n```mermaid\nnot a diagram at all\n```")
    reader = visit(server)
    reader.open(identity)
    drawn = reader.detail.get_by_role("img", name="Diagram: graph TD; Start-->Finish")
    expect(drawn).to_be_visible()
    assert drawn.evaluate("image => image.complete && image.naturalWidth > 20")
    expect(reader.detail.get_by_text("This diagram could not be drawn")).to_be_visible()
    expect(reader.detail.locator("pre.mermaid")).to_have_text("not a diagram at all")


def test_the_contents_of_a_long_document_lead_to_its_parts(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("long.md", LONG)
    identity = workspace.push("long.md")
    reader = visit(server)
    reader.open(identity)
    contents = reader.detail.locator("details.contents")
    contents.locator("summary").click()
    expect(contents.get_by_role("button")).to_have_count(39)
    expect(reader.detail.get_by_role("heading", name="Part 30")).not_to_be_in_viewport()
    contents.get_by_role("button", name="Part 30").click()
    expect(reader.detail.get_by_role("heading", name="Part 30")).to_be_in_viewport()


def test_code_is_copied_without_its_line_numbers(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("sum.py", "a = 1\nb = 2\n")
    identity = workspace.push("sum.py")
    reader = visit(server, permissions=["clipboard-read", "clipboard-write"])
    reader.open(identity)
    reader.detail.get_by_role("button", name="Copy").click()
    eventually(lambda: str(reader.value("navigator.clipboard.readText()")) == "a = 1\nb = 2\n")


def test_a_comment_on_selected_words_names_their_line(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("plan.md", "# Plan\n\nFirst we dig.\n\nThen we plant the trees.\n")
    identity = workspace.push("plan.md")
    reader = visit(server)
    reader.open(identity)
    reader.detail.get_by_text("Then we plant the trees.").evaluate(SELECT)
    reader.detail.get_by_role("button", name="Comment", exact=True).click()
    expect(reader.reply).to_have_value("On `plan.md`, line 5:\n> Then we plant the trees.\n\n")
    reader.reply.press_sequentially("Which trees?")
    reader.press("Control+Enter")
    reader.reply.press("Enter")
    expect(reader.conversation).to_contain_text(re.compile("Which trees"))
    _, replies = server.conversation(identity)
    assert replies[0]["body"] == "On `plan.md`, line 5:\n> Then we plant the trees.\n\nWhich trees?"
