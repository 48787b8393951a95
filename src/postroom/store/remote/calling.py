"""Calling: one request after another over a connection that is kept, to a server over TCP, TLS or a Unix socket.

Written by hand because importing an HTTP client costs more than the call: requests carry their length, and so must the answers.
"""

from __future__ import annotations

import socket

from postroom.core.errors import InvalidInput, StoreAway
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Protocol

    class Way(Protocol):
        """How a verb gets to a server, over one connection."""

        place: Place
        open: bool  # whether there is a connection
        reached: bool  # whether there ever was

        def once(self, verb: str, given: bytes, key: str, seconds: float) -> tuple[int, bytes]:
            """Its status and its answer. `OSError` or `ValueError` if there is none."""

        def close(self) -> None: ...


CONNECT_SECONDS = 5.0
PORTS = {"http": 80, "https": 443}
HINT = "Start it with `inbox serve`, or name another store with --db or INBOX_DB. Nothing is known to be empty."


_LETTERS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
_SIX = set("0123456789abcdefABCDEF:.%")


class Place:
    """Where a server is: `http://host:port`, `https://…`, `ws://…`, `wss://…`, or `unix:PATH`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = url[5:].removeprefix("//") if url.startswith("unix:") else ""
        self.secure = False
        self.socket = url.startswith(("ws:", "wss:"))  # whether verbs are to be said over a WebSocket
        if self.path:
            self.host, self.port = "localhost", 0
            return
        scheme, _, rest = url.partition("://")
        scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
        where = rest.removesuffix("/")
        host, _, port = where.rpartition(":") if _ends_with_port(where) else (where, "", "")
        self.secure = scheme == "https"
        self.host, self.port = host.removeprefix("[").removesuffix("]"), int(port or PORTS.get(scheme, 0))
        bracketed = host != self.host
        if scheme not in PORTS or not self.host or set(self.host) - (_SIX if bracketed else _LETTERS) or not 0 < self.port < 65536:
            hint = "Write http://127.0.0.1:8420, or unix:PATH."
            raise InvalidInput(f"{shown(url)} is not the address of a server", field="db", hint=hint)

    @property
    def name(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.path else f"{host}:{self.port}"


def _ends_with_port(where: str) -> bool:
    port = where.rpartition(":")[2]
    return port.isascii() and port.isdigit() and len(port) < 6


class Kept:
    """A connection that is made when it is needed, and again when it is lost. One thread uses it at a time."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self.close = way.close

    @property
    def reached(self) -> bool:
        return self._way.reached

    def say(self, verb: str, given: bytes, key: str, seconds: float) -> tuple[int, bytes]:
        """A verb, and its answer. When that was lost it is said once more: the key tells the server that it is the same verb."""
        try:
            return self._way.once(verb, given, key, seconds)
        except (OSError, ValueError) as error:
            lost = self._way.open and not isinstance(error, TimeoutError)
            self.close()
            if not lost:
                raise self._away(error) from None
        try:
            return self._way.once(verb, given, key, seconds)
        except (OSError, ValueError) as error:
            self.close()
            raise self._away(error, " It is not known whether this was done.") from None

    def _away(self, error: Exception, more: str = "") -> StoreAway:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return StoreAway(f"the server at {self._way.place.url} cannot be reached: {why}", hint=HINT + more)


class Line:
    """Verbs as requests of HTTP."""

    def __init__(self, place: Place, token: str) -> None:
        self.place = place
        self.open = self.reached = False
        self._token = token
        self._socket: socket.socket | None = None
        self._reading: BinaryIO | None = None

    def once(self, verb: str, given: bytes, key: str, seconds: float) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket = connected(self.place)
            self._reading = self._socket.makefile("rb")
            self.open = self.reached = True
        self._socket.settimeout(seconds)
        head = [f"POST /api/verbs/{verb} HTTP/1.1", f"Host: {self.place.name}", f"Content-Length: {len(given)}"]
        head += ["Content-Type: application/json", f"Idempotency-Key: {key}"]
        if self._token:
            head.append(f"Authorization: Bearer {self._token}")
        self._socket.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + given)
        return self._answer()

    def _answer(self) -> tuple[int, bytes]:
        reading = self._reading
        assert reading is not None
        first = reading.readline(65536)
        if not first.endswith(b"\n"):
            raise OSError("the server closed the connection")
        words = first.split(None, 2)
        status, length, closes = int(words[1] if len(words) > 1 else ""), None, False
        while (line := reading.readline(65536)).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif name.lower() == b"connection":
                closes = value.strip().lower() == b"close"
        if length is None:
            raise ValueError("an answer without a length")
        body = reading.read(length)
        if len(body) != length:
            raise OSError("the server closed the connection")
        if closes:
            self.close()
        return status, body

    def close(self) -> None:
        for open_ in (self._reading, self._socket):
            if open_ is not None:
                open_.close()
        self._reading = self._socket = None
        self.open = False


def connected(place: Place, seconds: float = CONNECT_SECONDS) -> socket.socket:
    if place.path:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(seconds)
        try:
            made.connect(place.path)
        except BaseException:
            made.close()
            raise
        return made
    plain = socket.create_connection((place.host, place.port), seconds)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not place.secure:
        return plain
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
