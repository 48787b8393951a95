"""HTTP routes of workspaces and their documents: read live, rendered and compared with the pushed version, or downloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import Entry, Workspace
from postroom.people import documents, focusing, repository, workspaces
from postroom.people.documents import Document
from postroom.server.api.rendering import IMAGE_TYPES, MAX_SHOWN_BYTES
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_body, query_flag
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.store.interface import Store


async def list_workspaces(request: Request, state: AppState, caller: Caller) -> Response:
    listed = await state.store_access.read_verb(make_call(caller, workspaces.list_workspaces))
    return JsonResponse({"workspaces": [workspace.to_json() for workspace in listed]})


async def focus_workspace(request: Request, state: AppState, caller: Caller) -> Response:
    """Bring a workspace's session to the front on this machine, with the command that was set on this machine."""
    await json_body(request)
    workspace = await state.store_access.read(lambda tx: workspaces.get_workspace(tx, request.path_params["id"]))
    return JsonResponse((await asyncio.to_thread(focusing.run_focus_command, workspace)).to_json())


async def show_file(request: Request, state: AppState, caller: Caller) -> Response:
    workspace = await state.store_access.read(lambda tx: workspaces.get_workspace(tx, request.path_params["id"]))
    path = documents.check_path(request.query_params.get("path", ""))
    if query_flag(request, "download"):
        return await asyncio.to_thread(_make_download, workspace, path)
    pushed = await _find_pushed(request, state, path)
    link = f"/api/workspaces/{quote(workspace.workspace_id)}/file?path={quote(path, safe='')}&download=1"
    try:
        data, sha256, size = await state.store_access.read_files(partial(_read_document, workspace, path))
    except NotFound:
        if pushed is None:
            raise
        gone = {"kind": None, "html": None, "size": None, "sha256": None, "truncated": False, "download": None}
        return JsonResponse({"path": path, **gone, "pushedSha256": pushed["sha256"], "changed": True, "gone": True, "diff": None})
    truncated = size > len(data)
    rendered = await state.renderer.render_document(path, data, whole=not truncated)
    facts: dict[str, Any] = {"size": size, "sha256": sha256, "truncated": truncated, "download": link, "gone": False}
    facts |= {"pushedSha256": pushed and pushed["sha256"], "changed": _is_changed(pushed, sha256, size)}
    answer: dict[str, Any] = {"path": path, "text": None, **rendered, **facts, "diff": None}
    if pushed is not None and answer["changed"] and answer["text"] is not None and pushed["text"] is not None and not truncated:
        answer["diff"] = await state.renderer.render_diff(pushed["text"], answer["text"])
    return JsonResponse(await asyncio.to_thread(orjson.dumps, answer))


async def _find_pushed(request: Request, state: AppState, path: str) -> dict[str, Any] | None:
    """Return the document as it was when the entry in the query was pushed, or None if the query names no entry."""
    entry_id = request.query_params.get("entry")
    if entry_id is None:
        return None
    entry, text = await state.store_access.read_in_thread(partial(_read_entry, entry_id=entry_id, path=path))
    matching = [doc for doc in entry.docs if doc.get("path") == path]
    if not matching or entry.workspace_id != request.path_params["id"]:
        raise InvalidInput("that entry does not point to this document", field="entry", hint="Leave it out, or name another.")
    return {"sha256": matching[0].get("sha256"), "size": matching[0].get("size"), "text": text}


def _read_entry(store: Store, *, entry_id: str, path: str) -> tuple[Entry, str | None]:
    """Return an entry, and the text of a document as it was when the entry was made."""
    with store.read() as tx:
        return repository.get_entry(tx, entry_id), repository.pushed_text(tx, entry_id, path)


def _read_document(workspace: Workspace, path: str) -> tuple[bytes, str | None, int]:
    with Document(workspace.path, path) as document:
        return document.read_start(MAX_SHOWN_BYTES), document.compute_sha256(), document.size


def _is_changed(pushed: dict[str, Any] | None, sha256: str | None, size: int) -> bool | None:
    """Return whether a document changed since it was pushed, or None if that is not known."""
    if pushed is None:
        return None
    if pushed["sha256"] is not None and sha256 is not None:
        return bool(pushed["sha256"] != sha256)
    return True if pushed["size"] not in (None, size) else None


def _make_download(workspace: Workspace, path: str) -> Response:
    """Return the bytes of a document as a download, with headers that stop a browser from running it."""
    document = Document(workspace.path, path)
    name = path.rpartition("/")[2]
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Length": str(document.size),
    }
    return _Download(document, headers, IMAGE_TYPES.get(suffix, "application/octet-stream"))


class _Download(StreamingResponse):
    """A download that closes its file however it ends, even before the first byte."""

    def __init__(self, document: Document, headers: dict[str, str], media_type: str) -> None:
        self._document = document
        super().__init__(_read_blocks(document), headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._document:
            await super().__call__(scope, receive, send)


def _read_blocks(document: Document) -> Iterator[bytes]:
    """Yield as many bytes as `Content-Length` announced, even if the file grows meanwhile."""
    offset = 0
    while offset < document.size and (block := document.read_block(offset)):
        yield block[: document.size - offset]
        offset += len(block)
