"""Transports: they send one verb and receive its answer, over a kept connection by TCP, TLS or a Unix socket.

The HTTP client is written by hand, because importing one costs more than a call. Requests carry their length, and so must the answers.
"""

from __future__ import annotations

import socket

from postroom import __version__
from postroom.core.errors import InvalidInput, StoreUnreachable
from postroom.core.rpc.wire import CONTENT_TYPE, VERSION_HEADER
from postroom.core.text import short_repr
from postroom.core.tracing import current_traceparent
from postroom.store.location import shown_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Protocol

    class Transport(Protocol):
        """Sends verbs to a server over one connection. One thread uses it at a time."""

        address: ServerAddress
        is_open: bool  # whether there is a connection now
        was_reached: bool  # whether there ever was one

        def call_verb(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
            """Send a verb and return the answer. Raises `OSError` or `ValueError` if no answer arrives."""

        def close(self) -> None: ...


CONNECT_TIMEOUT_SECONDS = 5.0
URL_PREFIXES = ("http://", "https://", "ws://", "wss://", "unix:")
DEFAULT_PORTS = {"http": 80, "https": 443}
UNREACHABLE_HINT = (
    "Start it with `inbox serve`, or name another store with --db or INBOX_DB. This does not mean that there is nothing to do."
)
UNTRUSTED_HINT = (
    "If the certificate of the server is your own, set SSL_CERT_FILE to the file of its authority (or of itself), or add that to those"
    " that this machine trusts. If it is not, check the address."
)


class HttpAnswer:
    """The answer of a server. `version` is that of its package, or "" if it did not send one."""

    __slots__ = ("body", "status", "version")

    def __init__(self, status: int, body: bytes, version: str) -> None:
        self.status = status
        self.body = body
        self.version = version


_HOST_CHARS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
_IPV6_CHARS = set("0123456789abcdefABCDEF:.%")


class ServerAddress:
    """The address of a server: `http://host:port`, `https://…`, `ws://…`, `wss://…`, or `unix:PATH`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = url[5:].removeprefix("//") if url.startswith("unix:") else ""
        self.is_secure = False
        self.is_websocket = url.startswith(("ws:", "wss:"))
        if self.path:
            self.host, self.port = "localhost", 0
            return
        scheme, _, rest = url.partition("://")
        scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
        host_and_port = rest.removesuffix("/")
        host, _, port = host_and_port.rpartition(":") if _ends_with_port(host_and_port) else (host_and_port, "", "")
        self.is_secure = scheme == "https"
        self.host, self.port = host.removeprefix("[").removesuffix("]"), int(port or DEFAULT_PORTS.get(scheme, 0))
        bracketed = host != self.host
        if (
            scheme not in DEFAULT_PORTS
            or not self.host
            or set(self.host) - (_IPV6_CHARS if bracketed else _HOST_CHARS)
            or not 0 < self.port < 65536
        ):
            hint = "Write http://127.0.0.1:8420, or unix:PATH."
            raise InvalidInput(f"{short_repr(shown_location(url))} is not the address of a server", field="db", hint=hint)

    @property
    def is_private(self) -> bool:
        """Return whether nobody can read along: the connection is encrypted, or stays on this machine."""
        parts = self.host.split(".")
        loopback = len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)
        return self.is_secure or bool(self.path) or loopback or self.host.lower() in ("localhost", "::1")

    @property
    def host_header(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.path else f"{host}:{self.port}"


def parse_addresses(location: str) -> list[ServerAddress]:
    """Return the addresses of a location: servers of one store, separated by commas. The path of a socket may contain commas."""
    urls: list[str] = []
    for piece in location.split(","):
        if urls and not piece.startswith(URL_PREFIXES):
            urls[-1] += f",{piece}"
        else:
            urls.append(piece)
    return [ServerAddress(url) for url in urls]


def _ends_with_port(host_and_port: str) -> bool:
    port = host_and_port.rpartition(":")[2]
    return port.isascii() and port.isdigit() and len(port) < 6


class RetryingTransport:
    """A transport that connects when needed, and retries once if the connection was lost. One thread uses it at a time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.close = transport.close

    @property
    def was_reached(self) -> bool:
        return self._transport.was_reached

    def call_verb(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        """Send a verb and return the answer. The key lets the server recognise the second try as the same call."""
        try:
            return self._transport.call_verb(verb, body, key, timeout_seconds)
        except (OSError, ValueError) as error:
            connection_lost = self._transport.is_open and not isinstance(error, TimeoutError)
            self.close()
            if not connection_lost:
                raise self._make_unreachable(error) from None
        try:
            return self._transport.call_verb(verb, body, key, timeout_seconds)
        except (OSError, ValueError) as error:
            self.close()
            raise self._make_unreachable(error, " It is not known whether this was done.") from None

    def _make_unreachable(self, error: Exception, more: str = "") -> StoreUnreachable:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        is_untrusted = hasattr(error, "verify_code")  # an `ssl.SSLCertVerificationError`; ssl is loaded for https only
        hint = UNTRUSTED_HINT if is_untrusted else UNREACHABLE_HINT
        return StoreUnreachable(f"the server at {self._transport.address.url} cannot be reached: {why}", hint=hint + more)


class HttpTransport:
    """A transport that sends each verb as an HTTP request."""

    def __init__(self, address: ServerAddress, token: str) -> None:
        self.address = address
        self.is_open = self.was_reached = False
        self._token = token
        self._socket: socket.socket | None = None
        self._reader: BinaryIO | None = None

    def call_verb(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        if self._socket is None:
            self._socket = open_socket(self.address)
            self._reader = self._socket.makefile("rb")
            self.is_open = self.was_reached = True
        self._socket.settimeout(timeout_seconds)
        head = [f"POST /api/verbs/{verb} HTTP/1.1", f"Host: {self.address.host_header}", f"Content-Length: {len(body)}"]
        head += [f"Content-Type: {CONTENT_TYPE}", f"{VERSION_HEADER}: {__version__}", f"Idempotency-Key: {key}"]
        if trace := current_traceparent():
            head.append(f"traceparent: {trace}")
        if self._token:
            head.append(f"Authorization: Bearer {self._token}")
        self._socket.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        return self._read_answer()

    def _read_answer(self) -> HttpAnswer:
        reader = self._reader
        assert reader is not None
        first = reader.readline(65536)
        if not first.endswith(b"\n"):
            raise OSError("the server closed the connection")
        words = first.split(None, 2)
        status, headers = int(words[1] if len(words) > 1 else ""), {}
        while (line := reader.readline(65536)).strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if b"content-length" not in headers:
            raise ValueError("an answer without a length")
        length = int(headers[b"content-length"])
        body = reader.read(length)
        if len(body) != length:
            raise OSError("the server closed the connection")
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()
        return HttpAnswer(status, body, headers.get(VERSION_HEADER.lower().encode(), b"").decode("latin-1"))

    def close(self) -> None:
        for resource in (self._reader, self._socket):
            if resource is not None:
                resource.close()
        self._reader = self._socket = None
        self.is_open = False


def open_socket(address: ServerAddress, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS) -> socket.socket:
    """Open a connection to a server."""
    if address.path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(address.path)
        except BaseException:
            connection.close()
            raise
        return connection
    plain = socket.create_connection((address.host, address.port), timeout_seconds)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.is_secure:
        return plain
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=address.host)
