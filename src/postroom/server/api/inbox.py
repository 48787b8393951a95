"""HTTP routes of the inbox: list, search, show, mark as read, delete and reply for people, and push for agents without MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.people import EntryPage
from postroom.people import entries, receipts, replying, room_search, searching, triage
from postroom.server.api.pushing import push_entry
from postroom.server.http.auth import Caller, verify_token
from postroom.server.http.endpoint import json_body, query_flag, query_integer, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse, TaggedResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.store.interface import Transaction

DOCS_TYPE = (list,)


async def list_entries(request: Request, state: AppState, caller: Caller) -> Response:
    """Return a page of entries, newest first. With `If-None-Match`: 304 if the page is as it was.

    Pages are cached by the query as it was written: a query that was answered before is valid, and is not parsed again.
    """

    async def encode_page() -> TaggedResponse:
        return await _encode_entries(_parse_page_query(request), state, caller)

    key, verify = request.scope["query_string"], partial(verify_token, caller=caller)
    return (await state.store_access.cached_page(key, encode_page, verify)).unless_known(request)


def _parse_page_query(request: Request) -> Callable[[Transaction], EntryPage]:
    """Return what reads the page of entries that a query asks for."""
    refuse_unknown_parameters(request, "limit", "before", "workspaceId", "section", "unread", "open", "state", "pinned")
    query = request.query_params
    limit, section, triage = query_integer(request, "limit", 100), query.get("section", "inbox"), query.get("state", "")
    entries.check_page(limit, section, triage)
    return partial(
        entries.read_page,
        limit=limit,
        before=query.get("before"),
        workspace_id=query.get("workspaceId"),
        section=section,
        state=triage,
        unread=query_flag(request, "unread"),
        open_only=query_flag(request, "open"),
        pinned=query_flag(request, "pinned"),
    )


async def list_open_questions(request: Request, state: AppState, caller: Caller) -> Response:
    """Return the entries with an open question, the most urgent first."""
    refuse_unknown_parameters(request, "limit", "after")
    limit = query_integer(request, "limit", 100)
    entries.check_page(limit)
    read_page = partial(entries.read_open_questions, limit=limit, after=request.query_params.get("after"))
    return (await _encode_entries(read_page, state, caller)).unless_known(request)


async def show_summary(request: Request, state: AppState, caller: Caller) -> Response:
    """Return what the web page needs at start: the person, the counts, and the event id from which to listen."""
    refuse_unknown_parameters(request)
    latest, counts = await state.store_access.read_current(lambda tx: (tx.fetch_one(tx.sql.event_latest), entries.count_waiting(tx)))
    session = {"person": caller.name, "version": __version__, "dev": state.dev, "eventId": latest or 0}
    return TaggedResponse(orjson.dumps({**session, **counts.to_json()})).unless_known(request)


async def search_entries(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "q", "limit", "before", "section", "workspaceId", "state", "unread", "open")
    query = request.query_params
    flags: dict[str, Any] = {"unread": int(query_flag(request, "unread")), "open": int(query_flag(request, "open"))}
    names: dict[str, Any] = {
        "section": query.get("section", ""),
        "workspace_id": query.get("workspaceId", ""),
        "triage": query.get("state", ""),
    }
    place: dict[str, Any] = {"limit": query_integer(request, "limit", 50), "before": query.get("before")}
    search_page = partial(searching.search_page, q=query.get("q", ""), **place, **names, **flags)
    return (await _encode_entries(search_page, state, caller)).unless_known(request)


async def search_rooms(request: Request, state: AppState, caller: Caller) -> Response:
    """Return the threads and mails that contain every word."""
    refuse_unknown_parameters(request, "q", "limit")
    wanted = {"q": request.query_params.get("q", ""), "limit": query_integer(request, "limit", 20)}
    search = make_call(caller, room_search.search_rooms, **wanted)
    found = await state.store_access.read_in_thread(lambda store: orjson.dumps(search(store).to_json()))
    return TaggedResponse(found).unless_known(request)


async def _encode_entries(find_page: Callable[[Transaction], EntryPage], state: AppState, caller: Caller) -> TaggedResponse:
    """Read and encode a page of entries. Entries that are listed for the first time are recorded in the background."""

    def read_and_encode(tx: Transaction) -> tuple[list[str], TaggedResponse]:
        page = find_page(tx)
        return [entry.id for entry in page.entries if entry.offered_at is None], TaggedResponse(orjson.dumps(page.to_json()))

    new, encoded = await state.store_access.read_current_in_thread(read_and_encode)
    if new:
        state.run_in_background(state.store_access.write(partial(entries.note_offered, entry_ids=new, person=caller.name), caller.door))
    return encoded


async def show_entry(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "html")
    html = query_flag(request, "html")
    detail = await state.store_access.read_current_in_thread(lambda tx: receipts.read_entry_detail(tx, request.path_params["id"]))
    if detail.entry.offered_at is None:
        await state.store_access.write(partial(entries.note_offered, entry_ids=[detail.entry.id], person=caller.name), caller.door)
    more = {}
    if html:
        texts = [detail.entry.comments, *(part.comments for part in detail.parts), *(reply.body for reply in detail.replies)]
        rendered = await state.renderer.render_texts(texts)
        ids = [detail.entry.id, *(part.id for part in detail.parts), *(reply.reply_id for reply in detail.replies)]
        more["html"] = {"comments": rendered[0] if texts[0] else None, "texts": dict(zip(ids, rendered, strict=True))}
    return (await asyncio.to_thread(lambda: TaggedResponse(orjson.dumps({**detail.to_json(), **more})))).unless_known(request)


async def leave_notice(request: Request, state: AppState, caller: Caller) -> Response:
    """Tell people something, in the caller's name."""
    fields = await json_body(request, text=str)
    call = make_call(caller, entries.notify, sender=caller.name, text=fields.get("text", ""))
    return JsonResponse({"entry": (await state.store_access.write(call, call.door)).to_json()}, 201)


