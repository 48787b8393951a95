"""The page in a real browser: how soon it is painted, how soon its rows are there, how it scrolls, and a push on its way to the eye."""

from __future__ import annotations

import json
from contextlib import closing
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, time
from typing import Any

import httpx

import postroom
from bench import documents as bench_documents
from bench.report import Report, milliseconds, percentile, times
from bench.serving import Served, fill, office, serve
from postroom import people

ENTRIES, ROUNDS, PUSHES = 100_000, 15, 40
FIRST_PAINT = FIRST_ROWS = 0.150
SEARCH = 0.100

# When it was painted first, and when the first row was there; asked of the page, so read back as text.
WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".row")) return;
  watch.disconnect();
  window.rowsAt = performance.now();
}).observe(document, { childList: true, subtree: true });
"""
PAINTED = """() => new Promise((done) => {
  const found = () => performance.getEntriesByName("first-contentful-paint")[0];
  if (found()) return done(found().startTime);
  new PerformanceObserver(() => found() && done(found().startTime)).observe({ type: "paint", buffered: true });
})"""
# From the top towards the end as fast as a wheel turns, three seconds long; the time between two frames, each.
SCROLL = """(step) => new Promise((done) => {
  const list = document.querySelector("#entries"), gaps = [];
  let before = performance.now();
  const begun = before;
  requestAnimationFrame(function frame(now) {
    gaps.push(now - before);
    before = now;
    list.scrollTop += step;
    if (now - begun < 3000) requestAnimationFrame(frame);
    else done(gaps.slice(2));
  });
})"""
ARRIVED = """(text) => new Promise((done) => {
  const look = () => [...document.querySelectorAll(".row .title")].some((row) => row.textContent === text) && done(Date.now());
  new MutationObserver(look).observe(document.querySelector("#entries"), { childList: true, subtree: true, characterData: true });
  look();
})"""


def run(report: Report) -> None:
    from tests.browser.chromium import started

    with TemporaryDirectory() as folder:
        place, registered = office(folder, "page")
        fill(place, ENTRIES)
        with serve(place) as server, started() as browser:
            report.section(f"The page in {browser.browser_type.name} {browser.version}, on loopback, with {ENTRIES:,} entries")
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.add_init_script(WATCH)
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.port}/sign-in?token={_link(place)}")
            _painting(report, page, server)
            _scrolling(report, page)
            _arriving(report, page, place, registered.workspace.workspace_id)
            _searching(report, server)
            bench_documents.run(report, context, server, place, registered.workspace)


def _searching(report: Report, server: Served) -> None:
    """Measure a page of hits for a word that every entry holds, and for one that only the oldest could hold."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": f"Bearer {server.token}"}) as client:
        for what, words in (("in all of them", "analysis"), ("in none", "zeppelin"), ("in all, and unread", "findings is:unread")):
            took = []
            for _ in range(ROUNDS):
                begun = perf_counter()
                client.get("/api/inbox/search", params={"q": words, "limit": 100}).raise_for_status()
                took.append(perf_counter() - begun)
            report.row(f"a search for a word that is {what}", milliseconds(median(took)), "under 100 ms", met=median(took) < SEARCH)


def _link(place: str) -> str:
    with closing(postroom.open(place)) as store:
        return people.issue_link(store, person="user")


def _painting(report: Report, page: Any, server: Served) -> None:
    """In turns with a line of text of the same server: less than that, no page of it can take."""
    measured: dict[str, list[float]] = {"floor": [], "painted": [], "rows": []}
    for _ in range(ROUNDS):
        page.goto(f"http://127.0.0.1:{server.port}/health")
        measured["floor"].append(page.evaluate(PAINTED) / 1000)
        page.goto(f"http://127.0.0.1:{server.port}/")
        measured["painted"].append(page.evaluate(PAINTED) / 1000)
        page.wait_for_selector(".row")
        measured["rows"].append(page.evaluate("window.rowsAt") / 1000)
    floor, painted, rows = (median(values[1:]) for values in measured.values())
    report.row("first paint of a line of text (the floor)", milliseconds(floor))
    report.row(f"first paint of the page ({times(painted / floor)})", milliseconds(painted), "under 150 ms", met=painted < FIRST_PAINT)
    report.row(
        "the same the first time, with nothing kept",
        milliseconds(measured["painted"][0]),
        "under 150 ms",
        met=measured["painted"][0] < FIRST_PAINT,
    )
    report.row(f"the first rows are there ({times(rows / floor)})", milliseconds(rows), "under 150 ms", met=rows < FIRST_ROWS)


def _scrolling(report: Report, page: Any) -> None:
    """Beside the same page that does not move: a browser without a screen has frames of its own length."""
    page.wait_for_selector("html[data-live=live]")
    still, moving = (page.evaluate(SCROLL, step) for step in (0, 200))
    most = page.evaluate("document.querySelectorAll('.row').length")
    report.row("a frame while nothing moves, median (p99)", _frames(still))
    report.row("a frame while it scrolls 12,000 pixels a second, median (p99)", _frames(moving))
    late = sum(gap > 34 for gap in moving) / len(moving)
    report.row("frames that came too late to be smooth (over 34 ms)", f"{late:.1%}", "at most 2 %", met=late <= 0.02)
    report.row("rows in the document meanwhile", str(most))


def _frames(gaps: list[float]) -> str:
    return f"{median(gaps):.1f} ms ({percentile(gaps, 0.99):.1f})"


def _arriving(report: Report, page: Any, place: str, workspace_id: str) -> None:
    """From before the push of another process to the row in the document: nobody reloads, and nobody polls."""
    page.evaluate("document.querySelector('#entries').scrollTop = 0")
    took = []
    with closing(postroom.open(place)) as store:
        for number in range(PUSHES):
            text = f"Arrival {number}"
            waiting = page.evaluate_handle(f"window.arrival = ({ARRIVED})({json.dumps(text)}); undefined")
            begun = time()
            people.push(store, workspace_id, comments=text)
            took.append(page.evaluate("window.arrival") / 1000 - begun)
            waiting.dispose()
    report.row(
        "a push of another process to its row in the page, median (p99)",
        f"{median(took) * 1000:.0f} ms ({percentile(took, 0.99) * 1000:.0f})",
    )
