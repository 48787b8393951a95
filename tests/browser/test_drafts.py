"""Drafts: a text that is being typed is never lost, and a text that was sent is sent once."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from tests.browser.browser_page import BrowserTabs
from tests.server.agents import at
from tests.server.running_server import RunningServer, WorkspaceClient

SOURCES = """() => performance.getEntriesByType("resource").filter(({ name }) => name.includes("/web/"))
  .map(({ workerFinalSourceType }) => workerFinalSourceType)"""
CARET = "[document.activeElement.id, document.activeElement.selectionStart, document.activeElement.selectionEnd]"


def test_a_draft_survives_a_reload_and_belongs_to_its_entry(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    first, second = workspace.push(comments="First"), workspace.push(comments="Second")
    reader = visit(server)
    reader.open(first)
    reader.reply.fill("For the first")
    reader.open(second)
    expect(reader.reply).to_have_value("")
    reader.reply.fill("For the second")
    reader.page.reload()
    expect(reader.of(second)).to_be_visible()
    expect(reader.reply).to_have_value("For the second")
    reader.open(first)
    expect(reader.reply).to_have_value("For the first")
    reader.page.get_by_role("button", name="Send").click()
    expect(reader.conversation).to_contain_text("For the first")
    expect(reader.reply).to_have_value("")
    reader.page.reload()
    expect(reader.conversation).to_contain_text("For the first")
    expect(reader.reply).to_have_value("")
    assert server.entry(first)["replies"] == 1


def test_typing_goes_on_while_everything_around_it_changes(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """The entry's own receipts, a new entry above it and a file of it change; caret, selection and focus stay."""
    workspace.write("notes.md", "# Before\n")
    identity = workspace.push("notes.md", comments="Type here")
    reader = visit(server)
    reader.open(identity)
    reader.send("An earlier reply")
    expect(reader.conversation).to_contain_text("An earlier reply")
    reader.reply.click()
    reader.page.keyboard.type("Dear agent")
    reader.press("ArrowLeft", "ArrowLeft", "Shift+ArrowLeft")
    before = reader.value(CARET)
    with at(workspace) as agent:
        agent.ok("inbox_read")
        pushed = agent.ok("inbox_push", comments="Meanwhile")["entryId"]  # this call confirms what the one before handed over
        expect(reader.conversation.locator(".seen")).to_contain_text("Seen by")
        expect(reader.row(pushed)).to_be_visible()
    server.person.put(f"/api/inbox/{pushed}/read")
    expect(reader.row(pushed)).to_have_attribute("data-read", "true")
    assert reader.value(CARET) == before
    expect(reader.reply).to_be_focused()
    expect(reader.reply).to_have_value("Dear agent")
    reader.page.keyboard.type("X")
    expect(reader.reply).to_have_value("Dear agXnt")  # in place of what was selected


