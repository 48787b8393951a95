"""Questions: choices as buttons, deadlines that count, and what silence means."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.reader import Visits
from tests.server.office import Desk, Office


def test_a_deadline_counts_down_and_says_what_silence_means(office: Office, desk: Desk, visit: Visits) -> None:
    silence = ("--deadline-seconds", "3600", "--on-silence", "default", "--default", "Tomorrow")
    identity = office.ask(desk.agent, "Publish it?", "--choice", "Today", "--choice", "Tomorrow", *silence)
    reader = visit(office, clock=True)
    reader.open(identity)
    left = reader.detail.locator("[data-countdown]")
    expect(left).to_contain_text(re.compile(r"59:\d\d|1:00:00"))
    expect(left).to_contain_text("Tomorrow")
    reader.page.clock.fast_forward("30:00")
    expect(left).to_contain_text(re.compile(r"29:\d\d"))
    reader.page.clock.fast_forward("29:30")
    expect(left).to_contain_text(re.compile(r"\b0?0:[0-3]\d|\b[0-3]?\d s"))


def test_silence_can_be_a_refusal_or_go_to_somebody_else(office: Office, desk: Desk, visit: Visits) -> None:
    if "ada" not in str(office.inbox.ok("agent", "list")):
        office.inbox.ok("agent", "add", "ada", "--kind", "human")
    soon = ("--deadline-seconds", "600", "--on-silence")
    refused, escalated = (
        office.ask(desk.agent, "May I?", *soon, "refuse"),
        office.ask(desk.agent, "Who?", *soon, "escalate", "--escalate-to", "ada"),
    )
    reader = visit(office)
    reader.open(refused)
    expect(reader.detail.locator("[data-countdown]")).to_contain_text(re.compile("refus|no", re.IGNORECASE))
    reader.open(escalated)
    expect(reader.detail.locator("[data-countdown]")).to_contain_text("ada")


def test_numbers_that_are_typed_do_not_choose(office: Office, desk: Desk, visit: Visits) -> None:
    identity = office.ask(desk.agent, "How many?", "--choice", "One", "--choice", "Two")
    reader = visit(office)
    reader.open(identity)
    reader.reply.click()
    reader.page.keyboard.type("12 of them")
    expect(reader.reply).to_have_value("12 of them")
    reader.search.click()
    reader.page.keyboard.type("2")
    expect(reader.search).to_have_value("2")
    assert office.entry(identity)["question"]["state"] == "open"


def test_a_question_that_is_answered_elsewhere_shows_it_and_takes_no_other(office: Office, desk: Desk, visit: Visits) -> None:
    identity = office.ask(desk.agent, "Ship it?", "--choice", "Ship", "--choice", "Wait")
    reader = visit(office)
    reader.open(identity)
    group = reader.page.get_by_role("group", name="Choices")
    expect(group.get_by_role("button")).to_have_count(2)
    with reader.same_page():
        office.inbox.ok("entry", "reply", identity, "--body", "Wait")
        expect(group).to_have_count(0)
        expect(reader.detail.locator(".question")).to_contain_text("Wait")
        expect(reader.conversation).to_contain_text("Wait")
        expect(reader.conversation).to_contain_text(re.compile("unverified", re.IGNORECASE))  # whoever has the machine can say so


def test_a_choice_is_sent_once_however_often_it_is_pressed(office: Office, desk: Desk, visit: Visits) -> None:
    identity = office.ask(desk.agent, "Once?", "--choice", "Yes", "--choice", "No")
    reader = visit(office)
    reader.open(identity)
    reader.page.get_by_role("group", name="Choices").get_by_role("button", name="Yes").dblclick()
    expect(reader.conversation.get_by_role("listitem").filter(has_text="Yes")).to_have_count(1)
    entry, replies = office.conversation(identity)
    assert (entry["question"]["choice"], [reply["body"] for reply in replies]) == ("Yes", ["Yes"])


def test_a_question_can_be_answered_in_other_words(office: Office, desk: Desk, visit: Visits) -> None:
    identity = office.ask(desk.agent, "Which one?", "--choice", "A", "--choice", "B")
    reader = visit(office)
    reader.open(identity)
    reader.send("Neither")
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)
    expect(reader.conversation).to_contain_text("Neither")
    expect(reader.detail.locator(".question")).to_contain_text("by user")
    assert office.entry(identity)["question"]["answer"] == "Neither"


def test_silence_that_has_answered_is_shown_as_such(office: Office, desk: Desk, visit: Visits) -> None:
    silence = ("--deadline-seconds", "1", "--on-silence", "default", "--default", "Wait")
    identity = office.ask(desk.agent, "Ship?", "--choice", "Ship", "--choice", "Wait", *silence)
    reader = visit(office)
    reader.open(identity)
    expect(reader.detail.locator(".question")).to_contain_text("so “Wait” holds")  # the server tells when the time is over
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)
    assert office.entry(identity)["question"]["state"] == "default"


def test_the_end_of_its_thread_ends_a_question(office: Office, desk: Desk, visit: Visits) -> None:
    run = office.inbox
    thread = run.ok("send", "--from", "user", "--to", desk.agent, "--subject", "Build")["thread"]["thread_id"]
    run.ok("claim", "--agent", desk.agent, "--thread", thread)
    choices = '{"choices": ["This", "That"]}'
    run.ok("update", "--agent", desk.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?", "--payload-json", choices)
    identity = office.entry_from(desk.agent)["id"]
    reader = visit(office)
    reader.open(identity)
    expect(reader.page.get_by_role("group", name="Choices")).to_be_visible()
    run.ok("cancel", "--agent", "user", "--thread", thread, "--reason", "Not any more")
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)


def test_open_questions_are_told_from_answered_ones_in_the_list(office: Office, desk: Desk, visit: Visits) -> None:
    identity = office.ask(desk.agent, "Still open?")
    reader = visit(office)
    row = reader.row(identity)
    expect(row).to_be_visible()
    before = row.inner_html()
    office.reply(identity, "Not any more")
    expect(row).to_have_attribute("data-read", "true")
    assert row.inner_html() != before
    expect(row).to_contain_text(re.compile("answered", re.IGNORECASE))
