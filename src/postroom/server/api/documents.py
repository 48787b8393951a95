"""HTTP routes of workspaces and their documents: read live, rendered and compared with the pushed version, or downloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from postroom.core import checks, limits
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records import Record
from postroom.core.records.people import Entry, Workspace
from postroom.people import documents, focusing, read_documents, repository, triage
from postroom.people.access import workspaces
from postroom.people.documents import Document
from postroom.server.api.rendering import DOWNLOAD_TYPES, MARKDOWN_SUFFIXES, decode_text
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_body, query_flag, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.server.runtime.long_markdown import ALL, BEGINNING, MIN_LONG_BYTES, REST, prepare_long_markdown, render_long_markdown
from postroom.store.interface import Store

PARTS = (ALL, BEGINNING, REST)


class ReadDocument(Record):
    """A document as it is now: its first bytes, its hash, its size in bytes, and what changes with every write."""

    data: bytes
    sha256: str | None
    size: int
    version: str


class PushedDocument(Record):
    """A document as it was when its entry was made. `text` is None if it was not kept."""

    sha256: str | None
    size: int | None
    text: str | None


async def list_workspaces(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request)
    listed = await state.store_access.read_verb(make_call(caller, workspaces.list_workspaces))
    return JsonResponse({"workspaces": [workspace.to_json() for workspace in listed]})


async def focus_workspace(request: Request, state: AppState, caller: Caller) -> Response:
    """Bring a workspace's session to the front on this machine, with the command that was set on this machine."""
    await json_body(request)
    workspace = await state.store_access.read(lambda tx: workspaces.get_workspace(tx, request.path_params["id"]))
    return JsonResponse((await asyncio.to_thread(focusing.run_focus_command, workspace)).to_json())


async def mute_workspace(request: Request, state: AppState, caller: Caller) -> Response:
    """Let what a workspace pushes arrive as done, or stop that."""
    muted = request.method == "PUT"
    call = make_call(caller, triage.mute_workspace, workspace_id=request.path_params["id"], muted=muted)
    return JsonResponse({"workspace": (await state.store_access.write(call, call.door)).to_json()})


async def show_file(request: Request, state: AppState, caller: Caller) -> Response:
    """Return a document rendered, or as a download. With the `If-None-Match` of an earlier answer: 304 if nothing changed.

    `part=beginning` returns only the beginning of a long document, and `part=rest` what comes after it. `visit` stands for the time during
    which a person has the entry open: the answer says what changed since their visit before it.
    """
    refuse_unknown_parameters(request, "path", "entry", "download", "part", "visit")
    path = documents.check_path(request.query_params.get("path", ""))
    part = checks.choice("part", request.query_params.get("part", ALL), PARTS)
    pushed = await _find_pushed(request, state, path)
    try:
        workspace = await state.store_access.read(lambda tx: workspaces.get_workspace(tx, request.path_params["id"]))
        if query_flag(request, "download"):
            return await asyncio.to_thread(_make_download, workspace, path)
        known_version = request.headers.get("if-none-match", "").strip('"')
        read = await state.store_access.run_off_loop(partial(_read_document, workspace, path, known_version))
    except NotFound as missing:
        if pushed is None or query_flag(request, "download"):
            raise
        return await _show_pushed(state, path, pushed, missing)
    tag = {"ETag": f'"{read.version}"'}
    if read.version == known_version:
        return Response(status_code=304, headers=tag)
    answer = await _describe_document(state, workspace, path, read, part)
    if not answer["more"]:  # else what changed is told with the rest
        answer |= await _compare_with_pushed(state, read, answer, pushed)
        if pushed is not None and "visit" in request.query_params:
            answer |= await _compare_with_last_read(request, state, caller, answer)
    if part == REST or (answer["kind"] == "markdown" and read.size > documents.MAX_COMPARED_BYTES):
        answer["text"] = None  # the page shows the HTML. It needs the text only to find the line of a comment
    # A document that could not be rendered in time gets no tag, so that the page asks for it again.
    is_final = not answer.pop("fallback", False)
    return JsonResponse(await asyncio.to_thread(orjson.dumps, answer), headers=tag if is_final else None)


async def _describe_document(state: AppState, workspace: Workspace, path: str, read: ReadDocument, part: str) -> dict[str, Any]:
    link = f"/api/workspaces/{quote(workspace.workspace_id)}/file?path={quote(path, safe='')}&download=1"
    truncated = read.size > len(read.data)
    rendered = await _render(state, path, read.data, whole=not truncated, part=part)
    facts: dict[str, Any] = {"size": read.size, "sha256": read.sha256, "truncated": truncated, "download": link, "gone": False}
    return {"path": path, "text": None, "html": None, "more": False, **rendered, **facts, "pushedText": False}


