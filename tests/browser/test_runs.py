"""Runs as a picture: a lane an agent, a segment a state, marks for questions and answers."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserTabs, SampleServer
from tests.browser.sample_data import RUN

STATES = {"claimed", "in_progress", "blocked"}


def test_runs_are_listed_newest_activity_first(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, "/runs")
    links = reader.main.get_by_role("link").filter(has_text=re.compile("release-4.2|nightly-0412"))
    expect(links).to_have_text([re.compile("release-4.2"), re.compile("nightly-0412")])
    links.first.click()
    reader.expect_path(f"/runs/{RUN}")


def test_a_run_is_drawn_as_lanes_segments_and_marks(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, f"/runs/{RUN}")
    picture = reader.page.locator("svg.swimlane")
    expect(picture).to_be_visible()
    for agent in ("builder", "tester", "writer", "reviewer"):
        expect(picture).to_contain_text(agent)
    segments = picture.locator(".segment")
    shown = set(segments.evaluate_all("all => all.map(one => one.dataset.state)"))
    assert shown >= STATES, shown
    kinds = set(picture.locator(".mark").evaluate_all("all => all.map(one => one.dataset.kind)"))
    assert kinds >= {"question", "answer"}, kinds
    assert picture.locator(".segment:not(:has(title)), .mark:not(:has(title))").count() == 0
    blocked = picture.locator('.segment[data-state="blocked"]').last.locator("title").text_content() or ""
    assert "Check the licences" in blocked
    widths = segments.evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert min(widths) >= 1, "a segment that nobody can see"


def test_the_same_facts_are_in_a_table(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, f"/runs/{RUN}")
    table = reader.main.get_by_role("table")
    expect(table.first).to_be_attached()
    for subject in ("Check the licences of what we ship", "Build the installers again", "Translate the notes"):
        expect(reader.main.get_by_role("row").filter(has_text=subject).first).to_be_attached()


def test_a_segment_opens_its_thread(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, f"/runs/{RUN}")
    reader.page.locator('svg.swimlane .segment[data-state="blocked"]', has=reader.page.locator("title", has_text="licences")).last.click()
    reader.expect_path(f"/threads/{house.scene.threads['licences']}")


def test_a_segment_is_opened_by_the_keyboard_too(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, f"/runs/{RUN}")
    link = reader.main.get_by_role("link", name=re.compile("Smoke test of the installers")).first
    link.focus()
    reader.press("Enter")
    reader.expect_path(f"/threads/{house.scene.threads['smoke']}")


def test_a_run_grows_while_it_is_looked_at(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, f"/runs/{RUN}")
    picture = reader.page.locator("svg.swimlane")
    expect(picture).to_be_visible()
    before = picture.locator(".segment").count()
    with reader.same_page():
        house.server.inbox.ok("send", "--from", "captain", "--to", "stranger", "--subject", "One more thing", "--run", RUN)
        thread = next(one["thread_id"] for one in house.server.inbox.ok("list", "--assigned-to", "stranger")["threads"])
        house.server.inbox.ok("claim", "--agent", "stranger", "--thread", thread)
        expect(picture).to_contain_text("stranger")
        expect(picture.locator(".segment")).not_to_have_count(before)


def test_threads_without_a_run_have_a_picture_too(house: SampleServer, visit: BrowserTabs) -> None:
    reader = visit(house.server, "/runs/~")
    expect(reader.page.locator("svg.swimlane")).to_contain_text("scout")
