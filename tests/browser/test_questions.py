"""Questions: choices as buttons, deadlines that count, and what silence means."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserTabs
from tests.server.running_server import RunningServer, WorkspaceClient


def test_a_deadline_counts_down_and_says_what_silence_means(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    silence = ("--deadline-seconds", "3600", "--on-silence", "default", "--default", "Tomorrow")
    identity = server.ask(workspace.agent, "Publish it?", "--choice", "Today", "--choice", "Tomorrow", *silence)
    reader = visit(server, clock=True)
    reader.open(identity)
    left = reader.detail.locator("[data-countdown]")
    expect(left).to_contain_text(re.compile(r"59:\d\d|1:00:00"))
    expect(left).to_contain_text("Tomorrow")
    reader.page.clock.fast_forward("30:00")
    expect(left).to_contain_text(re.compile(r"29:\d\d"))
    reader.page.clock.fast_forward("29:30")
    expect(left).to_contain_text(re.compile(r"\b0?0:[0-3]\d|\b[0-3]?\d s"))


def test_silence_can_be_a_refusal_or_go_to_somebody_else(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    if "ada" not in str(server.inbox.ok("agent", "list")):
        server.inbox.ok("agent", "add", "ada", "--kind", "human")
    soon = ("--deadline-seconds", "600", "--on-silence")
    refused, escalated = (
        server.ask(workspace.agent, "May I?", *soon, "refuse"),
        server.ask(workspace.agent, "Who?", *soon, "escalate", "--escalate-to", "ada"),
    )
    reader = visit(server)
    reader.open(refused)
    expect(reader.detail.locator("[data-countdown]")).to_contain_text(re.compile("refus|no", re.IGNORECASE))
    reader.open(escalated)
    expect(reader.detail.locator("[data-countdown]")).to_contain_text("ada")


def test_a_question_below_a_long_document_is_one_button_away(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("long.md", "\n\n".join(f"Paragraph {number}" for number in range(200)))
    matter = workspace.push("long.md", comments="Read it")
    server.ask(workspace.agent, "Is it right?", "--choice", "Yes", "--choice", "No", "--add-to", matter)
    reader = visit(server, f"/questions/{matter}")
    question, jump = reader.detail.locator(".question"), reader.page.get_by_role("button", name="Go to the question")
    expect(question).not_to_be_in_viewport()
    jump.click()
    expect(question).to_be_in_viewport()
    expect(jump).to_be_hidden()
    expect(question.get_by_role("button", name="Yes")).to_be_focused()
    reader.detail.locator(".scroll").evaluate("text => text.scrollTo(0, 0)")
    expect(jump).to_be_visible()
    reader.press("1", "Enter")
    expect(jump).to_be_hidden()


def test_a_number_answers_no_question_that_took_the_place_of_the_one_that_was_read(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    calm = server.ask(workspace.agent, "Rename the report?", "--choice", "Yes", "--choice", "No")
    reader = visit(server, "/questions")
    expect(reader.row(calm)).to_contain_text("Rename the report?")
    reader.press("j")
    while reader.cursor.get_attribute("data-id") != calm:
        reader.press("j")
    urgent = server.ask(
        workspace.agent, "Drop the table?", "--choice", "Drop", "--choice", "Keep", "--add-to", calm, "--deadline-seconds", "600"
    )
    expect(reader.row(calm)).to_contain_text("Drop the table?")
    reader.press("1")
    expect(reader.page.get_by_role("status").filter(has_text="This is another question now")).to_be_visible()
    assert server.entry(urgent)["question"]["state"] == "open"
    with reader.page.expect_response(re.compile(f"{urgent}/reply")):
        reader.press("1", "Enter")
    assert server.entry(calm)["question"]["state"] == "open"


def test_numbers_that_are_typed_do_not_choose(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "How many?", "--choice", "One", "--choice", "Two")
    reader = visit(server)
    reader.open(identity)
    reader.reply.click()
    reader.page.keyboard.type("12 of them")
    expect(reader.reply).to_have_value("12 of them")
    reader.search.click()
    reader.page.keyboard.type("2")
    expect(reader.search).to_have_value("2")
    assert server.entry(identity)["question"]["state"] == "open"


def test_a_question_that_is_answered_elsewhere_shows_it_and_takes_no_other(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = server.ask(workspace.agent, "Ship it?", "--choice", "Ship", "--choice", "Wait")
    reader = visit(server)
    reader.open(identity)
    group = reader.page.get_by_role("group", name="Choices")
    expect(group.get_by_role("button")).to_have_count(2)
    with reader.same_page():
        server.inbox.ok("entry", "reply", identity, "--body", "Wait")
        expect(group).to_have_count(0)
        expect(reader.detail.locator(".question")).to_contain_text("Wait")
        expect(reader.conversation).to_contain_text("Wait")
        expect(reader.conversation).to_contain_text(re.compile("unverified", re.IGNORECASE))  # whoever has the machine can say so


def test_a_choice_is_sent_once_however_often_it_is_pressed(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "Once?", "--choice", "Yes", "--choice", "No")
    reader = visit(server)
    reader.open(identity)
    reader.page.get_by_role("group", name="Choices").get_by_role("button", name="Yes").dblclick()
    expect(reader.conversation.get_by_role("listitem").filter(has_text="Yes")).to_have_count(1)
    entry, replies = server.conversation(identity)
    assert (entry["question"]["choice"], [reply["body"] for reply in replies]) == ("Yes", ["Yes"])


def test_a_second_answer_to_a_question_says_by_whom_it_was_answered(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = server.ask(workspace.agent, "Ship it?", "--choice", "yes", "--choice", "no")
    server.reply(identity, "yes")
    reader = visit(server)
    reader.open(identity)
    reader.send("Better not")
    expect(reader.toasts.filter(has_text="the question was already answered by user")).to_have_count(1)


def test_a_question_can_be_answered_in_other_words(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = server.ask(workspace.agent, "Which one?", "--choice", "A", "--choice", "B")
    reader = visit(server)
    reader.open(identity)
    reader.send("Neither")
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)
    expect(reader.conversation).to_contain_text("Neither")
    expect(reader.detail.locator(".question")).to_contain_text("by user")
    assert server.entry(identity)["question"]["answer"] == "Neither"


def test_silence_that_has_answered_is_shown_as_such(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    silence = ("--deadline-seconds", "1", "--on-silence", "default", "--default", "Wait")
    identity = server.ask(workspace.agent, "Ship?", "--choice", "Ship", "--choice", "Wait", *silence)
    reader = visit(server)
    reader.open(identity)
    expect(reader.detail.locator(".question")).to_contain_text("so “Wait” holds")  # the server tells when the time is over
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)
    assert server.entry(identity)["question"]["state"] == "default"


def test_the_end_of_its_thread_ends_a_question(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    run = server.inbox
    thread = run.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    run.ok("claim", "--agent", workspace.agent, "--thread", thread)
    choices = '{"choices": ["This", "That"]}'
    run.ok(
        "update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?", "--payload-json", choices
    )
    identity = server.entry_from(workspace.agent)["id"]
    reader = visit(server)
    reader.open(identity)
    expect(reader.page.get_by_role("group", name="Choices")).to_be_visible()
    run.ok("cancel", "--agent", "user", "--thread", thread, "--reason", "Not any more")
    expect(reader.page.get_by_role("group", name="Choices")).to_have_count(0)


def test_open_questions_are_told_from_answered_ones_in_the_list(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = server.ask(workspace.agent, "Still open?")
    reader = visit(server)
    row = reader.row(identity)
    expect(row).to_be_visible()
    before = row.inner_html()
    server.reply(identity, "Not any more")
    expect(row).to_have_attribute("data-read", "true")
    expect(row).to_contain_text(re.compile("answered", re.IGNORECASE))
    assert row.inner_html() != before


def test_each_question_of_a_row_shows_its_own_state(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    run, agent = server.inbox, workspace.agent
    thread = run.ok("send", "--from", "user", "--to", agent, "--subject", "Paint the shed")["thread"]["thread_id"]
    for question in ("Which colour?", "Which size?"):
        run.ok("claim", "--agent", agent, "--thread", thread)
        run.ok("update", "--agent", agent, "--thread", thread, "--status", "blocked", "--summary", question)
        if question == "Which colour?":
            server.person.post(f"/api/threads/{thread}/release", json={}).raise_for_status()
    reader = visit(server)
    row = reader.rows.filter(has_text="Paint the shed")
    expect(row.locator(".badge[data-tone]")).to_have_text("Question")
    row.locator("a").click()
    questions = reader.detail.locator(".question")
    expect(questions).to_have_count(2)
    expect(questions.nth(0)).to_contain_text("It is not asked any more")
    expect(questions.nth(1)).to_have_attribute("data-state", "open")
    expect(row.locator(".badge[data-tone]")).to_have_text("Question")  # what the detail loaded did not change the row
