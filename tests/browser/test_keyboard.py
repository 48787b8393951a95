"""Everything by keyboard: no test in this file touches the mouse, and the first one makes sure of it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient

NO_MOUSE = "for (const type of ['pointerdown', 'mousedown', 'touchstart']) addEventListener(type, () => { window.touched = true }, true)"
KEYS = ("j", "k", "Enter", "o", "e", "u", "r", "Delete", "#", "/", "g i", "g t", "g r", "g m", "g q", "g a", "z", "?", "Ctrl")


def test_a_day_at_the_inbox_without_a_mouse(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace("Macro thesis")
    doomed, plain = workspace.push(comments="Delete me"), workspace.push(comments="A plain one")
    waiter = emptied.inbox.start("ask", "--from", workspace.agent, "--question", "Ship it?", "--choice", "yes", "--choice", "no", "--json")
    asked = emptied.entry_from(workspace.agent, open="true")["id"]
    reader = visit(emptied, clock=True, scripts=(NO_MOUSE,))
    expect(reader.rows).to_have_count(3)

    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", asked)
    reader.press("Enter")
    expect(reader.of(asked).get_by_role("button", name="yes")).to_be_visible()
    _tab_to(reader, "yes")
    reader.press("Enter")
    expect(reader.toasts.get_by_text("Sending:")).to_be_visible()
    reader.press("Enter")
    assert waiter.finish().json["answer"]["answer"] == "yes"

    reader.press("j")
    expect(reader.of(plain)).to_be_visible()
    reader.press("r")
    expect(reader.reply).to_be_focused()
    reader.page.keyboard.type("jkeu# are only letters here")
    reader.press("Control+Enter")
    expect(reader.conversation).to_contain_text("jkeu# are only letters here")
    reader.press("Enter")
    eventually(lambda: emptied.entry(plain)["replies"] == 1)
    reader.press("Escape", "Escape")
    expect(reader.detail).to_have_count(0)

    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", doomed)
    reader.press("o")
    expect(reader.of(doomed)).to_be_visible()
    reader.press("#")
    expect(reader.row(doomed)).to_have_count(0)
    reader.press("z")
    expect(reader.row(doomed)).to_be_visible()

    reader.press("/")
    expect(reader.search).to_be_focused()
    reader.page.keyboard.type("plain")
    expect(reader.rows).to_have_count(1)
    reader.press("Escape")
    reader.press("g", "t")
    reader.expect_path("/threads")
    reader.press("g", "i")
    expect(reader.rows).not_to_have_count(0)
    reader.press("Control+k")
    reader.page.keyboard.type("delete me")
    expect(reader.dialog("Command palette").get_by_role("option").filter(has_text="Delete me")).to_be_visible()
    reader.press("ArrowDown", "ArrowUp", "Enter")
    assert reader.value("window.touched") is None


def _tab_to(reader: BrowserPage, name: str) -> None:
    """Press Tab until the focus is on a button of that name."""
    for _ in range(60):
        reader.press("Tab")
        if reader.value("document.activeElement.matches('button') && document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"Tab never comes to {name}")


def test_j_and_k_and_arrows_move_and_open_the_neighbour(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    third, second, first = (workspace.push(comments=text) for text in ("Third", "Second", "First"))
    reader = visit(emptied)
    expect(reader.rows).to_have_count(3)
    reader.press("j", "j")
    expect(reader.cursor).to_have_attribute("data-id", second)
    reader.press("ArrowDown")
    expect(reader.cursor).to_have_attribute("data-id", third)
    reader.press("j")  # there is no further down
    expect(reader.cursor).to_have_attribute("data-id", third)
    reader.press("ArrowUp", "k")
    expect(reader.cursor).to_have_attribute("data-id", first)
    expect(reader.detail).to_have_count(0)
    assert [emptied.entry(identity)["readAt"] for identity in (first, second, third)] == [None, None, None]
    reader.press("Enter")
    expect(reader.of(first)).to_be_visible()
    reader.press("j")
    expect(reader.of(second)).to_be_visible()
    reader.expect_path(f"/inbox/{second}")
    reader.press("ArrowDown")
    expect(reader.of(third)).to_be_visible()
    reader.press("k")
    expect(reader.of(second)).to_be_visible()
    reader.press("Escape")
    expect(reader.detail).to_have_count(0)
    reader.expect_path("/")


def test_g_goes_to_the_rooms(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server, "/settings")
    rooms = {"t": "/threads", "r": "/runs", "m": "/mailboxes", "q": "/queues", "a": "/agents", "i": "/"}
    for key, path in rooms.items():
        reader.press("g", key)
        reader.expect_path(path)


def test_no_key_acts_while_something_is_typed(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Careful")
    reader = visit(server)
    reader.open(identity)
    expect(reader.reply).to_be_visible()
    reader.press("r")
    reader.page.keyboard.type("e u # j k g t ? z / o")
    expect(reader.reply).to_have_value("e u # j k g t ? z / o")
    expect(reader.of(identity)).to_be_visible()
    expect(reader.row(identity)).to_have_attribute("data-read", "true")
    reader.press("Escape")
    expect(reader.reply).not_to_be_focused()
    expect(reader.of(identity)).to_be_visible()
    reader.press("/")
    reader.page.keyboard.type("#e")
    expect(reader.search).to_have_value("#e")
    eventually(lambda: server.entry(identity)["readAt"] is not None)


def test_keys_with_modifiers_are_the_browser_s(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    """Ctrl-R is a reload, not a reply; Ctrl-E and Alt-J are nobody's."""
    identity = workspace.push(comments="Modified")
    reader = visit(server)
    expect(reader.row(identity)).to_be_visible()
    reader.press("Control+e", "Alt+j", "Control+u", "Meta+#")
    expect(reader.cursor).to_have_count(0)
    expect(reader.row(identity)).to_have_attribute("data-read", "false")


