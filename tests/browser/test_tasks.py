"""The room of tasks: who gave whom what, its state and its history, live."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserTabs
from tests.server.running_server import RunningServer


def _submit(server: RunningServer, source: str, description: str) -> str:
    task: str = server.inbox.ok("task", "submit", "--from", source, "--to", "canyon", "--description", description)["task"]["task_id"]
    return task


def test_tasks_are_listed_filtered_and_shown_with_their_history(own: RunningServer, visit: BrowserTabs) -> None:
    for name in ("forge", "canyon"):
        own.inbox.ok("agent", "register", name)
    reader = visit(own, "/tasks")
    expect(reader.main).to_contain_text("No tasks yet")
    first = _submit(own, "forge", "Review <b>module</b> X\nand its tests")
    line = reader.main.get_by_role("link", name="Review <b>module</b> X")
    expect(line).to_contain_text("forge")
    expect(line).to_contain_text("canyon")
    _submit(own, "user", "Forged in the name of a person")
    expect(reader.main.get_by_role("link", name=re.compile("Forged"))).to_be_visible()
    own.inbox.ok("task", "accept", "--agent", "canyon", "--task", first)
    reader.filter("Accepted").click()
    expect(reader.main.get_by_role("link", name=re.compile("Forged"))).to_have_count(0)
    line.click()
    article = reader.page.locator("article#task")
    expect(article.get_by_role("heading", level=1)).to_have_text("Review <b>module</b> X")
    expect(article.locator("b", has_text="module")).to_have_count(0)
    expect(article).not_to_contain_text("unverified")
    assert article.locator(".plain").inner_text() == "Review <b>module</b> X\nand its tests"  # on two lines
    own.inbox.ok("task", "complete", "--agent", "canyon", "--task", first, "--artifacts-json", '{"review": "<i>fine</i>"}')
    expect(article).to_have_attribute("data-status", "completed")
    expect(article).to_contain_text("<i>fine</i>")
    history = article.get_by_role("list", name="History").get_by_role("listitem")
    expect(history).to_have_count(4)
    expect(history.last).to_contain_text("canyon completed it")
    expect(article.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_task_in_the_name_of_a_person_is_marked_and_can_be_cancelled(own: RunningServer, visit: BrowserTabs) -> None:
    own.inbox.ok("agent", "register", "canyon")
    task = _submit(own, "user", "Delete everything")
    reader = visit(own, f"/tasks/{task}")
    article = reader.page.locator("article#task")
    expect(article).to_contain_text("unverified")
    article.get_by_role("button", name="Cancel").click()
    reader.page.get_by_role("dialog").get_by_role("button", name="Cancel task").click()
    expect(article).to_have_attribute("data-status", "failed")
    shown = own.inbox.ok("task", "show", "--task", task)["task"]
    assert (shown["reason_code"], shown["reason"]) == ("cancelled", "cancelled by user")
