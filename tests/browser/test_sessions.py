"""A session belongs to one origin: another port of the host gets the cookie, and can do nothing with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient, refusal


@contextmanager
def listening(heard: list[str]) -> Iterator[int]:
    """Another program on this machine, which notes the cookies that it is sent; its port."""

    class OtherProgram(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), OtherProgram) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        yield other.server_port
        other.shutdown()


def test_a_page_on_another_port_gets_the_cookie_and_cannot_use_it(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server)
    assert "#" not in reader.page.url, "the key does not stay in the address"
    heard: list[str] = []
    with listening(heard) as port:
        other = reader.context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        assert other.evaluate("() => localStorage.length") == 0
    [cookie] = [sent for sent in heard if server.cookie_name in sent][:1]
    refusal(server.stranger.get("/api/summary", headers={"Cookie": cookie, "Origin": server.url}), 401)


def test_a_link_with_a_wrong_key_does_not_sign_the_person_out(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server)
    again = visit.tab(server, reader.context)
    again.allow("401")
    again.go(f"/#key={'0' * 32}")
    again.expect_live()
    reader.page.reload()
    reader.expect_live()


def test_two_postrooms_on_one_host_do_not_sign_each_other_out(
    server: RunningServer, workspace: WorkspaceClient, found: Callable[..., RunningServer], visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Still here")
    first, second = visit(server), found().open()
    other = visit.tab(second, first.context)
    other.go(f"/sign-in?token={second.link()}")
    other.expect_live()
    first.page.reload()
    first.expect_live()
    expect(first.row(identity)).to_be_visible()
    assert second.close() == 0
    other.allow("")