def test_a_question_mark_explains_the_keys(server: RunningServer, visit: BrowserTabs) -> None:
    reader = visit(server)
    reader.press("?")
    explained = reader.dialog("Keyboard shortcuts")
    expect(explained).to_be_visible()
    keys = " ".join(explained.locator("kbd").all_inner_texts())
    shown = re.sub(r"\s+", " ", keys)
    assert [key for key in KEYS if key.split()[-1] not in shown] == []
    reader.press("j")  # nothing behind it moves
    expect(reader.cursor).to_have_count(0)
    reader.press("Escape")
    expect(explained).to_have_count(0)


def test_the_palette_goes_everywhere_and_finds_entries(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Quarterly zebra report")
    reader = visit(server)
    palette = reader.dialog("Command palette")
    reader.press("Control+k")
    field = palette.get_by_role("combobox")
    expect(field).to_be_focused()
    reader.page.keyboard.type("mailb")
    expect(palette.get_by_role("option").first).to_contain_text("Mailboxes")
    reader.press("Enter")
    reader.expect_path("/mailboxes")
    expect(palette).to_have_count(0)
    reader.press("Meta+k")
    reader.page.keyboard.type("zebra")
    option = palette.get_by_role("option").filter(has_text="zebra")
    expect(option).to_be_visible()
    selected = field.get_attribute("aria-activedescendant")
    assert selected
    assert reader.page.locator(f"#{selected}").get_attribute("aria-selected") == "true"
    for _ in range(palette.get_by_role("option").count()):
        if option.get_attribute("aria-selected") == "true":
            break
        reader.press("ArrowDown")
    reader.press("Enter")
    expect(reader.of(identity)).to_be_visible()


def test_the_palette_names_the_entry_that_it_would_act_on(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Keep me")
    reader = visit(server)
    expect(reader.row(identity)).to_be_visible()
    reader.press("j", "Control+k")
    options = reader.page.get_by_role("dialog").get_by_role("option")
    expect(options.filter(has_text="Delete")).to_have_text(re.compile("^Delete: Keep me"))
    reader.press("Escape", "x", "Control+k")
    expect(options.filter(has_text="Delete")).to_have_text(re.compile("^Delete: 1 chosen"))
    reader.press("Escape", "Enter")
    expect(reader.detail).to_be_visible()
    reader.press("x", "Control+k")
    expect(options.filter(has_text="Delete")).to_have_text(re.compile("^Delete#"))


def test_the_palette_opens_while_something_is_typed_and_gives_the_focus_back(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Focus")
    reader = visit(server)
    reader.open(identity)
    reader.press("r")
    reader.page.keyboard.type("Half")
    reader.press("Control+k")
    expect(reader.dialog("Command palette")).to_be_visible()
    reader.press("Escape")
    expect(reader.dialog("Command palette")).to_have_count(0)
    expect(reader.reply).to_be_focused()
    expect(reader.reply).to_have_value("Half")


def test_an_entry_that_follows_a_done_one_can_be_read_at_once(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    workspace.write("long.md", "\n\n".join(f"Paragraph {number}" for number in range(200)))
    for comments in ("Third", "Second", "First"):
        workspace.push("long.md", comments=comments)
    reader = visit(emptied)
    text = reader.detail.get_by_role("region", name="Entry")
    expect(reader.rows).to_have_count(3)
    reader.press("j", "Enter")
    for key in ("e", "#"):
        expect(text).to_be_focused()
        reader.press(key)
    expect(text).to_be_focused()
    expect(text).to_contain_text("Paragraph 199")
    reader.press("Space")
    reader.page.wait_for_function("() => document.querySelector('#detail .scroll').scrollTop > 100")


def test_j_goes_on_where_a_question_was_answered(emptied: RunningServer, visit: BrowserTabs) -> None:
    agent = emptied.add_workspace().agent
    asked = [emptied.ask(agent, f"Number {number}?", "--choice", "Yes", "--choice", "No") for number in range(4)]
    reader = visit(emptied, "/questions")
    expect(reader.rows).to_have_count(4)
    order = [str(row.get_attribute("data-id")) for row in reader.rows.all()]
    reader.press("j", "j", "1")
    expect(reader.row(order[1])).to_have_count(0)
    expect(reader.cursor).to_have_count(0)  # one key too many answers nothing else
    reader.press("1")
    reader.press("j")
    expect(reader.cursor).to_have_attribute("data-id", order[2])
    reader.press("k")
    expect(reader.cursor).to_have_attribute("data-id", order[0])
    eventually(lambda: [emptied.entry(each)["question"]["state"] for each in asked].count("answered") == 1)


def test_a_key_that_is_held_down_acts_once(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    for number in range(6):
        workspace.push(comments=f"Entry {number}")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(6)
    keyboard = reader.page.keyboard
    for _ in range(3):  # the second and the third are repeats
        keyboard.down("j")
    keyboard.up("j")
    expect(reader.cursor).to_contain_text("Entry 3")
    for _ in range(3):
        keyboard.down("e")
    keyboard.up("e")
    expect(reader.rows).to_have_count(5)
    expect(reader.cursor).to_contain_text("Entry 2")


def test_a_done_question_says_that_it_still_waits(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    workspace.push(comments="A report")
    emptied.ask(workspace.agent, "May I?")
    reader = visit(emptied)
    expect(reader.rows).to_have_count(2)
    reader.press("j", "e")
    expect(reader.toasts).to_contain_text("Done. Its question still waits in Needs you")
    reader.press("e")
    expect(reader.toasts.get_by_text("Done", exact=True)).to_be_visible()


def test_many_messages_do_not_push_away_what_can_be_taken_back(emptied: RunningServer, visit: BrowserTabs) -> None:
    workspace = emptied.add_workspace()
    first, *_ = (workspace.push(comments=f"Entry {number}") for number in range(6))
    reader = visit(emptied, f"/inbox/{first}")
    expect(reader.rows).to_have_count(6)
    reader.reply.fill("On second thoughts")
    reader.press("Control+Enter", "Escape")
    expect(reader.toasts).to_contain_text("Sending: On second thoughts")
    reader.press(*"eeeee")
    expect(reader.rows).to_have_count(1)
    reader.toasts.locator(".toast").filter(has_text="Sending:").get_by_role("button", name="Undo").press("Enter")
    expect(reader.toasts).not_to_contain_text("Sending:")
    assert emptied.entry(first)["replies"] == 0
