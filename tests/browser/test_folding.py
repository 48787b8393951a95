"""The groups of the list that fold: with the mouse, with a finger and by keys; their counts, and what stays folded."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
FINGER_PIXELS = 44


def _group_by(reader: BrowserPage, value: str) -> None:
    reader.page.get_by_role("combobox", name="Group by").select_option(value)


def _head(reader: BrowserPage, name: str) -> Locator:
    return reader.entries.get_by_role("heading", name=re.compile(f"^{name}")).get_by_role("button")


def _furnished(server: RunningServer) -> tuple[WorkspaceClient, list[str], str]:
    """Two workspaces: the newer one with two entries, and the entry of the other."""
    other = server.add_workspace("Billing").push(comments="An invoice")
    thesis = server.add_workspace("Macro thesis")
    return thesis, [thesis.push(comments=f"Chapter {number}") for number in range(2)], other


@pytest.mark.parametrize("options", [{}, PHONE], ids=["mouse", "finger"])
def test_a_workspace_folds_and_still_counts_what_is_in_it(emptied: RunningServer, visit: BrowserTabs, options: dict[str, Any]) -> None:
    thesis, chapters, other = _furnished(emptied)
    reader = visit(emptied, **options)
    press = Locator.tap if options else Locator.click
    expect(reader.entries.get_by_role("heading", name="Today")).to_be_visible()
    expect(reader.entries.locator(".group button")).to_have_count(0)  # days do not fold
    _group_by(reader, "workspace")
    head = _head(reader, "Macro thesis")
    expect(head).to_have_attribute("aria-expanded", "true")
    expect(head).to_have_accessible_name("Macro thesis 2 2 unread")
    expect(reader.row(other)).to_have_text(re.compile("An invoice"))
    expect(reader.row(other)).not_to_contain_text("Billing")  # the head says it
    size = head.bounding_box()
    assert size is not None
    assert not options or size["height"] >= FINGER_PIXELS
    press(head)
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(reader.rows).to_have_count(1)
    expect(reader.row(other)).to_be_visible()
    added = thesis.push(comments="Chapter 3")
    expect(head).to_have_accessible_name("Macro thesis 3 3 unread")
    expect(reader.row(added)).to_have_count(0)
    expect(reader.rooms.locator('[data-room="inbox"] .count')).to_have_text("4")
    reader.page.reload()
    expect(head).to_have_attribute("aria-expanded", "false")  # the session of this browser keeps it
    expect(reader.rows).to_have_count(1)
    press(head)
    expect(reader.rows).to_have_count(4)
    expect(reader.row(chapters[0])).to_be_visible()


def test_groups_are_folded_by_keys_and_left_out_by_j(emptied: RunningServer, visit: BrowserTabs) -> None:
    _, chapters, other = _furnished(emptied)
    reader = visit(emptied)
    _group_by(reader, "workspace")
    expect(_head(reader, "Billing")).to_be_visible()
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", chapters[1])
    reader.press("Shift+Tab")
    expect(_head(reader, "Macro thesis")).to_be_focused()
    reader.press("Enter")
    expect(_head(reader, "Macro thesis")).to_have_attribute("aria-expanded", "false")
    expect(_head(reader, "Macro thesis")).to_be_focused()
    expect(reader.cursor).to_have_attribute("data-id", other)  # no key acts on an entry that is not shown
    reader.press("k")
    expect(reader.cursor).to_have_attribute("data-id", other)
    _head(reader, "Macro thesis").focus()
    reader.press("Space")
    expect(reader.rows).to_have_count(3)
    reader.press("k")
    expect(reader.cursor).to_have_attribute("data-id", chapters[0])


def test_what_is_chosen_or_looked_for_is_not_hidden(emptied: RunningServer, visit: BrowserTabs) -> None:
    _, chapters, _ = _furnished(emptied)
    reader = visit(emptied)
    _group_by(reader, "workspace")
    expect(_head(reader, "Billing")).to_be_visible()
    reader.press("j", "x", "J")
    expect(reader.page.get_by_role("group", name="Chosen entries")).to_contain_text("2 chosen")
    _head(reader, "Macro thesis").click()
    expect(reader.page.get_by_role("group", name="Chosen entries")).to_be_hidden()
    reader.search.fill("Chapter")
    expect(reader.rows).to_have_count(2)  # also in folded groups
    reader.search.fill("")
    expect(reader.rows).to_have_count(1)
    reader.go(f"/inbox/{chapters[0]}")  # a link to an entry shows its row
    expect(reader.row(chapters[0])).to_be_visible()
    expect(_head(reader, "Macro thesis")).to_have_attribute("aria-expanded", "true")


def test_the_head_that_sticks_folds_its_group(emptied: RunningServer, visit: BrowserTabs) -> None:
    old = emptied.add_workspace("Billing").push(comments="An invoice")
    thesis = emptied.add_workspace("Macro thesis")
    for number in range(30):
        thesis.push(comments=f"Chapter {number}")
    reader = visit(emptied)
    _group_by(reader, "workspace")
    expect(_head(reader, "Macro thesis")).to_be_visible()
    reader.entries.evaluate("list => { list.scrollTop = 600 }")
    sticky = reader.page.locator(".group.sticky")
    expect(sticky).to_have_text(re.compile("^Macro thesis *30 *30 unread$"))
    sticky.hover()
    reader.page.mouse.wheel(0, 120)
    reader.page.wait_for_function("() => document.querySelector('#entries').scrollTop === 720")
    sticky.click()
    expect(_head(reader, "Macro thesis")).to_have_attribute("aria-expanded", "false")
    expect(_head(reader, "Macro thesis")).to_be_in_viewport()
    expect(reader.row(old)).to_be_visible()


def test_the_tools_stay_inside_a_narrow_list(emptied: RunningServer, visit: BrowserTabs) -> None:
    _furnished(emptied)
    reader = visit(emptied, viewport={"width": 1000, "height": 700})
    before = reader.search.bounding_box()
    _group_by(reader, "workspace")
    expect(_head(reader, "Billing")).to_be_visible()
    assert reader.search.bounding_box() == before
