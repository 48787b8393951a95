"""Notifications: for questions and failures only, never for what is read already, and never at night."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

# A headless browser shows nothing: what the page asks for is written down instead. And nobody looks at the page, unless the test says so.
RECORDER = """
window.shown = []; window.takenBack = []; window.looking = false;
window.Notification = class extends EventTarget {
  static permission = 'granted';
  static requestPermission() { return Promise.resolve('granted') }
  constructor(title, options = {}) { super(); Object.assign(this, {title, ...options}); window.shown.push({title, ...options}) }
  close() { window.takenBack.push(this.tag) }
};
Object.defineProperty(document, 'hidden', {get: () => !window.looking});
Object.defineProperty(document, 'visibilityState', {get: () => window.looking ? 'visible' : 'hidden'});
document.hasFocus = () => window.looking;
"""
LOOK = "window.looking = true; document.dispatchEvent(new Event('visibilitychange')); dispatchEvent(new Event('focus'))"
AWAY = "window.looking = false; document.dispatchEvent(new Event('visibilitychange')); dispatchEvent(new Event('blur'))"


def _listening(visit: BrowserTabs, server: RunningServer, **more: Any) -> BrowserPage:
    """Somebody who allowed notifications and then went to another tab."""
    reader = visit(server, "/settings", scripts=(RECORDER,), permissions=["notifications"], **more)
    _switch_on(reader)
    reader.room("Inbox")
    return reader


def _switch_on(reader: BrowserPage) -> None:
    switch = reader.main.get_by_role("switch", name=re.compile("notif", re.IGNORECASE))
    if switch.get_attribute("aria-checked") == "false" or (switch.get_attribute("type") == "checkbox" and not switch.is_checked()):
        switch.click()


def _shown(reader: BrowserPage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.value("window.shown")
    return found


def _told(reader: BrowserPage, tag: str) -> None:
    """Wait until there was a notification of that tag."""
    reader.page.wait_for_function("tag => window.shown.some((one) => one.tag === tag)", arg=tag)


def _about(reader: BrowserPage, tag: str) -> list[dict[str, Any]]:
    return [one for one in _shown(reader) if one.get("tag") == tag]


def test_a_question_is_told_and_a_push_is_not(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    pushed = workspace.push(comments="No hurry")
    expect(reader.row(pushed)).to_be_visible()
    asked = server.ask(workspace.agent, "Which way?")
    _told(reader, asked)
    (told,) = _shown(reader)
    assert "Which way?" in json.dumps(told)
    assert workspace.label in json.dumps(told)


def test_what_is_read_elsewhere_takes_its_notification_back(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    asked = server.ask(workspace.agent, "Still wanted?")
    _told(reader, asked)
    server.person.put(f"/api/inbox/{asked}/read")
    reader.page.wait_for_function("tag => window.takenBack.includes(tag)", arg=asked)


def test_nothing_is_told_of_what_was_there_before(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    old, read = server.ask(workspace.agent, "Asked before"), server.ask(workspace.agent, "Asked and read")
    server.person.put(f"/api/inbox/{read}/read")
    reader = _listening(visit, server)
    expect(reader.row(old)).to_be_visible()
    reader.page.reload()
    expect(reader.row(old)).to_be_visible()
    new = server.ask(workspace.agent, "Asked now")
    _told(reader, new)
    assert [one["tag"] for one in _shown(reader)] == [new]


def test_nothing_is_told_to_who_is_looking(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    reader.value(LOOK)
    with reader.page.expect_response(re.compile("/api/inbox/[0-9a-f-]{36}$")):  # it looks at the question, to see whether to tell
        asked = server.ask(workspace.agent, "You see this anyway?")
    expect(reader.row(asked)).to_be_visible()
    reader.value("navigator.locks.query().then(() => null)")  # and asks the other tabs, before us
    reader.value(AWAY)
    later = server.ask(workspace.agent, "And this not?")
    _told(reader, later)
    assert _about(reader, asked) == []


def test_nothing_is_told_in_quiet_hours(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server, clock=True)
    reader.room("Settings")
    reader.main.get_by_label("From").fill("00:00")
    reader.main.get_by_label(re.compile("^(To|Until)")).fill("23:59")
    quiet = reader.main.get_by_role("switch", name=re.compile("quiet", re.IGNORECASE))
    quiet.click()
    reader.room("Inbox")
    noon = "2026-11-16T12:00:00"
    reader.page.clock.set_system_time(noon)
    asked = server.ask(workspace.agent, "Are you asleep?")
    expect(reader.row(asked)).to_be_visible()
    reader.room("Settings")
    quiet.click()
    reader.room("Inbox")
    later = server.ask(workspace.agent, "And now?")
    _told(reader, later)
    assert [one["tag"] for one in _shown(reader)] == [later]


def test_a_thread_that_failed_is_told(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    run = server.inbox
    thread = run.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build the installers")["thread"]["thread_id"]
    run.ok("claim", "--agent", workspace.agent, "--thread", thread)
    run.ok("fail", "--agent", workspace.agent, "--thread", thread, "--summary", "The certificate has run out")
    reader.page.wait_for_function("() => window.shown.length === 1")
    assert re.search("Build the installers|certificate has run out", json.dumps(_shown(reader)))


def test_a_dead_letter_is_told(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    server.mailbox.dead("no such table", workspace.agent)
    reader.page.wait_for_function("() => window.shown.length === 1")
    assert workspace.agent in json.dumps(_shown(reader))


def test_only_one_of_two_tabs_tells(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = _listening(visit, server)
    other = visit.tab(server, reader.context)
    other.go("/")
    other.expect_live()
    asked = server.ask(workspace.agent, "Once for two tabs?")
    expect(other.row(asked)).to_be_visible()
    expect(reader.row(asked)).to_be_visible()
    eventually(lambda: bool(_about(reader, asked) or _about(other, asked)))
    later = server.ask(workspace.agent, "And again?")  # when this is told, the first is over and done
    eventually(lambda: bool(_about(reader, later) or _about(other, later)))
    assert len(_about(reader, asked) + _about(other, asked)) == 1
    if _about(reader, asked):  # when the one that told is closed, the other takes over
        reader.page.close()
        last = other
    else:
        other.page.close()
        last = reader
    alone = server.ask(workspace.agent, "Is anybody left?")
    _told(last, alone)


def test_switched_off_nothing_is_told(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = visit(server, "/", scripts=(RECORDER,), permissions=["notifications"])
    asked = server.ask(workspace.agent, "Nobody asked to be told")
    expect(reader.row(asked)).to_be_visible()
    reader.room("Settings")
    _switch_on(reader)
    reader.room("Inbox")
    later = server.ask(workspace.agent, "Now somebody did")
    _told(reader, later)
    assert [one["tag"] for one in _shown(reader)] == [later]
