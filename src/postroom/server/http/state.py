"""The state that all handlers of one server share, with the authentication of requests."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic
from typing import Any

from starlette.requests import HTTPConnection

from postroom.core import clock, limits
from postroom.core.errors import Unauthenticated
from postroom.people.access import passes
from postroom.server.http.auth import MAX_TRACKED_CALLERS, Caller, RateLimiter, Token, identify_caller, network_of, read_token
from postroom.server.http.connections.unix_socket import DOOR, is_unix_socket
from postroom.server.http.connections.websocket_protocol import CONNECTION_KEY
from postroom.server.http.security import CALLER_KEY, CHARGE_KEY
from postroom.server.observability.log_lines import LogWriter
from postroom.server.runtime.fair_share import CurrentRequest, set_current_request, start_own_task
from postroom.server.runtime.idempotency import IdempotencyCache
from postroom.server.runtime.queue_reports import QueueReports
from postroom.server.runtime.render_process import RenderPool
from postroom.server.runtime.store_access import StoreAccess
from postroom.server.runtime.wait_pool import WaitPool

NOTE_AGAIN_SECONDS = 3600.0  # after a use of a pass that could not be recorded


class AppState:
    """The shared state of one server: access to the store, rate limits, renderer, wait pool and idempotency cache."""

    def __init__(
        self,
        store_access: StoreAccess,
        *,
        person: str,
        dev: bool,
        rate: float,
        secure: bool,
        behind_proxy: bool,
        bytes_per_minute: int = limits.MAX_BYTES_PER_MINUTE,
        log: LogWriter | None = None,
    ) -> None:
        self.store_access = store_access
        self.log = log or LogWriter()
        self.person = person
        self.dev = dev
        self.secure = secure
        self._behind_proxy = behind_proxy
        self.rate_limiter = RateLimiter(rate, rate * 2)
        self.byte_limiter = RateLimiter(bytes_per_minute / 60, bytes_per_minute, f"{bytes_per_minute // limits.MIB} MiB a minute")
        self.anonymous_limiter = RateLimiter(10, 100)
        self.renderer = RenderPool()
        self.wait_pool = WaitPool()
        self.idempotency = IdempotencyCache()
        self.queue_reports = QueueReports()
        self._last_callers: OrderedDict[Token, Caller] = OrderedDict()
        self._background_tasks: set[asyncio.Task[Any]] = set()
        self._noted_uses: dict[str, float] = {}  # when the use of a pass was last noted, by the hash of its token

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as a task. Its result and its errors are ignored."""
        task = start_own_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._discard_task)

    def _discard_task(self, task: asyncio.Task[Any]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it

    def client_network(self, request: HTTPConnection) -> str:
        """Return by what a client without a valid token is counted: its IPv4 address, or the /64 network of its IPv6 address.

        Behind a proxy, the address is the last entry of X-Forwarded-For.
        """
        forwarded = request.headers.get("x-forwarded-for", "") if self._behind_proxy else ""
        return network_of(forwarded.rpartition(",")[2].strip() or (request.client.host if request.client else ""))

    async def authenticate(self, request: HTTPConnection, *, skip_rate_limit: bool = False) -> Caller:
        """Return the caller of a request. Refuses with `Unauthenticated`, or `TooMany`: failed attempts have the lowest limit.

        `skip_rate_limit`: the same request is checked once more, and does not count towards the rate limit.
        """
        token = read_token(request.headers)
        caller = await self._find_caller(request, token)
        if caller.token is not None and not skip_rate_limit:
            self.rate_limiter.check_rate(caller.name)
        self.note_use(caller)
        self._share_with(request, caller, token)
        return caller

    async def presume(self, request: HTTPConnection) -> Caller:
        """Return the caller that the token of a request had last, without a look into the store. Otherwise as `authenticate`.

        Only if the token is verified in the transaction of the answer, as a `VerbCall` does. `forget` has to be called if that fails.
        """
        token = read_token(request.headers)
        caller = None if token is None else self._last_callers.get(token)
        if caller is None:
            caller = await self._find_caller(request, token)
            if token is not None:
                self._last_callers[token] = caller
                if len(self._last_callers) > MAX_TRACKED_CALLERS:
                    self._last_callers.popitem(last=False)
        if caller.token is not None:
            self.rate_limiter.check_rate(caller.name)
        self.note_use(caller)
        self._share_with(request, caller, token)
        return caller

    def _share_with(self, request: HTTPConnection, caller: Caller, token: Token | None) -> None:
        """Count what this request uses as the share of its caller."""
        request.scope[CALLER_KEY] = caller.name
        request.scope[CHARGE_KEY] = partial(self.byte_limiter.check_rate, caller.name)
        connection = request.scope.get(CONNECTION_KEY)
        verify = partial(self._find_caller, request, token)
        set_current_request(CurrentRequest(caller.name, lambda: connection is not None and connection.is_lost, verify))

    def forget(self, request: HTTPConnection) -> None:
        """Note that the token of a request is not valid any more. The failed attempt counts as one of a stranger."""
        token = read_token(request.headers)
        if token is not None and self._last_callers.pop(token, None) is not None:
            self.anonymous_limiter.check_rate(self.client_network(request))

    async def wait_for_rate(self, caller: Caller, has_left: Callable[[], bool], frames: int = 1, size: int = 0) -> None:
        """Wait until a socket may execute a number of frames, of a size in characters. `has_left` returns whether its client is gone.

        A caller over its rate limit, or over its quota of bytes, is delayed, not refused.
        """
        set_current_request(CurrentRequest(caller.name, has_left))  # a `VerbCall` verifies the token again
        if caller.token is None:
            return
        for _ in range(frames):
            while pause := self.rate_limiter.seconds_until_allowed(caller.name):
                await asyncio.sleep(pause)
        while pause := self.byte_limiter.seconds_until_allowed(caller.name, size):
            await asyncio.sleep(pause)
        self.note_use(caller)

    async def _find_caller(self, request: HTTPConnection, token: Token | None) -> Caller:
        if token is None:
            if is_unix_socket(request.scope):
                return Caller(self.person, DOOR)
            if self.dev:
                return Caller(self.person, "web")
            self.anonymous_limiter.check_rate(self.client_network(request))
            raise Unauthenticated(
                "this needs a sign-in or a token", hint="`inbox sign-in` prints a link; scripts send `Authorization: Bearer …`."
            )
        try:
            return await self.store_access.read(lambda tx: identify_caller(tx, *token))
        except Unauthenticated:
            self.anonymous_limiter.check_rate(self.client_network(request))
            raise

    def note_use(self, caller: Caller) -> None:
        """Record, in the background, that the caller used its pass. One write a day: most calls do nothing."""
        used = caller.used_pass
        if used is None or not passes.is_use_due(used, clock.now()):
            return
        if monotonic() - self._noted_uses.get(used.token_hash, -NOTE_AGAIN_SECONDS) < NOTE_AGAIN_SECONDS:
            return  # it is being recorded, or could not be
        if len(self._noted_uses) >= MAX_TRACKED_CALLERS:
            self._noted_uses.clear()
        self._noted_uses[used.token_hash] = monotonic()
        self._last_callers.pop((caller.token or "", caller.door), None)  # its pass says when it was used before
        self.run_in_background(self.store_access.write(partial(passes.record_use, token_hash=used.token_hash), DOOR))
