"""Threads: by status and run, with their conversation and lease; reply, release, cancel. And the agents who hold them."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.reader import Visits
from tests.cli.process import eventually
from tests.server.agents import at
from tests.server.office import Desk, Office

ALIVE = re.compile("alive", re.IGNORECASE)


def _thread(office: Office, agent: str, subject: str, *more: str, claimed: bool = True) -> str:
    thread: str = office.inbox.ok("send", "--from", "user", "--to", agent, "--subject", subject, *more)["thread"]["thread_id"]
    if claimed:
        office.inbox.ok("claim", "--agent", agent, "--thread", thread, "--lease-seconds", "3600")
    return thread


def _status(office: Office, thread: str) -> str:
    status: str = office.inbox.ok("show", "--thread", thread)["thread"]["status"]
    return status


def test_threads_are_filtered_by_status_and_grouped_by_run(own: Office, visit: Visits) -> None:
    _thread(own, "builder", "Build it", "--run", "release-4.2")
    _thread(own, "writer", "Write it", "--run", "release-4.2", claimed=False)
    _thread(own, "scout", "Look around", claimed=False)
    reader = visit(own, "/threads")
    for subject in ("Build it", "Write it", "Look around"):
        expect(reader.main.get_by_role("link", name=re.compile(subject))).to_be_visible()
    expect(reader.main.get_by_role("heading", name=re.compile("release-4.2"))).to_be_visible()
    pending = reader.filter("Pending")
    expect(pending).to_contain_text("2")
    pending.click()
    expect(pending).to_have_attribute("aria-pressed", "true")
    expect(reader.main.get_by_role("link", name=re.compile("Build it"))).to_have_count(0)
    expect(reader.main.get_by_role("link", name=re.compile("Look around"))).to_be_visible()
    _thread(own, "scout", "Live as well", claimed=False)
    expect(reader.main.get_by_role("link", name=re.compile("Live as well"))).to_be_visible()
    expect(pending).to_contain_text("3")


def test_a_thread_is_read_and_replied_to(office: Office, desk: Desk, visit: Visits) -> None:
    thread = _thread(office, desk.agent, "Add the login page", "--body", "With **passkeys**")
    reader = visit(office, f"/threads/{thread}")
    article = reader.page.locator("article#thread")
    expect(article.get_by_role("heading", level=1)).to_have_text("Add the login page")
    expect(article.locator("strong")).to_have_text("passkeys")
    expect(article).to_contain_text(desk.agent)
    expect(article).to_contain_text(re.compile(r"59 min|1 h"))
    with reader.same_page():
        office.inbox.ok("update", "--agent", desk.agent, "--thread", thread, "--status", "blocked", "--summary", "Which library?")
        expect(article).to_contain_text("Which library?")
        waiter = office.inbox.start("wait-reply", "--agent", desk.agent, "--thread", thread, "--json").sleeping()
        reader.send("Ours")
        assert waiter.finish().json["message"]["summary"] == "Ours"
        expect(article).to_contain_text("Ours")
        expect(reader.reply).to_have_value("")


def test_a_held_thread_is_taken_back_after_asking(office: Office, desk: Desk, visit: Visits) -> None:
    thread = _thread(office, desk.agent, "Stuck")
    reader = visit(office, f"/threads/{thread}")
    release = reader.page.locator("article#thread").get_by_role("button", name="Release")
    release.click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    reader.press("Escape")
    expect(dialog).to_have_count(0)
    assert _status(office, thread) == "claimed"
    release.click()
    dialog.get_by_role("button", name="Release").click()
    eventually(lambda: _status(office, thread) == "pending")
    expect(release).to_have_count(0)
    expect(reader.page.locator("article#thread")).to_contain_text(re.compile("pending", re.IGNORECASE))


def test_a_thread_is_cancelled_after_asking(office: Office, desk: Desk, visit: Visits) -> None:
    thread = _thread(office, desk.agent, "Unwanted")
    reader = visit(office, f"/threads/{thread}")
    reader.page.locator("article#thread").get_by_role("button", name="Cancel").click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert _status(office, thread) == "claimed"
    dialog.get_by_role("button", name=re.compile("^Cancel")).last.click()
    eventually(lambda: _status(office, thread) == "cancelled")
    expect(reader.page.locator("article#thread").get_by_role("button", name="Cancel")).to_have_count(0)
    expect(reader.page.locator("article#thread").get_by_role("button", name="Release")).to_have_count(0)


def test_a_refusal_of_the_server_is_said(office: Office, desk: Desk, visit: Visits) -> None:
    """Somebody else was faster: what the page offers is refused, and it says so."""
    thread = _thread(office, desk.agent, "A race")
    reader = visit(office, f"/threads/{thread}")
    reader.allow("409")
    reader.page.locator("article#thread").get_by_role("button", name="Release").click()
    dialog = reader.page.get_by_role("dialog")
    refusal = {"ok": False, "error": {"code": "invalid_state", "message": "nobody holds this thread", "hint": "Look again."}}
    reader.page.route("**/release", lambda route: route.fulfill(status=409, json=refusal))
    dialog.get_by_role("button", name="Release").click()
    expect(reader.page.get_by_text("nobody holds this thread").first).to_be_visible()


def test_an_entry_of_a_thread_leads_there_and_back(office: Office, desk: Desk, visit: Visits) -> None:
    thread = _thread(office, desk.agent, "Ask me")
    office.inbox.ok("update", "--agent", desk.agent, "--thread", thread, "--status", "blocked", "--summary", "May I?")
    identity = office.entry_from(desk.agent)["id"]
    reader = visit(office)
    reader.open(identity).locator(f'a[href="/threads/{thread}"]').click()
    reader.expect_path(f"/threads/{thread}")
    expect(reader.page.locator("article#thread")).to_contain_text("May I?")
    reader.page.go_back()
    expect(reader.of(identity)).to_be_visible()


def test_an_agent_that_pushes_is_alive(office: Office, desk: Desk, visit: Visits) -> None:
    with at(desk) as agent:
        agent.ok("inbox_push", comments="Here I am")
    reader = visit(office, "/agents")
    expect(reader.main.locator("li, tr").filter(has=reader.page.get_by_text(desk.agent, exact=True))).to_contain_text(ALIVE)


def test_what_an_agent_holds_is_a_link_and_newcomers_appear(office: Office, desk: Desk, visit: Visits) -> None:
    thread = _thread(office, desk.agent, "Build it")
    reader = visit(office, "/agents")
    agent = reader.main.locator("li, tr").filter(has=reader.page.get_by_text(desk.agent, exact=True))
    expect(agent).to_contain_text(ALIVE)
    agent.get_by_role("link", name=re.compile("Build it")).click()
    reader.expect_path(f"/threads/{thread}")
    reader.page.go_back()
    expect(agent).to_be_visible()
    newcomer = f"newcomer-{desk.agent}"
    _thread(office, newcomer, "Welcome")
    expect(reader.main.get_by_text(newcomer, exact=True)).to_be_visible()
