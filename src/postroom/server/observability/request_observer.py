"""ASGI middleware that logs and counts each request after it is answered."""

from __future__ import annotations

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.core import tracing
from postroom.server.http.security import CALLER_KEY, REFUSAL_KEY, RESPONSE_STARTS
from postroom.server.observability import metrics
from postroom.server.observability.log_lines import LogWriter

TRACE_KEY = "postroom.trace"  # of the scope: the trace context that the client named
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))
STREAM_ROUTES = frozenset(("/api/events", "/api/bell"))
QUIET_ROUTES = frozenset(("/health", "/ready", "/metrics"))  # a monitor asks for them every few seconds
NO_ROUTE = "none"
SWITCHING_PROTOCOLS, CLIENT_CLOSED_REQUEST = 101, 499  # the second one is the custom of web servers for a client that left


class RequestObserver:
    """Middleware around the whole application. It reads the route, the caller, the status and the header `traceparent`.

    It never reads the query or the content of a body.
    """

    def __init__(self, app: ASGIApp, log: LogWriter) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request = _ObservedRequest(send)
        metrics.REQUESTS_IN_PROGRESS.inc()
        began = perf_counter()
        try:
            await self._run_traced(scope, receive, request.send)
        except BaseException:
            request.status = request.status or 500
            raise
        finally:
            metrics.REQUESTS_IN_PROGRESS.dec()
            self._report(scope, request, perf_counter() - began)

    async def _run_traced(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application as a part of the trace that the client named in its header `traceparent`, if it named one."""
        given = next((value.decode("latin-1").strip() for name, value in scope["headers"] if name == b"traceparent"), "")
        parent = given if tracing.is_traceparent(given) else None
        scope[TRACE_KEY] = parent
        with tracing.use_traceparent(parent):
            if not tracing.is_recording():
                await self._app(scope, receive, send)
                return
            method = scope.get("method", "WEBSOCKET")
            with tracing.start_span(method, "SERVER") as span:
                await self._app(scope, receive, send)
                span.update_name(f"{method} {_route_of(scope)}")

    def _report(self, scope: Scope, request: _ObservedRequest, seconds: float) -> None:
        route = _route_of(scope)
        is_socket = scope["type"] == "websocket"
        method = "WEBSOCKET" if is_socket else scope["method"] if scope["method"] in METHODS else "OTHER"
        status = request.status or CLIENT_CLOSED_REQUEST
        metrics.count_request(method, route, status, None if is_socket or route in STREAM_ROUTES else seconds)
        level = _level_of(status, route)
        if self._log.is_on(level):
            caller, refusal, trace = scope.get(CALLER_KEY), scope.get(REFUSAL_KEY), scope.get(TRACE_KEY)
            trace_id = None if trace is None else trace.split("-")[1]
            path, milliseconds = scope["path"], round(seconds * 1000, 2)
            text = f"{method} {path} {status} {milliseconds} ms {caller or '-'}{f' {refusal}' if refusal else ''}"
            facts = {"method": method, "path": path, "route": route, "status": status, "milliseconds": milliseconds}
            self._log.write(
                level, "request", text, {**facts, "bytes": request.body_bytes, "caller": caller, "refusal": refusal, "trace_id": trace_id}
            )


class _ObservedRequest:
    """The status and size of the answer to a request, from what the application sends. `status` is 0 until the answer begins."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.body_bytes = 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in RESPONSE_STARTS:
            self.status = message["status"]
        elif kind == "http.response.body":
            self.body_bytes += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self.status = SWITCHING_PROTOCOLS
        await self._send(message)


def _route_of(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", NO_ROUTE) if "path_params" in scope else NO_ROUTE


def _level_of(status: int, route: str) -> str:
    if status >= 500:
        return "error" if status == 500 else "warning"
    return "debug" if route in QUIET_ROUTES else "info"
