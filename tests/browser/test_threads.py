"""Threads: by status and run, with their conversation and lease; reply, release, cancel. And the agents who hold them."""

from __future__ import annotations

import re
from contextlib import closing

from playwright.sync_api import expect

import postroom
from postroom import work
from tests.browser import sample_data
from tests.browser.browser_page import BROKEN_OFF, BrowserTabs
from tests.cli.process import eventually
from tests.server.agents import at
from tests.server.running_server import RunningServer, WorkspaceClient

ALIVE = re.compile("alive", re.IGNORECASE)


def _thread(server: RunningServer, agent: str, subject: str, *more: str, claimed: bool = True) -> str:
    thread: str = server.inbox.ok("send", "--from", "user", "--to", agent, "--subject", subject, *more)["thread"]["thread_id"]
    if claimed:
        server.inbox.ok("claim", "--agent", agent, "--thread", thread, "--lease-seconds", "3600")
    return thread


def _status(server: RunningServer, thread: str) -> str:
    status: str = server.inbox.ok("show", "--thread", thread)["thread"]["status"]
    return status


def test_threads_are_filtered_by_status_and_grouped_by_run(own: RunningServer, visit: BrowserTabs) -> None:
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


def test_a_thread_is_read_and_replied_to(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _thread(server, workspace.agent, "Add the login page", "--body", "With **passkeys**")
    reader = visit(server, f"/threads/{thread}")
    article = reader.page.locator("article#thread")
    expect(article.get_by_role("heading", level=1)).to_have_text("Add the login page")
    expect(article.locator("strong")).to_have_text("passkeys")
    expect(article).to_contain_text(workspace.agent)
    expect(article).to_contain_text(re.compile(r"59 min|1 h"))
    with reader.same_page():
        server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which library?")
        expect(article).to_contain_text("Which library?")
        waiter = server.inbox.start("wait-reply", "--agent", workspace.agent, "--thread", thread, "--json").sleeping()
        reader.send("Ours")
        assert waiter.finish().json["message"]["summary"] == "Ours"
        expect(article).to_contain_text("Ours")
        expect(reader.reply).to_have_value("")


def test_a_held_thread_is_taken_back_after_asking(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _thread(server, workspace.agent, "Stuck")
    reader = visit(server, f"/threads/{thread}")
    release = reader.page.locator("article#thread").get_by_role("button", name="Release")
    release.click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    reader.press("Escape")
    expect(dialog).to_have_count(0)
    assert _status(server, thread) == "claimed"
    release.click()
    dialog.get_by_role("button", name="Release").click()
    eventually(lambda: _status(server, thread) == "pending")
    expect(release).to_have_count(0)
    expect(reader.page.locator("article#thread")).to_contain_text(re.compile("pending", re.IGNORECASE))


def test_a_thread_is_cancelled_after_asking(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _thread(server, workspace.agent, "Unwanted")
    reader = visit(server, f"/threads/{thread}")
    reader.page.locator("article#thread").get_by_role("button", name="Cancel").click()
    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert _status(server, thread) == "claimed"
    dialog.get_by_role("button", name=re.compile("^Cancel")).last.click()
    eventually(lambda: _status(server, thread) == "cancelled")
    expect(reader.page.locator("article#thread").get_by_role("button", name="Cancel")).to_have_count(0)
    expect(reader.page.locator("article#thread").get_by_role("button", name="Release")).to_have_count(0)


def test_a_refusal_of_the_server_is_said(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """Somebody else was faster: what the page offers is refused, and it says so."""
    thread = _thread(server, workspace.agent, "A race")
    reader = visit(server, f"/threads/{thread}")
    reader.allow("409")
    reader.page.locator("article#thread").get_by_role("button", name="Release").click()
    dialog = reader.page.get_by_role("dialog")
    refusal = {"ok": False, "error": {"code": "invalid_state", "message": "nobody holds this thread", "hint": "Look again."}}
    reader.page.route("**/release", lambda route: route.fulfill(status=409, json=refusal))
    dialog.get_by_role("button", name="Release").click()
    expect(reader.page.get_by_text("nobody holds this thread").first).to_be_visible()


def test_earlier_messages_of_a_long_thread_are_loaded_when_asked_for(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    thread = _thread(server, workspace.agent, "Build it", "--body", "The task itself")
    with closing(postroom.open(server.place)) as store:
        for number in range(205):
            work.reply(store, thread, sender="leader", summary=f"Word {number}.")
        reader = visit(server, f"/threads/{thread}")
        items = reader.page.get_by_role("list", name="Conversation").locator("li.message")
        expect(items).to_have_count(101)
        expect(items.first).to_contain_text("The task itself")
        expect(items.nth(1)).to_contain_text("Word 105.")
        with reader.same_page():
            earlier = reader.page.get_by_role("button", name="Show earlier messages")
            earlier.click()
            expect(items).to_have_count(201)
            expect(items.nth(1)).to_contain_text("Word 5.")
            work.reply(store, thread, sender="leader", summary="Word 205.")
            expect(items).to_have_count(202)
            earlier.click()
            expect(earlier).to_have_count(0)
            expect(items).to_have_count(207)
            work.reply(store, thread, sender="leader", summary="Word 206.")
            expect(items).to_have_count(208)
    expect(items.first).to_contain_text("The task itself")
    words = items.locator(".summary")
    expect(words).to_have_text([f"Word {number}." for number in range(207)])


def test_an_entry_of_a_thread_leads_there_and_back(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _thread(server, workspace.agent, "Ask me")
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "May I?")
    identity = server.entry_from(workspace.agent)["id"]
    reader = visit(server)
    reader.open(identity).locator(f'a[href="/threads/{thread}"]').click()
    reader.expect_path(f"/threads/{thread}")
    expect(reader.page.locator("article#thread")).to_contain_text("May I?")
    reader.page.go_back()
    expect(reader.of(identity)).to_be_visible()


def test_an_agent_that_pushes_is_alive(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    with at(workspace) as agent:
        agent.ok("inbox_push", comments="Here I am")
    reader = visit(server, "/agents")
    expect(reader.main.locator("li, tr").filter(has=reader.page.get_by_text(workspace.agent, exact=True))).to_contain_text(ALIVE)


def test_a_question_for_a_person_is_what_its_agent_waits_for(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I?", "--choice", "Yes", "--choice", "No")
    reader = visit(server, "/agents")
    agent = reader.main.locator("li.agent").filter(has=reader.page.get_by_text(workspace.agent, exact=True))
    expect(agent).to_contain_text("Waits for user")
    expect(reader.main.locator("li.agent").filter(has_text="(you)")).to_contain_text("Alive· here now")
    agent.get_by_role("link", name="May I?").click()
    expect(reader.of(identity)).to_be_visible()


def test_what_an_agent_holds_is_a_link_and_newcomers_appear(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _thread(server, workspace.agent, "Build it")
    reader = visit(server, "/agents")
    agent = reader.main.locator("li, tr").filter(has=reader.page.get_by_text(workspace.agent, exact=True))
    expect(agent).to_contain_text(ALIVE)
    agent.get_by_role("link", name=re.compile("Build it")).click()
    reader.expect_path(f"/threads/{thread}")
    reader.page.go_back()
    expect(agent).to_be_visible()
    newcomer = f"newcomer-{workspace.agent}"
    _thread(server, newcomer, "Welcome")
    expect(reader.main.get_by_text(newcomer, exact=True)).to_be_visible()


def test_of_several_open_questions_a_person_chooses_the_one_to_answer(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    thread = _thread(server, workspace.agent, "Two questions")
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "May I drop it?")
    server.inbox.ok("reply", "--from", "scout", "--to", "user", "--thread", thread, "--kind", "question", "--summary", "Fix the typo?")
    reader = visit(server, f"/threads/{thread}")
    reader.allow("409")
    reader.reply.fill("yes")
    reader.page.get_by_role("button", name="Send").click()
    expect(reader.page.get_by_text(re.compile("choose the one that you answer")).first).to_be_visible()
    asked = reader.page.locator("li.message", has_text="Fix the typo?")
    asked.get_by_role("button", name="Answer this").click()
    expect(reader.reply).to_have_value("yes")
    reader.press("Control+Enter")
    expect(reader.page.locator("li.message", has_text="Answers scout: Fix the typo?")).to_be_visible()
    expect(asked.locator(".badge", has_text="open")).to_have_count(0)
    expect(reader.page.locator("li.message", has_text="May I drop it?").locator(".badge", has_text="open")).to_be_visible()


def _asked_in_thread(server: RunningServer, agent: str, subject: str, question: str, payload: str) -> str:
    thread = _thread(server, agent, subject)
    blocked = ("--status", "blocked", "--summary", question, "--payload-json", payload)
    server.inbox.ok("update", "--agent", agent, "--thread", thread, *blocked)
    return thread


def test_a_choice_in_a_thread_can_be_taken_back(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    thread = _asked_in_thread(server, workspace.agent, "Publish", "Publish it?", '{"choices": ["Publish", "Wait"]}')
    reader = visit(server, f"/threads/{thread}")
    reader.page.get_by_role("group", name="Choices").get_by_role("button", name="Publish").click()
    expect(reader.toasts).to_contain_text("Sending: Publish")
    reader.press("z")
    expect(reader.toasts.get_by_text("Sending:")).to_have_count(0)
    assert _status(server, thread) == "blocked"
    expect(reader.page.locator("li.message .badge", has_text="open")).to_be_visible()
    reader.choose("Wait")
    expect(reader.page.locator("li.message[data-kind=answer]")).to_contain_text("Wait")
    expect(reader.page.locator("li.message .badge", has_text="open")).to_have_count(0)


def test_a_dangerous_choice_in_a_thread_is_confirmed(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    terms = '{"choices": ["Drop it", "Keep it"], "dangerous": ["Drop it"]}'
    thread = _asked_in_thread(server, workspace.agent, "Clean up", "Drop the table?", terms)
    reader = visit(server, f"/threads/{thread}")
    drop = reader.page.get_by_role("group", name="Choices").get_by_role("button", name="Drop it")
    expect(drop).to_be_visible()
    expect(reader.main.get_by_text("Payload")).to_have_count(0)  # it has nothing but the choices
    drop.click()
    expect(reader.dialog("Are you sure?")).to_contain_text("marked “Drop it” as dangerous")
    reader.press("Escape")
    expect(reader.page.get_by_role("dialog")).to_have_count(0)
    expect(reader.toasts.get_by_text("Sending:")).to_have_count(0)
    drop.click()
    reader.dialog("Are you sure?").get_by_role("button", name="Drop it").click()
    expect(reader.toasts).to_contain_text("Sending: Drop it")
    reader.press("Enter")
    expect(reader.page.locator("li.message[data-kind=answer]")).to_contain_text("Drop it")
    entry = server.entry_from(workspace.agent)
    assert entry["question"]["dangerous"] == ["Drop it"]


def test_a_reply_in_a_thread_that_is_taken_back_returns_to_the_field(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    thread = _thread(server, workspace.agent, "Talk")
    reader = visit(server, f"/threads/{thread}")
    reader.reply.fill("Too hasty")
    reader.press("Control+Enter")
    expect(reader.reply).to_have_value("")
    expect(reader.page.locator("li.message.waiting")).to_contain_text("Too hasty")
    reader.toasts.get_by_role("button", name="Undo").click()
    expect(reader.reply).to_have_value("Too hasty")
    expect(reader.page.locator("li.message.waiting")).to_have_count(0)
    assert len(server.inbox.ok("show", "--thread", thread)["messages"]) == 1


def test_a_reply_to_a_thread_waits_while_the_server_is_away(own: RunningServer, visit: BrowserTabs) -> None:
    thread = _thread(own, "coder", "Talk")
    reader = visit(own, f"/threads/{thread}")
    reader.allow(BROKEN_OFF)
    reader.page.route("**/reply", lambda route: route.abort("connectionrefused"))
    reader.send("Written offline")
    expect(reader.toasts).to_contain_text("sent when it is back")
    reader.page.unroute("**/reply")
    reader.page.reload()
    expect(reader.page.locator("li.message", has_text="Written offline")).to_have_count(1)
    expect(reader.reply).to_have_value("")
    told = [message["body"] for message in own.inbox.ok("show", "--thread", thread)["messages"]]
    assert told.count("Written offline") == 1


def test_messages_of_a_thread_are_rendered_as_in_the_inbox(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("notes.md", "# The notes\n\nAll of them.")
    workspace.write("dot.png", sample_data.picture())
    thread = _thread(server, workspace.agent, "تقرير", claimed=True)
    body = "هذا تقرير قصير.\n\n![The dot](dot.png)\n\nSee [the notes](notes.md).\n\n```\ncode\n```"
    server.inbox.ok(
        "update", "--agent", workspace.agent, "--thread", thread, "--status", "in_progress", "--summary", "Word", "--body", body
    )
    reader = visit(server, f"/threads/{thread}")
    article = reader.page.locator("article#thread")
    arabic = article.get_by_text("هذا تقرير قصير.")
    expect(arabic).to_have_css("direction", "rtl")
    expect(article.get_by_role("heading", level=1)).to_have_css("direction", "rtl")
    expect(article.get_by_role("img", name="The dot")).to_have_attribute("src", re.compile("^blob:"))
    expect(article.get_by_role("button", name="Copy")).to_be_visible()
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "in_progress", "--summary", "One more line")
    expect(article).to_contain_text("One more line")
    expect(article.get_by_role("img", name="The dot")).to_have_attribute("src", re.compile("^blob:"))  # it was not drawn again
    article.get_by_role("link", name="the notes").click()
    expect(reader.dialog("notes.md").get_by_role("heading", name="The notes")).to_be_visible()
