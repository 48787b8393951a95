"""Serving: one process, from the socket to a clean end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from types import FrameType
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus

from postroom.core.errors import InvalidInput, NotFound, Taken
from postroom.core.records import Record
from postroom.core.wire import MOST_FRAME
from postroom.people import passes
from postroom.server import app
from postroom.server.desk import Desk
from postroom.server.guard import names
from postroom.server.lines import Cable, Line, most
from postroom.server.local import LocalDoor
from postroom.server.requests import Office
from postroom.server.settings import Settings, check
from postroom.store.port import Store

BACKLOG = 1024
GRACE = 5
PING = 20.0  # seconds between pings of a WebSocket, and for their answers


class Ready(Record):
    """Where the server is, and what lets a person in. `uds`: the path of its socket. Without TCP there is no address to open."""

    url: str | None
    token: str
    sign_in_url: str | None
    uds: str | None

    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in self.items() if value is not None}


def serve(settings: Settings, store: Store, ready: Callable[[Ready], None]) -> None:
    """Run until a signal ends it. `ready` is called once requests are taken."""
    check(settings)
    with ExitStack() as ending:
        bound = ending.enter_context(_bound(settings)) if settings.tcp else None
        door = None if settings.uds is None else ending.enter_context(closing(LocalDoor(settings.uds)))
        token = bearer(store, settings)
        url = link = None
        if bound is not None:
            url = address(settings, bound)
            link = f"{url}/sign-in?token={passes.issue_link(store, person=settings.person)}"
            ending.callback(_forget, noted(settings, store, url), url)
        told = Ready(url, token, link, None if door is None else door.path)
        with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:  # uvloop, where it is
            runner.run(_serve(settings, bound, door, lambda: ready(told)))


def address(settings: Settings, bound: socket.socket) -> str:
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{bound.getsockname()[1]}"


def _bound(settings: Settings) -> socket.socket:
    """A socket that listens. `IPPROTO_TCP` is said, or asyncio leaves Nagle on, and each small answer takes 40 ms."""
    try:
        family, _, _, _, where = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InvalidInput(
            f"there is no address {settings.host}", field="host", hint="Write 127.0.0.1, or a name of this machine."
        ) from None
    try:
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Taken(f"{settings.host}:{settings.port} cannot be had: {reason}", hint="Choose another with --port; 0 finds one.") from None
    return bound


async def _serve(settings: Settings, bound: socket.socket | None, door: LocalDoor | None, ready: Callable[[], None]) -> None:
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call] # the SDK's streams are ours to end
    desks: list[Desk] = []

    def open_desk() -> Desk:
        limits = {"most_listeners": settings.most_listeners, "most_waits": settings.most_waits}
        desks.append(Desk(settings.place, data=settings.data, **limits))
        return desks[-1]

    def office(desk: Desk) -> Office:
        return Office(
            desk, person=settings.person, dev=settings.dev, rate=settings.rate, secure=settings.secure, proxied=settings.behind_proxy
        )

    hosts: set[str] = set()
    origins: set[str] = set()  # without TCP there is no page
    if bound is not None:
        hosts, origins = names(settings.host, bound.getsockname()[1], settings.allow_hosts, secure=settings.secure)
    application = app.build(open_desk, office, hosts=hosts, origins=origins, most_sockets=settings.most_sockets)
    Line.bound = most()
    config = uvicorn.Config(
        application,
        http=Line,
        ws=Cable,
        ws_max_size=MOST_FRAME,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,  # it costs memory for each socket, and time for each message
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it is done, and we want to leave with 0
        signal.signal(number, lambda *_: None)
    await _Stoppable(config, desks, door, ready).serve(sockets=[] if bound is None else [bound])


class _Stoppable(uvicorn.Server):
    """Tells those who wait before it starts to wait for them, and says when it is ready."""

    def __init__(self, config: uvicorn.Config, desks: list[Desk], door: LocalDoor | None, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._desks = desks
        self._door = door
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._door is not None and self.started:  # in the clear, whatever TCP speaks: nothing leaves the machine
            listening = await asyncio.get_running_loop().create_unix_server(self._line, sock=self._door.socket, backlog=BACKLOG)
            self.servers.append(listening)
        if self.started:
            self._ready()

    def _line(self) -> asyncio.Protocol:
        return Line(self.config, self.server_state, self.lifespan.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        for desk in self._desks:
            asyncio.get_running_loop().call_soon_threadsafe(desk.stop)


# What is kept between runs, in files that only their owner reads


def bearer(store: Store, settings: Settings) -> str:
    """The person's token for scripts: the one of the last run, as long as it is valid."""
    folder = settings.data or store.data
    path = None if folder is None else os.path.join(folder, "token")
    try:
        if path is not None:
            with open(path, encoding="ascii") as file:
                token = file.read().strip()
            if passes.person_of(store, token) == settings.person:
                return token
    except (OSError, ValueError, NotFound):
        pass  # there is none yet, or it was revoked
    token = passes.issue_bearer(store, person=settings.person)
    if path is not None:
        write_private(path, token + "\n")
    return token


def noted(settings: Settings, store: Store, url: str) -> str | None:
    """A note of where the server is, for the commands that print links to it."""
    folder = store.data or settings.data  # beside the store, where commands look
    if folder is None:
        return None
    path = os.path.join(folder, "server")
    write_private(path, url + "\n")
    return path


def _forget(note: str | None, url: str) -> None:
    """Take the note away, if it is still ours: another server may have started since."""
    try:
        if note is not None:
            with open(note, encoding="utf-8") as file:
                ours = file.read().strip() == url
            if ours:
                os.unlink(note)
    except OSError:
        pass


def write_private(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.new"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
        os.write(file, text.encode())
    finally:
        os.close(file)
    os.replace(draft, path)
