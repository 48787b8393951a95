"""Workspaces: the folders that agents work in, and the token by which each is known."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.entries import Registered, Workspace
from postroom.core.errors import InvalidInput, NotFound, Taken
from postroom.core.verbs import verb
from postroom.people import tokens
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

MOST = 10_000
LONGEST_COMMAND = 4096


@verb
@retried
def add_workspace(store: Store, path: str, *, label: str, agent: str | None = None) -> Registered:
    """Make a folder known as a workspace. Its agent, by default of the folder's name, gets its mail and is its voice."""
    checks.name("label", label, hint="Say what people should call it.")
    folder = os.path.realpath(checks.path("path", path))
    if not os.path.isdir(folder):
        raise InvalidInput(f"{path} is not a folder", field="path", hint="Name the folder that the agent works in.")
    name = checks.name("agent", os.path.basename(folder) if agent is None else agent, hint="Name its agent with --agent.")
    token = tokens.fresh("prw")
    with store.write() as tx:
        _refuse_taken(tx, folder, name)
        known = tx.one(tx.sql.agent_find, name=name)
        if known is not None and known[1] == "human":
            raise InvalidInput(f"{name} is a person", field="agent", hint="Name the workspace's agent with --agent.")
        now = clock.stamp(tx.now())
        workspace = Workspace(tx.fresh("ws"), label, folder, name, now)
        tx.run(tx.sql.workspace_insert, **dict(workspace.items()), token_hash=tokens.hashed(token))
        if known is None:
            tx.run(tx.sql.agent_put, name=name, kind="agent", now=now)
    return Registered(workspace, token)


def _refuse_taken(tx: Transaction, folder: str, agent: str) -> None:
    row = tx.one(tx.sql.workspace_of_path, path=folder)
    if row is not None:
        hint = f"Use it, or give it a new token with `inbox workspace token {row[0]}`."
        raise Taken(f"{folder} is the workspace {row[0]} already", hint=hint, workspace_id=row[0])
    row = tx.one(tx.sql.workspace_of_agent, agent=agent)
    if row is not None:
        raise Taken(f"{agent} is the agent of another workspace, {row[0]}", hint="Choose another name with --agent.", workspace_id=row[0])


@verb
def list_workspaces(store: Store) -> tuple[Workspace, ...]:
    """Every workspace, by label."""
    with store.read() as tx:
        found = [Workspace(*row) for row in tx.all(tx.sql.workspaces_all, limit=MOST)]
    return tuple(sorted(found, key=lambda workspace: (workspace.label.casefold(), workspace.workspace_id)))


@verb
def workspace_for(store: Store, *, agent: str) -> Workspace:
    """The workspace of an agent."""
    with store.read() as tx:
        row = tx.one(tx.sql.workspace_of_agent, agent=checks.name("agent", agent))
    if row is None:
        hint = "Add one with `inbox workspace add`; without a workspace there is `inbox notify`."
        raise NotFound(f"{agent} is no workspace's agent", hint=hint, agent=agent)
    return Workspace(*row)


@verb
def show_workspace(store: Store, workspace_id: str) -> Workspace:
    with store.read() as tx:
        return found(tx, workspace_id)


@verb
@retried
def set_workspace(store: Store, workspace_id: str, *, label: str | None = None, focus: str | None = None) -> Workspace:
    """Change what a workspace is called, or the command line that brings its session to the front; "" takes that away.

    Only here, on the machine: whoever comes over the network may have it run, and never says what is run.
    """
    if label is not None:
        checks.name("label", label)
    if focus is not None:
        checks.text("focus", focus)
        if len(focus) > LONGEST_COMMAND:
            raise InvalidInput(f"the command is longer than {LONGEST_COMMAND} characters", field="focus", hint="Put it into a script.")
    if label is None and focus is None:
        raise InvalidInput("there is nothing to change", field="focus", hint="Give --label, --focus or --no-focus.")
    with store.write() as tx:
        workspace = found(tx, workspace_id)
        wanted = workspace.focus if focus is None else (focus.strip() or None)
        changed = workspace.replace(label=workspace.label if label is None else label, focus=wanted)
        tx.run(tx.sql.workspace_set, workspace_id=workspace_id, label=changed.label, focus=changed.focus)
    return changed


@verb
@retried
def remove_workspace(store: Store, workspace_id: str) -> Workspace:
    """Forget a workspace. Its token is void at once; what it pushed stays."""
    with store.write() as tx:
        workspace = found(tx, workspace_id)
        tx.run(tx.sql.workspace_delete, workspace_id=workspace_id)
    return workspace


@verb
@retried
def rotate_token(store: Store, workspace_id: str) -> Registered:
    """A new token; the old one is void at once."""
    token = tokens.fresh("prw")
    with store.write() as tx:
        workspace = found(tx, workspace_id)
        tx.run(tx.sql.workspace_retoken, workspace_id=workspace_id, token_hash=tokens.hashed(token))
    return Registered(workspace, token)


@verb
def workspace_of(store: Store, token: str) -> Workspace:
    """Whose token this is."""
    with store.read() as tx:
        row = tx.one(tx.sql.workspace_of_token, token_hash=tokens.hashed(token))
    if row is None:
        raise NotFound("no workspace has this token", hint="Make a new one with `inbox workspace token ID`.")
    return Workspace(*row)


def found(tx: Transaction, workspace_id: str) -> Workspace:
    row = tx.one(tx.sql.workspace_find, workspace_id=checks.name("workspace", workspace_id))
    if row is None:
        raise NotFound(f"there is no workspace {workspace_id}", hint="See `inbox workspace list`.", workspace_id=workspace_id)
    return Workspace(*row)
