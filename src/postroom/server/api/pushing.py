"""Entries that a workspace pushes to a person, for the HTTP and MCP handlers. Files are read before the write transaction begins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from postroom.core.errors import Forbidden
from postroom.core.records.people import Entry, Workspace
from postroom.people import documents, entries, repository
from postroom.people.documents import Described
from postroom.people.questions import asking
from postroom.server.http.auth import Caller
from postroom.server.rpc.calls import verify_in_write
from postroom.server.runtime.store_access import StoreAccess


async def push_entry(
    store_access: StoreAccess,
    caller: Caller,
    *,
    docs: Iterable[Any] = (),
    comments: str | None = None,
    title: str | None = None,
    entryId: str | None = None,  # noqa: N803 # the name of the field in JSON
) -> Entry:
    """Check and store an entry of the caller's workspace, or add it to the entry `entryId`. Refuses one without anything to show."""
    workspace = _require_workspace(caller)
    paths, text = documents.check_doc_paths(docs), repository.check_text("comments", comments or "")
    entries.require_content(paths, text)
    repository.check_title(title)
    described = await _describe_documents(store_access, workspace, paths)
    content: dict[str, Any] = {"described": described, "comments": text, "title": title, "entry_id": entryId}
    write = partial(entries.store_entry, workspace=workspace, **content)
    prefetch = partial(entries.prefetch_for_entry, workspace=workspace)
    return await store_access.write(verify_in_write(caller, write, prefetch), caller.door)


async def ask_person(store_access: StoreAccess, caller: Caller, *, docs: Iterable[Any] = (), **question: Any) -> Entry:
    """Store a question of the caller's workspace. The arguments are those of `people.ask`."""
    workspace = _require_workspace(caller)
    described = await _describe_documents(store_access, workspace, documents.check_doc_paths(docs))
    write = partial(asking.ask_described, workspace=workspace, described=described, **question)
    return await store_access.write(verify_in_write(caller, write), caller.door)


def _require_workspace(caller: Caller) -> Workspace:
    if caller.workspace is None:
        raise Forbidden("only a workspace can push", hint="Use a workspace's token.")
    return caller.workspace


async def _describe_documents(store_access: StoreAccess, workspace: Workspace, paths: list[str]) -> Described:
    """Read the documents of an entry in a thread, and return their descriptions."""
    return await store_access.run_off_loop(partial(documents.describe_files, workspace.path, paths)) if paths else Described()
