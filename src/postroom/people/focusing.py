"""Focusing: run the command line that brings a workspace's session to the front, as whoever set it wanted."""

from __future__ import annotations

import os
import signal

from postroom.children import Child, Wake, last_line
from postroom.core.errors import InvalidState
from postroom.core.records import Record
from postroom.core.verbs import verb
from postroom.core.words import quoted
from postroom.people.workspaces import show_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.entries import Workspace
    from postroom.store.port import Store

PATIENCE = 10.0  # seconds: it is to show something, not to be it


class Focused(Record):
    """How the command ended: well."""

    code: int
    output: str


@verb
def focus(store: Store, workspace_id: str) -> Focused:
    """Bring a workspace's session to the front."""
    return run(show_workspace(store, workspace_id))


def run(workspace: Workspace, *, patience: float = PATIENCE) -> Focused:
    """Run its command, in its folder. One that stays is ended."""
    if workspace.focus is None:
        hint = f"Give it one: `inbox workspace set {quoted(workspace.workspace_id)} --focus COMMAND`."
        raise InvalidState(f"{workspace.label} has no command that opens its session", hint=hint)
    line = f"cd {quoted(workspace.path)} || exit\n{workspace.focus}"
    environment = {**os.environ, "INBOX_WORKSPACE": workspace.workspace_id, "INBOX_AGENT": workspace.agent}
    wake = Wake()
    child = Child(line, environment, "", wake)
    try:
        in_time = child.wait(patience)
        if not in_time:
            child.end(signal.SIGKILL)
            child.wait(None)
        output, said = child.output(), last_line(child.errors() or child.output())
    finally:
        child.close()
        wake.close()
    if not in_time:
        raise InvalidState(f"the command did not end within {patience:g} s", hint="Let it start what stays in the background.")
    if child.status:
        raise InvalidState(f"the command failed: {child.how}", hint=said or "It printed nothing.")
    return Focused(child.status, output)
