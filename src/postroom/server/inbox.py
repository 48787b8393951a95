"""The inbox over HTTP: history, search, one entry, read state, delete, reply; and pushing, for agents without MCP."""

from __future__ import annotations

import asyncio
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.entries import Page
from postroom.core.errors import Forbidden, InvalidInput, NotFound
from postroom.people import entries, receipts, replying
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.requests import Office, body, flag, whole
from postroom.server.tools import Tools

Docs = (list,)


async def history(request: Request, office: Office, caller: Caller) -> Response:
    query = request.query_params
    limit, unread, is_open = whole(request, "limit", 100), flag(request, "unread"), flag(request, "open")
    entries.check_page(limit, section := query.get("section", "inbox"))
    look = partial(
        entries.page,
        limit=limit,
        before=query.get("before"),
        workspace_id=query.get("workspaceId"),
        section=section,
        unread=unread,
        open_only=is_open,
    )

    async def make() -> bytes:
        return _listed(await office.desk.fresh(look), office, caller)

    key = (limit, query.get("before"), query.get("workspaceId"), section, unread, is_open)
    return Json(await office.desk.page(key, make))


async def summary(request: Request, office: Office, caller: Caller) -> Response:
    """What a page needs to begin: who looks, how much waits, and from where to listen."""
    latest, counts = await office.desk.fresh(lambda tx: (tx.one(tx.sql.event_latest), entries.counts(tx)))
    known = {"person": caller.name, "version": __version__, "dev": office.dev, "eventId": latest[0] if latest else 0}
    return Json({**known, **counts.plain()})


async def search(request: Request, office: Office, caller: Caller) -> Response:
    look = partial(entries.find, q=request.query_params.get("q", ""), limit=whole(request, "limit", 50))
    return Json(_listed(await office.desk.fresh(look), office, caller))


def _listed(page: Page, office: Office, caller: Caller) -> bytes:
    """What was put before a person for the first time is noted, after it was."""
    new = [entry.id for entry in page.entries if entry.offered_at is None]
    if new:
        office.later(office.desk.write(partial(entries.note_offered, entry_ids=new, person=caller.name), caller.door))
    return orjson.dumps(page.plain())


async def show(request: Request, office: Office, caller: Caller) -> Response:
    detail = await office.desk.fresh(lambda tx: receipts.detail(tx, request.path_params["id"]))
    if detail.entry.offered_at is None:
        await office.desk.write(partial(entries.note_offered, entry_ids=[detail.entry.id], person=caller.name), caller.door)
    shown = detail.plain()
    if flag(request, "html"):
        said = detail.entry.comments
        shown["html"] = {"comments": (await office.painter.texts([said]))[0] if said else None}
    return Json(shown)


async def read(request: Request, office: Office, caller: Caller) -> Response:
    verb = entries.mark_read if request.method == "PUT" else entries.mark_unread
    entry = await office.desk.write(lambda store: verb(store, request.path_params["id"], person=caller.name), caller.door)
    return Json({"entry": entry.plain()})


async def delete(request: Request, office: Office, caller: Caller) -> Response:
    await office.desk.write(lambda store: entries.delete_entry(store, request.path_params["id"], person=caller.name), caller.door)
    await asyncio.to_thread(office.desk.follower.catch_up)  # gone is gone from the file too
    return Response(status_code=204)


async def reply(request: Request, office: Office, caller: Caller) -> Response:
    given = await body(request, body=str)
    if "body" not in given:
        raise InvalidInput("'body' is missing", field="body", hint="Say something.")
    said = {"person": caller.name, "body": given["body"], "key": request.headers.get("idempotency-key")}
    replied = await office.desk.write(lambda store: replying.reply(store, request.path_params["id"], **said), caller.door)
    return Json({"entry": replied.entry.plain(), "reply": replied.reply.plain()}, 201)


async def seed(request: Request, office: Office, caller: Caller) -> Response:
    if not office.dev:
        raise NotFound("seeding is for development", hint="Start the server with --dev.")
    given = await body(request, workspaceId=str, workspaceLabel=str, docs=Docs, comments=str)
    named = {"workspace_id": given.get("workspaceId", "ws-dev"), "workspace_label": given.get("workspaceLabel", "Seeded")}
    said = {"docs": given.get("docs", ()), "comments": given.get("comments")}
    entry = await office.desk.write(lambda store: entries.seed(store, **named, **said), caller.door)
    return Json({"entry": entry.plain()}, 201)


async def push(request: Request, office: Office, caller: Caller) -> Response:
    given = await body(request, docs=Docs, comments=str)
    if caller.workspace is None:
        raise Forbidden("only a workspace pushes", hint="Use a workspace's token.")
    return Json({"ok": True, **await Tools(office.desk, caller.workspace, caller.door).inbox_push(given)}, 201)
