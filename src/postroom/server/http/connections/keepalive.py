"""Pings that detect a WebSocket client that is gone. `websocket_protocol` uses them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class Keepalive:
    """Sends a ping every `interval` seconds, and calls `on_timeout` if the pong takes longer than `timeout` seconds. None: never."""

    def __init__(
        self, interval: float | None, timeout: float | None, ping: Callable[[bytes], None], on_timeout: Callable[[], None]
    ) -> None:
        self._interval = interval
        self._timeout = timeout
        self._ping = ping
        self._on_timeout = on_timeout
        self._payload = b""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._interval is not None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._send_ping)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def receive_pong(self, payload: bytes) -> None:
        """Schedule the next ping if this answers the last one. Other pongs are ignored."""
        if self._payload and payload == self._payload:
            self._payload = b""
            self.stop()
            self.start()

    def _send_ping(self) -> None:
        self._payload = os.urandom(4)
        if self._timeout is None:
            self.start()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._on_timeout)
        self._ping(self._payload)
