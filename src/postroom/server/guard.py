"""The guard: what every request must pass before anything is done for it. Names, origins, sizes, numbers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from time import monotonic
from urllib.parse import quote, unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.core.errors import InvalidInput, TooLarge, TooMany
from postroom.server.answers import Json, said
from postroom.server.local import is_local

MOST_BYTES = 1024 * 1024
MOST_SENT = 32 * MOST_BYTES  # read only once it is known who sends it
SENDING = ("/api/verbs/", "/api/mailbox")
MOST_HELD, MOST_OF_ONE = 256 * MOST_BYTES, 64 * MOST_BYTES  # of all that is being sent at once, and of what comes with one token
SMALLER = "Send less, or push a document instead."
SMALL = 64 * 1024  # bytes for which there is always room
STALLED, WHOLE = 20.0, 120.0  # seconds in which a body must go on coming, and must have come
MOST_AT_ONCE = 5000
ONCE = ("/sign-in", "/api/events", "/api/bell")  # where looking ahead uses something up, or never ends
STARTS = ("http.response.start", "websocket.http.response.start")  # the second refuses an upgrade
LOCAL = ("127.0.0.1", "localhost", "::1")
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    b" base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """Pure ASGI: a client that goes away is seen by whoever answers it."""

    def __init__(self, app: ASGIApp, *, hosts: set[str], origins: set[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._at_once = 0
        self._held: Counter[bytes] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        socket = scope["type"] == "websocket"
        # httptools leaves spaces behind values, and the SDK compares them.
        scope["headers"] = headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        path = routed(scope["raw_path"])
        refused = _broken() if path is None else self._refusal({"method": "GET", **scope, "path": path}, dict(headers))
        if refused is not None:
            await refused(scope, receive, _dressed(send))
            return
        scope["path"] = path
        who = dict(headers).get(b"authorization", b"")
        bounded = receive if socket else Bounded(receive, most_bytes(scope), self._held, who)
        self._at_once += 1
        try:
            await self._app(scope, bounded, _dressed(send))
        finally:
            self._at_once -= 1
            if isinstance(bounded, Bounded):
                bounded.done()

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Json | None:
        host, origin = headers.get(b"host", b"").decode("latin-1").lower(), headers.get(b"origin")
        if host not in self._hosts and not is_local(scope):
            return said("wrong_host", "this server does not go by that name", "Use the address that it printed, or --allow-host.", 421)
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            return said("forbidden", "requests of other sites are refused", "Open the page of this server itself.", 403)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not _navigation(scope, headers):
            return said("forbidden", "requests of other sites are refused", "Open the page of this server itself.", 403)
        if scope["method"] == "HEAD" and scope["path"] in ONCE:
            return said("wrong_method", "HEAD is not for this address", "Use GET.", 405, Allow="GET")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most_bytes(scope):
            return _too_large(scope)
        if self._at_once >= MOST_AT_ONCE:
            return said("too_many", "too many requests at once", "Come back in a few seconds.", 429, **{"Retry-After": "5"})
        return None


def _navigation(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """A link that somebody followed to a page: it changes nothing, and the cookie does not come along."""
    return scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == b"navigate" and not scope["path"].startswith("/api/")


def routed(raw: bytes) -> str | None:
    """A path to route by: each part still quoted, in one spelling, so that what a name holds is never taken for a part of the path.

    None if an escape in it is broken, or what it stands for is not UTF-8.
    """
    try:
        parts = [unquote_to_bytes(part) for part in raw.split(b"/")]
        for part in parts:
            part.decode()
    except UnicodeDecodeError:
        return None
    return None if _BROKEN.search(raw) else "/".join(quote(part, safe="") for part in parts)


def _broken() -> Json:
    return said("invalid_input", "the address is not written rightly", "Quote each part of it as UTF-8: % is %25, / is %2F.", 400)


def most_bytes(scope: Scope) -> int:
    """How much a request may bring: a message, or what a verb is given, may be longer than what a person writes."""
    return MOST_SENT if scope["path"].startswith(SENDING) else MOST_BYTES


def _too_large(scope: Scope) -> Json:
    return said(TooLarge.code, _large(most_bytes(scope)), SMALLER, 413)


def _large(most: int) -> str:
    return f"a request may bring at most {most // 1024} KiB"


class Bounded:
    """What comes in, counted: a body without a length is bounded too, and so is one that stops in the middle."""

    def __init__(self, receive: Receive, most: int, held: Counter[bytes], who: bytes) -> None:
        self._receive = receive
        self._most = most
        self._held = held  # what all requests brought that are not answered yet, by who sent them
        self._who = who
        self._more = True
        self._until = monotonic() + WHOLE
        self.bytes = 0

    async def __call__(self) -> Message:
        if not self._more:
            return await self._receive()
        try:
            async with asyncio.timeout(min(STALLED, self._until - monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise InvalidInput("the body did not come", field="body", hint=f"Send it at once: it has {WHOLE:g} s.") from None
        self._more = message.get("more_body", False)
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self.bytes += size
            self._held[self._who] += size
            if self.bytes > self._most:
                raise TooLarge(_large(self._most), hint=SMALLER)
            if self.bytes > SMALL and (self._held[self._who] > MOST_OF_ONE or self._held.total() > MOST_HELD):
                raise TooMany("too much is being sent at once", hint="Come back in a few seconds.", retry_after=5)
        return message

    def done(self) -> None:
        if self.bytes:
            self._held[self._who] -= self.bytes
            self._held += Counter()  # forgets who sends nothing
            self.bytes = 0


def _dressed(send: Send) -> Send:
    """What goes out, with the headers that keep a browser from being used against its owner."""

    async def dressed(message: Message) -> None:
        if message["type"] in STARTS:
            known = {name for name, _ in message["headers"]}
            extra = [*HEADERS, (b"content-security-policy", POLICY), (b"cache-control", b"no-store")]
            message["headers"] = [*message["headers"], *((name, value) for name, value in extra if name not in known)]
        await send(message)

    return dressed


def names(host: str, port: int, more: tuple[str, ...], *, secure: bool) -> tuple[set[str], set[str]]:
    """The hosts that the server answers to, with and without its port, and the origins of its own page."""
    known = {host, *more}
    if host in LOCAL:
        known |= {"127.0.0.1", "localhost", "::1"}
    plain = {f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name for name in (each.lower() for each in known)}
    hosts = plain | {f"{name}:{port}" for name in plain}
    return hosts, {f"{'https' if secure else 'http'}://{name}" for name in hosts}
