"""Fair shares: one caller uses its part of the server, waits or is refused beyond it, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import pytest

from postroom import work
from postroom.core import limits
from postroom.core.errors import ClientLeft, TooMany, Unauthenticated
from postroom.server.http import security
from postroom.server.http.auth import RateLimiter
from postroom.server.http.security import CALLER_KEY, CHARGE_KEY, BodyLimiter
from postroom.server.runtime.fair_share import CurrentRequest, FairQueue, FairSlots, set_current_request
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.interface import Store
from tests.conftest import fresh_file

MIB = 1 << 20


async def calling(name: str, work_of: Callable[[], Awaitable[Any]], **request: Any) -> Any:
    """Do some work as a caller, in a task of its own."""

    async def run() -> Any:
        set_current_request(CurrentRequest(name, **request))
        return await work_of()

    return await asyncio.create_task(run())


def test_a_caller_who_fills_its_share_leaves_room_for_others_and_is_refused_beyond_its_queue() -> None:
    async def staged() -> list[str]:
        slots, done, release = FairSlots(3, per_caller=1, max_queued=2), [], asyncio.Event()

        async def hold(name: str) -> None:
            async with slots.hold_slot():
                await release.wait()
                done.append(name)

        evil = [asyncio.ensure_future(calling("evil", lambda: hold("evil"))) for _ in range(4)]
        ada = asyncio.ensure_future(calling("ada", lambda: hold("ada")))
        own = asyncio.ensure_future(hold("the server"))
        while not evil[3].done():  # one runs, two wait, one is refused
            await asyncio.sleep(0)
        assert isinstance(evil[3].exception(), TooMany)
        release.set()
        await asyncio.gather(*evil[:3], ada, own)
        return done

    done = asyncio.run(staged())
    assert set(done[:3]) == {"evil", "ada", "the server"}
    assert Counter(done) == {"evil": 3, "ada": 1, "the server": 1}


def test_waiting_work_of_a_caller_that_left_or_lost_its_token_is_not_done() -> None:
    async def staged() -> tuple[list[str], list[type]]:
        slots, done, release = FairSlots(1, per_caller=1, max_queued=9), [], asyncio.Event()

        async def hold(name: str) -> None:
            async with slots.hold_slot():
                done.append(name)
                await release.wait()

        async def revoked() -> None:
            raise Unauthenticated("this token is not valid")

        # The first runs at once, and is not asked again.
        first = asyncio.ensure_future(calling("ada", lambda: hold("first"), has_left=lambda: True, verify=revoked))
        while not done:
            await asyncio.sleep(0)
        left = asyncio.ensure_future(calling("evil", lambda: hold("left"), has_left=lambda: True))
        voided = asyncio.ensure_future(calling("mallory", lambda: hold("voided"), verify=revoked))
        third = asyncio.ensure_future(calling("ada", lambda: hold("third")))
        await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(first, left, voided, third, return_exceptions=True)
        return done, [type(result) for result in results]

    done, outcomes = asyncio.run(staged())
    assert done == ["first", "third"]
    assert outcomes == [type(None), ClientLeft, Unauthenticated, type(None)]


def test_writers_take_turns_and_one_that_floods_is_refused() -> None:
    queue: FairQueue[int] = FairQueue(3)
    for number in range(3):
        queue.put("evil", number)
    with pytest.raises(TooMany):
        queue.put("evil", 3)
    queue.put("ada", 10)
    queue.put("", 20)
    taken = queue.take(4)
    assert taken == [("evil", 0), ("ada", 10), ("", 20), ("evil", 1)]
    queue.put_back(taken[3:])
    assert queue.take(9) == [("evil", 1), ("evil", 2)]
    queue.close()
    assert queue.take(9) == []


def test_a_long_verb_of_one_caller_does_not_hold_the_commits_of_others(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch ends after its time, and callers take turns: another's write is at most one verb of the flood behind."""
    monkeypatch.setattr("postroom.server.runtime.writer.MAX_BATCH_SECONDS", 0.0)

    async def staged() -> list[str]:
        access, order, begun, release = StoreAccess(fresh_file(tmp_path)), [], Event(), Event()

        def write(name: str) -> Callable[[Store], None]:
            def run(store: Store) -> None:
                begun.set()
                release.wait(30)
                work.send(store, sender=name, to="box", subject=name)
                order.append(name)

            return run

        try:
            flood = [asyncio.ensure_future(calling("evil", lambda: access.write(write("evil")))) for _ in range(5)]
            await asyncio.to_thread(begun.wait, 30)
            ada = asyncio.ensure_future(calling("ada", lambda: access.write(write("ada"))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            release.set()
            await asyncio.gather(*flood, ada)
        finally:
            await access.close()
        return order

    assert asyncio.run(staged()).index("ada") <= 2


def body_of(caller: str, size: int, buffered: Counter[str], charge: Callable[[float], None] | None = None) -> BodyLimiter:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * size}

    scope: dict[str, Any] = {"path": "/api/mailbox", CALLER_KEY: caller}
    if charge is not None:
        scope[CHARGE_KEY] = charge
    return BodyLimiter(receive, scope, buffered)


def test_a_share_of_what_is_being_sent_is_counted_by_caller_and_not_by_spelling() -> None:
    buffered: Counter[str] = Counter()
    asyncio.run(body_of("evil", 32 * MIB, buffered)())
    asyncio.run(body_of("evil", 32 * MIB, buffered)())
    with pytest.raises(TooMany):
        asyncio.run(body_of("evil", 200_000, buffered)())
    asyncio.run(body_of("ada", 200_000, buffered)())


def test_a_caller_over_its_quota_of_bytes_is_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.server.http.auth.monotonic", lambda: 1000.0)
    quota = RateLimiter(limits.MAX_BYTES_PER_MINUTE / 60, limits.MAX_BYTES_PER_MINUTE, "256 MiB a minute")
    buffered: Counter[str] = Counter()

    def send(caller: str) -> None:
        body = body_of(caller, 32 * MIB, buffered, lambda size: quota.check_rate(caller, size))
        asyncio.run(body())
        body.release_bytes()

    for _ in range(8):
        send("evil")
    with pytest.raises(TooMany) as refused:
        send("evil")
    assert 1 <= int(str(refused.value.facts["retry_after"])) <= 60
    send("ada")


def test_a_length_that_is_no_length_is_refused_before_it_is_counted() -> None:
    middleware = security.SecurityMiddleware(lambda *_: asyncio.sleep(0), hosts={"here"}, origins=set())
    for length, status in ((b"0" * 4301, 400), (b"+1", 400), (b"1e3", 400), (b"9999999999", 413)):
        headers = {b"host": b"here", b"content-length": length}
        scope = {"method": "POST", "path": "/api/verbs/x", "type": "http", "headers": list(headers.items())}
        refused = middleware._find_refusal(scope, headers)
        assert refused is not None
        assert refused.status_code == status
