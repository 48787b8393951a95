"""Documents in the detail: rendered as they are now, compared with what was pushed."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Route, expect

from tests.browser import glances, sample_data
from tests.browser.browser_page import BrowserPage, BrowserTabs
from tests.cli.process import eventually
from tests.server.agents import at
from tests.server.running_server import RunningServer, WorkspaceClient


def _document(reader: BrowserPage, path: str) -> Locator:
    return reader.page.locator(f'section.doc[data-path="{path}"]')


def test_markdown_with_tables_and_code_comes_first_and_comments_below(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    workspace.write("research/fomc.md", sample_data.FOMC)
    identity = workspace.push("research/fomc.md", comments="What do you think?")
    reader = visit(server)
    detail = reader.open(identity)
    document = _document(reader, "research/fomc.md")
    expect(document).to_contain_text("fomc.md")
    expect(document.get_by_role("heading", name="FOMC preview")).to_be_visible()
    expect(document.get_by_role("table").get_by_role("row")).to_have_count(5)
    expect(document.locator("pre code span").first).to_be_visible()
    colours = document.locator("pre code").evaluate(glances.COLOURS)
    assert colours > 1, "code has no colours"
    below = detail.locator(".comments").bounding_box()
    above = document.bounding_box()
    assert above is not None
    assert below is not None
    assert below["y"] >= above["y"] + above["height"]


def test_numbers_of_a_table_stand_at_the_right(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("numbers.md", "| a | b |\n|:--|--:|\n| 1 | 2 |\n")
    identity = workspace.push("numbers.md")
    reader = visit(server)
    reader.open(identity)
    cells = _document(reader, "numbers.md").locator("td")
    expect(cells).to_have_count(2)
    assert cells.evaluate_all(glances.ALIGNED) == ["left", "right"]


def test_a_changed_document_is_shown_as_it_is_and_what_changed(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    workspace.write("plan.md", sample_data.PLAN)
    identity = workspace.push("plan.md", comments="The plan")
    reader = visit(server)
    reader.open(identity)
    document = _document(reader, "plan.md")
    expect(document).to_contain_text("Write to both for a week")
    expect(document.get_by_text("Changed since it was pushed")).to_have_count(0)
    workspace.write("plan.md", sample_data.PLAN.replace("for a week", "for two weeks"))
    reader.page.reload()
    expect(document).to_contain_text("Write to both for two weeks")
    expect(document.get_by_text("Changed since it was pushed")).to_be_visible()
    expect(document.locator(".diff")).to_have_count(0)
    document.get_by_role("button", name="Show the difference").click()
    difference = document.locator(".diff")
    expect(difference.locator("del")).to_have_text(["a week"])
    expect(difference.locator("ins")).to_have_text(["two weeks"])
    expect(difference).to_contain_text("Write to both for")


def test_a_document_that_is_gone_is_said_to_be(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    file = workspace.write("gone.md", "# Soon gone\n")
    identity = workspace.push("gone.md", comments="Look quickly")
    file.unlink()
    reader = visit(server)
    reader.open(identity)
    expect(_document(reader, "gone.md")).to_contain_text("The file is gone")
    expect(_document(reader, "gone.md")).to_contain_text("As it was pushed")
    expect(_document(reader, "gone.md").get_by_role("heading", name="Soon gone")).to_be_visible()
    expect(reader.detail.locator(".comments")).to_have_text("Look quickly")


def test_code_and_text_and_a_diff_are_shown_with_colours(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("src/invoices.py", sample_data.INVOICES)
    workspace.write("change.diff", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")
    workspace.write("plain.txt", "just\n  text\n")
    identity = workspace.push("src/invoices.py", "change.diff", "plain.txt")
    reader = visit(server)
    reader.open(identity)
    code = _document(reader, "src/invoices.py").locator("pre")
    expect(code).to_contain_text("def total(lines: list[Line], rate: Decimal) -> Decimal:")
    assert code.evaluate(glances.COLOURS) > 1
    difference = _document(reader, "change.diff").locator("pre")
    expect(difference).to_contain_text("+new")
    assert difference.evaluate(glances.COLOURS) > 1
    expect(_document(reader, "plain.txt").locator("pre")).to_have_text("just\n  text\n", use_inner_text=True)


def test_a_line_and_a_document_are_commented_on_and_the_agent_gets_place_and_quote(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    workspace.write("src/invoices.py", sample_data.INVOICES)
    workspace.write("paper.pdf", b"%PDF-1.4\n%%EOF\n")
    identity = workspace.push("src/invoices.py", "paper.pdf")
    reader = visit(server, f"/inbox/{identity}")
    code, paper = _document(reader, "src/invoices.py"), _document(reader, "paper.pdf")
    expect(paper.locator("iframe")).to_have_attribute("src", re.compile("^blob:"))  # in the browser's own viewer
    code.locator(".numbers").click(position={"x": 8, "y": 6})
    expect(reader.reply).to_be_focused()
    reader.page.keyboard.type("Why?")
    paper.get_by_role("button", name="Comment on paper.pdf").press("Enter")
    reader.page.keyboard.type("Too long.")
    first = sample_data.INVOICES.split("\n", 1)[0]
    said = f"On `src/invoices.py`, line 1:\n> {first}\n\nWhy?\n\nOn `paper.pdf`: Too long."
    expect(reader.reply).to_have_value(said)
    reader.press("Control+Enter")
    reader.press("Enter")
    with at(workspace) as agent:
        assert agent.ok("inbox_read", waitSeconds=20)["messages"][0]["body"] == said


def test_of_many_documents_the_first_ones_are_open(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    paths = [f"part{number}.md" for number in range(7)]
    for path in paths:
        workspace.write(path, f"Text of {path}")
    reader = visit(server, f"/inbox/{workspace.push(*paths)}")
    expect(_document(reader, paths[4]).locator(".content")).to_contain_text("Text of part4")
    closed = _document(reader, paths[5])
    expect(closed.locator("header")).to_contain_text("part5.md")
    expect(closed.locator(".content")).to_be_hidden()
    closed.get_by_role("button", name="Show part5.md").press("Enter")
    expect(closed.locator(".content")).to_contain_text("Text of part5")
    expect(_document(reader, paths[6]).locator(".content")).to_be_hidden()


def test_a_document_that_became_a_folder_is_said_to_be_one(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    document = workspace.write("plan.md", "The plan")
    identity = workspace.push("plan.md")
    document.unlink()
    document.mkdir()
    reader = visit(server, f"/inbox/{identity}")
    reader.allow("400")
    expect(_document(reader, "plan.md").locator(".content")).to_have_text("It cannot be shown: 'plan.md' is a folder.")


def test_a_binary_is_a_download_and_comes_whole(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    content = bytes(range(256)) * 64
    workspace.write("data/curve.bin", content)
    identity = workspace.push("data/curve.bin")
    reader = visit(server)
    reader.open(identity)
    with reader.page.expect_download() as download:
        _document(reader, "data/curve.bin").get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "curve.bin"
    assert download.value.path().read_bytes() == content


def test_an_image_is_shown(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    workspace.write("figures/curve.png", sample_data.picture())
    identity = workspace.push("figures/curve.png")
    reader = visit(server)
    reader.open(identity)
    image = _document(reader, "figures/curve.png").locator("img")
    expect(image).to_be_visible()
    reader.page.wait_for_function("() => document.querySelector('section.doc img').naturalWidth > 0")
    assert image.evaluate("image => image.naturalWidth") == 480
    assert image.get_attribute("alt")


def test_an_svg_is_shown_as_a_picture_in_which_no_script_runs(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    script = '<script>window.ran = 1; parent.ran = 1</script><rect width="48" height="32" onload="window.ran = 1"/>'
    workspace.write("logo.svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="48" height="32">{script}</svg>')
    workspace.write("report.md", "# Report\n\n![Our logo](logo.svg)\n")
    identity = workspace.push("logo.svg", "report.md")
    reader = visit(server)
    reader.open(identity)
    for path in ("logo.svg", "report.md"):
        image = _document(reader, path).locator("img")
        expect(image).to_have_js_property("naturalWidth", 48)
    assert reader.value("window.ran ?? null") is None


def test_a_long_document_is_shown_in_part_and_can_be_had_whole(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    content = "".join(f"line {number}\n" for number in range(120_000))
    workspace.write("long.txt", content)
    identity = workspace.push("long.txt")
    reader = visit(server)
    reader.open(identity)
    document = _document(reader, "long.txt")
    expect(document).to_contain_text("line 0")
    with reader.page.expect_download() as download:
        document.get_by_role("button", name="Download").click()
    assert download.value.path().read_text() == content


def test_a_file_name_with_any_character_works(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    name = "año 100% & #1?.md"
    workspace.write(name, "# Any name\n")
    identity = workspace.push(name)
    reader = visit(server)
    reader.open(identity)
    expect(reader.detail.get_by_role("heading", name="Any name").last).to_be_visible()
    expect(reader.detail.locator("section.doc")).to_contain_text(name)


def test_the_receipts_tell_every_hop(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    identity = workspace.push(comments="Every hop")
    reader = visit(server)
    reader.open(identity)
    receipts = reader.detail.locator("details", has_text="Receipts")
    expect(receipts.locator("li")).to_have_count(3)  # that it was read has arrived
    expect(receipts.get_by_role("listitem")).to_have_count(0)
    receipts.locator("summary").click()
    expect(receipts.get_by_role("listitem")).to_have_count(3)
    expect(receipts.get_by_role("listitem").first).to_contain_text(workspace.agent)


def test_the_receipts_of_a_reply_tell_a_ring_from_what_the_agent_has_in_its_context_and_from_what_it_saw(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    identity = workspace.push(comments="Look")
    server.inbox.ok("entry", "reply", identity, "--body", "Good")
    hook = ("--harness", "claude", "--agent", workspace.agent, "--session", "s-1")
    assert server.inbox.run("hook", "wait", *hook).code == 2
    assert server.inbox.run("hook", "tool", *hook).code == 0
    taken = server.mailbox.ok("dequeue", "--session", workspace.agent)["message"]
    server.mailbox.ok("ack", taken["msg_id"], "--session", workspace.agent, "--from", taken["from"])
    reader = visit(server)
    reader.open(identity)
    receipts = reader.detail.locator("details", has_text="Receipts")
    receipts.locator("summary").click()
    replies = receipts.get_by_role("listitem").filter(has_text="Reply")
    expect(replies).to_contain_text(["Reply stored", "Reply offered", "Reply in the agent's context", "Reply seen"])


def test_a_workspace_s_terminal_is_one_button_away(server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs) -> None:
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--focus", "echo focused > focus.txt")
    identity = workspace.push(comments="Come over")
    reader = visit(server)
    reader.open(identity)
    reader.page.get_by_role("button", name="Open session").click()
    eventually((workspace.path / "focus.txt").exists)
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--focus", "echo 'no such window' >&2; exit 3")
    reader.allow("409")
    reader.page.get_by_role("button", name="Open session").click()
    expect(reader.page.get_by_text("no such window").first).to_be_visible()
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--no-focus")
    reader.page.reload()
    expect(reader.of(identity)).to_be_visible()
    reader.page.get_by_role("button", name="Open session").click()
    expect(reader.dialog("Open the session from here")).to_contain_text(f"inbox workspace set {workspace.workspace_id} --focus")


def test_who_comes_back_sees_what_changed_since_they_last_read(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    workspace.write("plan.md", sample_data.PLAN)
    identity = workspace.push("plan.md", comments="The plan")
    reader = visit(server)
    reader.open(identity)
    document = _document(reader, "plan.md")
    expect(document).to_contain_text("Write to both for a week")
    workspace.write("plan.md", sample_data.PLAN.replace("for a week", "for two weeks"))
    expect(document).to_contain_text("for two weeks")  # followed while it is open, and so read
    expect(document.get_by_text("Changed since you last read it")).to_have_count(0)
    reader.page.keyboard.press("Escape")
    workspace.write("plan.md", sample_data.PLAN.replace("for a week", "for two weeks").replace("Switch reads", "Switch all reads"))
    reader.open(identity)
    expect(document.get_by_text("Changed since you last read it")).to_be_visible()
    expect(document.get_by_text("Changed since it was pushed")).to_be_visible()
    for width in (1280, 390):  # the path stays on one line beside both badges, or above them
        reader.page.set_viewport_size({"width": width, "height": 844})
        assert document.locator("header h2").evaluate("path => path.getBoundingClientRect().height") < 30
    document.get_by_role("button", name="Show the difference").click()
    expect(document.locator(".diff ins")).to_have_text(["all "])
    document.get_by_role("button", name="Since it was pushed").click()
    expect(document.locator(".diff ins")).to_contain_text(["two weeks", "all"])
    reader.page.reload()
    expect(document).to_contain_text("Switch all reads")
    expect(document.get_by_text("Changed since it was pushed")).to_be_visible()
    expect(document.get_by_text("Changed since you last read it")).to_have_count(0)


def test_the_beginning_of_a_long_document_is_there_before_its_end(
    server: RunningServer, workspace: WorkspaceClient, visit: BrowserTabs
) -> None:
    chapters = "".join(f"## Chapter {number}\n\n{'Some **words** of it. ' * 40}[Top](#long)\n\n" for number in range(300))
    workspace.write("long.md", f"# Long\n\n{chapters}The end.\n")
    identity = workspace.push("long.md", comments="It is long")
    reader = visit(server)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    reader.page.route("**/file?**part=rest**", hold)
    reader.open(identity)
    document = _document(reader, "long.md")
    expect(document.get_by_role("heading", name="Chapter 1", exact=True)).to_be_visible()
    expect(document).to_contain_text("The rest is on its way")
    expect(document.get_by_text("The end.")).to_have_count(0)
    assert len(held) == 1
    held.pop().continue_()
    expect(document.get_by_text("The end.")).to_have_count(1)
    expect(document.get_by_text("The rest is on its way")).to_have_count(0)
    expect(document.locator(".markdown h2")).to_have_count(300)
    expect(document.locator("details.contents li")).to_have_count(301)
    workspace.write("long.md", f"# Long\n\n{chapters}The new end.\n")
    reader.page.unroute("**/file?**part=rest**")
    expect(document.get_by_text("The new end.")).to_have_count(1)
    expect(document.locator(".markdown h2")).to_have_count(300)