async def set_read_state(request: Request, state: AppState, caller: Caller) -> Response:
    verb = entries.mark_read if request.method == "PUT" else entries.mark_unread
    call = make_call(caller, verb, entry_id=request.path_params["id"], person=caller.name)
    entry = await state.store_access.write(call, call.door)
    return JsonResponse({"entry": entry.to_json()})


async def set_triage_state(request: Request, state: AppState, caller: Caller) -> Response:
    """Move an entry to the inbox, to the done ones, or to the snoozed ones."""
    fields = await json_body(request, state=str, until=int)
    wanted = {"state": fields.get("state", ""), "until": fields.get("until")}
    call = make_call(caller, triage.set_state, entry_id=request.path_params["id"], person=caller.name, **wanted)
    return JsonResponse({"entry": (await state.store_access.write(call, call.door)).to_json()})


async def set_pin(request: Request, state: AppState, caller: Caller) -> Response:
    pinned = request.method == "PUT"
    call = make_call(caller, triage.pin_entry, entry_id=request.path_params["id"], person=caller.name, pinned=pinned)
    return JsonResponse({"entry": (await state.store_access.write(call, call.door)).to_json()})


async def mark_all_read(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, section=str, workspaceId=str)
    scope = {"section": fields.get("section", "inbox"), "workspace_id": fields.get("workspaceId")}
    entries.check_page(1, scope["section"] or "")
    call = make_call(caller, triage.mark_all_read, person=caller.name, **scope)
    return JsonResponse({"count": await state.store_access.run_in_thread(call)})


async def delete_entry(request: Request, state: AppState, caller: Caller) -> Response:
    call = make_call(caller, entries.delete_entry, entry_id=request.path_params["id"], person=caller.name)
    await state.store_access.write(call, call.door)
    await asyncio.to_thread(state.store_access.follower.catch_up)  # removed from the mirror file before we respond
    return Response(status_code=204)


async def reply_to_entry(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, body=str, decision=dict, comment=bool)
    if not fields:
        raise InvalidInput("'body' is missing", field="body", hint="Write some text.")
    content = {"person": caller.name, "body": fields.get("body", ""), "key": request.headers.get("idempotency-key")}
    content |= {"decision": fields.get("decision"), "comment": fields.get("comment", False)}
    call = make_call(caller, replying.reply, entry_id=request.path_params["id"], **content)
    replied = await state.store_access.write(call, call.door)
    return JsonResponse(replied.to_json(), 201)


async def seed_entry(request: Request, state: AppState, caller: Caller) -> Response:
    if not state.dev:
        raise NotFound("seeding is for development", hint="Start the server with --dev.")
    fields = await json_body(request, workspaceId=str, workspaceLabel=str, docs=DOCS_TYPE, comments=str, ts=int)
    workspace = {"workspace_id": fields.get("workspaceId", "ws-dev"), "workspace_label": fields.get("workspaceLabel", "Seeded")}
    content = {"docs": fields.get("docs", ()), "comments": fields.get("comments"), "ts": fields.get("ts")}
    entry = await state.store_access.write(lambda store: entries.seed(store, **workspace, **content), caller.door)
    return JsonResponse({"entry": entry.to_json()}, 201)


async def push_documents(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, docs=DOCS_TYPE, comments=str, title=str, entryId=str)
    entry = await push_entry(state.store_access, caller, **fields)
    return JsonResponse({"ok": True, "entryId": entry.id, "ts": entry.ts}, 201)
