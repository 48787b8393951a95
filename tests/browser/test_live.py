"""Live updates: the page shows changes of other programs at once, and other programs see what a person does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.browser.browser_page import BROKEN_OFF, BrowserTabs
from tests.cli.process import eventually
from tests.server.agents import at
from tests.server.conftest import MANY
from tests.server.running_server import RunningServer, WorkspaceClient

LOOK_AGAIN = 20_000  # milliseconds, where there is no stream


def test_what_an_agent_pushes_appears_without_a_reload(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = visit(server)
    with reader.same_page(), at(workspace) as agent:
        identity = agent.ok("inbox_push", comments="The analysis is finished.")["entryId"]
        row = reader.row(identity)
        expect(row).to_contain_text(workspace.label)
        expect(row).to_contain_text("The analysis is finished.")
        expect(row).to_have_attribute("data-read", "false")


def test_a_blocked_worker_is_answered_by_a_button_and_wakes(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    reader = visit(server)
    run = server.inbox
    thread = run.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Add the login page")["thread"]["thread_id"]
    run.ok("claim", "--agent", workspace.agent, "--thread", thread)
    choices = json.dumps({"choices": ["E-mail", "Passkeys"]})
    said = ("--status", "blocked", "--summary", "Which auth?", "--payload-json", choices)
    run.ok("update", "--agent", workspace.agent, "--thread", thread, *said)
    waiter = run.start("wait-reply", "--agent", workspace.agent, "--thread", thread, "--json").sleeping()
    row = reader.page.locator(".row", has_text="Which auth?").filter(has_text=workspace.label)
    row.locator("a").first.click()
    group = reader.page.get_by_role("group", name="Choices")
    expect(group.get_by_role("button")).to_have_text([re.compile("E-mail"), re.compile("Passkeys")])
    reader.choose("Passkeys")
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    message = finished.json["message"]
    assert (message["kind"], message["summary"], message["from_agent"], message["verified"]) == ("answer", "Passkeys", "user", True)
    expect(group).to_have_count(0)
    expect(reader.detail.locator(".question")).to_contain_text("Passkeys")


def test_a_reply_reaches_the_agent_and_is_seen_once_it_was_read(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    reader = visit(server)
    with at(workspace) as agent:
        identity = agent.ok("inbox_push", comments="Done. Extend it?")["entryId"]
        reader.open(identity)
        reader.send("Yes, by a page")
        said = reader.conversation.get_by_role("listitem").filter(has_text="Yes, by a page")
        expect(said.locator(".seen")).to_have_text("Not seen yet")
        expect(reader.reply).to_have_value("")
        with reader.same_page():
            (message,) = agent.ok("inbox_read")["messages"]
            assert (message["body"], message["verified"]) == ("Yes, by a page", True)
            assert agent.ok("inbox_read")["messages"] == []  # its next call confirms that the message arrived
            expect(said.locator(".seen")).to_contain_text(f"Seen by {workspace.agent}")


def test_what_is_read_and_deleted_elsewhere_is_so_here(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Read me elsewhere")
    reader = visit(server)
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    with reader.same_page():
        server.person.put(f"/api/inbox/{identity}/read")
        expect(reader.row(identity)).to_have_attribute("data-read", "true")
        server.person.delete(f"/api/inbox/{identity}/read")
        expect(reader.row(identity)).to_have_attribute("data-read", "false")
        server.person.delete(f"/api/inbox/{identity}")
        expect(reader.row(identity)).to_have_count(0)


def test_an_entry_that_is_deleted_elsewhere_while_it_is_open_is_closed(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Soon gone")
    reader = visit(server)
    reader.allow("404")
    reader.open(identity)
    server.person.delete(f"/api/inbox/{identity}")
    expect(reader.row(identity)).to_have_count(0)
    expect(reader.main).not_to_contain_text("Soon gone")


def test_without_a_stream_the_page_looks_again_every_20_seconds(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    reader = visit(server, clock=True)
    reader.allow("ERR_FAILED")
    reader.page.route("**/api/events*", lambda route: route.abort())
    reader.page.reload()
    expect(reader.connection).to_have_text("Disconnected. Looking again every 20 s.")
    identity = workspace.push(comments="Found by looking")
    with reader.same_page():
        expect(reader.row(identity)).to_have_count(0)
        reader.page.clock.fast_forward(LOOK_AGAIN)
        expect(reader.row(identity)).to_be_visible()


def test_a_look_that_finds_nothing_new_is_answered_without_content(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    identity = workspace.push(comments="As it was")
    reader = visit(emptied, clock=True)
    reader.open(identity)
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    expect(reader.detail).to_contain_text("As it was")
    reader.page.clock.fast_forward(LOOK_AGAIN)  # the first look learns what marking it as read has changed
    asked = ("/api/summary", "/api/inbox/history?limit", "/api/inbox/history?pinned", f"/api/inbox/{identity}?")

    def statuses_of_a_look() -> list[int]:
        with ExitStack() as stack:
            awaited = [stack.enter_context(reader.page.expect_response(re.compile(re.escape(path)))) for path in asked]
            reader.page.clock.fast_forward(LOOK_AGAIN)
        return [answer.value.status for answer in awaited]

    eventually(lambda: statuses_of_a_look() == [304] * len(asked))
    later = workspace.push(comments="Something new")
    expect(reader.row(later)).to_be_visible()


@pytest.mark.parametrize("killed", [False, True], ids=["asked to stop", "killed"])
def test_a_server_that_comes_back_is_found_and_what_was_missed_is_shown(
    found: Callable[..., RunningServer], visit: BrowserTabs, killed: bool
) -> None:
    server = found("--rate", MANY).open()
    workspace = server.add_workspace()
    before = workspace.push(comments="Before")
    reader = visit(server, clock=True)
    reader.allow(BROKEN_OFF)
    reader.open(before)
    reader.reply.fill("Half a sent")
    expect(reader.connection).to_have_text("Live")
    port = server.url.rpartition(":")[2]
    with reader.same_page():
        server.kill() if killed else server.close()
        expect(reader.connection).to_contain_text("Disconnected")
        expect(reader.page.locator("html")).to_have_attribute("data-live", "away")
        server.inbox.ok("push", "--agent", workspace.agent, "--comments", "While nobody listened")
        server.open("--port", port)
        after = workspace.push(comments="Afterwards")
        reader.page.clock.fast_forward(LOOK_AGAIN)
        reader.expect_live()
        expect(reader.connection).to_have_text("Live")
        expect(reader.row(after)).to_be_visible()
        expect(reader.rows.filter(has_text="While nobody listened")).to_be_visible()
        expect(reader.reply).to_have_value("Half a sent")
