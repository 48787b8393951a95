"""A web page that means harm: it runs in the person's browser, beside the inbox."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import httpx
import pytest

from postroom.server.http.auth import network_of
from tests.cli.process import LIMIT, eventually
from tests.server.agents import INITIALIZE, knock
from tests.server.running_server import RunningServer, WorkspaceClient, refusal

FOREIGN = [
    *("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://evil.example:8420", "file://", "http://127.0.0.1:1"),
    *("http://127.0.0.1", "http://localhost", "http://[::1]"),  # the default port is another program's
]
HOSTS = ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1", "user@127.0.0.1:{port}", "[::1]:1"]


def _session(answer: httpx.Response) -> SimpleCookie:
    return SimpleCookie(answer.headers["set-cookie"])


def test_a_link_signs_in_once(server: RunningServer) -> None:
    link = server.link()
    first = server.browser().get(f"/sign-in?token={link}")
    assert (first.status_code, urlsplit(first.headers["location"]).path) == (303, "/")
    cookie = _session(first)[server.cookie_name]
    assert (cookie["httponly"], cookie["samesite"].lower(), cookie["path"]) == (True, "strict", "/")
    assert not cookie["domain"]
    again = server.browser().get(f"/sign-in?token={link}")
    assert 400 <= again.status_code < 500
    assert "set-cookie" not in again.headers


def test_the_link_of_the_ready_line_signs_in_once(server: RunningServer) -> None:
    """No other test of the shared server uses it."""
    answers = [server.browser().get(server.ready["sign_in_url"]).status_code for _ in range(2)]
    assert answers[1] >= 400
    assert answers[0] == 303


@pytest.mark.parametrize("query", ["", "?token=", "?token=made-up", "?token=%00", "?token=a&token=b"])
def test_a_link_that_was_never_given_signs_nobody_in(server: RunningServer, query: str) -> None:
    answer = server.browser().get(f"/sign-in{query}")
    assert 400 <= answer.status_code < 500
    assert "set-cookie" not in answer.headers


def test_a_secret_of_one_kind_is_none_of_another(server: RunningServer) -> None:
    browser = server.signed_in()
    cookie = browser.cookies[server.cookie_name]
    unused = server.link()
    assert server.client(unused).get("/api/inbox/history").status_code == 401
    assert server.browser().get(f"/sign-in?token={cookie}").status_code >= 400
    assert server.browser().get(f"/sign-in?token={server.ready['token']}").status_code >= 400
    assert server.stranger.get("/api/inbox/history", headers={"Cookie": f"{server.cookie_name}={unused}"}).status_code == 401
    halves = {"Cookie": f"{server.cookie_name}={unused[:36]}", "X-Postroom-Key": unused[36:]}
    assert server.stranger.get("/api/inbox/history", headers=halves).status_code == 401


def test_who_signed_in_is_the_person_by_the_web(server: RunningServer, workspace: WorkspaceClient) -> None:
    browser = server.signed_in()
    identity = workspace.push(comments="Look")
    assert browser.get("/api/inbox/history").status_code == 200
    replied = browser.post(f"/api/inbox/{identity}/reply", json={"body": "By the page"}, headers={"Origin": server.url})
    assert (replied.status_code, replied.json()["reply"]["door"]) == (201, "web")


def test_who_signed_out_is_nobody(server: RunningServer) -> None:
    browser = server.signed_in()
    cookie = browser.cookies[server.cookie_name]
    assert browser.post("/api/sign-out", headers={"Origin": server.url}).status_code in (200, 204, 303)
    session = {"Cookie": f"{server.cookie_name}={cookie}", "X-Postroom-Key": browser.headers["X-Postroom-Key"]}
    refusal(server.stranger.get("/api/inbox/history", headers=session), 401, "unauthenticated")


def test_a_cookie_alone_lets_nobody_in(server: RunningServer) -> None:
    """Another program on this machine gets it: a browser sends a cookie to every port of its host."""
    browser = server.signed_in()
    stolen = {
        "Cookie": f"{server.cookie_name}={browser.cookies[server.cookie_name]}",
        "Sec-Fetch-Site": "same-origin",
        "Origin": server.url,
    }
    for path in ("/api/summary", "/api/inbox/history", "/api/events", "/api/workspaces/x/file?path=x&download=1"):
        refusal(server.stranger.get(path, headers=stolen), 401, "unauthenticated")
        refusal(server.stranger.get(path, headers={**stolen, "X-Postroom-Key": "0" * 32}), 401, "unauthenticated")
        refusal(server.stranger.get(path, headers={"X-Postroom-Key": browser.headers["X-Postroom-Key"]}), 401, "unauthenticated")
    assert browser.get("/api/summary").status_code == 200


def test_a_malformed_cookie_of_another_program_is_not_in_the_way(server: RunningServer) -> None:
    browser = server.signed_in()
    cookies = f'theirs={{"a": [1]}}; {server.cookie_name}={browser.cookies[server.cookie_name]}'
    session = {"Cookie": cookies, "X-Postroom-Key": browser.headers["X-Postroom-Key"]}
    assert server.stranger.get("/api/summary", headers=session).status_code == 200


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_page_changes_nothing(server: RunningServer, workspace: WorkspaceClient, origin: str) -> None:
    browser = server.signed_in()
    identity = workspace.push(comments="Look")
    before = server.conversation(identity)
    headers = {"Origin": origin}
    plain = {**headers, "Content-Type": "text/plain"}
    answers = [
        browser.post(f"/api/inbox/{identity}/reply", json={"body": "Forged"}, headers=headers),
        browser.post(f"/api/inbox/{identity}/reply", content=b'{"body": "Forged"}', headers=plain),
        browser.put(f"/api/inbox/{identity}/read", headers=headers),
        browser.delete(f"/api/inbox/{identity}", headers=headers),
        browser.post("/api/sign-out", headers=headers),
        browser.get("/api/inbox/history", headers=headers),
        browser.get("/api/events", headers=headers),
        server.person.get("/api/inbox/history", headers=headers),
    ]
    for answer in answers:
        refusal(answer, 403, "forbidden")
    assert server.conversation(identity) == before
    assert browser.get("/api/inbox/history").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_says_comes_from_elsewhere_changes_nothing(server: RunningServer, workspace: WorkspaceClient, site: str) -> None:
    browser = server.signed_in()
    identity = workspace.push(comments="Look")
    answer = browser.post(f"/api/inbox/{identity}/reply", json={"body": "Forged"}, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403, answer.text
    assert server.entry(identity)["replies"] == 0


def test_a_link_in_a_message_may_be_clicked(server: RunningServer) -> None:
    """To sign in comes from elsewhere by its nature."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.browser().get(f"/sign-in?token={server.link()}", headers=headers).status_code == 303


