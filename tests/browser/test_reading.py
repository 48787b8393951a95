"""Read and unread: a row dims once it was opened, and that is kept."""

from __future__ import annotations

import re

from playwright.sync_api import APIResponse, Route, expect

from tests.browser import glances
from tests.browser.browser_page import BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient


def test_opening_an_entry_reads_it_and_has_an_address(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Look **here**")
    reader = visit(server)
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    detail = reader.open(identity)
    reader.expect_path(f"/inbox/{identity}")
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    expect(reader.row(identity).locator('a[aria-current="true"]')).to_have_count(1)
    expect(detail.locator("header.head")).to_contain_text(workspace.label)
    expect(detail.locator(".comments strong")).to_have_text("here")
    eventually(lambda: server.entry(identity)["readBy"] == "user")


def test_a_read_row_looks_different_from_an_unread_one(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    unread, read = workspace.push(comments="Unread"), workspace.push(comments="Read")
    server.person.put(f"/api/inbox/{read}/read")
    reader = visit(server)
    looks = [reader.row(identity).evaluate(glances.LOOKS) for identity in (unread, read)]
    assert looks[0] != looks[1]


def test_read_state_survives_a_restart(own: RunningServer, visit: BrowserTabs) -> None:
    workspace = own.add_workspace()
    read, unread = workspace.push(comments="Opened"), workspace.push(comments="Left alone")
    reader = visit(own)
    reader.open(read)
    eventually(lambda: own.entry(read)["readAt"] is not None)
    port = own.url.rpartition(":")[2]
    reader.page.goto("about:blank")
    own.close()
    own.open("--port", port)
    reader.go("/")
    expect(reader.row(read)).to_have_attribute("data-read", "true")
    expect(reader.row(unread)).to_have_attribute("data-read", "false")


def test_the_address_of_an_entry_opens_it(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    first, second = workspace.push(comments="First"), workspace.push(comments="Second")
    reader = visit(server, f"/inbox/{first}")
    expect(reader.of(first).locator(".comments")).to_have_text("First")
    reader.open(second)
    reader.page.go_back()
    expect(reader.of(first)).to_be_visible()
    reader.page.go_forward()
    expect(reader.of(second)).to_be_visible()


def test_the_address_of_nothing_says_so(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server, "/inbox/no-such-entry")
    reader.allow("404")
    expect(reader.main).to_contain_text(re.compile("not there|no entry"))


def test_e_is_done_with_an_entry_and_goes_on_to_the_next(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    oldest, middle, newest = (workspace.push(comments=text) for text in ("Oldest", "Middle", "Newest"))
    reader = visit(emptied)
    reader.open(newest)
    reader.press("e")
    expect(reader.of(middle)).to_be_visible()
    expect(reader.row(middle)).to_have_attribute("data-read", "true")
    reader.press("u")
    expect(reader.row(middle)).to_have_attribute("data-read", "false")
    eventually(lambda: emptied.entry(newest)["readAt"] is not None)
    assert emptied.entry(oldest)["readAt"] is None


def test_read_and_unread_can_be_undone(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    identity = workspace.push(comments="Read, or not?")
    workspace.push(comments="Another")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(2)
    reader.press("j", "j")
    expect(reader.cursor).to_have_attribute("data-id", identity)
    reader.press("U")
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    eventually(lambda: emptied.entry(identity)["readAt"] is not None)
    reader.press("z")
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    eventually(lambda: emptied.entry(identity)["readAt"] is None)
    emptied.person.put(f"/api/inbox/{identity}/read")
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", identity)
    reader.press("u")
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    reader.press("z")
    expect(reader.row(identity)).to_have_attribute("data-read", "true")


def test_a_mark_on_its_way_is_not_overwritten_by_the_list_as_it_was(emptied: RunningServer, visit: BrowserTabs) -> None:
    """The list is read again while a mark travels: the answer was made before it, and must not hide it, nor make its undo a no-op."""
    workspace = emptied.add_workspace()
    identity = workspace.push(comments="Read, no, unread")
    reader = visit(emptied)
    expect(reader.row(identity)).to_be_visible()
    held: list[Route] = []
    reader.page.route(f"**/api/inbox/{identity}/read", lambda route: held.append(route) if not held else route.continue_())
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", identity)
    reader.press("U")
    other = workspace.push(comments="Another")
    expect(reader.row(other)).to_be_visible()
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    reader.press("z")
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    with reader.page.expect_response(lambda response: response.request.method == "DELETE"):
        held[0].continue_()
    assert emptied.entry(identity)["readAt"] is None


def test_what_is_undone_at_once_is_told_in_that_order(emptied: RunningServer, visit: BrowserTabs) -> None:
    """The first word is slow on its way: the second, which takes it back, does not overtake it."""
    identity = emptied.add_workspace().push(comments="Read, no, unread")
    reader = visit(emptied)
    held: list[Route] = []
    told: list[str] = []

    def hold(route: Route) -> None:
        told.append(route.request.method)
        held.append(route) if route.request.method == "PUT" else route.continue_()

    reader.page.route(f"**/api/inbox/{identity}/read", hold)
    expect(reader.row(identity)).to_be_visible()
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", identity)
    with reader.page.expect_request(lambda request: request.method == "PUT"):
        reader.press("U", "z")
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    assert told == ["PUT"]
    with reader.page.expect_response(lambda response: response.request.method == "DELETE"):
        held[0].continue_()
    assert told == ["PUT", "DELETE"]
    assert emptied.entry(identity)["readAt"] is None
    expect(reader.row(identity)).to_have_attribute("data-read", "false")


def test_a_mark_of_another_is_not_overwritten_by_the_late_answer_to_ours(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    identity = workspace.push(comments="Unread here, read elsewhere")
    emptied.person.put(f"/api/inbox/{identity}/read")
    reader = visit(emptied)
    reader.page.route(f"**/api/inbox/{identity}/read", lambda route: held.append((route, route.fetch())))
    held: list[tuple[Route, APIResponse]] = []
    expect(reader.row(identity)).to_be_visible()
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", identity)
    reader.press("u")
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    eventually(lambda: emptied.entry(identity)["readAt"] is None)
    emptied.person.put(f"/api/inbox/{identity}/read")
    expect(reader.row(workspace.push(comments="Told after it"))).to_be_visible()  # so the event of that mark has come, too
    route, answer = held[0]
    route.fulfill(response=answer)
    expect(reader.row(identity)).to_have_attribute("data-read", "true")


def test_a_first_paragraph_that_became_the_title_is_not_repeated(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    titled = workspace.push(comments="The rounding is **fixed**, at `total`.\n\nTwo invoices differ.")
    linked = workspace.push(comments="See [the issue](https://example.org/7).\n\nTwo invoices differ.")
    leading = workspace.push(comments="These two are large:\n\nNumber 2041 and number 2077.")
    reader = visit(server)
    reader.open(leading)  # what follows needs it
    expect(reader.detail.locator(".comments")).to_have_text(re.compile(r"These two are large:\s+Number"))
    reader.open(titled)
    expect(reader.detail.get_by_role("heading", level=1)).to_have_text("The rounding is fixed, at total.")
    expect(reader.detail.locator(".comments")).to_have_text("Two invoices differ.")
    reader.open(linked)  # its link is nowhere else
    expect(reader.detail.locator(".comments")).to_have_text(re.compile(r"See the issue\.\s+Two invoices differ\."))
