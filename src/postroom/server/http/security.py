"""The security middleware: the host, origin, size and number of requests are checked before any handler runs."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from time import monotonic
from urllib.parse import quote, unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.core import limits
from postroom.core.errors import InvalidInput, TooLarge, TooMany
from postroom.server.http.connections.unix_socket import is_unix_socket
from postroom.server.http.responses import JsonResponse, error_response

MESSAGE_PATHS = ("/api/verbs/", "/api/mailbox")
MAX_LENGTH_DIGITS = 10  # of a Content-Length
CALLER_KEY = "postroom.caller"  # of the scope: the name of the caller, once it is authenticated
REFUSAL_KEY = "postroom.refusal"  # of the scope: the code of the refusal with which a request was answered
CHARGE_KEY = "postroom.charge"  # of the scope: a function that counts the bytes of a body, and refuses over the caller's quota
SEND_LESS_HINT = "Send less, or push a document instead."
ALWAYS_ACCEPTED_BYTES = 64 * 1024  # a body up to this size is accepted even if the buffers are full
BODY_STALL_SECONDS = 20.0  # between two parts of a body
BODY_TOTAL_SECONDS = 120.0  # for a whole body
NO_HEAD_PATHS = ("/sign-in", "/api/events", "/api/bell")  # HEAD would use up the sign-in link, or never end
RESPONSE_STARTS = ("http.response.start", "websocket.http.response.start")  # the second one refuses an upgrade
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_PLAIN_PATH = re.compile(rb"[A-Za-z0-9_.~/-]*")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
    b" frame-src 'self' blob:; manifest-src 'self'; worker-src 'self';"
    b" base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"cache-control", b"no-store"),
)
STRICT_TRANSPORT_SECURITY = (b"strict-transport-security", b"max-age=31536000")
_ADDED_NAMES = frozenset((*(name for name, _ in SECURITY_HEADERS), STRICT_TRANSPORT_SECURITY[0]))


class SecurityMiddleware:
    """Middleware around the whole application. It is pure ASGI, so that a handler sees the disconnect of its client."""

    def __init__(self, app: ASGIApp, *, hosts: set[str], origins: set[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._is_secure = any(origin.startswith("https:") for origin in origins)
        self._concurrent_requests = 0
        self._buffered: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        # httptools leaves trailing spaces in header values, and the MCP SDK compares values.
        scope["headers"] = headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        by_name = dict(headers)
        send = add_security_headers(send, *self._transport_headers(by_name.get(b"host", b"")))
        path = canonical_path(scope["raw_path"])
        if path is not None:
            scope["path"] = path
        refused = _malformed_path_response() if path is None else self._find_refusal(scope, by_name)
        if refused is not None:
            await refused(scope, receive, send)
            return
        limited = receive if scope["type"] == "websocket" else BodyLimiter(receive, scope, self._buffered)
        self._concurrent_requests += 1
        try:
            await self._app(scope, limited, send)
        finally:
            self._concurrent_requests -= 1
            if isinstance(limited, BodyLimiter):
                limited.release_bytes()

    def _transport_headers(self, host: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header that keeps browsers to TLS. Not for localhost: it would hold for every other program on this machine."""
        return (STRICT_TRANSPORT_SECURITY,) if self._is_secure and host.partition(b":")[0].lower() != b"localhost" else ()

    def _find_refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> JsonResponse | None:
        """Return the error with which a request is refused, or None."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return error_response("invalid_input", "a request has one Host header", "Send the address that the server printed.", 400)
        host, origin = headers.get(b"host", b"").decode("latin-1").lower(), headers.get(b"origin")
        if host not in self._hosts and not is_unix_socket(scope):
            return error_response(
                "wrong_host", "this server does not answer to that host name", "Use the address that it printed, or --allow-host.", 421
            )
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            return error_response("forbidden", "requests of other sites are refused", "Open the page of this server itself.", 403)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not _is_navigation(scope, headers):
            return error_response("forbidden", "requests of other sites are refused", "Open the page of this server itself.", 403)
        if scope.get("method") == "HEAD" and scope["path"] in NO_HEAD_PATHS:
            return error_response("wrong_method", "HEAD is not for this address", "Use GET.", 405, Allow="GET")
        length = headers.get(b"content-length", b"0")
        is_long = len(length) > MAX_LENGTH_DIGITS
        if not length.isdigit() or (is_long and length.startswith(b"0")):
            return error_response("invalid_input", "the Content-Length is malformed", "Write it as a number.", 400)
        if is_long or int(length) > max_body_bytes(scope):
            return _too_large_response(scope)
        if self._concurrent_requests >= limits.MAX_CONCURRENT_REQUESTS:
            return error_response("too_many", "too many requests at once", "Come back in a few seconds.", 429, **{"Retry-After": "5"})
        return None


def _is_navigation(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Return whether a browser follows a link to a page. Such a request changes nothing, and carries no SameSite=Strict cookie."""
    return scope.get("method", "GET") == "GET" and headers.get(b"sec-fetch-mode") == b"navigate" and not scope["path"].startswith("/api/")


