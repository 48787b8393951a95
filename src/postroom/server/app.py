"""The ASGI application: all routes, in one table, behind the security middleware. `main` runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from postroom.core.rpc.wire import VERB_PROTOCOL
from postroom.server.api import documents, inbox, mailboxes, queues, runs, tasks, threads
from postroom.server.api.schemas import asyncapi, openapi
from postroom.server.http import question_link, sign_in, sse, static
from postroom.server.http.compression import CompressionMiddleware
from postroom.server.http.endpoint import Endpoint, Handler
from postroom.server.http.responses import error_response
from postroom.server.http.route_table import RouteTable
from postroom.server.http.security import SecurityMiddleware
from postroom.server.http.state import AppState
from postroom.server.mcp import server as mcp
from postroom.server.observability import exposition
from postroom.server.observability.log_lines import LogWriter
from postroom.server.observability.request_observer import RequestObserver
from postroom.server.rpc import dispatch, websocket
from postroom.server.runtime.store_access import StoreAccess
from postroom.server.ws import frames, mailbox, socket_endpoint
from postroom.server.ws.dispatcher import MailboxDispatchers

# Method, path and handler. openapi.py describes the same routes, and a test compares them.
PERSON_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/api/summary", inbox.show_summary),
    ("GET", "/api/inbox/history", inbox.list_entries),
    ("GET", "/api/inbox/search", inbox.search_entries),
    ("GET", "/api/search", inbox.search_rooms),
    ("POST", "/api/notices", inbox.leave_notice),
    ("GET", "/api/inbox/questions", inbox.list_open_questions),
    ("POST", "/api/inbox/read", inbox.mark_all_read),
    ("PUT", "/api/inbox/{id}/state", inbox.set_triage_state),
    ("PUT", "/api/inbox/{id}/pin", inbox.set_pin),
    ("DELETE", "/api/inbox/{id}/pin", inbox.set_pin),
    ("POST", "/api/inbox/seed", inbox.seed_entry),
    ("PUT", "/api/inbox/{id}/read", inbox.set_read_state),
    ("DELETE", "/api/inbox/{id}/read", inbox.set_read_state),
    ("POST", "/api/inbox/{id}/reply", inbox.reply_to_entry),
    ("GET", "/api/inbox/{id}", inbox.show_entry),
    ("DELETE", "/api/inbox/{id}", inbox.delete_entry),
    ("GET", "/api/workspaces", documents.list_workspaces),
    ("GET", "/api/workspaces/{id}/file", documents.show_file),
    ("POST", "/api/workspaces/{id}/focus", documents.focus_workspace),
    ("PUT", "/api/workspaces/{id}/mute", documents.mute_workspace),
    ("DELETE", "/api/workspaces/{id}/mute", documents.mute_workspace),
    ("GET", "/api/threads", threads.list_threads),
    ("POST", "/api/threads", threads.send_thread),
    ("GET", "/api/threads/{id}", threads.show_thread),
    ("POST", "/api/threads/{id}/reply", threads.reply_to_thread),
    ("POST", "/api/threads/{id}/cancel", threads.cancel_thread),
    ("POST", "/api/threads/{id}/release", threads.release_thread),
    ("GET", "/api/runs", runs.list_runs),
    ("GET", "/api/runs/{run}", runs.show_run),
    ("GET", "/api/agents", runs.list_agents),
    ("GET", "/api/activity", runs.show_activity),
    ("GET", "/api/mailboxes", mailboxes.list_mailboxes),
    ("GET", "/api/queues", queues.list_queues),
    ("GET", "/api/events", sse.stream_events),
    ("POST", "/api/sign-out", sign_in.sign_out),
)

SHARED_ROUTES: tuple[tuple[str, str, Handler], ...] = (  # for people and agents: each handler checks permissions
    ("POST", "/api/inbox/push", inbox.push_documents),
    ("POST", "/api/mailbox", mailboxes.enqueue_message),
    ("GET", "/api/mailbox/{session}", mailboxes.peek_mailbox),
    ("GET", "/api/mailbox/{session}/dead-letter", mailboxes.list_dead_letters),
    ("DELETE", "/api/mailbox/{session}", mailboxes.purge_mailbox),
    ("DELETE", "/api/mailbox/{session}/dead-letter", mailboxes.purge_dead_letters),
    ("POST", "/api/mailbox/{session}/dead-letter/retry", mailboxes.retry_dead_letters),
    ("POST", "/api/mailbox/{session}/dequeue", mailboxes.dequeue_message),
    ("POST", "/api/mailbox/{session}/{msg_id}/ack", mailboxes.ack_message),
    ("POST", "/api/mailbox/{session}/{msg_id}/nack", mailboxes.nack_message),
    ("POST", "/api/mailbox/{session}/{msg_id}/extend", mailboxes.extend_message),
    ("GET", "/api/tasks", tasks.list_tasks),
    ("POST", "/api/tasks", tasks.give_task),
    ("GET", "/api/tasks/{id}", tasks.show_task),
    ("POST", "/api/tasks/{id}/cancel", tasks.cancel_task),
    ("GET", "/api/bell", sse.stream_wakes),
)


VERIFYING_HANDLERS = (inbox.list_entries, inbox.push_documents)  # in the transaction of their answer

MAILBOX_SOCKET_PATH, VERB_SOCKET_PATH = "/api/mailbox/{session}/socket", "/api/verbs"


def build_app(
    open_store_access: Callable[[], StoreAccess],
    make_state: Callable[[StoreAccess], AppState],
    *,
    hosts: set[str],
    origins: set[str],
    max_sockets: int,
    log: LogWriter,
) -> ASGIApp:
    """Return the whole server as one ASGI application. The store is opened when the event loop runs, and closed before it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store_access = open_store_access()
        state = make_state(store_access)
        app.state.app_state = state
        app.state.dispatchers = MailboxDispatchers(store_access, max_sockets)
        sessions, app.state.mcp_endpoint = mcp.make_endpoint(store_access)
        try:
            async with sessions.run():
                yield
        finally:
            await state.renderer.close()
            state.wait_pool.close()
            await store_access.close()

    app = Starlette(
        routes=[RouteTable(make_routes())],
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error_response, Exception: _server_error_response},
    )
    app.router.redirect_slashes = False  # no second spelling of an address
    return RequestObserver(SecurityMiddleware(CompressionMiddleware(app), hosts=hosts, origins=origins), log)


