"""Documents in the page: how often each is asked for, how soon a large one is shown, and what opens beside it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

import postroom
from bench.report import Report, milliseconds, percentile
from bench.serving import Served
from postroom import people
from postroom.core.records.people import Workspace

LARGE_BYTES = 900_000
LARGE_SHOWN, SMALL_SHOWN = 0.7, 0.1  # seconds
READERS = 4  # of the large document, while another entry is opened
ROUNDS = 7
PARAGRAPH = "The committee **held**, and said why: [minutes](minutes.md), `rate = 4.25`, and *no* change before March.\n\n"

# From the click on a row to the document with its first screenfuls, and to the document with its end; and the longest frame until then.
OPENED = """(id) => new Promise((done) => {
  const begun = performance.now();
  let first = null, before = begun, longest = 0;
  requestAnimationFrame(function frame(now) {
    longest = Math.max(longest, now - before);
    before = now;
    const shown = document.querySelector(`article[data-id="${id}"] .doc .markdown`);
    if (shown) first ??= now - begun;
    if (shown && !shown.closest(".begun")) done([first, now - begun, longest]);
    else requestAnimationFrame(frame);
  });
  document.querySelector(`.row[data-id="${id}"] a`).click();
})"""


def run(report: Report, context: Any, server: Served, place: str, workspace: Workspace) -> None:
    report.section(f"Documents in the page: one of {LARGE_BYTES // 1000} KB, and entries of one line")
    folder = Path(workspace.path)
    small, large = _push(place, workspace, folder)
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": f"Bearer {server.token}"}, timeout=60)
    with client:
        _requests(report, context, server, small)
        _large(report, context, server, folder, large)
        _beside(report, client, place, workspace, folder, large)
        _compressed(report, client, workspace)


def _push(place: str, workspace: Workspace, folder: Path) -> tuple[str, str]:
    for name in ("one.md", "two.md"):
        (folder / name).write_text(f"# {name}\n\n{PARAGRAPH}")
    _write_large(folder, 0)
    with closing(postroom.open(place)) as store:
        small = people.push(store, workspace.workspace_id, docs=["one.md", "two.md"], title="Two documents").id
        return small, people.push(store, workspace.workspace_id, docs=["large.md"], title="Large").id


def _write_large(folder: Path, version: int) -> None:
    """Write another version, in which every paragraph is one that nobody has rendered yet."""
    paragraph = PARAGRAPH.replace("4.25", f"4.{version}")
    (folder / "large.md").write_text(f"# Version {version}\n\n" + paragraph * (LARGE_BYTES // len(paragraph)))


def _requests(report: Report, context: Any, server: Served, entry_id: str) -> None:
    """By a link to an unread entry. Later looks at the files are conditional, and not counted."""
    asked: dict[str, int] = {}

    def count(request: Any) -> None:
        url = urlsplit(request.url)
        if url.path.endswith("/file") and "if-none-match" not in request.headers:
            path = parse_qs(url.query)["path"][0]
            asked[path] = asked.get(path, 0) + 1

    page = context.new_page()
    page.on("request", count)
    page.goto(f"http://127.0.0.1:{server.port}/inbox/{entry_id}")
    page.wait_for_selector('.row[data-read="true"] a[aria-current]')
    page.wait_for_timeout(1000)
    page.close()
    most = max(asked.values(), default=0)
    report.row("an unread entry opened by its link: requests for a document", str(most), "1", met=most == 1)


def _large(report: Report, context: Any, server: Served, folder: Path, entry_id: str) -> None:
    took: list[tuple[float, float, float]] = []
    for version in range(1, ROUNDS + 1):
        _write_large(folder, version)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.wait_for_selector(f'.row[data-id="{entry_id}"]')
        took.append(page.evaluate(OPENED, entry_id))
        page.close()
    shown, whole, longest = (median(values) / 1000 for values in zip(*took, strict=True))
    report.row("from the click to the large document, which changed, shown", milliseconds(shown), "under 0.7 s", met=shown < LARGE_SHOWN)
    report.row("the same, to its end", milliseconds(whole))
    report.row("the longest frame meanwhile", milliseconds(longest))


def _beside(report: Report, client: httpx.Client, place: str, workspace: Workspace, folder: Path, entry_id: str) -> None:
    """An entry of one line, whose comment nobody has rendered, while several readers ask for new versions of the large document."""
    over = Event()
    large = {"path": "large.md", "entry": entry_id}

    def read() -> None:
        while not over.is_set():
            client.get(f"/api/workspaces/{workspace.workspace_id}/file", params=large)

    readers = [Thread(target=read) for _ in range(READERS)]
    took = []
    with closing(postroom.open(place)) as store:
        for reader in readers:
            reader.start()
        try:
            for version in range(ROUNDS * 3):
                _write_large(folder, 1000 + version)
                line = people.push(store, workspace.workspace_id, comments=f"Line {version}").id
                begun = perf_counter()
                client.get(f"/api/inbox/{line}", params={"html": "true"}).raise_for_status()
                took.append(perf_counter() - begun)
        finally:
            over.set()
            for reader in readers:
                reader.join()
    report.row(
        f"an entry of one line beside {READERS} readers of the large document, median (longest)",
        f"{median(took) * 1000:.0f} ms ({percentile(took, 1.0) * 1000:.0f})",
        "under 0.1 s",
        met=median(took) < SMALL_SHOWN,
    )


def _compressed(report: Report, client: httpx.Client, workspace: Workspace) -> None:
    with client.stream("GET", f"/api/workspaces/{workspace.workspace_id}/file", params={"path": "large.md"}) as answer:
        sent, encoding = sum(len(block) for block in answer.iter_raw()), answer.headers.get("content-encoding", "none")
    report.row(f"the large document on the wire ({encoding})", f"{sent / 1000:.0f} KB", "compressed", met=encoding == "gzip")
