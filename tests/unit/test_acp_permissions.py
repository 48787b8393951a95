"""A resident agent may use our tools unasked, and nothing that only mentions them.

A permission is given once: programs keep what is always allowed in the settings of the project, where it outlives the resident.
"""

from __future__ import annotations

from typing import Any

import pytest

from postroom.cli.inbox.residents.acp import AcpProgram
from postroom.cli.inbox.residents.session_plan import ServerCommand
from postroom.server.mcp.tool_table import TOOLS

OPTIONS = [{"kind": kind, "optionId": kind} for kind in ("allow_always", "allow_once", "reject_once")]


def decide(call: dict[str, Any], *, approve: bool = False) -> str:
    program = AcpProgram("acp", "true", {}, "/", ServerCommand("inbox", ["mcp"], {}), approve=approve)
    answer = program.answer_request("session/request_permission", {"toolCall": call, "options": OPTIONS})
    assert answer is not None
    return str(answer["outcome"]["optionId"])


@pytest.mark.parametrize("shape", ["{}", "mcp__inbox__{}", "inbox_{}", "{} (inbox MCP Server)"])
def test_each_tool_of_ours_is_allowed(shape: str) -> None:
    assert {decide({"title": shape.format(name), "kind": "other"}) for name in TOOLS} == {"allow_once"}


def test_qwen_names_its_tool_beside_the_title() -> None:
    call = {"title": '{"threadId":"login"}', "kind": "other", "_meta": {"toolName": "mcp__inbox__work_update"}}
    assert decide(call) == "allow_once"


@pytest.mark.parametrize(
    "call",
    [
        {"title": "rm -rf inbox"},
        {"title": "inbox_read; rm -rf ~"},
        {"title": "inbox_read\nrm -rf ~"},
        {"title": "inbox_read", "kind": "execute"},
        {"title": "other (inbox MCP Server)"},
        {"title": "inbox_read", "_meta": {"toolName": "run_shell_command"}},
        {"title": "{}", "_meta": {"toolName": "mcp__other__inbox_read"}},
        {"title": "{}", "_meta": "inbox_read"},
        {},
    ],
)
def test_a_call_that_only_mentions_our_tools_is_rejected_unless_the_owner_approves_all(call: dict[str, Any]) -> None:
    assert decide(call) == "reject_once"
    assert decide(call, approve=True) == "allow_once"
