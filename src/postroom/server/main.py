"""The server process: opens its sockets, runs the application, and stops on a signal. `inbox serve` calls `serve`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom import __version__
from postroom.core.errors import InvalidInput, Taken
from postroom.core.limits import MAX_FRAME_BYTES, MIB
from postroom.core.records import Record
from postroom.people.access import passes
from postroom.server import app
from postroom.server.config import Settings, check_settings
from postroom.server.http.connections import uvicorn_contract
from postroom.server.http.connections.protocols import LimitedHttpProtocol, make_config, max_connections
from postroom.server.http.connections.unix_socket import UnixSocketListener
from postroom.server.http.security import allowed_hosts_and_origins
from postroom.server.http.state import AppState
from postroom.server.kept_files import load_or_issue_token, remove_url_note, write_url_note
from postroom.server.observability.log_lines import LogWriter, redirect_logging
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.interface import Store

BACKLOG_CONNECTIONS = 1024
GRACE_SECONDS = 5  # for open connections to end when the server stops
PING_SECONDS = 20.0  # between the pings of a WebSocket, and for each pong
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal was closed


class Ready(Record):
    """The addresses of a running server, and the token of its person. `uds`: the path of the Unix socket. `url` is None without TCP."""

    url: str | None
    token: str
    token_file: str
    sign_in_url: str | None
    uds: str | None


def serve(settings: Settings, store: Store, ready: Callable[[Ready], None]) -> None:
    """Run the server until a signal stops it. `ready` is called once it accepts requests. Refuses settings that cannot work."""
    check_settings(settings)
    with ExitStack() as ending:
        bound = ending.enter_context(bind_socket(settings)) if settings.tcp else None
        listener = None if settings.uds is None else ending.enter_context(closing(UnixSocketListener(settings.uds)))
        token, token_file = load_or_issue_token(store, settings)
        url = sign_in_url = None
        if bound is not None:
            url = base_url(settings, bound)
            sign_in_url = f"{url}/sign-in?token={passes.issue_link(store, person=settings.person)}"
            ending.callback(remove_url_note, write_url_note(store, url), url)
        addresses = Ready(url, token, token_file, sign_in_url, None if listener is None else listener.path)
        with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
            runner.run(_run_server(settings, bound, listener, lambda: ready(addresses)))


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops if uvloop is installed, else None."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def base_url(settings: Settings, bound: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls_cert else 'http'}://{host}:{bound.getsockname()[1]}"


def bind_socket(settings: Settings) -> socket.socket:
    """Return a listening socket. Refuses an unknown host, or a port that is in use.

    `IPPROTO_TCP` is explicit because asyncio turns Nagle's algorithm off only then. With it, each small answer takes 40 ms.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InvalidInput(
            f"there is no address {settings.host}", field="host", hint="Write 127.0.0.1, or a name of this machine."
        ) from None
    try:
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG_CONNECTIONS)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Taken(
            f"cannot listen on {settings.host}:{settings.port}: {reason}",
            hint="Choose another port with --port (with make: `make run PORT=9000`). 0 finds a free one.",
        ) from None
    return bound


async def _run_server(
    settings: Settings, bound: socket.socket | None, listener: UnixSocketListener | None, ready: Callable[[], None]
) -> None:
    opened: list[StoreAccess] = []
    log = LogWriter(level=settings.log_level, log_format=settings.log_format)
    redirect_logging(log)

    def open_store_access() -> StoreAccess:
        opened.append(
            StoreAccess(settings.location, data=settings.data, max_listeners=settings.max_listeners, max_waits=settings.max_waits)
        )
        return opened[-1]

    def make_state(store_access: StoreAccess) -> AppState:
        return AppState(
            store_access,
            person=settings.person,
            dev=settings.dev,
            rate=settings.rate,
            secure=settings.is_secure,
            behind_proxy=settings.behind_proxy,
            bytes_per_minute=settings.max_mib_per_minute * MIB,
            log=log,
        )

    hosts: set[str] = set()
    origins: set[str] = set()  # without TCP no browser can open the page
    if bound is not None:
        switches = {"secure": settings.is_secure, "behind_proxy": settings.behind_proxy}
        hosts, origins = allowed_hosts_and_origins(settings.host, bound.getsockname()[1], settings.allow_hosts, **switches)
    application = app.build_app(open_store_access, make_state, hosts=hosts, origins=origins, max_sockets=settings.max_sockets, log=log)
    LimitedHttpProtocol.limit = max_connections()

    def stop_waits() -> None:
        for store_access in opened:
            store_access.stop()

    def notify_ready() -> None:
        server.stop_on_signals()
        log.write("info", "start", "the server accepts requests", {"version": __version__, "process_id": os.getpid()})
        ready()

    for number in _list_stop_signals():  # ignored before the server is ready, and at the end, when uvicorn restores these handlers
        signal.signal(number, lambda *_: None)
    tls = {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key}
    server = GracefulServer(application, listener, on_ready=notify_ready, on_stop=stop_waits, **tls)
    await server.serve(bound)
    log.write("info", "stop", "the server has ended", {})


