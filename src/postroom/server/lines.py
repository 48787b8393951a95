"""Lines: how many connections there may be, and how long one may be open without a word."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 5.0
SPARE = 100  # files that the server needs for itself


def most() -> int:
    """As many as the system lets this process have, once it has asked for all that it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(wanted - SPARE, SPARE)


class Line(HttpToolsProtocol):
    """A connection. One too many is closed at once, and one on which nothing is asked, after a while."""

    bound = 10_000

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > type(self).bound:
            transport.close()
        else:
            self._silence: Any = self.loop.call_later(PATIENCE, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if hasattr(self, "_silence"):
            self._silence.cancel()
        super().connection_lost(exc)