def canonical_path(raw: bytes) -> str | None:
    """Return the path to route by. Each segment stays quoted, in one spelling, so that a slash inside a name does not split it.

    None if an escape is malformed, or the path is not UTF-8.
    """
    if _PLAIN_PATH.fullmatch(raw):
        return raw.decode("ascii")  # most paths: quoting changes nothing
    try:
        parts = [unquote_to_bytes(part) for part in raw.split(b"/")]
        for part in parts:
            part.decode()
    except UnicodeDecodeError:
        return None
    return None if _BROKEN_ESCAPE.search(raw) else "/".join(quote(part, safe="") for part in parts)


def _malformed_path_response() -> JsonResponse:
    return error_response("invalid_input", "the address is malformed", "Quote each part of it as UTF-8: % is %25, / is %2F.", 400)


def max_body_bytes(scope: Scope) -> int:
    """Return the size limit of a body. Messages and the arguments of verbs may be larger than other bodies."""
    return limits.MAX_MESSAGE_REQUEST_BYTES if scope["path"].startswith(MESSAGE_PATHS) else limits.MAX_REQUEST_BYTES


def _too_large_response(scope: Scope) -> JsonResponse:
    return error_response(TooLarge.code, _too_large_message(max_body_bytes(scope)), SEND_LESS_HINT, 413)


def _too_large_message(max_bytes: int) -> str:
    return f"a request body may have at most {max_bytes // 1024} KiB"


class BodyLimiter:
    """An ASGI `receive` that limits a body in size and time, also without a Content-Length. `buffered` counts all requests by caller.

    A body is read after its caller is authenticated, so that one caller has one share, however it writes its token.
    """

    def __init__(self, receive: Receive, scope: Scope, buffered: Counter[str]) -> None:
        self._receive = receive
        self._scope = scope
        self._max_bytes = max_body_bytes(scope)
        self._buffered = buffered
        self._caller = ""
        self._has_more = True
        self._next_message: asyncio.Future[Message] | None = None
        self._deadline = monotonic() + BODY_TOTAL_SECONDS
        self.bytes = 0

    async def __call__(self) -> Message:
        if not self._has_more:
            return await (self._next_message or self._receive())
        try:
            async with asyncio.timeout(min(BODY_STALL_SECONDS, self._deadline - monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise InvalidInput(
                "the body did not arrive in time", field="body", hint=f"Send it at once, within {BODY_TOTAL_SECONDS:g} s."
            ) from None
        self._has_more = message.get("more_body", False)
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            if not self.bytes:
                self._caller = self._scope.get(CALLER_KEY, "")
            self.bytes += size
            self._buffered[self._caller] += size
            if self.bytes > self._max_bytes:
                raise TooLarge(_too_large_message(self._max_bytes), hint=SEND_LESS_HINT)
            if self.bytes > ALWAYS_ACCEPTED_BYTES and (
                self._buffered[self._caller] > limits.MAX_BUFFERED_BYTES_PER_CALLER or self._buffered.total() > limits.MAX_BUFFERED_BYTES
            ):
                raise TooMany("too much is being sent at once", hint="Come back in a few seconds.", retry_after=5)
            if not self._has_more and self.bytes and CHARGE_KEY in self._scope:
                self._scope[CHARGE_KEY](self.bytes)
            if not self._has_more and self.bytes > ALWAYS_ACCEPTED_BYTES:
                # uvicorn stops reading from the connection at a large body. Asking for more lets it notice a disconnect.
                self._next_message = asyncio.ensure_future(self._receive())
        return message

    def release_bytes(self) -> None:
        """Stop counting this body: the request is answered."""
        if self._next_message is not None:
            self._next_message.cancel()
        if self.bytes:
            self._buffered[self._caller] -= self.bytes
            self._buffered += Counter()  # drops the callers with a count of 0
            self.bytes = 0


def add_security_headers(send: Send, *more: tuple[bytes, bytes]) -> Send:
    """Return a `send` that adds the security headers to each response, and `more`. Headers that the response has already are kept."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] in RESPONSE_STARTS:
            given = message["headers"]
            known = {name for name, _ in given}
            added = [*SECURITY_HEADERS, *more]
            if not known.isdisjoint(_ADDED_NAMES):
                added = [(name, value) for name, value in added if name not in known]
            message["headers"] = [*given, *added]
        await send(message)

    return send_with_headers


def allowed_hosts_and_origins(
    host: str, port: int, more: tuple[str, ...], *, secure: bool, behind_proxy: bool = False
) -> tuple[set[str], set[str]]:
    """Return the values of `Host` that the server accepts, with and without its port, and the origins of its own page.

    An origin has the port of the server. Behind a proxy, each name in `more` is also an origin at the default port.
    """
    names = {host, *more}
    if host in LOOPBACK_NAMES:
        names.update(LOOPBACK_NAMES)
    plain = {_bracket_ipv6(name.lower()) for name in names}
    with_port = {f"{name}:{port}" for name in plain}
    scheme, default_port = ("https", 443) if secure else ("http", 80)
    # Another program may serve a page at the default port of this host, so that origin is ours only if the operator says so.
    public = {_bracket_ipv6(name.lower()) for name in more} if behind_proxy else set()
    origins = plain if port == default_port else with_port | public
    return plain | with_port, {f"{scheme}://{name}" for name in origins}


def _bracket_ipv6(name: str) -> str:
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