def test_a_reply_whose_answer_was_lost_is_sent_again_and_stored_once(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Say it once")
    reader = visit(server)
    reader.allow("ERR_")
    reader.open(identity)
    keys: list[str | None] = []

    def lose(route: Route) -> None:
        keys.append(route.request.headers.get("idempotency-key"))
        if len(keys) == 1:
            assert route.fetch().status == 201
            route.abort()
        else:
            route.continue_()

    reader.page.route(f"**/api/inbox/{identity}/reply", lose)
    reader.send("Only once")
    expect(reader.reply).to_have_value("Only once")  # nobody knows yet whether it arrived
    reader.page.get_by_role("button", name="Send").click()
    expect(reader.reply).to_have_value("")
    expect(reader.conversation.get_by_role("listitem").filter(has_text="Only once")).to_have_count(1)
    assert keys[0]
    assert set(keys) == {keys[0]}
    assert [reply["body"] for reply in server.conversation(identity)[1]] == ["Only once"]


def test_a_reply_that_is_refused_says_why_and_keeps_the_words(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Refused")
    reader = visit(server)
    reader.allow("503")
    reader.open(identity)
    refusal = {"ok": False, "error": {"code": "store_busy", "message": "the store is busy", "hint": "Try again."}}
    reader.page.route(f"**/api/inbox/{identity}/reply", lambda route: route.fulfill(status=503, json=refusal))
    reader.send("Keep these words")
    expect(reader.page.get_by_text("the store is busy", exact=False).first).to_be_visible()
    expect(reader.reply).to_have_value("Keep these words")
    reader.page.unroute(f"**/api/inbox/{identity}/reply")
    reader.page.get_by_role("button", name="Send").click()
    expect(reader.conversation).to_contain_text("Keep these words")
    expect(reader.reply).to_have_value("")


def test_two_tabs_do_not_lose_each_other_s_drafts(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    first, second = workspace.push(comments="In one tab"), workspace.push(comments="In the other")
    reader = visit(server)
    other = visit.tab(server, reader.context)
    other.go(f"/inbox/{second}")
    reader.open(first)
    reader.reply.fill("One")
    other.reply.fill("Other")
    reader.page.reload()
    other.page.reload()
    expect(reader.reply).to_have_value("One")
    expect(other.reply).to_have_value("Other")


def test_the_same_words_can_be_said_twice(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Twice")
    reader = visit(server)
    reader.open(identity)
    for number in (1, 2):
        reader.send("Yes")
        expect(reader.conversation.get_by_role("listitem").filter(has_text="Yes")).to_have_count(number)
    assert [reply["body"] for reply in server.conversation(identity)[1]] == ["Yes", "Yes"]


def test_what_is_written_while_the_network_is_away_is_sent_once(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Answer on the train")
    reader = visit(server, f"/inbox/{identity}", service_workers="allow")
    reader.allow("ERR_")
    expect(reader.reply).to_be_enabled()
    reader.value("navigator.serviceWorker.ready.then(() => true)")
    reader.page.reload()
    expect(reader.reply).to_be_enabled()
    assert set(reader.page.evaluate(SOURCES)) == {"network"}  # past the worker: out of the browser's own cache
    reader.context.set_offline(True)
    reader.send("From the tunnel")
    expect(reader.toasts).to_contain_text("Your words are kept")
    reader.page.close()  # it is kept by the browser, not by the page
    again = visit.tab(server, reader.context)
    again.allow("ERR_")
    again.go(f"/inbox/{identity}")
    expect(again.main).to_contain_text("The server cannot be reached")  # the page itself is there, and shows nothing old as if it were live
    expect(again.rows).to_have_count(0)
    assert server.conversation(identity)[1] == []
    reader.context.set_offline(False)
    again.page.reload()
    expect(again.toasts).to_contain_text("is sent")
    expect(again.conversation.get_by_role("listitem").filter(has_text="From the tunnel")).to_have_count(1)
    expect(again.reply).to_have_value("")
    again.page.reload()
    again.expect_live()
    assert [reply["body"] for reply in server.conversation(identity)[1]] == ["From the tunnel"]


def test_an_answer_that_is_given_while_the_server_is_away_says_that_it_waits(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = server.ask(workspace.agent, "Publish?", "--choice", "Yes", "--choice", "No", "--choice", "Later")
    reader = visit(server, "/questions")
    reader.allow("ERR_")
    expect(reader.row(identity)).to_be_visible()
    reader.page.route("**/reply", lambda route: route.abort("connectionrefused"))
    reader.context.set_offline(True)
    reader.row(identity).get_by_role("button", name="Later").click()
    reader.press("Enter")
    expect(reader.row(identity)).to_contain_text("“Later” is sent when the server is back")
    expect(reader.row(identity).get_by_role("button", name="Yes")).to_have_count(0)
    reader.row(identity).locator("a").first.click()
    expect(reader.main).to_contain_text("The server cannot be reached")
    expect(reader.detail.get_by_role("heading", name="Publish?")).to_be_visible()  # what the list knows
    reader.context.set_offline(False)
    reader.main.get_by_role("button", name="Try again").click()
    question = reader.detail.locator(".question")
    expect(question).to_contain_text("“Later” is sent when the server is back")
    reader.choose("No")  # the last choice holds
    expect(question).to_contain_text("“No” is sent when the server is back")
    reader.page.unroute("**/reply")
    reader.page.reload()
    expect(reader.toasts).to_contain_text("is sent")
    expect(question).to_contain_text("No by user")
    assert [reply["body"] for reply in server.conversation(identity)[1]] == ["No"]


def test_two_replies_in_a_row_are_both_sent(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """The second one is written while the first can still be taken back."""
    identity = workspace.push(comments="Here it is")
    reader = visit(server)
    reader.open(identity)
    for words in ("The first", "The second"):
        reader.reply.fill(words)
        reader.press("Control+Enter")
        expect(reader.reply).to_have_value("")
    reader.reply.press("Enter")
    expect(reader.conversation.get_by_text("Not seen yet")).to_have_count(2)
    _, replies = server.conversation(identity)
    assert sorted(reply["body"] for reply in replies) == ["The first", "The second"]
