"""What happens elsewhere is seen here, at once, and what is said here is heard there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.reader import BROKEN_OFF, Visits
from tests.server.agents import at
from tests.server.conftest import MANY
from tests.server.office import Desk, Office

LOOK_AGAIN = 20_000  # milliseconds, where there is no stream


def test_what_an_agent_pushes_appears_without_a_reload(office: Office, desk: Desk, visit: Visits) -> None:
    reader = visit(office)
    with reader.same_page(), at(desk) as agent:
        identity = agent.ok("inbox_push", comments="The analysis is finished.")["entryId"]
        row = reader.row(identity)
        expect(row).to_contain_text(desk.label)
        expect(row).to_contain_text("The analysis is finished.")
        expect(row).to_have_attribute("data-read", "false")


def test_a_blocked_worker_is_answered_by_a_button_and_wakes(office: Office, desk: Desk, visit: Visits) -> None:
    reader = visit(office)
    run = office.inbox
    thread = run.ok("send", "--from", "user", "--to", desk.agent, "--subject", "Add the login page")["thread"]["thread_id"]
    run.ok("claim", "--agent", desk.agent, "--thread", thread)
    choices = json.dumps({"choices": ["E-mail", "Passkeys"]})
    said = ("--status", "blocked", "--summary", "Which auth?", "--payload-json", choices)
    run.ok("update", "--agent", desk.agent, "--thread", thread, *said)
    waiter = run.start("wait-reply", "--agent", desk.agent, "--thread", thread, "--json").sleeping()
    row = reader.page.locator(".row", has_text="Which auth?").filter(has_text=desk.label)
    row.locator("a").first.click()
    group = reader.page.get_by_role("group", name="Choices")
    expect(group.get_by_role("button")).to_have_text([re.compile("E-mail"), re.compile("Passkeys")])
    group.get_by_role("button", name="Passkeys").click()
    finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    message = finished.json["message"]
    assert (message["kind"], message["summary"], message["from_agent"], message["verified"]) == ("answer", "Passkeys", "user", True)
    expect(group).to_have_count(0)
    expect(reader.detail.locator(".question")).to_contain_text("Passkeys")


def test_a_reply_reaches_the_agent_and_is_seen_once_it_was_read(office: Office, desk: Desk, visit: Visits) -> None:
    reader = visit(office)
    with at(desk) as agent:
        identity = agent.ok("inbox_push", comments="Done. Extend it?")["entryId"]
        reader.open(identity)
        reader.send("Yes, by a page")
        said = reader.conversation.get_by_role("listitem").filter(has_text="Yes, by a page")
        expect(said.locator(".seen")).to_have_text("Not seen yet")
        expect(reader.reply).to_have_value("")
        with reader.same_page():
            (message,) = agent.ok("inbox_read")["messages"]
            assert (message["body"], message["verified"]) == ("Yes, by a page", True)
            expect(said.locator(".seen")).to_contain_text(f"Seen by {desk.agent}")


def test_what_is_read_and_deleted_elsewhere_is_so_here(office: Office, desk: Desk, visit: Visits) -> None:
    identity = desk.push(comments="Read me elsewhere")
    reader = visit(office)
    expect(reader.row(identity)).to_have_attribute("data-read", "false")
    with reader.same_page():
        office.person.put(f"/api/inbox/{identity}/read")
        expect(reader.row(identity)).to_have_attribute("data-read", "true")
        office.person.delete(f"/api/inbox/{identity}/read")
        expect(reader.row(identity)).to_have_attribute("data-read", "false")
        office.person.delete(f"/api/inbox/{identity}")
        expect(reader.row(identity)).to_have_count(0)


def test_an_entry_that_is_deleted_elsewhere_while_it_is_open_is_closed(office: Office, desk: Desk, visit: Visits) -> None:
    identity = desk.push(comments="Soon gone")
    reader = visit(office)
    reader.allow("404")
    reader.open(identity)
    office.person.delete(f"/api/inbox/{identity}")
    expect(reader.row(identity)).to_have_count(0)
    expect(reader.main).not_to_contain_text("Soon gone")


def test_without_a_stream_the_page_looks_again_every_20_seconds(office: Office, desk: Desk, visit: Visits) -> None:
    reader = visit(office, clock=True)
    reader.allow("ERR_FAILED")
    reader.page.route("**/api/events*", lambda route: route.abort())
    reader.page.reload()
    expect(reader.connection).to_have_text("Disconnected. Looking again every 20 s.")
    identity = desk.push(comments="Found by looking")
    with reader.same_page():
        expect(reader.row(identity)).to_have_count(0)
        reader.page.clock.fast_forward(LOOK_AGAIN)
        expect(reader.row(identity)).to_be_visible()


@pytest.mark.parametrize("killed", [False, True], ids=["asked to stop", "killed"])
def test_a_server_that_comes_back_is_found_and_what_was_missed_is_shown(found: Callable[..., Office], visit: Visits, killed: bool) -> None:
    office = found("--rate", MANY).open()
    desk = office.desk()
    before = desk.push(comments="Before")
    reader = visit(office, clock=True)
    reader.allow(BROKEN_OFF)
    reader.open(before)
    reader.reply.fill("Half a sent")
    expect(reader.connection).to_have_text("Live")
    port = office.url.rpartition(":")[2]
    with reader.same_page():
        office.kill() if killed else office.close()
        expect(reader.connection).to_contain_text("Disconnected")
        expect(reader.page.locator("html")).to_have_attribute("data-live", "away")
        office.inbox.ok("push", "--agent", desk.agent, "--comments", "While nobody listened")
        office.open("--port", port)
        after = desk.push(comments="Afterwards")
        reader.page.clock.fast_forward(LOOK_AGAIN)
        reader.expect_live()
        expect(reader.connection).to_have_text("Live")
        expect(reader.row(after)).to_be_visible()
        expect(reader.rows.filter(has_text="While nobody listened")).to_be_visible()
        expect(reader.reply).to_have_value("Half a sent")
