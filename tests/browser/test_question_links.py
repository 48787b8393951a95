"""The page of a link that opens one question, in a browser that runs no script and is not signed in."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.cli.process import eventually
from tests.server.running_server import RunningServer


def test_a_person_answers_by_a_link_without_scripts_and_without_a_sign_in(browser: Browser, own: RunningServer, tmp_path: Path) -> None:
    told = tmp_path / "link"
    command = f'echo "$INBOX_ALERT_LINK" > {told}.new; mv {told}.new {told}'
    own.inbox.ok("channel", "add", "command", command, "--delay-seconds", "0")
    entry = own.ask("builder", "Delete the old table?", "--choice", "delete it", "--choice", "keep it", "--dangerous", "delete it")
    eventually(told.exists)
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 700})
    complaints: list[str] = []
    try:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(told.read_text().strip())
        expect(page.get_by_role("heading", name="Delete the old table?")).to_be_visible()
        assert own.entry(entry)["question"]["state"] == "open"
        assert page.evaluate("getComputedStyle(document.querySelector('.question-link')).maxWidth") == "560px"
        page.get_by_role("button", name="delete it").click()
        expect(page.get_by_role("heading", name=re.compile("are you sure"))).to_be_visible()
        assert own.entry(entry)["question"]["state"] == "open"
        page.get_by_role("link", name="No, go back").click()
        page.get_by_role("button", name="keep it").click()
        expect(page.get_by_role("heading", name="Answered")).to_be_visible()
        assert own.entry(entry)["question"]["answer"] == "keep it"
        page.goto(told.read_text().strip())
        expect(page.get_by_role("heading", name="This link does not work any more")).to_be_visible()
        assert [text for text in complaints if "404" not in text] == []
    finally:
        context.close()
