"""Hidden characters in what commands print and in prompts: escaped, with the same value."""

from __future__ import annotations

import json

from postroom.cli.framework.output import json_line
from postroom.cli.framework.terminal import indented_lines, one_line
from postroom.server.mcp.server import _tool_result
from postroom.tasks.a2a import rendering
from postroom.tasks.a2a.models import A2ATask

TEXT = "\x7f\x9b31m \u202eevil\u2066 \u200b \U000e0049\U000e0047 \ufe0f \u3164 \u115f \U000e0100 fine: é 😀"


def test_json_that_is_printed_cannot_steer_a_terminal_and_keeps_its_value() -> None:
    line = json_line({"content": TEXT})
    assert json.loads(line) == {"content": TEXT}
    assert not set("\x7f\x9b\u202e\u2066\u200b\U000e0049\U000e0047\ufe0f\u3164\u115f\U000e0100").intersection(line)
    assert "\\u202e" in line
    assert "\\udb40\\udc49" in line
    assert "é 😀" in line


def test_the_result_of_a_tool_shows_them_to_the_agent_and_keeps_the_value() -> None:
    result = _tool_result({"body": TEXT}, refusal=False)
    [content] = result.content
    assert content.type == "text"
    assert not set("\x9b\u202e\U000e0049\ufe0f\u3164").intersection(content.text)
    assert result.structured_content == {"body": TEXT} == json.loads(content.text)


def test_a_prompt_shows_what_a_reader_could_not_see() -> None:
    task = A2ATask(task_id="t1", source_job_id="", source_agent="ada", description=TEXT, context={"note": TEXT})
    text = rendering.render_text([task])
    assert not set("\x9b\u202e\U000e0049\U000e0047\ufe0f\u3164\u115f\U000e0100").intersection(text)
    assert "\\U000e0049\\U000e0047" in text


def test_text_for_a_terminal_shows_what_a_reader_could_not_see_and_keeps_emoji() -> None:
    """Agents read this output too."""
    for shown in (one_line(TEXT), indented_lines(TEXT, "  ")):
        assert not set("\x7f\x9b\u202e\u2066\u200b\U000e0049\U000e0047\u3164\u115f\U000e0100").intersection(shown)
        assert "\\U000e0049\\U000e0047" in shown
        assert "é 😀" in shown
    assert one_line("❤\ufe0f 👩\u200d💻") == "❤\ufe0f 👩\u200d💻"
