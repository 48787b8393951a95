"""Photographs the page into docs/pictures/: each view, light and dark, of a real server over a house in full use.

The server believes that it is a certain Monday morning, and so does the browser: a picture changes when the page does.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page, expect

from postroom.core import clock
from tests.browser.chromium import started
from tests.browser.sample_data import NOTIFIER, RUN, SampleData, furnish

PICTURES = Path(__file__).parent / "pictures"
ROOT = Path(__file__).parents[1]
NOW = clock.parse_stamp("2026-11-16T10:24:00.000000Z")
PORT = 8420
LAPTOP: dict[str, Any] = {"viewport": {"width": 1000, "height": 700}}
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
STEADY = ("--disable-partial-raster", "--disable-skia-runtime-opts", "--num-raster-threads=1")  # the same pixels each time
ALLOWED = "Object.defineProperty(Notification, 'permission', {get: () => 'granted'})"  # which nobody can click in a browser without a head
MARK_UNREAD = """async (entry) => (await fetch(`/api/inbox/${entry}/read`,
  {method: 'DELETE', headers: {'X-Postroom-Key': localStorage.getItem('postroom.key')}})).ok"""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


# The command `inbox` with another clock, which must be there before anything reads it.
SERVE = """
import sys
from postroom.core import clock
real, behind = clock.now, clock.now() - int(sys.argv[1])
clock.now = lambda: real() - behind
from postroom.cli.inbox import run
sys.exit(run(sys.argv[2:]))
"""


class Shot(NamedTuple):
    """A picture: its name, where it is taken, what must be on it, and what is done before."""

    name: str
    path: str
    words: str
    act: Callable[[Page], object] = lambda page: None


def _shots(scene: SampleData) -> list[Shot]:
    entry, thread = scene.entries, scene.threads
    return [
        Shot("inbox", f"/inbox/{entry['report']}", "What would change our mind", _at_the_top),
        Shot("question", f"/inbox/{entry['question']}", "Publish at noon"),
        Shot("blocked", f"/inbox/{entry['thread']}", "Take it out"),
        Shot("changed", f"/inbox/{entry['changed']}", "Changed since it was pushed", _differences),
        Shot("code", f"/inbox/{entry['code']}", "ROUND_HALF_EVEN"),
        Shot("needs-you", "/questions", "Publish at noon"),
        Shot("one-line", f"/inbox/{entry['question']}", "Publish at noon", _one_line),
        Shot("chosen", "/", "Billing service", _choose_two),
        Shot("compose", "/", "Billing service", _compose),
        Shot("notices", "/notices", "certificates"),
        Shot("threads", "/threads", "Check the licences of what we ship"),
        Shot("thread", f"/threads/{thread['licences']}", "Check the licences of what we ship"),
        Shot("tasks", "/tasks", "Tasks"),
        Shot("runs", "/runs", RUN),
        Shot("run", f"/runs/{RUN}", RUN),
        Shot("mailboxes", "/mailboxes", "analyst"),
        Shot("mailbox", "/mailboxes/analyst", "no such table: tickets"),
        Shot("queues", "/queues", "archive"),
        Shot("agents", "/agents", "reviewer"),
        Shot("settings", "/settings", "Dark"),
        Shot("palette", f"/inbox/{entry['report']}", "What would change our mind", _palette),
        Shot("help", f"/inbox/{entry['report']}", "What would change our mind", lambda page: page.keyboard.press("?")),
    ]


def _laptop_shots(scene: SampleData) -> list[Shot]:
    return [Shot("laptop-inbox", f"/inbox/{scene.entries['report']}", "What would change our mind", _at_the_top)]


def _phone_shots(scene: SampleData) -> list[Shot]:
    return [
        Shot("phone-inbox", "/", "Billing service"),
        Shot("phone-question", f"/inbox/{scene.entries['question']}", "Publish at noon"),
        Shot("phone-document", f"/inbox/{scene.entries['report']}", "What would change our mind"),
        Shot("phone-needs-you", "/questions", "Publish at noon"),
        Shot("phone-run", f"/runs/{RUN}", RUN),
        Shot("phone-more", "/", "Billing service", lambda page: page.get_by_role("button", name="More").click()),
    ]


def _at_the_top(page: Page) -> None:
    page.locator("article#detail").evaluate("detail => detail.scrollTo(0, 0)")


def _differences(page: Page) -> None:
    page.get_by_role("button", name="Show the difference").click()
    expect(page.locator(".diff")).to_be_visible()


def _one_line(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("one line")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-rows", "one")
    page.evaluate("localStorage.removeItem('postroom.settings')")  # the other pictures have two


def _choose_two(page: Page) -> None:
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("group", name="Chosen entries")).to_be_visible()


def _compose(page: Page) -> None:
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="New message")).to_be_visible()


def _palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("re")
    expect(page.get_by_role("dialog").get_by_role("option").filter(has_text="Macro thesis").first).to_be_visible()


# The house


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """A server over the store in a folder, at the time of the pictures; its address."""
    argv = [sys.executable, "-c", SERVE, str(NOW), "serve", "--json", "--port", str(_port())]
    argv += ["--db", str(folder / ".agents" / "coord.db"), "--max-requests-per-second", "100000"]
    environment = {**os.environ, "HOME": str(folder), "NOTIFIER_HOME": str(folder / NOTIFIER)}
    log = (folder / "serve.log").open("wb")
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        try:
            url: str = json.loads(server.stdout.readline())["url"].rstrip("/")
            yield url
        finally:
            server.terminate()


def _port() -> int:
    """The usual one, which a picture shows, if nobody has it."""
    with socket.socket() as probe:
        return PORT if probe.connect_ex(("127.0.0.1", PORT)) else 0


def _link(folder: Path, url: str) -> str:
    """A way in, made at the time of the pictures."""
    from postroom import people
    from postroom.store.sqlite.engine import SqliteStore

    with SqliteStore(str(folder / ".agents" / "coord.db"), now=lambda: NOW) as store:
        return f"{url}/sign-in?token={people.issue_link(store, person='user')}"


# The pictures


@contextmanager
def _visitor(browser: Browser, link: str, scheme: Literal["light", "dark"], **options: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(**options, color_scheme=scheme, reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
    context.add_init_script(ALLOWED)
    context.clock.set_fixed_time(NOW / clock.MICROSECONDS_PER_SECOND)
    page = context.new_page()
    page.goto(link)
    page.close()
    yield context
    context.close()


def _take(context: BrowserContext, url: str, shot: Shot, scheme: str, unread: Sequence[str] = ()) -> None:
    page = context.new_page()
    page.goto(url + shot.path)
    expect(page.get_by_role("main")).to_contain_text(shot.words)
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)
    if unread:  # the count follows what was opened
        waiting = sum(entry not in shot.path for entry in unread)
        expect(page.locator('nav a[data-room="inbox"] .count')).to_have_text(str(waiting))
    shot.act(page)
    page.evaluate("document.fonts.ready")
    page.screenshot(path=PICTURES / f"{shot.name}-{scheme}.png", animations="disabled", caret="hide", scale="css")
    for entry in unread:  # to look at it has changed it
        assert page.evaluate(MARK_UNREAD, entry)
    page.close()


def main(wanted: Sequence[str]) -> None:
    """Take all pictures, or those named."""
    PICTURES.mkdir(exist_ok=True)
    house = Path(tempfile.gettempdir()) / "postroom-house"  # always the same, as a picture shows it
    empty = house / "empty"
    shutil.rmtree(house, ignore_errors=True)
    try:
        scene = furnish(house, NOW)
        unread = [scene.entries[known] for known in ("plain", "question", "thread", "code")]
        SampleData(empty, NOW).close()
        with started(*STEADY) as browser:
            with _served(house) as url:
                for scheme in SCHEMES:
                    for options, shots in ((WIDE, _shots(scene)), (LAPTOP, _laptop_shots(scene)), (PHONE, _phone_shots(scene))):
                        with _visitor(browser, _link(house, url), scheme, **options) as context:
                            for shot in shots:
                                if not wanted or shot.name in wanted:
                                    _take(context, url, shot, scheme, unread)
            with _served(empty) as url:
                for scheme in SCHEMES:
                    with _visitor(browser, _link(empty, url), scheme, **WIDE) as context:
                        _take(context, url, Shot("first-run", "/", "Connect an agent"), scheme)
    finally:
        shutil.rmtree(house, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
