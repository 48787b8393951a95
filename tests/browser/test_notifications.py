"""Notifications: for questions and failures only, never for what is read already, and never at night."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.reader import Reader, Visits
from tests.cli.process import eventually
from tests.server.office import Desk, Office

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


def _listening(visit: Visits, office: Office, **more: Any) -> Reader:
    """Somebody who allowed notifications and then went to another tab."""
    reader = visit(office, "/settings", scripts=(RECORDER,), permissions=["notifications"], **more)
    _switch_on(reader)
    reader.room("Inbox")
    return reader


def _switch_on(reader: Reader) -> None:
    switch = reader.main.get_by_role("switch", name=re.compile("notif", re.IGNORECASE))
    if switch.get_attribute("aria-checked") == "false" or (switch.get_attribute("type") == "checkbox" and not switch.is_checked()):
        switch.click()


def _shown(reader: Reader) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.value("window.shown")
    return found


def _told(reader: Reader, tag: str) -> None:
    """Wait until there was a notification of that tag."""
    reader.page.wait_for_function("tag => window.shown.some((one) => one.tag === tag)", arg=tag)


def _about(reader: Reader, tag: str) -> list[dict[str, Any]]:
    return [one for one in _shown(reader) if one.get("tag") == tag]


def test_a_question_is_told_and_a_push_is_not(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    pushed = desk.push(comments="No hurry")
    expect(reader.row(pushed)).to_be_visible()
    asked = office.ask(desk.agent, "Which way?")
    _told(reader, asked)
    (told,) = _shown(reader)
    assert "Which way?" in json.dumps(told)
    assert desk.label in json.dumps(told)


def test_what_is_read_elsewhere_takes_its_notification_back(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    asked = office.ask(desk.agent, "Still wanted?")
    _told(reader, asked)
    office.person.put(f"/api/inbox/{asked}/read")
    reader.page.wait_for_function("tag => window.takenBack.includes(tag)", arg=asked)


def test_nothing_is_told_of_what_was_there_before(office: Office, desk: Desk, visit: Visits) -> None:
    old, read = office.ask(desk.agent, "Asked before"), office.ask(desk.agent, "Asked and read")
    office.person.put(f"/api/inbox/{read}/read")
    reader = _listening(visit, office)
    expect(reader.row(old)).to_be_visible()
    reader.page.reload()
    expect(reader.row(old)).to_be_visible()
    new = office.ask(desk.agent, "Asked now")
    _told(reader, new)
    assert [one["tag"] for one in _shown(reader)] == [new]


def test_nothing_is_told_to_who_is_looking(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    reader.value(LOOK)
    with reader.page.expect_response(re.compile("/api/inbox/[0-9a-f-]{36}$")):  # it looks at the question, to see whether to tell
        asked = office.ask(desk.agent, "You see this anyway?")
    expect(reader.row(asked)).to_be_visible()
    reader.value("navigator.locks.query().then(() => null)")  # and asks the other tabs, before us
    reader.value(AWAY)
    later = office.ask(desk.agent, "And this not?")
    _told(reader, later)
    assert _about(reader, asked) == []


def test_nothing_is_told_in_quiet_hours(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office, clock=True)
    reader.room("Settings")
    reader.main.get_by_label("From").fill("00:00")
    reader.main.get_by_label(re.compile("^(To|Until)")).fill("23:59")
    quiet = reader.main.get_by_role("switch", name=re.compile("quiet", re.IGNORECASE))
    quiet.click()
    reader.room("Inbox")
    noon = "2026-11-16T12:00:00"
    reader.page.clock.set_system_time(noon)
    asked = office.ask(desk.agent, "Are you asleep?")
    expect(reader.row(asked)).to_be_visible()
    reader.room("Settings")
    quiet.click()
    reader.room("Inbox")
    later = office.ask(desk.agent, "And now?")
    _told(reader, later)
    assert [one["tag"] for one in _shown(reader)] == [later]


def test_a_thread_that_failed_is_told(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    run = office.inbox
    thread = run.ok("send", "--from", "user", "--to", desk.agent, "--subject", "Build the installers")["thread"]["thread_id"]
    run.ok("claim", "--agent", desk.agent, "--thread", thread)
    run.ok("fail", "--agent", desk.agent, "--thread", thread, "--summary", "The certificate has run out")
    reader.page.wait_for_function("() => window.shown.length === 1")
    assert re.search("Build the installers|certificate has run out", json.dumps(_shown(reader)))


def test_a_dead_letter_is_told(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    office.mailbox.dead("no such table", desk.agent)
    reader.page.wait_for_function("() => window.shown.length === 1")
    assert desk.agent in json.dumps(_shown(reader))


def test_only_one_of_two_tabs_tells(office: Office, desk: Desk, visit: Visits) -> None:
    reader = _listening(visit, office)
    other = visit.tab(office, reader.context)
    other.go("/")
    other.expect_live()
    asked = office.ask(desk.agent, "Once for two tabs?")
    expect(other.row(asked)).to_be_visible()
    expect(reader.row(asked)).to_be_visible()
    eventually(lambda: bool(_about(reader, asked) or _about(other, asked)))
    later = office.ask(desk.agent, "And again?")  # when this is told, the first is over and done
    eventually(lambda: bool(_about(reader, later) or _about(other, later)))
    assert len(_about(reader, asked) + _about(other, asked)) == 1
    if _about(reader, asked):  # when the one that told is closed, the other takes over
        reader.page.close()
        last = other
    else:
        other.page.close()
        last = reader
    alone = office.ask(desk.agent, "Is anybody left?")
    _told(last, alone)


def test_switched_off_nothing_is_told(office: Office, desk: Desk, visit: Visits) -> None:
    reader = visit(office, "/", scripts=(RECORDER,), permissions=["notifications"])
    asked = office.ask(desk.agent, "Nobody asked to be told")
    expect(reader.row(asked)).to_be_visible()
    reader.room("Settings")
    _switch_on(reader)
    reader.room("Inbox")
    later = office.ask(desk.agent, "Now somebody did")
    _told(reader, later)
    assert [one["tag"] for one in _shown(reader)] == [later]