def _list_stop_signals() -> list[signal.Signals]:
    """Return the signals that stop the server. SIGHUP is none of them if the server was started with `nohup`, which ignores it."""
    return [number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]


class GracefulServer:
    """A uvicorn server over TCP, over a Unix socket, or both.

    `on_ready` is called once requests are accepted. `on_stop` is called before the server waits for its connections to end, and must end
    the calls that would keep them open. `options` are uvicorn's own.
    """

    def __init__(
        self,
        application: ASGIApp,
        listener: UnixSocketListener | None,
        *,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        **options: Any,
    ) -> None:
        self._listener = listener
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._app_started = asyncio.Event()
        self._config = make_config(
            StartupNotifier(application, self._app_started.set),
            ws_max_size=MAX_FRAME_BYTES,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,  # compression costs memory for each connection, and time for each message
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            **options,
        )
        self._server = uvicorn.Server(self._config)
        self._unix_server: asyncio.AbstractServer | None = None

    async def serve(self, bound: socket.socket | None) -> None:
        """Accept requests until `stop`. Return when all connections have ended, or `GRACE_SECONDS` have passed."""
        serving = asyncio.ensure_future(self._server.serve(sockets=[] if bound is None else [bound]))
        starting = asyncio.ensure_future(self._app_started.wait())
        try:
            await asyncio.wait((serving, starting), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                await self._accept_locally()
                self._on_ready()
        except BaseException:
            self.stop(at_once=True)
            raise
        finally:
            starting.cancel()
            await serving
            self._stop_accepting_locally()

    def stop(self, *, at_once: bool = False) -> None:
        """End the server. `at_once`: do not wait for connections."""
        self._server.should_exit = True
        self._server.force_exit = self._server.force_exit or at_once
        self._stop_accepting_locally()
        self._on_stop()

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM, SIGINT and SIGHUP, and at once on a second SIGINT.

        Call it when the server is ready: uvicorn has installed its own handlers then. Those raise the signal again at the end, and
        `inbox serve` ends with exit code 0. They also have sse-starlette cut off the MCP calls that `on_stop` lets finish.
        """
        loop = asyncio.get_running_loop()

        def receive_signal(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(lambda: self.stop(at_once=self._server.should_exit and number == signal.SIGINT))

        for number in _list_stop_signals():
            signal.signal(number, receive_signal)
        if self._server.should_exit:  # a signal came before
            self.stop()

    async def _accept_locally(self) -> None:
        """Accept requests on the Unix socket, without TLS: nothing leaves the machine."""
        if self._listener is not None:
            loop = asyncio.get_running_loop()
            self._unix_server = await loop.create_unix_server(self._make_protocol, sock=self._listener.socket, backlog=BACKLOG_CONNECTIONS)

    def _stop_accepting_locally(self) -> None:
        if self._unix_server is not None:
            self._unix_server.close()

    def _make_protocol(self) -> asyncio.Protocol:
        return LimitedHttpProtocol(self._config, uvicorn_contract.server_state(self._server), {})


class StartupNotifier:
    """ASGI middleware: call `on_startup` when the application has started."""

    def __init__(self, app: ASGIApp, on_startup: Callable[[], None]) -> None:
        self._app = app
        self._on_startup = on_startup

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        async def send_and_notify(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._on_startup()

        return self._app(scope, receive, send_and_notify if scope["type"] == "lifespan" else send)
