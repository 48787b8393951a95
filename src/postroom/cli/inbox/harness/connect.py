"""Handler of `harness connect`: plan, write, check and undo the connection of a program."""

from __future__ import annotations

import os
import sys

from postroom.cli.framework.output import CONFLICT, OK, Outcome
from postroom.cli.inbox import inputs
from postroom.cli.inbox.harness import programs
from postroom.cli.inbox.harness.files import CHANGED_SINCE, KEPT, LEFT_ALONE, REMOVED, ConnectionRecord
from postroom.cli.inbox.harness.planning import ADD, PRESENT, REPLACE, plan_parts
from postroom.core.errors import InvalidInput, Refusal
from postroom.people.access import workspaces
from postroom.store.location import find_location, has_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.people import Workspace
    from postroom.store.interface import Store


def handle_connect(args: Arguments) -> Outcome:
    program = args.words[0]
    if program not in programs.PROGRAMS:
        raise InvalidInput(f"{program} is not a known program", field="harness", hint=f"One of: {', '.join(programs.PROGRAMS)}.")
    if sum(map(bool, (args.plan, args.check, args.undo))) > 1 or (args.user and args.project):
        raise InvalidInput(
            "these flags exclude each other", field="plan", hint="Give one of --dry-run, --check, --undo; --user or --project."
        )
    folder = os.getcwd()
    record = ConnectionRecord(folder, program)
    if args.undo:
        return _undo(args, record)
    target = find_target(args, program, folder, may_add=not (args.plan or args.check), known=record.options if args.check else {})
    if target.is_new_workspace:
        record.note_workspace(target.workspace_id)
    if args.check:
        from postroom.cli.inbox.harness.checking import check_connection

        checks = check_connection(program, target)
        failed = any(not check["ok"] for check in checks)
        return Outcome({"program": program, "checks": checks}, view="harness checks", exit_code=CONFLICT if failed else OK)
    if program == "generic":
        return _explain(target)
    steps, changes = plan_parts(programs.parts_of(program, target), record)
    if not args.plan:
        record.apply(changes, [step.part.file for step in steps if step.action == PRESENT], target.options)
    data = {"program": program, "agent": target.agent, "written": not args.plan, "steps": [step.to_json() for step in steps]}
    actions = {step.action for step in steps}
    next_steps = [programs.NEXT_STEPS[program]] if actions & {ADD, REPLACE} else []
    if LEFT_ALONE in actions:
        undo = f"`inbox harness connect {program} --undo`"
        next_steps.append(
            f"What was left alone is not connected. If an earlier connection wrote it, {undo} removes it; then connect again."
        )
    exit_code = CONFLICT if LEFT_ALONE in actions else OK
    return Outcome({**data, "next": "\n".join(next_steps)}, view="harness plan", exit_code=exit_code, only_reads=False)


def _undo(args: Arguments, record: ConnectionRecord) -> Outcome:
    files = record.undo()
    is_incomplete = any(file["action"] in (CHANGED_SINCE, LEFT_ALONE) for file in files)
    data: dict[str, Any] = {"program": record.data["program"], "files": files}
    if record.workspace_id:
        reason = "the connection is not undone" if is_incomplete else _give_up_workspace(args, record)
        action = {"action": KEPT, "reason": reason} if reason else {"action": REMOVED}
        data["workspace"] = {"workspace_id": record.workspace_id, **action}
    return Outcome(data, view="harness undone", exit_code=CONFLICT if is_incomplete else OK, only_reads=False)


def _give_up_workspace(args: Arguments, record: ConnectionRecord) -> str:
    """Remove the workspace that was made for a connection. Returns why it stays, or ""."""
    from postroom.people.entries import own_entries

    for other in record.list_others():
        if other.exists and other.data["folder"] == record.data["folder"]:
            other.note_workspace(record.workspace_id)
            return f"{other.data['program']} is connected in this folder"
    try:
        store = inputs.open_store_for(args)
        workspace = workspaces.show_workspace(store, record.workspace_id)
        if own_entries(store, agent=workspace.agent, limit=1).entries:
            return "it has entries"
        workspaces.remove_workspace(store, record.workspace_id)
    except Refusal as refusal:  # the files are restored all the same
        return str(refusal)
    return ""


def find_target(args: Arguments, program: str, folder: str, *, may_add: bool, known: dict[str, bool]) -> programs.Target:
    """Return what is connected. The folder becomes a workspace if it is none. Refuses a URL with a password, before anything is written.

    `known` are the options of an earlier connection, which a check looks at.
    """
    if has_password(find_location(args.db)):
        hint = (
            "Settings of programs name the store. Put the password into ~/.pgpass or the file of PGPASSFILE, and leave it out of the URL."
        )
        raise InvalidInput("the URL of the store has a password", field="db", hint=hint)
    store = inputs.open_store_for(args)
    if store.is_remote:
        raise InvalidInput("that store is behind a server", field="db", hint="See `inbox harness connect generic` for MCP over HTTP.")
    found = workspaces.find_by_folder(store, folder)
    workspace = found or _add_workspace(store, args, folder, may_add=may_add)
    if args.values["agent"] not in (None, workspace.agent):
        hint = f"Leave --agent out, or connect another folder; see `inbox workspace show {workspace.workspace_id}`."
        raise InvalidInput(f"the agent of this folder is {workspace.agent}", field="agent", hint=hint)
    given = args.values  # `harness check` has no flags for the place
    is_user = given.get("user") or (program in programs.USER_SCOPED and not given.get("project"))
    options = {"is_user": bool(is_user), "hold": bool(given.get("hold")), **known}
    place = (folder, workspace.agent, workspace.workspace_id, store.location, find_command())
    target = programs.Target(*place, is_user=options["is_user"], hold=options["hold"])
    target.is_new_workspace = found is None and may_add
    return target


def _add_workspace(store: Store, args: Arguments, folder: str, *, may_add: bool) -> Workspace:
    from postroom.core.records.people import Workspace

    label = os.path.basename(os.path.realpath(folder))
    agent = args.agent or label
    if not may_add:
        return Workspace("ws_new", label, folder, agent, "")
    return workspaces.add_workspace(store, folder, label=label, agent=agent).workspace


def find_command() -> str:
    """Return the word with which programs start `inbox`: its name if that is found in PATH, else the path of this one."""
    from shutil import which

    own = os.path.realpath(sys.argv[0])
    found = which("inbox")
    return "inbox" if found is not None and os.path.realpath(found) == own else own


def _explain(target: programs.Target) -> Outcome:
    """Return what to do for a program that is not known here."""
    hook = target.hook_line("EVENT", "claude")
    lines: dict[str, Any] = {"command": target.server[0], "args": target.server[1:]}
    text = (
        "Give the program an MCP server over stdio:\n"
        f"  {' '.join(target.server)}\n"
        f"or over HTTP: /mcp/{target.workspace_id} of `inbox serve`, with the token of `inbox workspace token {target.workspace_id}`.\n"
        "If it runs hooks with JSON on standard input, as Claude Code does, run at the start of a session, before a prompt, after a tool"
        " and at the end of a turn, with EVENT start, prompt, tool and stop:\n"
        f"  {hook}\n"
        f"To wake it yourself, wait with `inbox wait --agent {target.agent} --after-event CURSOR --json` and start a turn when that"
        " returns.\n"
    )
    return Outcome({"program": "generic", "mcp": lines, "text": text}, view="text")
