"""Deleting: gone at once, back within six seconds, and then really gone. A failure is said."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

GRACE = 6_000  # milliseconds in which it can be undone
JUST_OPENED = "performance.now = () => 100"  # milliseconds since the page was opened


def _is_there(server: RunningServer, identity: str) -> bool:
    return server.person.get(f"/api/inbox/{identity}").status_code == 200


def _is_gone(server: RunningServer, identity: str) -> bool:
    return not _is_there(server, identity)


def _said(reader: BrowserPage) -> Locator:
    return reader.toasts.get_by_text("Deleted")


@pytest.fixture
def three(emptied: RunningServer) -> tuple[WorkspaceClient, str, str, str]:
    workspace = emptied.add_workspace()
    return workspace, workspace.push(comments="Oldest"), workspace.push(comments="Middle"), workspace.push(comments="Newest")


def test_a_deleted_row_is_brought_back_by_z(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Not this one")
    reader = visit(server, clock=True)
    reader.row(identity).hover()
    reader.row(identity).get_by_role("button", name="Delete").click()
    expect(reader.row(identity)).to_have_count(0)
    expect(_said(reader)).to_be_visible()
    reader.press("z")
    expect(reader.row(identity)).to_be_visible()
    expect(_said(reader)).to_have_count(0)
    reader.page.clock.fast_forward(2 * GRACE)
    reader.page.reload()
    expect(reader.row(identity)).to_be_visible()
    assert _is_there(server, identity)


def test_a_deleted_row_is_brought_back_by_the_button(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Not this one either")
    reader = visit(server, clock=True)
    reader.open(identity)
    reader.press("Delete")
    expect(reader.row(identity)).to_have_count(0)
    expect(reader.of(identity)).to_have_count(0)
    reader.toasts.get_by_role("button", name="Undo").click()
    expect(reader.row(identity)).to_be_visible()
    reader.page.clock.fast_forward(2 * GRACE)
    assert _is_there(server, identity)


def test_after_six_seconds_it_is_really_gone(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="This one")
    reader = visit(server, clock=True)
    reader.row(identity).hover()
    reader.row(identity).get_by_role("button", name="Delete").click()
    expect(_said(reader)).to_be_visible()
    assert _is_there(server, identity)
    reader.page.clock.fast_forward(GRACE + 500)
    eventually(lambda: not _is_there(server, identity))
    expect(_said(reader)).to_have_count(0)
    expect(reader.row(identity)).to_have_count(0)


def test_who_leaves_the_page_meant_it(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    closed, left = workspace.push(comments="Closed"), workspace.push(comments="Left")
    for identity in (closed, left):
        reader = visit(server, scripts=(JUST_OPENED,))
        reader.row(identity).hover()
        reader.row(identity).get_by_role("button", name="Delete").click()
        expect(_said(reader)).to_be_visible()
        if identity == closed:
            reader.page.close()
        else:
            reader.page.goto("about:blank")
        eventually(partial(_is_gone, server, identity))


def test_a_delete_that_fails_brings_the_row_back_and_says_why(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="It stays")
    reader = visit(server, clock=True)
    reader.allow("500")
    refusal = {"ok": False, "error": {"code": "server_error", "message": "the disk is full", "hint": "Make room."}}

    def refuse(route: Route) -> None:
        route.fulfill(status=500, json=refusal) if route.request.method == "DELETE" else route.continue_()

    reader.page.route(f"**/api/inbox/{identity}", refuse)
    reader.row(identity).hover()
    reader.row(identity).get_by_role("button", name="Delete").click()
    expect(reader.row(identity)).to_have_count(0)
    reader.page.clock.fast_forward(GRACE + 500)
    expect(reader.row(identity)).to_be_visible()
    expect(reader.toasts).to_contain_text(re.compile("disk is full", re.IGNORECASE))


def test_two_deletes_are_undone_one_by_one(
    emptied: RunningServer, three: tuple[WorkspaceClient, str, str, str], visit: BrowserTabs
) -> None:
    _, oldest, middle, newest = three
    reader = visit(emptied, clock=True)
    reader.open(newest)
    reader.press("#")
    expect(reader.of(middle)).to_be_visible()
    reader.press("#")
    expect(reader.of(oldest)).to_be_visible()
    expect(reader.rows).to_have_count(1)
    reader.press("z")
    expect(reader.row(middle)).to_be_visible()
    expect(reader.row(newest)).to_have_count(0)
    reader.press("z")
    expect(reader.row(newest)).to_be_visible()
    reader.page.clock.fast_forward(2 * GRACE)
    assert all(_is_there(emptied, identity) for identity in (oldest, middle, newest))


def test_live_news_does_not_bring_a_deleted_row_back(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Away with it")
    reader = visit(server, clock=True)
    reader.row(identity).hover()
    reader.row(identity).get_by_role("button", name="Delete").click()
    expect(reader.row(identity)).to_have_count(0)
    server.person.put(f"/api/inbox/{identity}/read")
    another = workspace.push(comments="Something else")
    expect(reader.row(another)).to_be_visible()
    expect(reader.row(identity)).to_have_count(0)
