"""Text views of the answers of `harness …`."""

from __future__ import annotations

from postroom.cli.framework.terminal import colour_text, one_line, render_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]


def _render_plan(data: Data) -> str:
    rows = [(step["action"], step["part"], one_line(step["file"]), one_line(step.get("reason", ""))) for step in data["steps"]]
    verb = "Connected" if data["written"] else "Would connect"
    head = f"{verb} {colour_text('bold', data['program'])} as {one_line(data['agent'])}.\n"
    return head + render_table(("ACTION", "PART", "FILE", ""), rows) + (f"{data['next']}\n" if data["next"] else "")


def _render_checks(data: Data) -> str:
    rows = [("ok" if check["ok"] else "FAILED", check["check"], one_line(check["detail"])) for check in data["checks"]]
    return render_table(("", "CHECK", "DETAIL"), rows)


def _render_undone(data: Data) -> str:
    rows = [(file["action"], one_line(file["file"]), one_line(file.get("reason", ""))) for file in data["files"]]
    text = render_table(("ACTION", "FILE", ""), rows) if rows else f"Nothing of {data['program']} was written for this folder.\n"
    if "workspace" not in data:
        return text
    workspace = data["workspace"]
    reason = f"stays: {one_line(workspace['reason'])}" if "reason" in workspace else "was removed"
    return f"{text}The workspace {workspace['workspace_id']} of this folder {reason}.\n"


def _render_roundtrip(data: Data) -> str:
    text = _render_checks({"checks": [{**check, "check": f"{check['program']} {check['check']}"} for check in data["checks"]]})
    if "roundtrip" not in data:
        return text
    trip = data["roundtrip"]
    rows = [(step["step"], f"{step['milliseconds']} ms", step["route"], one_line(step["program"])) for step in trip["receipts"]]
    waiting = f"{trip['waiting']} session{'' if trip['waiting'] == 1 else 's'} of {one_line(data['agent'])} waited."
    return f"{text}{waiting}\n" + render_table(("STEP", "AFTER", "WAY", "PROGRAM"), rows)


VIEWS: dict[str, Callable[[Data], str]] = {
    "harness plan": _render_plan,
    "harness checks": _render_checks,
    "harness undone": _render_undone,
    "harness roundtrip": _render_roundtrip,
}
