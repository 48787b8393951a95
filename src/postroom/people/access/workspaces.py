"""Register the folders that agents work in, and the token of each. Called by the CLI and the server."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState, NotFound, Taken
from postroom.core.records.people import Workspace, WorkspaceRegistration
from postroom.core.verbs import OWN_NAME, PEOPLE, READ, SERVER_MACHINE, STEPS, WRITE, verb
from postroom.people.access import tokens
from postroom.store.agents import refuse_lookalike
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

MAX_WORKSPACES = 10_000
MAX_COMMAND_CHARS = 4096


@verb(caller=SERVER_MACHINE, mode=STEPS)
@retry_on_contention
def add_workspace(store: Store, path: str, *, label: str, agent: str | None = None) -> WorkspaceRegistration:
    """Register a folder as a workspace and return it with its token.

    `agent`, by default the folder's name, sends and receives for the workspace. Refuses with `Taken` if the folder or the agent
    already belongs to a workspace, and with `InvalidState` if there are `MAX_WORKSPACES`.
    """
    checks.name("label", label, hint="Say what people should call it.")
    folder = checks.indexed("path", os.path.realpath(checks.path("path", path)))
    if not os.path.isdir(folder):
        raise InvalidInput(f"{path} is not a folder", field="path", hint="Name the folder that the agent works in.")
    name = checks.name("agent", folder_name(folder) if agent is None else agent, hint="Name its agent with --agent.")
    token = tokens.new_token(tokens.WORKSPACE_PREFIX)
    with store.write() as tx:
        _refuse_taken(tx, folder, name)
        if tx.fetch_one(tx.sql.workspace_at, number=MAX_WORKSPACES - 1) is not None:
            raise InvalidState(f"there are {MAX_WORKSPACES} workspaces already", hint="Remove one with `inbox workspace remove`.")
        refuse_lookalike(tx, "agent", name)
        now = clock.format_stamp(tx.now())
        tx.execute(tx.sql.agent_open, name=name, now=now)
        known = tx.fetch_one(tx.sql.agent_lock, name=name)
        if known is None or known.is_person:
            raise InvalidInput(f"{name} is a person", field="agent", hint="Name the workspace's agent with --agent.")
        workspace = Workspace(tx.new_id("ws"), label, folder, name, now)
        tx.execute(tx.sql.workspace_insert, **dict(workspace.items()), token_hash=tokens.hash_token(token))
    return WorkspaceRegistration(workspace, token)


def find_by_folder(store: Store, folder: str) -> Workspace | None:
    """Return the workspace of a folder, or of the nearest folder above it, or None. For commands that run inside one."""
    path = os.path.realpath(folder)
    with store.read() as tx:
        while True:
            found = tx.fetch_one(tx.sql.workspace_of_path, path=path)
            if found is not None or path == os.path.dirname(path):
                return found
            path = os.path.dirname(path)


def find_by_agent(store: Store, agent: str) -> Workspace | None:
    """Return the workspace of an agent, or None."""
    with store.read() as tx:
        return tx.fetch_one(tx.sql.workspace_of_agent, agent=agent)


def folder_name(folder: str) -> str:
    """Return the name of a folder in the normal form of names. Some file systems keep letters and accents apart."""
    from unicodedata import normalize

    return normalize("NFC", os.path.basename(folder))


def _refuse_taken(tx: Transaction, folder: str, agent: str) -> None:
    existing = tx.fetch_one(tx.sql.workspace_of_path, path=folder)
    if existing is not None:
        known = existing.workspace_id
        hint = f"Use it, or give it a new token with `inbox workspace token {known}`."
        raise Taken(f"{folder} is the workspace {known} already", hint=hint, workspace_id=known)
    other = tx.fetch_one(tx.sql.workspace_of_agent, agent=agent)
    if other is not None:
        why = f"{agent} is the agent of another workspace, {other.workspace_id}"
        raise Taken(why, hint="Choose another name with --agent.", workspace_id=other.workspace_id)


@verb(caller=PEOPLE, mode=READ)
def list_workspaces(store: Store) -> tuple[Workspace, ...]:
    """Return every workspace, sorted by label. There are at most `MAX_WORKSPACES`."""
    with store.read() as tx:
        workspaces = tx.fetch_all(tx.sql.workspaces_all, limit=MAX_WORKSPACES)
    return tuple(sorted(workspaces, key=lambda workspace: (workspace.label.casefold(), workspace.workspace_id)))


@verb(caller="agent", access=OWN_NAME, mode=READ)
def workspace_for(store: Store, *, agent: str) -> Workspace:
    """Return the workspace of an agent. Refuses with `NotFound` if it has none."""
    with store.read() as tx:
        workspace = tx.fetch_one(tx.sql.workspace_of_agent, agent=checks.name("agent", agent))
    if workspace is None:
        hint = "Add one with `inbox workspace add`; without a workspace there is `inbox notify`."
        raise NotFound(f"{agent} is not the agent of a workspace", hint=hint, agent=agent)
    return workspace


@verb(caller=PEOPLE, mode=READ)
def show_workspace(store: Store, workspace_id: str) -> Workspace:
    """Return a workspace. Refuses with `NotFound`."""
    with store.read() as tx:
        return get_workspace(tx, workspace_id)


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def set_workspace(store: Store, workspace_id: str, *, label: str | None = None, focus: str | None = None) -> Workspace:
    """Change a workspace's label, or the command line that brings its session to the front. "" removes the command.

    Only callers on this machine can set the command. Callers over the network can run it, but not choose it.
    """
    if label is not None:
        checks.name("label", label)
    if focus is not None:
        checks.text("focus", focus)
        if len(focus) > MAX_COMMAND_CHARS:
            raise InvalidInput(f"the command is longer than {MAX_COMMAND_CHARS} characters", field="focus", hint="Put it into a script.")
    if label is None and focus is None:
        raise InvalidInput("there is nothing to change", field="focus", hint="Give --label, --focus or --no-focus.")
    with store.write() as tx:
        workspace = get_workspace(tx, workspace_id)
        changed = workspace.replace(
            label=workspace.label if label is None else label,
            focus=workspace.focus if focus is None else focus.strip() or None,
        )
        tx.execute(tx.sql.workspace_set, workspace_id=workspace_id, label=changed.label, focus=changed.focus)
    return changed


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def remove_workspace(store: Store, workspace_id: str) -> Workspace:
    """Remove a workspace and return it. Its token is void at once. The entries that it pushed stay."""
    with store.write() as tx:
        workspace = get_workspace(tx, workspace_id)
        tx.execute(tx.sql.workspace_delete, workspace_id=workspace_id)
    return workspace


@verb(caller=SERVER_MACHINE, mode=WRITE)
@retry_on_contention
def rotate_token(store: Store, workspace_id: str) -> WorkspaceRegistration:
    """Give a workspace a new token and return it. The old token is void at once."""
    token = tokens.new_token(tokens.WORKSPACE_PREFIX)
    with store.write() as tx:
        workspace = get_workspace(tx, workspace_id)
        tx.execute(tx.sql.workspace_retoken, workspace_id=workspace_id, token_hash=tokens.hash_token(token))
    return WorkspaceRegistration(workspace, token)


@verb(caller=SERVER_MACHINE, mode=READ)
def workspace_of(store: Store, token: str) -> Workspace:
    """Return the workspace that has this token. Refuses with `NotFound`."""
    with store.read() as tx:
        workspace = tx.fetch_one(tx.sql.workspace_of_token, token_hash=tokens.hash_token(token))
    if workspace is None:
        raise NotFound("no workspace has this token", hint="Make a new one with `inbox workspace token ID`.")
    return workspace


def get_workspace(tx: Transaction, workspace_id: str) -> Workspace:
    """Return a workspace. Refuses with `NotFound`."""
    workspace = tx.fetch_one(tx.sql.workspace_find, workspace_id=checks.name("workspace", workspace_id))
    if workspace is None:
        raise NotFound(f"there is no workspace {workspace_id}", hint="See `inbox workspace list`.", workspace_id=workspace_id)
    return workspace