@pytest.mark.parametrize("origin", FOREIGN[:3])
def test_a_foreign_page_cannot_reach_an_agent_s_endpoint(workspace: WorkspaceClient, origin: str) -> None:
    assert knock(workspace, workspace.token, message=INITIALIZE, origin=origin).status_code == 403


def test_a_foreign_page_cannot_use_an_open_server(dev_server: RunningServer) -> None:
    """Without credentials, where the page comes from is all that protects the person."""
    for origin in FOREIGN:
        answer = dev_server.stranger.post("/api/inbox/seed", json={"comments": "Forged"}, headers={"Origin": origin})
        refusal(answer, 403, "forbidden")
    answer = dev_server.stranger.post("/api/inbox/seed", json={"comments": "Forged"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert "Forged" not in [entry.get("comments") for entry in dev_server.get("/api/inbox/history", limit="500")["entries"]]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_was_bound_again_is_refused(
    server: RunningServer, dev_server: RunningServer, workspace: WorkspaceClient, host: str
) -> None:
    for place in (server, dev_server):
        named = {"Host": host.format(port=urlsplit(place.url).port)}
        for answer in (
            place.person.get("/api/inbox/history", headers=named),
            place.stranger.get("/health", headers=named),
            place.stranger.get("/sign-in?token=x", headers=named),
            place.stranger.get("/", headers=named),
        ):
            assert answer.status_code in (400, 421), answer.text
            if answer.status_code == 421:
                refusal(answer, 421, "wrong_host")
    assert knock(workspace, workspace.token, host=host.format(port=urlsplit(server.url).port)).status_code in (400, 421)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_the_names_of_this_machine_are_its_own(server: RunningServer, name: str) -> None:
    own = f"{name}:{urlsplit(server.url).port}"
    answer = server.person.get("/api/inbox/history", headers={"Host": own, "Origin": f"http://{own}"})
    assert answer.status_code == 200, answer.text


def test_no_other_page_may_read_what_is_answered(server: RunningServer, dev_server: RunningServer, workspace: WorkspaceClient) -> None:
    preflight = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    for place in (server, dev_server):
        for answer in (
            place.stranger.options("/api/inbox/seed", headers=preflight),
            place.stranger.get("/health", headers={"Origin": "https://evil.example"}),
            place.person.get("/api/inbox/history", headers={"Origin": "https://evil.example"}),
            place.person.get("/api/inbox/history"),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert not [name for name in knock(workspace, workspace.token).headers if name.startswith("access-control-")]


def test_a_form_of_another_page_is_not_read_as_json(dev_server: RunningServer) -> None:
    """A form needs no preflight: without an Origin, its type alone tells it apart."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = dev_server.stranger.post("/api/inbox/seed", content=b'{"comments": "Formed"}', headers={"Content-Type": kind})
        assert 400 <= answer.status_code < 500, answer.text


def test_looking_ahead_uses_up_no_link(server: RunningServer) -> None:
    link = f"/sign-in?token={server.link()}"
    assert server.stranger.head(link).status_code == 405
    assert server.stranger.get(link, follow_redirects=False).status_code == 303


def test_a_request_with_two_host_headers_is_refused(server: RunningServer) -> None:
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port), LIMIT) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nHost: evil.example\r\nHost: {place.netloc}\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_links_that_do_not_work_lock_nobody_out(found: Callable[..., RunningServer]) -> None:
    server = found().open()
    link, browser = server.link(), server.browser()
    eventually(lambda: browser.get("/sign-in?token=a-guess").status_code == 429)
    assert server.browser().get(f"/sign-in?token={link}").status_code == 303
    assert server.close() == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_strangers_are_counted_by_the_network_that_one_client_has(address: str, network: str) -> None:
    assert network_of(address) == network
