"""The first run, nobody signed in, nothing found, still loading, and what went wrong."""

from __future__ import annotations

import re
import shlex

from playwright.sync_api import Route, expect

from postroom.cli.framework.parser import parse
from postroom.cli.inbox.spec import INBOX
from tests.browser.browser_page import BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient


def test_the_first_run_shows_the_exact_commands(own: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(own, permissions=["clipboard-read", "clipboard-write"])
    expect(reader.main.get_by_role("heading", name="Connect an agent")).to_be_visible()
    for command in ("inbox workspace add", "claude mcp add", "inbox ask"):
        expect(reader.main.locator("code, pre").filter(has_text=command).first).to_be_visible()
    expect(reader.main).to_contain_text(own.url)  # the very address, ready to be pasted
    copy = reader.main.get_by_role("button", name=re.compile("^Copy"))
    expect(copy).not_to_have_count(0)
    copy.first.click()
    copied = reader.value("navigator.clipboard.readText()")
    assert copied.strip()
    assert copied.strip() in reader.main.inner_text()
    lines = [line for text in reader.main.locator("pre").all_inner_texts() for line in text.splitlines() if line.startswith("inbox ")]
    assert lines
    for line in lines:  # the command itself reads what it is said to
        assert parse(INBOX, shlex.split(line)[1:]).command.name in INBOX.commands
    with reader.same_page():
        own.ask("builder", "Is anybody there?")
        expect(reader.rows).to_have_count(1)
        expect(reader.main.get_by_role("heading", name="Connect an agent")).to_have_count(0)


def test_an_inbox_that_was_emptied_is_not_a_first_run(emptied: RunningServer, visit: BrowserTabs) -> None:
    identity = emptied.add_workspace().push(comments="The only one")
    emptied.person.delete(f"/api/inbox/{identity}")
    reader = visit(emptied)
    expect(reader.main.get_by_role("heading", name="Connect an agent")).to_have_count(0)
    expect(reader.rows).to_have_count(0)


def test_who_is_not_signed_in_is_told_how(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="A secret")
    reader = visit(server, f"/inbox/{identity}", signed_in=False)
    reader.allow("401")
    expect(reader.page.locator("html")).to_have_attribute("data-live", "signed-out")
    expect(reader.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(reader.page.get_by_text("inbox sign-in").first).to_be_visible()
    expect(reader.page.get_by_text("A secret")).to_have_count(0)


def test_a_session_that_was_revoked_is_told_so(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Before")
    reader = visit(server)
    reader.allow("401")
    expect(reader.row(identity)).to_be_visible()
    reader.context.clear_cookies()
    reader.rooms.get_by_role("link", name="Threads").click()
    expect(reader.page.get_by_text("inbox sign-in").first).to_be_visible()


def test_a_list_that_cannot_be_had_says_why_and_tries_again(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Here in the end")
    reader = visit(server, "/settings")
    reader.allow("503")
    refusal = {"ok": False, "error": {"code": "store_busy", "message": "the store is busy", "hint": "Wait a moment."}}
    reader.page.route("**/api/inbox/history*", lambda route: route.fulfill(status=503, json=refusal))
    reader.go("/")
    expect(reader.main).to_contain_text("the store is busy")
    expect(reader.main).to_contain_text("store_busy")
    expect(reader.main).to_contain_text("Wait a moment.")
    reader.expect_live()
    again = reader.main.get_by_role("button", name="Try again")
    with reader.page.expect_response("**/api/inbox/history*"):
        again.click()
    expect(reader.main).to_contain_text("the store is busy")
    reader.page.unroute("**/api/inbox/history*")
    again.click()
    expect(reader.row(identity)).to_be_visible()


def test_an_entry_that_cannot_be_had_says_why_and_tries_again(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="There it is")
    reader = visit(server)
    reader.allow("500")
    refusal = {"ok": False, "error": {"code": "server_error", "message": "the server failed", "hint": "Try again."}}
    reader.page.route(re.compile(f"/api/inbox/{identity}(\\?|$)"), lambda route: route.fulfill(status=500, json=refusal))
    reader.row(identity).locator("a").first.click()
    expect(reader.main).to_contain_text("the server failed")
    reader.page.unroute_all()
    reader.main.get_by_role("button", name="Try again").click()
    expect(reader.of(identity).locator(".comments")).to_have_text("There it is")


def test_while_it_loads_there_are_quiet_placeholders(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Slow to come")
    reader = visit(server, "/settings")
    held: list[Route] = []
    released: list[bool] = []
    reader.page.route("**/api/inbox/history*", lambda route: route.continue_() if released else held.append(route))
    reader.page.goto(f"{server.url}/", wait_until="commit")
    expect(reader.page.locator('[aria-busy="true"]').first).to_be_visible()
    expect(reader.rooms).to_be_visible()
    expect(reader.page.get_by_text("Slow to come")).to_have_count(0)
    released.append(True)
    for route in held:
        route.continue_()
    expect(reader.row(identity)).to_be_visible()
    expect(reader.page.locator('[aria-busy="true"]')).to_have_count(0)


def test_entries_and_a_question_are_shown_before_and_after_the_summary_arrives(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = server.ask(workspace.agent, "Ship it?", "--choice", "yes", "--choice", "no")
    reader = visit(server, "/settings")
    held: list[Route] = []
    released: list[bool] = []
    reader.page.route("**/api/summary", lambda route: route.continue_() if released else held.append(route))
    reader.page.goto(f"{server.url}/", wait_until="commit")
    expect(reader.row(identity)).to_be_visible()
    reader.row(identity).locator("a").first.click()
    expect(reader.of(identity)).to_be_visible()
    expect(reader.connection).to_have_text("Connecting…")  # whose question it is, the summary says
    released.append(True)
    for route in held:
        route.continue_()
    expect(reader.page.get_by_role("group", name="Choices").get_by_role("button", name="yes")).to_be_visible()
    reader.expect_live()


def test_an_address_that_is_nowhere_is_answered_kindly(server: RunningServer, visit: BrowserTabs) -> None:
    for path in ("/threads/no-such-thread", "/runs/no-such-run", "/mailboxes/no-such-mailbox"):
        reader = visit(server, path)
        reader.allow("404")
        expect(reader.main).to_contain_text(re.compile("no-such-"))
        expect(reader.rooms).to_be_visible()
    reader.go("/threads/no-such-thread")
    expect(reader.page.get_by_role("button", name="Try again")).to_have_count(0)
    reader.page.get_by_role("link", name="Show all").click()
    reader.expect_path("/threads")
