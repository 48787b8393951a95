"""Documents over HTTP: read live from the workspace, rendered, compared with what was pushed; or as they are, as a download."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from postroom.core.entries import Entry, Workspace
from postroom.core.errors import InvalidInput, NotFound
from postroom.people import documents, focusing, ledger, workspaces
from postroom.people.documents import Document
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.rendering import IMAGES, SHOWN_BYTES
from postroom.server.requests import Office, body, flag


async def list_workspaces(request: Request, office: Office, caller: Caller) -> Response:
    return Json({"workspaces": [workspace.plain() for workspace in await office.desk.ask(workspaces.list_workspaces)]})


async def focus(request: Request, office: Office, caller: Caller) -> Response:
    """Bring a workspace's session to the front, on this machine, by the command that was set on this machine."""
    await body(request)
    workspace = await office.desk.read(lambda tx: workspaces.found(tx, request.path_params["id"]))
    return Json((await asyncio.to_thread(focusing.run, workspace)).plain())


async def file(request: Request, office: Office, caller: Caller) -> Response:
    workspace = await office.desk.read(lambda tx: workspaces.found(tx, request.path_params["id"]))
    path = documents.checked(request.query_params.get("path", ""))
    if flag(request, "download"):
        return await asyncio.to_thread(_download, workspace, path)
    pushed = await _pushed(request, office, path)
    link = f"/api/workspaces/{quote(workspace.workspace_id)}/file?path={quote(path, safe='')}&download=1"
    try:
        data, sha256, size = await asyncio.to_thread(_read, workspace, path)
    except NotFound:
        if pushed is None:
            raise
        gone = {"kind": None, "html": None, "size": None, "sha256": None, "truncated": False, "download": None}
        return Json({"path": path, **gone, "pushedSha256": pushed["sha256"], "changed": True, "gone": True, "diff": None})
    truncated = size > len(data)
    painted = await office.painter.rendered(path, data, whole=not truncated)
    facts: dict[str, Any] = {"size": size, "sha256": sha256, "truncated": truncated, "download": link, "gone": False}
    facts |= {"pushedSha256": pushed and pushed["sha256"], "changed": _changed(pushed, sha256, size)}
    answer: dict[str, Any] = {"path": path, "text": None, **painted, **facts, "diff": None}
    if pushed is not None and answer["changed"] and answer["text"] is not None and pushed["text"] is not None and not truncated:
        answer["diff"] = await office.painter.diff(pushed["text"], answer["text"])
    return Json(answer)


async def _pushed(request: Request, office: Office, path: str) -> dict[str, Any] | None:
    """The document as an entry points to it, if one is named."""
    entry_id = request.query_params.get("entry")
    if entry_id is None:
        return None
    entry: Entry = await office.desk.read(lambda tx: ledger.found(tx, entry_id))
    found = [doc for doc in entry.docs if doc.get("path") == path]
    if not found or entry.workspace_id != request.path_params["id"]:
        raise InvalidInput("that entry does not point to this document", field="entry", hint="Leave it out, or name another.")
    text = await office.desk.read(lambda tx: ledger.pushed_text(tx, entry_id, path))
    return {"sha256": found[0].get("sha256"), "size": found[0].get("size"), "text": text}


def _read(workspace: Workspace, path: str) -> tuple[bytes, str | None, int]:
    with Document(workspace.path, path) as document:
        return document.read(SHOWN_BYTES), document.sha256(), document.size


def _changed(pushed: dict[str, Any] | None, sha256: str | None, size: int) -> bool | None:
    """Whether it is another one since it was pushed; None if nobody can tell."""
    if pushed is None:
        return None
    if pushed["sha256"] is not None and sha256 is not None:
        return bool(pushed["sha256"] != sha256)
    return True if pushed["size"] not in (None, size) else None


def _download(workspace: Workspace, path: str) -> Response:
    """The bytes, never as something that a browser would run."""
    document = Document(workspace.path, path)
    name = path.rpartition("/")[2]
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Length": str(document.size),
    }
    return _Download(document, headers, IMAGES.get(suffix, "application/octet-stream"))


class _Download(StreamingResponse):
    """Closes its file however it ends, also before it began."""

    def __init__(self, document: Document, headers: dict[str, str], media_type: str) -> None:
        self._document = document
        super().__init__(_blocks(document), headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._document:
            await super().__call__(scope, receive, send)


def _blocks(document: Document) -> Iterator[bytes]:
    """As many bytes as were promised, even if the file grows meanwhile."""
    at = 0
    while at < document.size and (block := document.block(at)):
        yield block[: document.size - at]
        at += len(block)
