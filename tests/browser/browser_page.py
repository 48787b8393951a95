"""A person at the page: what they see and press, and what their browser complained about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Locator, Page, expect

from tests.browser.sample_data import SampleData
from tests.server.running_server import RunningServer

PATIENCE = 20_000  # a bound on what hangs, not on what is slow
REFUSED_BY_POLICY = """
addEventListener('securitypolicyviolation', (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`))
"""
BROKEN_OFF = (
    r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|CONNECTION_CLOSED|SOCKET_NOT_CONNECTED"
    r"|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|NETWORK_CHANGED)"
)


class BrowserPage:
    """One tab. Whatever its console says as an error is held against the page, unless the test said that it would."""

    def __init__(self, server: RunningServer, context: BrowserContext, page: Page) -> None:
        self.server = server
        self.context = context
        self.page = page
        self._complaints: list[str] = []
        self._allowed: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self._complaints.append(f"thrown: {error.stack or error}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._complaints.append(f"console: {message.text} {message.location.get('url', '')}")

    def allow(self, pattern: str) -> None:
        """The test makes this happen itself."""
        self._allowed.append(pattern)

    def complaints(self) -> list[str]:
        return [said for said in self._complaints if not any(re.search(pattern, said) for pattern in self._allowed)]

    # Where they are

    def go(self, path: str) -> None:
        self.page.goto(f"{self.server.url}{path}")

    def move(self, path: str) -> None:
        """Go to another place of the page, as with the button to go back: nothing is loaded again."""
        self.value(f"history.pushState({{}}, '', '{path}'); dispatchEvent(new PopStateEvent('popstate'))")

    def room(self, name: str) -> None:
        """Into a room, by its link."""
        self.rooms.get_by_role("link", name=re.compile(f"^{name}")).click()
        expect(self.rooms.locator('[aria-current="page"]')).to_contain_text(name)

    @property
    def rooms(self) -> Locator:
        return self.page.get_by_role("navigation", name="Rooms")

    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    @property
    def connection(self) -> Locator:
        return self.page.locator("#connection")

    def expect_live(self) -> None:
        expect(self.page.locator("html")).to_have_attribute("data-live", "live")

    @property
    def toasts(self) -> Locator:
        return self.page.locator("#toasts")

    def dialog(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("dialog", name=name)

    # The inbox

    @property
    def entries(self) -> Locator:
        return self.page.locator("#entries")

    @property
    def rows(self) -> Locator:
        return self.entries.locator(".row")

    def row(self, identity: str) -> Locator:
        return self.page.locator(f'.row[data-id="{identity}"]')

    @property
    def cursor(self) -> Locator:
        return self.page.locator(".row[data-cursor]")

    @property
    def detail(self) -> Locator:
        return self.page.locator("article#detail")

    def of(self, identity: str) -> Locator:
        """The detail, once it is this entry's."""
        return self.page.locator(f'article#detail[data-id="{identity}"]')

    def open(self, identity: str) -> Locator:
        self.row(identity).locator("a").first.click()
        shown = self.of(identity)
        expect(shown).to_be_visible()
        return shown

    @property
    def reply(self) -> Locator:
        return self.page.get_by_role("textbox", name="Reply")

    def send(self, words: str) -> None:
        """Reply, and do not wait until it can no longer be taken back."""
        self.reply.fill(words)
        self.page.get_by_role("button", name="Send").click()
        expect(self.reply).to_have_value("")
        if self.toasts.get_by_text("Sending:").count():
            self.reply.press("Enter")

    def choose(self, name: str) -> None:
        """Choose an answer, and do not wait until it can no longer be taken back."""
        self.page.get_by_role("group", name="Choices").get_by_role("button", name=name).click()
        expect(self.toasts.get_by_text("Sending:")).to_be_visible()
        self.press("Enter")

    @property
    def conversation(self) -> Locator:
        return self.page.get_by_role("list", name="Conversation")

    def filter(self, name: str) -> Locator:
        """A button above the list; a count may follow its name."""
        return self.page.get_by_role("button", name=re.compile(f"^{name}"))

    @property
    def search(self) -> Locator:
        return self.page.get_by_role("searchbox", name="Search entries")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def path(self) -> str:
        return urlsplit(self.page.url).path

    def expect_path(self, path: str) -> None:
        expect(self.page).to_have_url(f"{self.server.url}{path}")

    @contextmanager
    def same_page(self) -> Iterator[None]:
        """Nothing in the block loads the page anew."""
        self.value("window.neverLeft = true")
        yield
        assert self.value("window.neverLeft") is True, "the page was loaded again"


class SampleServer(NamedTuple):
    """A server, and what there is in it."""

    server: RunningServer
    scene: SampleData


class BrowserTabs:
    """Opens tabs, each in a browser of its own as far as cookies go, and closes them with the test."""

    def __init__(self, browser: Browser, pictures: Path) -> None:
        self._browser = browser
        self._pictures = pictures
        self._contexts: list[BrowserContext] = []
        self.readers: list[BrowserPage] = []

    def __call__(
        self,
        server: RunningServer,
        path: str = "/",
        *,
        signed_in: bool = True,
        clock: bool = False,
        scripts: tuple[str, ...] = (),
        **options: Any,
    ) -> BrowserPage:
        """Somebody comes in by a link and looks at a page. With `clock` the test may let time pass."""
        context = self._browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "UTC", "service_workers": "block", **options}
        )  # requests that pass a service worker are not seen by `page.route`
        self._contexts.append(context)
        for script in (REFUSED_BY_POLICY, *scripts):
            context.add_init_script(script)
        reader = self.tab(server, context)
        if clock:
            reader.page.clock.install()
        link = f"/sign-in?token={server.link()}" if signed_in else ""
        if link and path != "/":  # the inbox, where the link leads, need not be shown first
            led = context.request.get(server.url + link, max_redirects=0)
            path += f"#{urlsplit(led.headers['location']).fragment}"
        reader.go(link if path == "/" and link else path)
        if signed_in:
            reader.expect_live()
        return reader

    def tab(self, server: RunningServer, context: BrowserContext) -> BrowserPage:
        """Another tab of the same person."""
        self.readers.append(BrowserPage(server, context, context.new_page()))
        return self.readers[-1]

    def photograph(self) -> None:
        """Save a screenshot when a test failed."""
        for number, reader in enumerate(self.readers):
            try:
                reader.page.screenshot(path=self._pictures / f"page-{number}.png", timeout=5000)
            except Error:  # it is closed, or it hangs: then there is nothing to see
                continue

    def leave(self) -> None:
        for context in self._contexts:
            context.close()
        complaints = [said for reader in self.readers for said in reader.complaints()]
        assert not complaints, "\n".join(("the browser complained", *complaints))