def make_routes() -> list[BaseRoute]:
    """Return every route. Those with parameters are in the order in which they are compared with a request."""
    return [
        # First, because they are compared one after another and most requests are verbs.
        Route("/api/verbs/{verb}", Endpoint(dispatch.handle_request, agents=True, verifies=True), methods=["POST"]),
        *_make_endpoints(SHARED_ROUTES, agents=True),
        *_make_endpoints(PERSON_ROUTES, agents=False),
        Route("/mcp/{workspace_id}", _Mcp(), methods=["POST"]),
        Route(MAILBOX_SOCKET_PATH, socket_endpoint.refuse_without_upgrade, methods=["GET"]),
        WebSocketRoute(MAILBOX_SOCKET_PATH, socket_endpoint.SocketEndpoint(frames.PROTOCOL, mailbox.check_caller, mailbox.serve_socket)),
        WebSocketRoute(VERB_SOCKET_PATH, socket_endpoint.SocketEndpoint(VERB_PROTOCOL, websocket.check_upgrade, websocket.serve_socket)),
        WebSocketRoute("/{path:path}", socket_endpoint.NotFoundSocket()),
        Route("/api/openapi.json", openapi.serve_description),
        Route("/api/asyncapi.json", asyncapi.serve_description),
        Route("/sign-in", sign_in.sign_in),
        Route("/answer", question_link.serve_link, methods=["GET", "POST"]),
        Route("/health", exposition.serve_health),
        Route("/ready", exposition.ReadinessProbe().serve, methods=["GET"]),
        Route("/metrics", Endpoint(exposition.serve_metrics, agents=True), methods=["GET"]),
        Route("/sw.js", static.serve_service_worker, methods=["GET"]),
        Route("/manifest.webmanifest", static.serve_manifest, methods=["GET"]),
        Route("/web/{version}/{name:path}", static.serve_file, methods=["GET"]),
        *(Route(path, static.serve_page, methods=["GET"]) for path in static.PAGE_PATHS),
    ]


def _make_endpoints(routes: Iterable[tuple[str, str, Handler]], *, agents: bool) -> Iterator[Route]:
    for method, path, handler in routes:
        yield Route(path, Endpoint(handler, agents=agents, verifies=handler in VERIFYING_HANDLERS), methods=[method])


class _Mcp:
    """The ASGI endpoint of MCP. It forwards to the endpoint that exists once the application has started."""

    async def __call__(self, scope: dict, receive, send) -> None:  # type: ignore[no-untyped-def, type-arg]
        await scope["app"].state.mcp_endpoint(scope, receive, send)


async def _http_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and static.wants_page(request):
        return static.not_found_page()
    if error.status_code == 404:
        return error_response("not_found", "there is nothing at this address", "See /api/openapi.json.", 404)
    if error.status_code == 405:
        return error_response(
            "wrong_method", f"{request.method} is not for this address", "See /api/openapi.json.", 405, **(error.headers or {})
        )
    return error_response("invalid_input", str(error.detail), "See /api/openapi.json.", error.status_code)


async def _server_error_response(request: Request, error: Exception) -> Response:
    return error_response("server_error", "the server failed", "What was accepted before is safe. Try again.", 500)
