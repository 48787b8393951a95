"""Real receivers of alerts: a web server that records what is posted to it, and a mail server."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

from aiosmtpd.controller import Controller

from tests.cli.process import LIMIT, eventually


class Posted:
    """One request that a web receiver got."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class WebReceiver:
    """A web server. It answers with the next of `statuses`, then with 200. While it is held, it answers nothing."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.statuses: list[int] = []
        self.released = Event()
        self.released.set()
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def wait_for(self, number: int) -> list[Posted]:
        """Return what was posted, once that many requests came."""
        eventually(lambda: len(self.posted) >= number)
        return self.posted

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(LIMIT)

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class PostHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that the library calls
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver._lock:
                    receiver.posted.append(Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                    status = receiver.statuses.pop(0) if receiver.statuses else 200
                receiver.released.wait(LIMIT)
                try:
                    self.send_response(status)
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                    self.end_headers()
                except OSError:
                    pass  # its client was killed

            def log_message(self, *words: object) -> None:
                pass

        return PostHandler


class BoundController(Controller):
    """The controller of a mail server, on a port that the system chose."""

    def __init__(self, handler: object) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        super().__init__(handler, hostname="127.0.0.1", port=self._socket.getsockname()[1])

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self._socket)


class MailServer:
    """A mail server that keeps what it gets."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.receivers: list[list[str]] = []
        self._controller = BoundController(self)
        self._controller.start()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self._controller.port}"

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:
        self.receivers.append(envelope.rcpt_tos)
        self.mails.append(message_from_bytes(envelope.content, EmailMessage, policy=policy.default))
        return "250 OK"

    def wait_for(self, number: int) -> list[EmailMessage]:
        eventually(lambda: len(self.mails) >= number)
        return self.mails

    def close(self) -> None:
        self._controller.stop()


@contextmanager
def web_receiver() -> Iterator[WebReceiver]:
    receiver = WebReceiver()
    try:
        yield receiver
    finally:
        receiver.close()


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    try:
        yield server
    finally:
        server.close()
