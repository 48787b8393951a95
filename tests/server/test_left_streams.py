"""An event stream whose client leaves before the past events are read ends without a failure of the server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from postroom import work
from postroom.server.http.sse import _Frames
from postroom.server.runtime.fair_share import CurrentRequest, set_current_request
from postroom.server.runtime.store_access import READ_THREADS, StoreAccess
from postroom.store import open_store


def test_a_stream_ends_if_its_client_left_while_it_waited_for_a_thread(sqlite_place: str) -> None:
    with open_store(sqlite_place) as store:
        work.send(store, sender="lead", to="bo", subject="A past event")

    async def run() -> tuple[bytes, bytes | None]:
        access = StoreAccess(sqlite_place)
        try:
            with access.broadcaster.subscribe(lambda event: True) as subscription:
                return await read_stream(access, subscription)
        finally:
            await access.close()

    async def read_stream(access: StoreAccess, subscription: object) -> tuple[bytes, bytes | None]:
        async def is_allowed() -> bool:
            return True

        frames = _Frames(access, 0, 0, is_allowed, lambda event: b"event")
        generated = frames.generate_frames(subscription, lambda event: True)  # type: ignore[arg-type]
        first = await anext(generated)
        async with AsyncExitStack() as busy:
            for _ in range(READ_THREADS):
                await busy.enter_async_context(access._read_slots.hold_slot())
            set_current_request(CurrentRequest("ada", lambda: True))
            second = asyncio.ensure_future(anext(generated, None))
            while not access._read_slots._waiting:
                await asyncio.sleep(0)
        return first, await second

    assert asyncio.run(run()) == (b": connected\n\n", None)