async def _render(state: AppState, path: str, data: bytes, *, whole: bool, part: str) -> dict[str, Any]:
    if len(data) >= MIN_LONG_BYTES and path.lower().endswith(MARKDOWN_SUFFIXES):
        text, prepared = await asyncio.to_thread(_decode_long_markdown, data, whole=whole)
        shown = None if prepared is None else await render_long_markdown(state.renderer, prepared, path.rpartition("/")[0], part)
        if shown is not None:
            return {"kind": "markdown", "text": text, **shown}
    return await state.renderer.render_document(path, data, whole=whole)


def _decode_long_markdown(data: bytes, *, whole: bool) -> tuple[str | None, str | None]:
    """Return a document as text, and ready to be rendered in pieces, if it can be."""
    text = decode_text(data, whole=whole)
    return text, None if text is None else prepare_long_markdown(text)


async def _compare_with_pushed(
    state: AppState, read: ReadDocument, answer: Mapping[str, Any], pushed: PushedDocument | None
) -> dict[str, Any]:
    changed = _is_changed(pushed, read)
    told = {"pushedSha256": pushed and pushed.sha256, "changed": changed}
    return {**told, "diff": await _compare_texts(state, pushed.text, answer) if changed and pushed is not None else None}


async def _compare_with_last_read(request: Request, state: AppState, caller: Caller, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Note that a person is shown this version, and say what changed since they last read the document."""
    if answer["sha256"] is None:
        return {"readAt": None, "changedSinceRead": None, "readDiff": None}
    text = answer["text"] if answer["size"] <= documents.MAX_COMPARED_BYTES else None
    query = request.query_params
    version = {"path": answer["path"], "visit": checks.name("visit", query["visit"]), "sha256": answer["sha256"], "text": text}
    last = await state.store_access.write(
        partial(read_documents.note_shown, entry_id=query["entry"], person=caller.name, **version), caller.door
    )
    if last is None:
        return {"readAt": None, "changedSinceRead": None, "readDiff": None}
    changed = last.sha256 != answer["sha256"]
    difference = await _compare_texts(state, last.text, answer) if changed else None
    return {"readAt": last.read_at, "changedSinceRead": changed, "readDiff": difference}


async def _compare_texts(state: AppState, before: str | None, answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    if before is None or answer["text"] is None or answer["truncated"]:
        return None
    return await state.renderer.render_diff(before, answer["text"])


async def _show_pushed(state: AppState, path: str, pushed: PushedDocument, missing: NotFound) -> Response:
    """Return a document that is gone: why, and its text as it was pushed, if that was kept."""
    gone: dict[str, Any] = {
        "kind": None,
        "html": None,
        "text": None,
        "size": pushed.size,
        "sha256": None,
        "truncated": False,
        "more": False,
    }
    if pushed.text is not None:
        gone |= await state.renderer.render_document(path, pushed.text.encode(), whole=True)
        gone.pop("fallback", None)
    facts = {"download": None, "pushedSha256": pushed.sha256, "changed": True, "gone": True, "diff": None}
    reason = "The workspace was removed." if "workspace_id" in missing.facts else f"{str(missing)[:1].upper()}{str(missing)[1:]}."
    return JsonResponse({"path": path, **gone, **facts, "pushedText": pushed.text is not None, "reason": reason})


async def _find_pushed(request: Request, state: AppState, path: str) -> PushedDocument | None:
    """Return the document as it was when the entry in the query was pushed, or None if the query names no entry.

    An entry may show other documents of its workspace, to which its texts link: those were not pushed.
    """
    entry_id = request.query_params.get("entry")
    if entry_id is None:
        return None
    entry, text = await state.store_access.read_in_thread(partial(_read_entry, entry_id=entry_id, path=path))
    if entry.workspace_id != request.path_params["id"]:
        raise InvalidInput("that entry does not point to this document", field="entry", hint="Leave it out, or name another.")
    matching = [doc for doc in entry.docs if doc.get("path") == path]
    return PushedDocument(matching[0].get("sha256"), matching[0].get("size"), text) if matching else None


def _read_entry(store: Store, *, entry_id: str, path: str) -> tuple[Entry, str | None]:
    """Return an entry, and the text of a document as it was when the entry was made."""
    with store.read() as tx:
        return repository.get_entry(tx, entry_id), repository.pushed_text(tx, entry_id, path)


def _read_document(workspace: Workspace, path: str, known_version: str) -> ReadDocument:
    """Read a document, unless its version is known."""
    with Document(workspace.path, path) as document:
        if document.version == known_version:
            return ReadDocument(b"", None, document.size, document.version)
        return ReadDocument(document.read_start(limits.MAX_RENDERED_BYTES), document.compute_sha256(), document.size, document.version)


def _is_changed(pushed: PushedDocument | None, read: ReadDocument) -> bool | None:
    """Return whether a document changed since it was pushed, or None if that is not known."""
    if pushed is None:
        return None
    if pushed.sha256 is not None and read.sha256 is not None:
        return bool(pushed.sha256 != read.sha256)
    return True if pushed.size not in (None, read.size) else None


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
    return _Download(document, headers, DOWNLOAD_TYPES.get(suffix, "application/octet-stream"))


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
