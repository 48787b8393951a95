"""Faults that people found on the page, each as it was seen."""

from __future__ import annotations

import re
import struct
import zlib

from playwright.sync_api import Request, Route, expect

from tests.browser.browser_page import BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

COLOUR = """() => {
  const image = document.querySelector('section.doc img');
  if (!image?.naturalWidth) return null;
  const canvas = document.createElement('canvas');
  canvas.getContext('2d').drawImage(image, 0, 0, 1, 1);
  return [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data].slice(0, 3).join();
}"""
WIDE = "| Customer | Amount | Responsible | Region | Currency | Tax | Account | Branch | Ledger | Period |\n" + "|---" * 10 + "|\n"
WIDE += "| Globex | 1,204,331.20 | responsible@example.com | North | EUR | 19 | 4711 | 12 | 9 | 2026 |\n"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _pixel(red: int, blue: int) -> bytes:
    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes((0, red, 0, blue)))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def test_documents_as_models_write_them_follow_their_file(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """B1, B2, B3, B11, B16: figures, links, wide tables, and later edits of all of them, without a reload."""
    workspace.write("pic.png", _pixel(255, 0))
    workspace.write("other.md", "# The other document\n")
    figures = "![Revenue](pic.png)\n\n[other](other.md)\n"
    hebrew = "מה שלומך?\n\n- ראשון\n- two\n\n| סעיף | ערך |\n|---|---|\n| אחד | 12 |\n"
    workspace.write("report.md", f"# Q3\n\n- [x] tested\n\n{figures}\n{WIDE}\n$x^2$\n\n{hebrew}")
    picture, report = workspace.push("pic.png"), workspace.push("report.md")
    reader = visit(server)
    reader.open(picture)
    reader.page.wait_for_function(COLOUR)
    assert reader.value(f"({COLOUR})()") == "255,0,0"
    workspace.write("pic.png", _pixel(0, 255))
    eventually(lambda: reader.value(f"({COLOUR})()") == "0,0,255")
    expect(reader.detail.get_by_text("Changed since it was pushed")).to_be_visible()
    reader.open(report)
    document = reader.page.locator('section.doc[data-path="report.md"]')
    expect(document.get_by_role("img", name="Revenue")).to_be_visible()
    reader.page.wait_for_function("() => document.querySelector('section.doc img[data-path]')?.naturalWidth > 0")
    expect(document.get_by_role("img", name="done")).to_be_visible()
    expect(document.locator("math")).to_be_visible()
    amount = document.locator("td", has_text="1,204,331.20")
    assert amount.evaluate("cell => cell.getClientRects()[0].height") < 60, "the number is broken into lines"
    assert document.locator("table").first.evaluate("table => table.scrollWidth > table.clientWidth")
    assert document.locator("table").last.evaluate("table => getComputedStyle(table).direction") == "rtl"
    assert document.locator("p", has_text="מה").evaluate("text => getComputedStyle(text).direction") == "rtl"
    marks = document.locator("ul", has_text="ראשון").evaluate(
        "list => [getComputedStyle(list).direction, getComputedStyle(list).paddingRight]"
    )
    assert marks == ["rtl", "22px"], "the marks of a list stand at its beginning"
    document.get_by_role("link", name="other").click()
    expect(reader.dialog("other.md").get_by_role("heading", name="The other document")).to_be_visible()
    reader.press("Escape")
    workspace.write("report.md", "# Q3, corrected\n")
    expect(document.get_by_role("heading", name="Q3, corrected")).to_be_visible()


def test_an_undo_of_a_delete_works_from_another_room(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """B4: leaving the room neither sends the delete nor leaves an undo that does nothing. B8: a double click deletes one entry."""
    first, second = workspace.push(comments="One"), workspace.push(comments="Two")
    reader = visit(server)
    reader.row(second).hover()
    reader.row(second).get_by_role("button", name="Delete").dblclick()
    expect(reader.row(second)).to_have_count(0)
    expect(reader.row(first)).to_be_visible()
    reader.press("g", "t")
    expect(reader.toasts.get_by_text("Deleted")).to_be_visible()
    assert server.person.get(f"/api/inbox/{second}").status_code == 200
    reader.press("z")
    expect(reader.toasts.get_by_text("Deleted")).to_have_count(0)
    reader.press("g", "i")
    expect(reader.row(second)).to_be_visible()


def test_a_lost_answer_is_healed(emptied: RunningServer, visit: BrowserTabs) -> None:
    """B6 and B7: the one list request after a push fails, and is made again. Relative times go on."""
    workspace = emptied.add_workspace()
    old = workspace.push(comments="Here before")
    reader = visit(emptied, clock=True)
    expect(reader.row(old).locator("time")).to_have_text("now")
    reader.allow("ERR_FAILED")
    lost: list[Route] = []

    def lose_one(route: Route) -> None:
        if lost:
            return route.continue_()
        lost.append(route)
        return route.abort()

    reader.page.route("**/api/inbox/history*", lose_one)
    with reader.page.expect_request("**/api/inbox/history*"):
        fresh = workspace.push(comments="While the answer was lost")
    reader.page.clock.run_for(25_000)
    expect(reader.row(fresh)).to_be_visible()
    reader.page.clock.fast_forward("02:00")
    reader.page.clock.run_for(21_000)
    expect(reader.row(old).locator("time")).to_have_text(re.compile("[23]m"))


def test_a_long_document_is_scrolled_by_keys(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """B10: after j and Enter, the page keys scroll the document. B15: identifiers stay whole in a row."""
    workspace.write("long.md", "# Long\n\n" + "A paragraph.\n\n" * 400)
    identity = workspace.push("long.md", comments="Fixed test_refund_race, MAX_RETRY_COUNT=5 * 3")
    reader = visit(server)
    expect(reader.row(identity)).to_contain_text("Fixed test_refund_race, MAX_RETRY_COUNT=5 * 3")
    reader.press("j", "Enter")
    expect(reader.of(identity).get_by_text("A paragraph.").first).to_be_visible()
    top = "() => document.querySelector('#detail .scroll').scrollTop"
    reader.press("End")
    reader.page.wait_for_function(f"() => ({top})() > 1000")
    reader.press("Home")
    reader.page.wait_for_function(f"() => ({top})() === 0")
    reader.press("Space")
    reader.page.wait_for_function(f"() => ({top})() > 100")


def test_a_search_looks_where_it_says(server: RunningServer, visit: BrowserTabs) -> None:
    """B5: a search inside a workspace finds what is there, whatever matches elsewhere, and its words are marked and in the address."""
    one, other = server.add_workspace(), server.add_workspace()
    for number in range(3):
        other.push(comments=f"Invoice {number}")
    wanted = one.push(comments="The invoice of Globex is wrong")
    reader = visit(server, f"/?workspace={one.workspace_id}")
    expect(reader.rows).to_have_count(1)
    reader.search.fill("invoice")
    expect(reader.row(wanted).locator("mark")).to_have_text("invoice")
    expect(reader.rows).to_have_count(1)
    reader.page.wait_for_function("() => location.search.includes('q=invoice')")
    reader.search.fill("is:done invoice")
    expect(reader.main).to_contain_text("Nothing found")
    reader.press("Escape")
    expect(reader.row(wanted)).to_be_visible()


def test_an_old_entry_opened_by_its_address_is_the_place_from_which_keys_move(emptied: RunningServer, visit: BrowserTabs) -> None:
    """B14: its row is loaded, shown and marked, and j goes on from there. B12: each document is requested once."""
    workspace = emptied.add_workspace()
    workspace.write("a.md", "# A\n")
    entries = [workspace.push("a.md", comments=f"Entry {number}") for number in range(130)]
    requests: list[str] = []
    reader = visit(emptied, "/threads")

    def note_load(request: Request) -> None:
        """The page asks only whether the file changed."""
        if "/file?" in request.url and "if-none-match" not in request.headers:
            requests.append(request.url)

    reader.page.on("request", note_load)
    reader.page.clock.install()
    reader.go(f"/inbox/{entries[5]}")
    expect(reader.row(entries[5])).to_be_visible()
    expect(reader.cursor).to_have_attribute("data-id", entries[5])
    expect(reader.of(entries[5]).get_by_role("heading", name="A").last).to_be_visible()
    assert len(requests) == 1
    reader.press("j")
    expect(reader.of(entries[4])).to_be_visible()
