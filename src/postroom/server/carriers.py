"""Carriers: one for each mailbox with open sockets. It takes what falls due, and hands it to them in turns."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from postroom.core.errors import Refusal, TooMany, Unauthenticated
from postroom.core.letters import Delivery
from postroom.mail import mailbox
from postroom.mail.waiting import Tide, is_ready
from postroom.server.callers import Caller, Token, identify
from postroom.server.desk import Desk
from postroom.server.hub import Heard
from postroom.server.post import of_mailbox
from postroom.store.port import Store, Transaction

AT_ONCE = 32  # messages that are taken in one transaction, if so many are wanted
BYTES_AT_ONCE = 256 * 1024
LOOK_AGAIN = 0.5  # seconds between looks at the tokens of those who are connected
LONGEST = 60.0
MOST_OF_ONE = 100  # sockets of one agent
TRY_AGAIN = 1.0
AWAY, NOT_ALLOWED = 1001, 1008  # codes with which a socket is closed
_log = logging.getLogger("postroom.server")


class Taker(Protocol):
    """One who takes deliveries of a mailbox, for as long as it is connected."""

    session: str
    receiver: str
    door: str
    brought: Token | None

    def room(self) -> int:
        """How many it would take now."""

    def deliver(self, taken: Delivery) -> None: ...

    def end(self, code: int, reason: str) -> None: ...


class Carriers:
    """Everybody who is connected, by mailbox."""

    def __init__(self, desk: Desk, most: int) -> None:
        self.desk = desk
        self._most = most
        self._seats: Counter[str] = Counter()
        self._carriers: dict[str, Carrier] = {}
        self._takers: set[Taker] = set()
        self._watching: asyncio.Task[None] | None = None

    def enter(self, caller: Caller) -> None:
        """Whether one more may be connected. No agent takes the seats of all others."""
        of_one = self._seats[caller.name] if caller.agent else 0
        if self._seats.total() >= self._most or of_one >= MOST_OF_ONE:
            raise TooMany("too many sockets are open already", hint="Come back in a few seconds.", retry_after=5)
        self._seats[caller.name] += 1

    def leave(self, caller: Caller) -> None:
        self._seats[caller.name] -= 1
        self._seats += Counter()  # forgets who has none

    def join(self, taker: Taker) -> Carrier:
        self._takers.add(taker)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        carrier = self._carriers.get(taker.session)
        if carrier is None:
            carrier = self._carriers[taker.session] = Carrier(self.desk, taker.session)
        carrier.takers.append(taker)
        carrier.ring()
        return carrier

    def part(self, taker: Taker) -> None:
        if taker not in self._takers:
            return
        self._takers.remove(taker)
        carrier = self._carriers[taker.session]
        carrier.takers.remove(taker)
        if not carrier.takers:
            del self._carriers[taker.session]
            carrier.ring()

    async def _watch(self) -> None:
        """Who comes with a token that was revoked meanwhile is sent away."""
        while self._takers:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                void = await self.desk.read(partial(_void, tokens=_tokens(self._takers)))
            except Refusal:
                continue  # the store is away, or busy: they can do nothing now either
            _dismiss(self._takers, void)
        self._watching = None


def _tokens(takers: Iterable[Taker]) -> set[Token]:
    return {taker.brought for taker in takers if taker.brought is not None}


def _dismiss(takers: Iterable[Taker], void: set[Token]) -> None:
    for taker in [one for one in takers if one.brought in void]:
        taker.end(NOT_ALLOWED, "the token is not valid any more")


def _ready(tx: Transaction, *, session: str, tokens: set[Token]) -> tuple[bool, set[Token]]:
    """Whether there is something to take, and who may not take it any more."""
    ready = is_ready(tx, session)
    return ready, _void(tx, tokens=tokens) if ready else set()


def _void(tx: Transaction, *, tokens: set[Token]) -> set[Token]:
    void = set()
    for token in tokens:
        try:
            identify(tx, *token)
        except Unauthenticated:
            void.add(token)
    return void


class Carrier:
    """Works for one mailbox until nobody is left, or the server stops. One at a time takes: the others need not try."""

    def __init__(self, desk: Desk, session: str) -> None:
        self._desk = desk
        self._session = session
        self.takers: deque[Taker] = deque()
        self._eager = 1
        self._concerns = of_mailbox(session)
        self._ear = desk.hub.listen(self._hear)
        self._task = asyncio.create_task(self._work())

    def ring(self) -> None:
        """Somebody has room, came or went."""
        self._ear.ring()

    def _hear(self, heard: Heard) -> bool:
        """What happened is only a reason to look: nothing is kept of it."""
        if self._concerns(heard):
            self._ear.ring()
        return False

    async def _work(self) -> None:
        with self._ear:
            while self.takers and not self._desk.hub.stopping:
                try:
                    pause = await self._look()
                except Exception as error:  # a store that is away or busy is asked again; nothing ends the carrier
                    pause = TRY_AGAIN
                    if not isinstance(error, Refusal):
                        _log.exception("a carrier failed")
                if pause:
                    await self._ear.wait(pause)
        for taker in list(self.takers):
            taker.end(AWAY, "the server stops")

    async def _look(self) -> float:
        """Hand on what is there; for how many seconds there is nothing to do then, unless somebody rings."""
        turn = self._turn()
        if not turn:
            return LONGEST
        ready, void = await self._desk.read(partial(_ready, session=self._session, tokens=_tokens(turn)))
        if void:
            _dismiss(turn, void)
            return 0
        if ready:
            verb = partial(_take, session=self._session, takers=[(one.receiver, one.door) for one in turn])
            taken = await self._desk.write(verb)
            for taker, one in zip(turn, taken):
                taker.deliver(one)
            self._eager = min(self._eager * 2, AT_ONCE) if len(taken) == len(turn) else 1
            if taken:
                return 0
        soon = await self._desk.ask(partial(Tide.of, session=self._session))
        return LONGEST if soon is None else min(soon, LONGEST)

    def _turn(self) -> list[Taker]:
        """Who gets the next messages: each who has room, one after the other, and from the first again."""
        turn: list[Taker] = []
        left: dict[Taker, int] = {}
        without = 0
        while len(turn) < self._eager and without < len(self.takers):
            taker = self.takers[0]
            self.takers.rotate(-1)
            left.setdefault(taker, taker.room())
            if left[taker] > 0:
                left[taker] -= 1
                turn.append(taker)
                without = 0
            else:
                without += 1
        return turn


def _take(store: Store, *, session: str, takers: list[tuple[str, str]]) -> list[Delivery]:
    """The next messages, for each of these one, as far as they go."""
    taken: list[Delivery] = []
    size = 0
    for receiver, door in takers:
        one = mailbox.dequeue(store.through(door), session, receiver=receiver)
        if one is None:
            break
        taken.append(one)
        size += len(one.message.payload)
        if size > BYTES_AT_ONCE:
            break
    return taken
