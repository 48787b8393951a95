"""Settings: how it looks, when it tells, and the way out."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.browser import glances
from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient


def _bright(reader: BrowserPage) -> bool:
    return float(reader.value(glances.BRIGHTNESS)) > 128


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_system_unless_it_is_told(server: RunningServer, visit: BrowserTabs, scheme: Literal["light", "dark"]) -> None:
    reader = visit(server, "/settings", color_scheme=scheme)
    assert _bright(reader) == (scheme == "light")
    for choice in ("Light", "Dark"):
        reader.main.get_by_role("radio", name=choice).check(force=True)
        assert _bright(reader) == (choice == "Light")
        reader.page.reload()
        expect(reader.main.get_by_role("radio", name=choice)).to_be_checked()
        assert _bright(reader) == (choice == "Light")
    reader.main.get_by_role("radio", name="System").check(force=True)
    assert _bright(reader) == (scheme == "light")


def test_settings_are_kept_in_the_browser(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server, "/settings")
    reader.main.get_by_role("radio", name="Dark").check(force=True)
    assert "dark" in reader.value("localStorage.getItem('postroom.settings')").lower()


def test_notifications_are_asked_for_only_when_somebody_wants_them(server: RunningServer, visit: BrowserTabs) -> None:
    script = """
    window.asked = 0;
    window.Notification = class extends EventTarget {
      static permission = 'default';
      static requestPermission() { window.asked += 1; window.Notification.permission = 'granted'; return Promise.resolve('granted') }
    }
    """
    reader = visit(server, "/settings", scripts=(script,))
    button = reader.main.get_by_role("button", name="Allow notifications")
    expect(button).to_be_visible()
    assert reader.value("window.asked") == 0
    button.click()
    assert reader.value("window.asked") == 1
    expect(reader.main.get_by_role("switch", name=re.compile("notif", re.IGNORECASE))).to_be_visible()


def test_who_signs_out_is_out_in_every_tab(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = visit(server)
    other = visit.tab(server, reader.context)
    other.allow("401")
    reader.allow("401")
    other.go("/settings")
    other.expect_live()
    other.main.get_by_role("button", name="Sign out").click()
    expect(other.page.locator("html")).to_have_attribute("data-live", "signed-out")
    secret = workspace.push(comments="Not for who is gone")  # with this the stream that is still open ends
    expect(reader.page.locator("html")).to_have_attribute("data-live", "signed-out")
    expect(reader.row(secret)).to_have_count(0)


def test_who_signs_out_is_out(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="A secret")
    reader = visit(server)
    reader.allow("401")
    expect(reader.row(identity)).to_be_visible()
    reader.room("Settings")
    reader.main.get_by_role("button", name="Sign out").click()
    expect(reader.page.locator("html")).to_have_attribute("data-live", "signed-out")
    expect(reader.page.get_by_text("inbox sign-in").first).to_be_visible()
    reader.go("/")
    expect(reader.page.get_by_text("inbox sign-in").first).to_be_visible()
    expect(reader.row(identity)).to_have_count(0)
