"""The watch of a remote store: an event stream of the server. Without a stream, it polls."""

from __future__ import annotations

from select import POLLIN, poll
from time import monotonic
from urllib.parse import quote

from postroom.store.remote.transport import ServerAddress, open_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Self

POLL_SECONDS = 0.5  # while there is no stream
CONNECT_TIMEOUT_SECONDS = 1.0  # short, because the waiter cannot read the store meanwhile
SILENCE_TIMEOUT_SECONDS = 40.0  # the server sends something every 15 seconds, so a longer silence means that the stream is lost
READY_LINE, MAX_HEAD_BYTES = b": connected", 1 << 16


class EventStreamWatch:
    """An event stream, opened before the waiter first reads the store, so that no event is missed.

    Its content is ignored: any byte means that the waiter should read the store again.
    """

    def __init__(self, addresses: list[ServerAddress], token: str, topics: tuple[str, ...]) -> None:
        self._addresses = addresses  # the first one is used, and put last if it does not answer
        self._token = token
        self._topics = topics
        self._socket: socket.socket | None = None
        self._last_received_at = 0.0

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        if self._socket is None and self._open_stream():
            return  # earlier events were missed, so the caller reads the store now
        bound = POLL_SECONDS if self._socket is None else SILENCE_TIMEOUT_SECONDS
        sources = poll()
        for source in (self._socket, wake):
            if source is not None:
                sources.register(source, POLLIN)
        sources.poll(1000 * (bound if seconds is None else min(max(seconds, 0), bound)))
        self._drain_stream()

    def _open_stream(self) -> bool:
        """Connect and wait for the first line of the stream. Return whether that succeeded."""
        query = "&".join(f"topic={quote(topic, safe='')}" for topic in self._topics)
        address = self._addresses[0]
        head = [f"GET /api/bell?{query} HTTP/1.1", f"Host: {address.host_header}"]
        if self._token:
            head.append(f"Authorization: Bearer {self._token}")
        try:
            self._socket = open_socket(address, CONNECT_TIMEOUT_SECONDS)
            self._socket.sendall("\r\n".join([*head, "", ""]).encode())
            received = b""
            while READY_LINE not in received:
                piece = self._socket.recv(4096)
                received += piece
                if not piece or len(received) > MAX_HEAD_BYTES or (b"\n" in received and b" 200 " not in received.partition(b"\n")[0]):
                    raise OSError("there is no event stream")
        except OSError:
            self.close()
            self._addresses = [*self._addresses[1:], address]
            return False
        self._socket.setblocking(False)
        self._last_received_at = monotonic()
        return True

    def _drain_stream(self) -> None:
        """Discard all received bytes. Close a stream that ended or was silent for too long, so that the next wait opens a new one."""
        try:
            while self._socket is not None:
                if not self._socket.recv(1 << 16):
                    self.close()
                self._last_received_at = monotonic()
        except OSError as error:
            empty = isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError"
            if not empty or monotonic() - self._last_received_at > SILENCE_TIMEOUT_SECONDS:
                self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        self._open_stream()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
