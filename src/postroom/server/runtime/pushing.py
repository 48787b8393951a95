"""Entries that a workspace pushes to a person, for the HTTP and MCP handlers. Files are read before the write transaction begins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from postroom.core.records.people import Entry, Workspace
from postroom.people import documents, entries, repository
from postroom.people.documents import Described
from postroom.server.runtime.store_access import StoreAccess


async def push_entry(
    store_access: StoreAccess, workspace: Workspace, door: str, *, docs: Iterable[Any] = (), comments: str | None = None
) -> Entry:
    """Check and store an entry. Refuses one without documents and without comments."""
    paths, text = documents.check_doc_paths(docs), repository.check_text("comments", comments or "")
    entries.require_content(paths, text)
    described = await describe_documents(store_access, workspace, paths)
    return await store_access.write(partial(entries.store_entry, workspace=workspace, described=described, comments=text), door)


async def describe_documents(store_access: StoreAccess, workspace: Workspace, paths: list[str]) -> Described:
    """Read the documents of an entry in a thread, and return their descriptions."""
    return await store_access.read_files(partial(documents.describe_files, workspace.path, paths)) if paths else Described()
