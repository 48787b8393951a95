"""A bell behind a server: a stream that says when to look again. While there is none, it is looked every now and then."""

from __future__ import annotations

from select import POLLIN, poll
from time import monotonic
from urllib.parse import quote

from postroom.store.remote.calling import Place, connected

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Self

LOOK_EVERY = 0.5  # seconds, where nobody rings
CONNECT_SECONDS = 1.0  # meanwhile nobody looks
LOST_AFTER = 40.0  # seconds without a word: the server says something every 15
READY, MOST_HEAD = b": connected", 1 << 16


class RemoteBell:
    """Set before the first look, so that nothing rings unheard. What is heard says only that it is time to look."""

    def __init__(self, place: Place, token: str, topics: tuple[str, ...]) -> None:
        self._place = place
        self._token = token
        self._topics = topics
        self._line: socket.socket | None = None
        self._heard = 0.0

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        if self._line is None and self._listen():
            return  # what rang before was not heard: look again
        bound = LOOK_EVERY if self._line is None else LOST_AFTER
        sources = poll()
        for source in (self._line, wake):
            if source is not None:
                sources.register(source, POLLIN)
        sources.poll(1000 * (bound if seconds is None else min(max(seconds, 0), bound)))
        self._hear()

    def _listen(self) -> bool:
        query = "&".join(f"topic={quote(topic, safe='')}" for topic in self._topics)
        head = [f"GET /api/bell?{query} HTTP/1.1", f"Host: {self._place.name}"]
        if self._token:
            head.append(f"Authorization: Bearer {self._token}")
        try:
            self._line = connected(self._place, CONNECT_SECONDS)
            self._line.sendall("\r\n".join([*head, "", ""]).encode())
            came = b""
            while READY not in came:
                piece = self._line.recv(4096)
                came += piece
                if not piece or len(came) > MOST_HEAD or (b"\n" in came and b" 200 " not in came.partition(b"\n")[0]):
                    raise OSError("there is no bell")
        except OSError:
            self.close()
            return False
        self._line.setblocking(False)
        self._heard = monotonic()
        return True

    def _hear(self) -> None:
        """Everything that came. A server that is gone, or silent for too long, is looked for again."""
        try:
            while self._line is not None:
                if not self._line.recv(1 << 16):
                    self.close()
                self._heard = monotonic()
        except OSError as error:
            empty = isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError"
            if not empty or monotonic() - self._heard > LOST_AFTER:
                self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
