"""Proposals that are decided from their row in the list: with the mouse, with a finger, and by keys."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def _decision(server: RunningServer, identity: str) -> dict[str, Any]:
    found: dict[str, Any] = server.entry(identity)["question"].get("decision") or {}
    return found


def _button(reader: BrowserPage, identity: str, name: str) -> Locator:
    return reader.row(identity).get_by_role("button", name=name, exact=True)


@pytest.mark.parametrize("options", [{}, PHONE], ids=["mouse", "finger"])
def test_a_proposal_is_approved_and_rejected_in_its_row(emptied: RunningServer, visit: BrowserTabs, options: dict[str, Any]) -> None:
    agent = emptied.add_workspace().agent
    wanted, unwanted = (emptied.ask(agent, "May I send it?", "--propose", f"Dear {name}, yes.") for name in ("Ada", "Globex"))
    reader = visit(emptied, "/questions", **options)
    press = Locator.tap if options else Locator.click
    expect(reader.row(wanted)).to_contain_text("Dear Ada, yes.")
    press(_button(reader, wanted, "Approve"))
    expect(reader.row(wanted)).to_have_count(0)
    press(reader.toasts.get_by_role("button", name="Undo"))
    expect(reader.row(wanted)).to_be_visible()
    assert _decision(emptied, wanted) == {}
    press(_button(reader, unwanted, "Reject…"))
    dialog = reader.dialog("Reject this proposal?")
    expect(dialog).to_contain_text("Dear Globex, yes.")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    reader.page.keyboard.type("They owe us money")
    press(dialog.get_by_role("button", name="Reject"))
    expect(reader.row(unwanted)).to_have_count(0)
    press(_button(reader, wanted, "Approve"))
    reader.go("/questions")  # leaving the page sends both
    eventually(lambda: _decision(emptied, wanted).get("type") == "approve")
    eventually(lambda: _decision(emptied, unwanted).get("reason") == "They owe us money")
    expect(reader.main).to_contain_text("No open questions")


def test_a_reason_is_kept_until_the_rejection_is_sent(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "May I send it?", "--propose", "Dear Globex, no.")
    reader = visit(server, "/questions")
    dialog = reader.dialog("Reject this proposal?")
    _button(reader, identity, "Reject…").click()
    dialog.get_by_label("Reason").fill("Too short")
    reader.press("Escape")
    _button(reader, identity, "Reject…").click()
    expect(dialog.get_by_label("Reason")).to_have_value("Too short")
    reader.press("Enter")
    expect(reader.toasts).to_contain_text("Sending: Reject")
    reader.press("z")
    _button(reader, identity, "Reject…").click()
    expect(dialog.get_by_label("Reason")).to_have_value("Too short")
    reader.press("Enter")
    expect(reader.row(identity)).to_have_count(0)
    reader.press("Enter")
    eventually(lambda: _decision(server, identity).get("reason") == "Too short")
    eventually(lambda: reader.value(f"localStorage.getItem('postroom.draft.proposal:{identity}')") is None)


def test_a_row_approves_what_was_written_into_its_proposal(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    flags = ("--propose-json", '{"action": "send_mail", "args": {"amount": 12}}')
    identity = server.ask(workspace.agent, "May I send it?", *flags)
    reader = visit(server, "/questions")
    expect(reader.row(identity)).to_contain_text('send_mail {"amount":12}')
    _button(reader, identity, "Edit").click()
    field = reader.page.get_by_role("textbox", name="Proposal")
    expect(field).to_be_focused()
    field.fill('{"amount": }')
    reader.room("Needs you")
    approve = _button(reader, identity, "Approve with changes")
    approve.click()
    expect(field).to_be_focused()  # it is not JSON: the row does not send what was there before
    expect(reader.detail).to_contain_text("The arguments are not JSON")
    field.fill('{"amount": 7}')
    reader.room("Needs you")
    approve.click()
    reader.press("Enter")
    eventually(lambda: _decision(server, identity).get("type") == "edit")
    assert _decision(server, identity)["proposal"] == {"action": "send_mail", "args": {"amount": 7}}


def test_a_proposal_in_the_list_is_decided_by_number_keys(emptied: RunningServer, visit: BrowserTabs) -> None:
    agent = emptied.add_workspace().agent
    for name in ("Ada", "Globex"):
        emptied.ask(agent, f"May I write to {name}?", "--propose", f"Dear {name}")
    reader = visit(emptied, "/questions")
    expect(reader.rows).to_have_count(2)
    reader.press("j")
    first = str(reader.cursor.get_attribute("data-id"))
    reader.press("1", "Enter")
    eventually(lambda: _decision(emptied, first).get("type") == "approve")
    expect(reader.rows).to_have_count(1)
    reader.press("j")
    second = str(reader.cursor.get_attribute("data-id"))
    reader.press("2")
    expect(reader.dialog("Reject this proposal?").get_by_label("Reason")).to_be_focused()
    reader.page.keyboard.type("No")
    reader.press("Enter", "Enter")
    eventually(lambda: _decision(emptied, second).get("reason") == "No")


def test_a_double_click_in_a_row_answers_one_question(emptied: RunningServer, visit: BrowserTabs) -> None:
    agent = emptied.add_workspace().agent
    asked = [emptied.ask(agent, f"Number {number}?", "--choice", "Yes", "--choice", "No") for number in range(3)]
    reader = visit(emptied, "/questions")
    expect(reader.rows).to_have_count(3)
    reader.rows.first.get_by_role("button", name="Yes").dblclick()
    expect(reader.rows).to_have_count(2)
    reader.press("Enter")
    eventually(lambda: [emptied.entry(each)["question"]["state"] for each in asked].count("answered") == 1)
    expect(reader.toasts.get_by_text("Sending:")).to_have_count(0)
    expect(reader.rows).to_have_count(2)


def test_short_choices_are_not_cut_and_more_of_them_are_announced(emptied: RunningServer, visit: BrowserTabs) -> None:
    agent = emptied.add_workspace().agent
    three, six = ("Publish at noon", "Tomorrow morning", "Not yet"), [f"Option {number}" for number in range(6)]
    cut = emptied.ask(agent, "Publish?", *(word for choice in three for word in ("--choice", choice)))
    many = emptied.ask(agent, "Which one?", *(word for choice in six for word in ("--choice", choice)))
    reader = visit(emptied, "/questions", viewport={"width": 1000, "height": 700})
    expect(_button(reader, cut, "Publish at noon")).to_have_attribute("title", "Publish at noon")
    assert _button(reader, cut, "Not yet").evaluate("button => button.scrollWidth <= button.clientWidth")
    shown = reader.row(many).get_by_role("group", name="Choices").get_by_role("button")
    expect(shown).to_have_text(["Option 0", "Option 1", "4 more…"])
    shown.last.click()
    expect(reader.of(many).get_by_role("group", name="Choices").get_by_role("button")).to_have_text(six)
    expect(reader.of(many).get_by_role("button", name="Option 0")).to_be_focused()


def test_an_answered_row_stays_away_until_its_answer_failed(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "Ship it?", "--choice", "Yes", "--choice", "No")
    reader = visit(server, "/questions")
    reader.allow("status of 409")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    reader.page.route(f"**/{identity}/reply", hold)
    _button(reader, identity, "Yes").click()
    with reader.page.expect_request(f"**/{identity}/reply"):
        reader.press("Enter")
    expect(reader.toasts.get_by_text("Sending:")).to_have_count(0)
    reader.press("Escape")
    expect(reader.row(identity)).to_have_count(0)  # it is on its way
    held[0].fulfill(status=409, json={"error": {"code": "invalid_state", "message": "Not now", "hint": ""}})
    expect(reader.toasts).to_contain_text("The reply was not sent. Not now")
    expect(_button(reader, identity, "Yes")).to_be_visible()
