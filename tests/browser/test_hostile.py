"""Text is data: what agents write is shown, whatever it says, and never runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import postroom
from postroom import mail
from tests.browser.browser_page import BrowserTabs
from tests.server.conftest import MANY
from tests.server.running_server import RunningServer, WorkspaceClient

EVIL = "<img src=x onerror=window.ran=1><script>window.ran=2</script>"
SHORT = '"><svg onload=window.ran=3>'
MARKDOWN = f"""# {EVIL}

{EVIL}

[a link](javascript:window.ran=4) <a href="javascript:window.ran=5">another</a> ![an image](https://example.com/x.png)

<iframe srcdoc="<script>parent.ran=6</script>"></iframe><style>body{{display:none}}</style>

```html
{EVIL}
```
"""


class Hostile(NamedTuple):
    server: RunningServer
    workspace: WorkspaceClient
    entry: str
    question: str
    thread: str


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """Every text that somebody else chooses, chosen badly."""
    server = RunningServer(tmp_path_factory.mktemp("hostile"), "--rate", MANY).open()
    workspace = server.add_workspace(f"Label {SHORT}", f"agent {SHORT}")
    name = f"{SHORT}.md".replace("/", "")
    workspace.write(name, MARKDOWN)
    workspace.write("page.html", EVIL)
    workspace.write("picture.svg", f'<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran=7">{EVIL}</svg>')
    entry = workspace.push(name, "page.html", "picture.svg", comments=MARKDOWN)
    question = server.ask(workspace.agent, f"Choose {EVIL}", "--choice", f"One {SHORT}", "--choice", f"Two {SHORT}")
    run = server.inbox
    sent = run.ok(
        "send", "--from", "user", "--to", workspace.agent, "--subject", f"Subject {EVIL}", "--run", f"run {SHORT}", "--body", MARKDOWN
    )
    thread: str = sent["thread"]["thread_id"]
    run.ok("claim", "--agent", workspace.agent, "--thread", thread)
    choices = json.dumps({"choices": [f"Yes {SHORT}", f"No {SHORT}"]})
    run.ok(
        "update",
        "--agent",
        workspace.agent,
        "--thread",
        thread,
        "--status",
        "blocked",
        "--summary",
        f"Sum {EVIL}",
        "--payload-json",
        choices,
    )
    server.notify(f"job {SHORT}", MARKDOWN)
    store = postroom.open(server.place)
    session = f"box/../ {SHORT}"
    mail.set_policy(store, session, max_retries=0)
    mail.enqueue(store, {"msg_id": f"id {SHORT}", "from": f"sender {SHORT}", "to": session, "payload": EVIL})
    mail.dequeue(store, session)
    mail.nack(store, session, f"id {SHORT}", f"reason {EVIL}")
    yield Hostile(server, workspace, entry, question, thread)
    assert server.close() == 0


def _views(hostile: Hostile) -> dict[str, tuple[str, list[str]]]:
    """Where it is looked at, and what is to be read there."""
    session = f"box/../ {SHORT}"
    return {
        "list": ("/", [f"Label {SHORT}", f"Choose {EVIL}"]),
        "entry": (f"/inbox/{hostile.entry}", [f"Label {SHORT}", EVIL, f"{SHORT}.md", "another"]),
        "question": (f"/inbox/{hostile.question}", [f"Choose {EVIL}", f"One {SHORT}", f"Two {SHORT}"]),
        "notices": ("/notices", [f"job {SHORT}"]),
        "threads": ("/threads", [f"Subject {EVIL}", f"run {SHORT}", f"agent {SHORT}"]),
        "thread": (f"/threads/{hostile.thread}", [f"Subject {EVIL}", f"Sum {EVIL}"]),
        "runs": ("/runs", [f"run {SHORT}"]),
        "run": (f"/runs/{quote(f'run {SHORT}', safe='')}", [f"run {SHORT}", f"agent {SHORT}"]),
        "mailboxes": ("/mailboxes", [session]),
        "mailbox": (f"/mailboxes/{quote(session, safe='')}", [session, f"reason {EVIL}", f"sender {SHORT}"]),
        "agents": ("/agents", [f"agent {SHORT}"]),
    }


VIEWS = {
    "inbox": ("list", "entry", "question", "notices"),
    "work": ("threads", "thread", "runs", "run"),
    "the rest": ("mailboxes", "mailbox", "agents"),
}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_a_script_in_any_text_is_shown_and_does_not_run(hostile: Hostile, visit: BrowserTabs, views: tuple[str, ...]) -> None:
    reader = visit(hostile.server, "/settings")
    for view in views:
        path, texts = _views(hostile)[view]
        reader.go(path)
        for text in texts:
            expect(reader.main).to_contain_text(text)
        for selector in ("img[src=x]", "svg[onload]", "[onerror]", "iframe", 'a[href^="javascript:"]', "main style", "main script"):
            assert reader.page.locator(selector).count() == 0, (view, selector)
        assert reader.value("window.ran ?? null") is None, view


def test_the_palette_and_the_toasts_show_it_too(hostile: Hostile, visit: BrowserTabs) -> None:
    reader = visit(hostile.server)
    expect(reader.rows.first).to_be_visible()
    reader.press("Control+k")
    reader.page.keyboard.type("choose")
    expect(reader.dialog("Command palette").get_by_role("option").filter(has_text=f"Choose {EVIL}").first).to_be_visible()
    assert reader.value("window.ran ?? null") is None


def test_a_mailbox_of_any_name_can_be_reached_and_emptied(hostile: Hostile, visit: BrowserTabs) -> None:
    reader = visit(hostile.server, "/mailboxes")
    session = f"box/../ {SHORT}"
    reader.main.get_by_role("link", name=session).click()
    reader.expect_path(f"/mailboxes/{quote(session, safe='')}")
    expect(reader.main).to_contain_text(f"reason {EVIL}")
    reader.page.reload()
    expect(reader.main).to_contain_text(f"reason {EVIL}")


@pytest.mark.parametrize("place", ["https://example.com/x.png", "https://192.0.2.1/x.png"])
@pytest.mark.parametrize("bypasses_policy", [False, True])
def test_a_request_to_another_host_counts_against_the_page(
    server: RunningServer, visit: BrowserTabs, place: str, bypasses_policy: bool
) -> None:
    """The policy of the page refuses it. Without the policy it fails, as this browser finds no other host. Both are seen in every test."""
    reader = visit(server, bypass_csp=bypasses_policy)
    with reader.page.expect_event("console", lambda message: message.type == "error"):
        reader.value(f"document.body.append(Object.assign(new Image(), {{ src: '{place}' }}))")
    assert reader.complaints()
    reader.allow("ERR_NAME_NOT_RESOLVED" if bypasses_policy else "example.com|192.0.2.1|policy: ")
