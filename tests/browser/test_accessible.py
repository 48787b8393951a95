"""For everybody: with a screen reader, in the dark, on a phone, and without moving things."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser import chromium, glances
from tests.browser.browser_page import BrowserPage, BrowserTabs, SampleServer
from tests.browser.sample_data import RUN, SampleData
from tests.server.running_server import RunningServer, WorkspaceClient

ROOMS = {
    "inbox": ("inbox", "document", "question", "changed", "notices"),
    "work": ("threads", "thread", "runs", "run"),
    "the rest": ("mailboxes", "mailbox", "queues", "agents", "settings"),
}
ENTRIES = {"document": "report", "question": "question", "changed": "changed"}
HEADINGS = {  # of the views that are not headed by their own name
    "document": "FOMC preview",
    "question": "The new home page is ready",
    "changed": "Migration plan",
    "questions": "Needs you",
    "thread": "Check the licences of what we ship",
    "run": RUN,
    "mailbox": "analyst",
}
FINE: dict[str, list[str]] = {"light": [], "dark": []}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}


def _path(scene: SampleData, view: str) -> str:
    if view in ENTRIES:
        return f"/inbox/{scene.entries[ENTRIES[view]]}"
    return {
        "inbox": "/",
        "thread": f"/threads/{scene.threads['licences']}",
        "run": f"/runs/{RUN}",
        "mailbox": "/mailboxes/analyst",
    }.get(view, f"/{view}")


def _shown(reader: BrowserPage, view: str) -> None:
    """Wait until a view has all that it has."""
    words = {
        "inbox": "Billing service",
        "document": "What would change our mind",
        "question": "Publish at noon",
        "changed": "Changed since it was pushed",
        "notices": "certificates",
        "questions": "Publish at noon",
        "threads": "Check the licences of what we ship",
        "thread": "Check the licences of what we ship",
        "runs": RUN,
        "run": RUN,
        "mailboxes": "analyst",
        "mailbox": "no such table: tickets",
        "queues": "archive",
        "agents": "reviewer",
        "settings": "Dark",
    }
    expect(reader.main.locator("h1").first).to_contain_text(HEADINGS.get(view, view.capitalize()))
    expect(reader.detail if view in ENTRIES else reader.main).to_contain_text(words[view])
    expect(reader.page.locator('[aria-busy="true"]')).to_have_count(0)


def _judged(reader: BrowserPage) -> dict[str, list[str]]:
    """Return the violations that axe finds in a view, in light and in dark."""
    reader.page.emulate_media(color_scheme="light")
    light = reader.value(glances.AXE)
    reader.page.emulate_media(color_scheme="dark")
    return {"light": light, "dark": reader.value(glances.AXE_COLOURS)}


@pytest.mark.parametrize("views", ROOMS.values(), ids=ROOMS)
def test_axe_finds_nothing_serious_in_light_or_dark(house: SampleServer, visit: BrowserTabs, views: tuple[str, ...]) -> None:
    reader = visit(house.server, _path(house.scene, views[0]), scripts=(chromium.AXE.read_text(),), reduced_motion="reduce")
    found = {}
    for view in views:
        reader.move(_path(house.scene, view))
        _shown(reader, view)
        found[view] = _judged(reader)
    assert found == dict.fromkeys(views, FINE)


def test_axe_finds_nothing_serious_in_what_opens_above(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, _path(house.scene, "mailbox"), scripts=(chromium.AXE.read_text(),), reduced_motion="reduce")
    dialog = reader.page.get_by_role("dialog")
    found = {}
    for view in ("purge", "help", "palette"):
        if view == "purge":
            reader.main.get_by_role("button", name="Purge all").click()
        else:
            reader.press("?" if view == "help" else "Control+k")
        expect(dialog).to_be_visible()
        found[view] = _judged(reader)
        reader.press("Escape")
        expect(dialog).to_have_count(0)
    assert found == dict.fromkeys(found, FINE)


def test_axe_finds_nothing_serious_at_the_door(own: RunningServer, visit: BrowserTabs) -> None:
    """Before anybody has signed in, and before anything has arrived."""
    options: dict[str, Any] = {"scripts": (chromium.AXE.read_text(),), "reduced_motion": "reduce"}
    outside = visit(own, signed_in=False, **options)
    outside.allow("401")
    expect(outside.page.get_by_role("heading", name="Sign in")).to_be_visible()
    inside = visit(own, **options)
    expect(inside.page.get_by_role("heading", name="Connect an agent")).to_be_visible()
    assert (_judged(outside), _judged(inside)) == (FINE, FINE)


@pytest.mark.parametrize("views", ROOMS.values(), ids=ROOMS)
def test_nothing_scrolls_sideways_on_a_phone(house: SampleServer, visit: BrowserTabs, views: tuple[str, ...]) -> None:
    reader = visit(house.server, _path(house.scene, views[0]), **PHONE)
    found = {}
    for view in views:
        reader.move(_path(house.scene, view))
        _shown(reader, view)
        found[view] = reader.value(glances.WIDER)
    assert found == {view: {"page": 0, "out": [], "sideways": []} for view in views}


def test_on_a_phone_list_and_detail_are_one_pane_each(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, **PHONE)
    identity = house.scene.entries["code"]
    expect(reader.entries).to_be_visible()
    reader.open(identity)
    expect(reader.entries).not_to_be_visible()
    box = reader.detail.bounding_box()
    assert box is not None
    assert box["width"] > 340
    reader.page.get_by_role("button", name="Back").click()
    expect(reader.entries).to_be_visible()
    expect(reader.detail).not_to_be_visible()
    reader.open(identity)
    reader.page.go_back()
    expect(reader.entries).to_be_visible()
    nav = reader.rooms.bounding_box()
    assert nav is not None
    assert nav["y"] + nav["height"] == pytest.approx(640, abs=2)


FINGER_PIXELS = 44
PRESSED = "nav a, nav button, .compose, main button:not(.link), main select, main summary, .row a"


@pytest.mark.parametrize(
    "views", [("inbox", "question", "document", "questions"), ("threads", "thread", "mailbox", "agents", "settings")], ids=str
)
def test_what_a_finger_presses_on_a_phone_is_large_enough(house: SampleServer, visit: BrowserTabs, views: tuple[str, ...]) -> None:
    """44 px in both directions, except links within a sentence."""
    reader = visit(house.server, _path(house.scene, views[0]), **PHONE)
    small = {}
    for view in views:
        reader.move(_path(house.scene, view))
        _shown(reader, view)
        sizes = reader.page.locator(PRESSED).evaluate_all(glances.SIDES)
        assert sizes
        small[view] = [found for found in sizes if found[0] < FINGER_PIXELS]
    assert small == {view: [] for view in views}


def test_on_a_phone_nothing_covers_the_last_row_or_a_count(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, **PHONE)
    _shown(reader, "inbox")
    reader.value("document.querySelector('#entries').scrollTo(0, 1e6)")
    reader.page.wait_for_function(
        "() => { const box = document.querySelector('#entries'); return box.scrollTop + box.clientHeight >= box.scrollHeight - 1 }"
    )
    last, button = reader.rows.last.bounding_box(), reader.page.get_by_role("button", name="New message").bounding_box()
    assert last is not None
    assert button is not None
    assert last["y"] + last["height"] <= button["y"]
    count, bar = reader.rooms.locator(".count:visible").first.bounding_box(), reader.rooms.bounding_box()
    assert count is not None
    assert bar is not None
    assert count["y"] >= bar["y"] + 2


def test_on_a_phone_every_room_is_behind_more_with_its_whole_name(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, **PHONE)
    expect(reader.rooms.get_by_role("link")).to_have_count(4)
    more = reader.rooms.get_by_role("button", name="More")
    more.click()
    expect(reader.rooms.get_by_role("link")).to_have_count(10)
    sizes = reader.rooms.locator("a, button").evaluate_all(glances.SIDES)
    assert [found for found in sizes if found[0] < FINGER_PIXELS] == []
    assert reader.rooms.locator("span").evaluate_all(glances.CUT) == []
    compose = reader.page.get_by_role("button", name="New message")
    expect(compose).to_be_hidden()  # it would cover a room
    reader.rooms.get_by_role("link", name="Mailboxes").click()
    expect(reader.page.get_by_role("heading", name="Mailboxes")).to_be_visible()
    expect(reader.rooms.get_by_role("link", name="Mailboxes")).to_have_count(0)
    colours = [button.evaluate("button => getComputedStyle(button).color") for button in (more, reader.rooms.get_by_role("link").last)]
    assert colours[0] != colours[1], "the place of the room is not marked"


def test_on_a_phone_nothing_covers_the_reply_to_a_thread_or_its_filters(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, _path(house.scene, "thread"), **PHONE)
    _shown(reader, "thread")
    expect(reader.page.get_by_role("button", name="New message")).to_be_hidden()
    reader.move("/threads")
    _shown(reader, "threads")
    assert reader.main.locator(".filters button").evaluate_all(glances.CUT) == []


def test_on_a_phone_the_list_begins_near_the_top(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, **PHONE)
    _shown(reader, "inbox")
    entries = reader.entries.bounding_box()
    assert entries is not None
    assert entries["y"] < 125
    reader.page.get_by_label("Group by").select_option("workspace")  # further to the right, in the same line
    expect(reader.page.get_by_label("Group by")).to_have_value("workspace")


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 1000, "height": 700}}, PHONE], ids=["desktop", "narrow", "phone"])
def test_what_can_be_undone_does_not_cover_what_is_written(server: RunningServer, visit: BrowserTabs, options: dict[str, Any]) -> None:
    reader = visit(server, f"/inbox/{server.add_workspace().push(comments='Write to me')}", **options)
    reader.reply.fill("\n".join("A long reply" for _ in range(12 if not options else 1)))
    reader.detail.get_by_role("button", name="Mark as unread").click()
    toast, bar, nav = (each.bounding_box() for each in (reader.toasts.locator(".toast"), reader.page.locator("form.reply"), reader.rooms))
    assert toast is not None
    assert bar is not None
    assert nav is not None
    for other in (bar, nav):
        apart = toast["y"] + toast["height"] <= other["y"] or toast["x"] + toast["width"] <= other["x"]
        assert apart or other["x"] + other["width"] <= toast["x"]


def test_landmarks_and_live_regions_are_there(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server)
    expect(reader.page.get_by_role("banner")).to_have_count(1)
    expect(reader.rooms).to_have_count(1)
    expect(reader.main).to_have_count(1)
    expect(reader.connection).to_have_role("status")
    expect(reader.toasts).to_have_role("status")
    expect(reader.page.get_by_role("region", name="Entries")).to_have_count(1)
    names = [name.split("\n")[0] for name in reader.rooms.get_by_role("link").all_inner_texts()]
    assert names == ["Needs you", "Inbox", "Notices", "Threads", "Tasks", "Runs", "Mailboxes", "Queues", "Agents", "Settings"]


def test_the_focus_can_be_seen_wherever_tab_goes(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, _path(house.scene, "question"))
    _shown(reader, "question")
    found = []
    for _ in range(40):
        reader.press("Tab")
        found.append(reader.value(glances.FOCUS))
    unseen = {one[1] for one in found if one is not None and not one[0]}
    assert len([one for one in found if one is not None]) > 15
    assert unseen == set()


def test_nothing_moves_for_who_asked_for_that(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, _path(house.scene, "question"), reduced_motion="reduce")
    _shown(reader, "question")
    assert reader.value(glances.MOVING) == []
    reader.press("?")
    assert reader.value(glances.MOVING) == []


def test_on_a_phone_the_reply_is_written_in_the_middle_of_its_field(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, _path(house.scene, "question"), **PHONE)
    _shown(reader, "question")
    above, line, high = reader.reply.evaluate(
        "field => [getComputedStyle(field).paddingTop, getComputedStyle(field).lineHeight, field.clientHeight].map(parseFloat)"
    )
    assert above == pytest.approx((high - line) / 2, abs=1)


def test_what_a_finger_presses_in_a_dialog_is_large_enough(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I send it?", "--propose", "Dear Globex")
    reader = visit(server, "/questions", **PHONE)
    reader.row(identity).get_by_role("button", name="Reject…").tap()
    reject = reader.dialog("Reject this proposal?")
    expect(reject).to_be_visible()
    small = reject.locator("button, input").evaluate_all(glances.SIDES)
    reject.get_by_role("button", name="Close").tap()
    reader.page.get_by_role("button", name="New message").tap()
    compose = reader.dialog("New message")
    expect(compose).to_be_visible()
    small += compose.locator("button, input, select").evaluate_all(glances.SIDES)
    assert len(small) == 4 + 6
    assert [found for found in small if found[0] < FINGER_PIXELS] == []
