"""Ten thousand entries: few rows at a time, all of them within reach, and nothing that jumps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

import postroom
from bench.serving import fill
from postroom.store.copying import copy_store
from tests.browser import glances
from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.server.conftest import MANY
from tests.server.running_server import ENGINE, RunningServer, WorkspaceClient

SIZE, ROWS = 10_000, 200
OLDEST = "9e3779b1-0000-4000-8000-000000000001"  # as `fill` names it
TO_THE_END = """(oldest) => {
  const list = document.querySelector('#entries');
  window.most = Math.max(window.most ?? 0, document.querySelectorAll('.row').length);
  list.scrollTop = list.scrollHeight;
  return document.querySelector(`.row[data-id="${oldest}"]`) !== null;
}"""
HALFWAY = "list => { list.scrollTop = 1500 }"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, WorkspaceClient]]:
    server = RunningServer(tmp_path_factory.mktemp("many"), "--rate", MANY)
    server.ready = {"url": "http://127.0.0.1:1"}  # nobody listens yet
    served, server.inbox.served = server.inbox.served, {}
    postroom.init(str(server.inbox.db))
    workspace = server.add_workspace("Atlas", "atlas")
    fill(str(server.inbox.db), SIZE)  # writes into a file
    if ENGINE == "postgres":
        with postroom.open(str(server.inbox.db)) as source, postroom.open(server.place) as target:
            copy_store(source, target)
    server.inbox.served = served
    server.open()
    yield server, workspace
    assert server.close() == 0


def _top(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["y"]


def _in_the_middle(reader: BrowserPage) -> Locator:
    """A row that stands in the middle of the list after it was scrolled a bit."""
    expect(reader.rows.first).to_be_visible()
    before = reader.rows.first.get_attribute("data-id")
    reader.entries.evaluate(HALFWAY)
    expect(reader.row(before or "")).not_to_be_in_viewport()
    box = reader.entries.bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    find = "({x, y}) => document.elementsFromPoint(x, y).map(e => e.closest('.row')?.dataset.id).find(Boolean) ?? null"
    reader.page.wait_for_function(find, arg=middle)
    return reader.row(reader.page.evaluate(find, middle))


def test_the_far_end_is_reached_with_few_rows_at_a_time(crowded: tuple[RunningServer, WorkspaceClient], visit: BrowserTabs) -> None:
    server, _ = crowded
    reader = visit(server)
    expect(reader.rows.first).to_be_visible()
    assert reader.rows.count() < ROWS
    reader.page.wait_for_function(TO_THE_END, arg=OLDEST, polling=30)
    expect(reader.row(OLDEST)).to_be_in_viewport()
    expect(reader.row(OLDEST)).to_contain_text("a decision; see the report. 1")
    assert reader.value("window.most") < ROWS
    reader.entries.evaluate("list => { list.scrollTop = 0 }")
    newest = server.get("/api/inbox/history", limit="1")["entries"][0]["id"]
    expect(reader.row(newest)).to_be_in_viewport()
    assert reader.rows.count() < ROWS


def test_what_arrives_does_not_move_what_is_looked_at(crowded: tuple[RunningServer, WorkspaceClient], visit: BrowserTabs) -> None:
    server, workspace = crowded
    reader = visit(server)
    row = _in_the_middle(reader)
    before = _top(row)
    pushed = workspace.push(comments="Above all others")
    button = reader.page.get_by_role("button", name="1 new entry")
    expect(button).to_be_visible()
    assert _top(row) == pytest.approx(before, abs=1)
    workspace.push(comments="And one more")
    expect(reader.page.get_by_role("button", name="2 new entries")).to_be_visible()
    assert _top(row) == pytest.approx(before, abs=1)
    reader.page.get_by_role("button", name="2 new entries").click()
    expect(reader.row(pushed)).to_be_in_viewport()
    expect(reader.page.get_by_role("button", name=re.compile(r"new entr(y|ies)"))).to_have_count(0)


def test_what_is_deleted_above_does_not_move_what_is_looked_at(crowded: tuple[RunningServer, WorkspaceClient], visit: BrowserTabs) -> None:
    server, workspace = crowded
    doomed = workspace.push(comments="Deleted elsewhere")
    reader = visit(server)
    expect(reader.row(doomed)).to_be_visible()
    row = _in_the_middle(reader)
    before = _top(row)
    with server.listen(types="entry.deleted") as listener:
        server.person.delete(f"/api/inbox/{doomed}")
        listener.until("entry.deleted")
    seen = workspace.push(comments="So that we know the news has come")
    expect(reader.page.get_by_role("button", name="1 new entry")).to_be_visible()
    assert _top(row) == pytest.approx(before, abs=1)
    reader.page.get_by_role("button", name="1 new entry").click()
    expect(reader.row(seen)).to_be_in_viewport()


def test_the_cursor_stays_in_view_however_far_it_goes(crowded: tuple[RunningServer, WorkspaceClient], visit: BrowserTabs) -> None:
    server, _ = crowded
    reader = visit(server)
    expect(reader.rows.first).to_be_visible()
    for _ in range(60):
        reader.press("j")
    expect(reader.cursor).to_have_count(1)
    expect(reader.cursor).to_be_in_viewport()
    assert reader.entries.evaluate("list => list.scrollTop") > 0


def test_nothing_shifts_while_the_page_loads(crowded: tuple[RunningServer, WorkspaceClient], visit: BrowserTabs) -> None:
    """The browser's own measure: placeholders are as high as what replaces them."""
    server, _ = crowded
    reader = visit(server, scripts=(glances.SHIFTS,))
    expect(reader.rows.first).to_be_visible()
    workspace = crowded[1]
    pushed = workspace.push(comments="A live one")
    expect(reader.row(pushed)).to_be_visible()
    assert reader.value("window.shift") < 0.1
