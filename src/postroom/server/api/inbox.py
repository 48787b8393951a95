"""HTTP routes of the inbox: list, search, show, mark as read, delete and reply for people, and push for agents without MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.errors import Forbidden, InvalidInput, NotFound
from postroom.core.records.people import EntryPage
from postroom.people import entries, receipts, replying
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_body, query_flag, query_integer
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.server.runtime.pushing import push_entry
from postroom.store.interface import Transaction

DOCS_TYPE = (list,)


async def list_entries(request: Request, state: AppState, caller: Caller) -> Response:
    query = request.query_params
    limit, unread, is_open = query_integer(request, "limit", 100), query_flag(request, "unread"), query_flag(request, "open")
    entries.check_page(limit, section := query.get("section", "inbox"))
    read_page = partial(
        entries.read_page,
        limit=limit,
        before=query.get("before"),
        workspace_id=query.get("workspaceId"),
        section=section,
        unread=unread,
        open_only=is_open,
    )

    async def encode_page() -> bytes:
        return await _encode_entries(read_page, state, caller)

    key = (limit, query.get("before"), query.get("workspaceId"), section, unread, is_open)
    return JsonResponse(await state.store_access.cached_page(key, encode_page))


async def show_summary(request: Request, state: AppState, caller: Caller) -> Response:
    """Return what the web page needs at start: the person, the counts, and the event id from which to listen."""
    latest, counts = await state.store_access.read_current(lambda tx: (tx.fetch_one(tx.sql.event_latest), entries.count_waiting(tx)))
    session = {"person": caller.name, "version": __version__, "dev": state.dev, "eventId": latest or 0}
    return JsonResponse({**session, **counts.to_json()})


async def search_entries(request: Request, state: AppState, caller: Caller) -> Response:
    search_page = partial(entries.search_page, q=request.query_params.get("q", ""), limit=query_integer(request, "limit", 50))
    return JsonResponse(await _encode_entries(search_page, state, caller))


async def _encode_entries(find_page: Callable[[Transaction], EntryPage], state: AppState, caller: Caller) -> bytes:
    """Read and encode a page of entries. Entries that are listed for the first time are recorded in the background."""

    def read_and_encode(tx: Transaction) -> tuple[list[str], bytes]:
        page = find_page(tx)
        return [entry.id for entry in page.entries if entry.offered_at is None], orjson.dumps(page.to_json())

    new, encoded = await state.store_access.read_current_in_thread(read_and_encode)
    if new:
        state.run_in_background(state.store_access.write(partial(entries.note_offered, entry_ids=new, person=caller.name), caller.door))
    return encoded


async def show_entry(request: Request, state: AppState, caller: Caller) -> Response:
    html = query_flag(request, "html")
    detail = await state.store_access.read_current_in_thread(lambda tx: receipts.read_entry_detail(tx, request.path_params["id"]))
    if detail.entry.offered_at is None:
        await state.store_access.write(partial(entries.note_offered, entry_ids=[detail.entry.id], person=caller.name), caller.door)
    more = {}
    if html:
        comments = detail.entry.comments
        more["html"] = {"comments": (await state.renderer.render_texts([comments]))[0] if comments else None}
    return JsonResponse(await asyncio.to_thread(lambda: orjson.dumps({**detail.to_json(), **more})))


async def set_read_state(request: Request, state: AppState, caller: Caller) -> Response:
    verb = entries.mark_read if request.method == "PUT" else entries.mark_unread
    call = make_call(caller, verb, entry_id=request.path_params["id"], person=caller.name)
    entry = await state.store_access.write(call, call.door)
    return JsonResponse({"entry": entry.to_json()})


async def delete_entry(request: Request, state: AppState, caller: Caller) -> Response:
    call = make_call(caller, entries.delete_entry, entry_id=request.path_params["id"], person=caller.name)
    await state.store_access.write(call, call.door)
    await asyncio.to_thread(state.store_access.follower.catch_up)  # removed from the mirror file before we respond
    return Response(status_code=204)


async def reply_to_entry(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, body=str)
    if "body" not in fields:
        raise InvalidInput("'body' is missing", field="body", hint="Write some text.")
    content = {"person": caller.name, "body": fields["body"], "key": request.headers.get("idempotency-key")}
    call = make_call(caller, replying.reply, entry_id=request.path_params["id"], **content)
    replied = await state.store_access.write(call, call.door)
    return JsonResponse({"entry": replied.entry.to_json(), "reply": replied.reply.to_json()}, 201)


async def seed_entry(request: Request, state: AppState, caller: Caller) -> Response:
    if not state.dev:
        raise NotFound("seeding is for development", hint="Start the server with --dev.")
    fields = await json_body(request, workspaceId=str, workspaceLabel=str, docs=DOCS_TYPE, comments=str)
    workspace = {"workspace_id": fields.get("workspaceId", "ws-dev"), "workspace_label": fields.get("workspaceLabel", "Seeded")}
    content = {"docs": fields.get("docs", ()), "comments": fields.get("comments")}
    entry = await state.store_access.write(lambda store: entries.seed(store, **workspace, **content), caller.door)
    return JsonResponse({"entry": entry.to_json()}, 201)


async def push_documents(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, docs=DOCS_TYPE, comments=str)
    if caller.workspace is None:
        raise Forbidden("only a workspace can push", hint="Use a workspace's token.")
    entry = await push_entry(state.store_access, caller.workspace, caller.door, **fields)
    return JsonResponse({"ok": True, "entryId": entry.id, "ts": entry.ts}, 201)
