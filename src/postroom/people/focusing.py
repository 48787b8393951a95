"""Run the command line that brings a workspace's session to the front. Called by the CLI and the server."""

from __future__ import annotations

import os
import signal

from postroom.core.errors import InvalidState
from postroom.core.records import Record
from postroom.core.text import shell_quote
from postroom.core.verbs import PEOPLE, STEPS, verb
from postroom.people.access.workspaces import show_workspace
from postroom.processes.child_process import ChildProcess, last_line
from postroom.processes.wake_pipe import WakePipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.people import Workspace
    from postroom.store.interface import Store

FOCUS_TIMEOUT_SECONDS = 10.0  # the command should show a session and exit, not be the session


class FocusResult(Record):
    """The exit code and the output of a focus command that succeeded."""

    code: int
    output: str


@verb(caller=PEOPLE, mode=STEPS)
def focus(store: Store, workspace_id: str) -> FocusResult:
    """Bring a workspace's session to the front. Refuses with `InvalidState` if it has no command, or if the command fails."""
    return run_focus_command(show_workspace(store, workspace_id))


def run_focus_command(workspace: Workspace, *, timeout_seconds: float = FOCUS_TIMEOUT_SECONDS) -> FocusResult:
    """Run the workspace's focus command in its folder. A command that runs longer than the timeout is killed and refused."""
    if workspace.focus is None:
        hint = f"Give it one: `inbox workspace set {shell_quote(workspace.workspace_id)} --focus COMMAND`."
        raise InvalidState(f"{workspace.label} has no command that opens its session", hint=hint)
    line = f"cd {shell_quote(workspace.path)} || exit\n{workspace.focus}"
    environment = {**os.environ, "INBOX_WORKSPACE": workspace.workspace_id, "INBOX_AGENT": workspace.agent}
    wake = WakePipe()
    child = ChildProcess(line, environment, "", wake)
    try:
        in_time = child.wait(timeout_seconds)
        if not in_time:
            child.send_signal(signal.SIGKILL)
            child.wait(None)
        output = child.read_output()
        reason = last_line(child.read_errors() or output)
    finally:
        child.close()
        wake.close()
    if not in_time:
        raise InvalidState(f"the command did not end within {timeout_seconds:g} s", hint="Start long-running programs in the background.")
    if child.status:
        raise InvalidState(f"the command failed: {child.exit_description}", hint=reason or "It printed nothing.")
    return FocusResult(child.status, output)
