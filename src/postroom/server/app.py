"""The application: every route, in one table, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from postroom.core.wire import VERB_PROTOCOL
from postroom.server import (
    asyncapi,
    events,
    files,
    frames,
    inbox,
    mailboxes,
    mcp,
    openapi,
    page,
    queueing,
    runs,
    signing,
    sockets,
    threads,
    upgrading,
    verb_sockets,
    verbs,
)
from postroom.server.answers import said
from postroom.server.carriers import Carriers
from postroom.server.desk import Desk
from postroom.server.guard import Guard
from postroom.server.requests import Endpoint, Handler, Office

# Method, path, handler; the same in openapi.py, which a test compares.
PEOPLE: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/api/summary", inbox.summary),
    ("GET", "/api/inbox/history", inbox.history),
    ("GET", "/api/inbox/search", inbox.search),
    ("POST", "/api/inbox/seed", inbox.seed),
    ("PUT", "/api/inbox/{id}/read", inbox.read),
    ("DELETE", "/api/inbox/{id}/read", inbox.read),
    ("POST", "/api/inbox/{id}/reply", inbox.reply),
    ("GET", "/api/inbox/{id}", inbox.show),
    ("DELETE", "/api/inbox/{id}", inbox.delete),
    ("GET", "/api/workspaces", files.list_workspaces),
    ("GET", "/api/workspaces/{id}/file", files.file),
    ("POST", "/api/workspaces/{id}/focus", files.focus),
    ("GET", "/api/threads", threads.list_threads),
    ("GET", "/api/threads/{id}", threads.show),
    ("POST", "/api/threads/{id}/reply", threads.reply),
    ("POST", "/api/threads/{id}/cancel", threads.cancel),
    ("POST", "/api/threads/{id}/release", threads.release),
    ("GET", "/api/runs", runs.list_runs),
    ("GET", "/api/runs/{run}", runs.show),
    ("GET", "/api/agents", runs.list_agents),
    ("GET", "/api/activity", runs.activity),
    ("GET", "/api/mailboxes", mailboxes.list_mailboxes),
    ("DELETE", "/api/mailbox/{session}", mailboxes.purge),
    ("DELETE", "/api/mailbox/{session}/dead-letter", mailboxes.purge_dead),
    ("POST", "/api/mailbox/{session}/dead-letter/retry", mailboxes.retry),
    ("GET", "/api/queues", queueing.list_queues),
    ("GET", "/api/events", events.events),
    ("POST", "/api/sign-out", signing.sign_out),
)

ALL: tuple[tuple[str, str, Handler], ...] = (  # of people and agents; each of them sees to what is whose
    ("POST", "/api/inbox/push", inbox.push),
    ("POST", "/api/mailbox", mailboxes.enqueue),
    ("GET", "/api/mailbox/{session}", mailboxes.peek),
    ("GET", "/api/mailbox/{session}/dead-letter", mailboxes.dead),
    ("POST", "/api/mailbox/{session}/dequeue", mailboxes.dequeue),
    ("POST", "/api/mailbox/{session}/{msg_id}/ack", mailboxes.ack),
    ("POST", "/api/mailbox/{session}/{msg_id}/nack", mailboxes.nack),
    ("POST", "/api/mailbox/{session}/{msg_id}/extend", mailboxes.extend),
    ("GET", "/api/bell", events.bell),
)


SOCKET, VERB_SOCKET = "/api/mailbox/{session}/socket", "/api/verbs"


def build(
    open_desk: Callable[[], Desk], office_of: Callable[[Desk], Office], *, hosts: set[str], origins: set[str], most_sockets: int
) -> ASGIApp:
    """The whole server as one ASGI application. The desk is opened inside the loop, and closed before it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk = open_desk()
        app.state.office = office_of(desk)
        app.state.carriers = Carriers(desk, most_sockets)
        sessions = mcp.manager(mcp.build(desk, mcp.workspace_of))
        app.state.door = mcp.Door(sessions)
        try:
            async with sessions.run():
                yield
        finally:
            await app.state.office.painter.close()
            app.state.office.patience.close()
            await desk.close()

    routes = [
        *(Route(path, Endpoint(handler, agents=True), methods=[method]) for method, path, handler in ALL),
        Route("/api/verbs/{verb}", Endpoint(verbs.say, agents=True), methods=["POST"]),
        *(Route(path, Endpoint(handler), methods=[method]) for method, path, handler in PEOPLE),
        Route("/mcp/{workspace_id}", _Mcp(), methods=["POST"]),
        Route(SOCKET, upgrading.plain, methods=["GET"]),
        WebSocketRoute(SOCKET, upgrading.SocketEndpoint(frames.PROTOCOL, sockets.check, sockets.talk)),
        WebSocketRoute(VERB_SOCKET, upgrading.SocketEndpoint(VERB_PROTOCOL, lambda upgraded: None, verb_sockets.talk)),
        WebSocketRoute("/{path:path}", upgrading.Nowhere()),
        Route("/api/openapi.json", openapi.serve),
        Route("/api/asyncapi.json", asyncapi.serve),
        Route("/sign-in", signing.sign_in),
        Route("/health", signing.health),
        Route("/web/{version}/{name:path}", page.file, methods=["GET"]),
        *(Route(place, page.page, methods=["GET"]) for place in page.PLACES),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http, Exception: _failed})
    app.router.redirect_slashes = False  # an address is what it is
    return Guard(app, hosts=hosts, origins=origins)


class _Mcp:
    """The door to MCP, which is there once the server runs."""

    async def __call__(self, scope: dict, receive, send) -> None:  # type: ignore[no-untyped-def, type-arg]
        await scope["app"].state.door(scope, receive, send)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return said("not_found", "there is nothing at this address", "See /api/openapi.json.", 404)
    if error.status_code == 405:
        return said("wrong_method", f"{request.method} is not for this address", "See /api/openapi.json.", 405, **(error.headers or {}))
    return said("invalid_input", str(error.detail), "See /api/openapi.json.", error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return said("server_error", "the server failed", "What was accepted before is safe. Try again.", 500)
