"""Give alerts to a command of the owner: as JSON on its standard input, with a short environment. It is killed as a group."""

from __future__ import annotations

import json
from signal import SIGKILL
from typing import TYPE_CHECKING

from postroom.outbound import rendering
from postroom.outbound.web_requests import SendFailure
from postroom.processes.child_process import ChildProcess, last_line
from postroom.processes.command_environment import command_environment
from postroom.processes.wake_pipe import WakePipe

if TYPE_CHECKING:
    from postroom.core.records.channels import AlertContent

COMMAND_SECONDS = 30.0


def run_command(content: AlertContent, secret: str | None) -> None:
    """Run the command of a channel. Raises `SendFailure` unless it exits with 0 in time."""
    variables = {
        "INBOX_ALERT_ID": content.alert.alert_id,
        "INBOX_ALERT_PURPOSE": content.alert.purpose,
        "INBOX_ALERT_SUBJECT": rendering.render_subject(content),
        "INBOX_ALERT_LINK": content.link or "",
        "INBOX_PERSON": content.channel.person,
    }
    environment = {**command_environment(), **content.channel.options.get("env", {}), **variables}
    wake = WakePipe()
    child = ChildProcess(content.channel.target, environment, json.dumps(rendering.to_json(content), ensure_ascii=False) + "\n", wake)
    try:
        if not child.wait(COMMAND_SECONDS):
            child.send_signal(SIGKILL)
            child.wait(None)
            raise SendFailure(f"the command did not end within {COMMAND_SECONDS:g} s")
        if child.status:
            raise SendFailure(f"the command failed: {child.exit_description}: {last_line(child.read_errors() or child.read_output())}")
    finally:
        child.close()
        wake.close()
