"""Dispatchers: one for each mailbox with open sockets. A dispatcher dequeues due messages and hands them to the sockets in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from functools import partial
from typing import Protocol, cast

from postroom.core.errors import Refusal, TooMany, Unauthenticated
from postroom.core.limits import MAX_SOCKETS_PER_AGENT
from postroom.core.records.mail import Delivery
from postroom.mail import mailbox
from postroom.mail.identity import resolve_session
from postroom.mail.waiting import DueMailWake, is_message_ready
from postroom.server.api.mailbox_access import mailbox_filter
from postroom.server.http.auth import Caller, Token, identify_caller
from postroom.server.rpc.calls import GuardedStore
from postroom.server.runtime.broadcaster import BroadcastEvent
from postroom.server.runtime.fair_share import start_own_task
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.interface import Store, Transaction

MAX_BATCH_MESSAGES = 32  # dequeued in one transaction
MAX_BATCH_BYTES = 256 * 1024
TOKEN_CHECK_SECONDS = 0.5  # between checks of the tokens of connected sockets
MAX_IDLE_SECONDS = 60.0
RETRY_SECONDS = 1.0
CLOSE_GOING_AWAY, CLOSE_POLICY_VIOLATION = 1001, 1008  # WebSocket close codes
_log = logging.getLogger("postroom.server")


class Receiver(Protocol):
    """A connected socket that receives the deliveries of a mailbox. `token` is the token of its handshake."""

    session: str
    receiver_name: str
    door: str
    token: Token | None

    def free_credit(self) -> int:
        """Return how many deliveries the receiver accepts now."""

    def queue_delivery(self, delivery: Delivery) -> None: ...

    def end_connection(self, code: int, reason: str) -> None: ...


class MailboxDispatchers:
    """The dispatchers of all mailboxes with open sockets, and the limits on the number of sockets."""

    def __init__(self, store_access: StoreAccess, max_sockets: int) -> None:
        self.store_access = store_access
        self._max_sockets = max_sockets
        self._sockets_by_caller: Counter[str] = Counter()
        self._dispatchers: dict[str, MailboxDispatcher] = {}
        self._receivers: set[Receiver] = set()
        self._token_watch: asyncio.Task[None] | None = None

    def acquire_slot(self, caller: Caller) -> None:
        """Count one more socket of a caller. Refuses with `TooMany` if the server, or one agent, has too many sockets."""
        own_sockets = self._sockets_by_caller[caller.name] if caller.agent else 0
        if self._sockets_by_caller.total() >= self._max_sockets or own_sockets >= MAX_SOCKETS_PER_AGENT:
            raise TooMany("too many sockets are open already", hint="Come back in a few seconds.", retry_after=5)
        self._sockets_by_caller[caller.name] += 1

    def release_slot(self, caller: Caller) -> None:
        self._sockets_by_caller[caller.name] -= 1
        self._sockets_by_caller += Counter()  # drops the names with a count of 0

    def add_receiver(self, receiver: Receiver) -> MailboxDispatcher:
        """Connect a receiver to the dispatcher of its mailbox, and return that dispatcher. The first receiver starts it."""
        self._receivers.add(receiver)
        if self._token_watch is None:
            self._token_watch = start_own_task(self._watch_tokens())
        dispatcher = self._dispatchers.get(receiver.session)
        if dispatcher is None:
            dispatcher = self._dispatchers[receiver.session] = MailboxDispatcher(self.store_access, receiver.session)
        dispatcher.receivers.append(receiver)
        dispatcher.wake()
        return dispatcher

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect a receiver. The dispatcher of a mailbox ends with its last receiver."""
        if receiver not in self._receivers:
            return
        self._receivers.remove(receiver)
        dispatcher = self._dispatchers[receiver.session]
        dispatcher.receivers.remove(receiver)
        if not dispatcher.receivers:
            del self._dispatchers[receiver.session]
            dispatcher.wake()

    async def _watch_tokens(self) -> None:
        """Close the sockets whose token was revoked. Runs while there are receivers."""
        while self._receivers:
            await asyncio.sleep(TOKEN_CHECK_SECONDS)
            try:
                revoked = await self.store_access.read(partial(_find_revoked, tokens=_collect_tokens(self._receivers)))
            except Refusal:
                continue  # the store is unreachable or busy: the sockets cannot use it either
            _close_revoked(self._receivers, revoked)
        self._token_watch = None


def _collect_tokens(receivers: Iterable[Receiver]) -> set[Token]:
    return {receiver.token for receiver in receivers if receiver.token is not None}


def _close_revoked(receivers: Iterable[Receiver], revoked: set[Token]) -> None:
    for receiver in [one for one in receivers if one.token in revoked]:  # a list: ending a connection removes its receiver
        receiver.end_connection(CLOSE_POLICY_VIOLATION, "the token is not valid any more")


def _check_ready(tx: Transaction, *, session: str, tokens: set[Token]) -> tuple[bool, set[Token]]:
    """Return whether a message can be dequeued, and, if so, which of the tokens are revoked."""
    if resolve_session(tx, session) != session or not is_message_ready(tx, session):  # it may have become an alias meanwhile
        return False, set()
    return True, _find_revoked(tx, tokens=tokens)


def _find_revoked(tx: Transaction, *, tokens: set[Token]) -> set[Token]:
    revoked = set()
    for token in tokens:
        try:
            identify_caller(tx, *token)
        except Unauthenticated:
            revoked.add(token)
    return revoked


class MailboxDispatcher:
    """Dequeues the messages of one mailbox for all its sockets, until the last socket has closed or the server stops."""

    def __init__(self, store_access: StoreAccess, session: str) -> None:
        self._store_access = store_access
        self._session = session
        self.receivers: deque[Receiver] = deque()
        self._batch_size = 1
        self._is_relevant = mailbox_filter(session)
        self._subscription = store_access.broadcaster.subscribe(self._wake_on_event)
        self._task = start_own_task(self._run_loop())

    def wake(self) -> None:
        """Look at the mailbox again: a receiver was added or removed, or accepts more."""
        self._subscription.wake()

    def _wake_on_event(self, event: BroadcastEvent) -> bool:
        """Wake if the event concerns the mailbox. Returns False: the subscription need not keep the event."""
        if self._is_relevant(event):
            self._subscription.wake()
        return False

    async def _run_loop(self) -> None:
        with self._subscription:
            while self.receivers and not self._store_access.broadcaster.stopping:
                try:
                    pause = await self._dispatch_once()
                except Exception as error:  # an unreachable or busy store is tried again; no error ends the dispatcher
                    pause = RETRY_SECONDS
                    if not isinstance(error, Refusal):
                        _log.exception("a mailbox dispatcher failed")
                if pause:
                    await self._subscription.wait(pause)
        for receiver in list(self.receivers):
            receiver.end_connection(CLOSE_GOING_AWAY, "the server stops")

    async def _dispatch_once(self) -> float:
        """Dequeue one batch and hand it to the receivers. Return the number of seconds to sleep unless woken: 0 if there may be more."""
        chosen = self._choose_receivers()
        if not chosen:
            return MAX_IDLE_SECONDS
        ready, revoked = await self._store_access.read(partial(_check_ready, session=self._session, tokens=_collect_tokens(chosen)))
        if revoked:
            _close_revoked(chosen, revoked)
            return 0
        if ready and await self._dequeue_for(chosen):
            return 0
        due_seconds = await self._store_access.read_verb(partial(DueMailWake.seconds_for_session, session=self._session))
        return MAX_IDLE_SECONDS if due_seconds is None else min(due_seconds, MAX_IDLE_SECONDS)

    async def _dequeue_for(self, chosen: list[Receiver]) -> bool:
        """Dequeue a message for each receiver, as far as there are messages. Return whether there was one."""
        names_and_doors = [(receiver.receiver_name, receiver.door) for receiver in chosen]
        dequeue = partial(_dequeue_batch, session=self._session, names_and_doors=names_and_doors, tokens=_collect_tokens(chosen))
        deliveries = await self._store_access.write(dequeue)
        for receiver, delivery in zip(chosen, deliveries):
            receiver.queue_delivery(delivery)
        self._batch_size = min(self._batch_size * 2, MAX_BATCH_MESSAGES) if len(deliveries) == len(chosen) else 1
        return bool(deliveries)

    def _choose_receivers(self) -> list[Receiver]:
        """Return the receivers of the next messages, one entry for each message. Receivers with credit take turns."""
        chosen: list[Receiver] = []
        credit: dict[Receiver, int] = {}
        skipped = 0
        while len(chosen) < self._batch_size and skipped < len(self.receivers):
            receiver = self.receivers[0]
            self.receivers.rotate(-1)
            credit.setdefault(receiver, receiver.free_credit())
            if credit[receiver] > 0:
                credit[receiver] -= 1
                chosen.append(receiver)
                skipped = 0
            else:
                skipped += 1
        return chosen


def _refuse_revoked(tx: Transaction, *, tokens: set[Token]) -> None:
    if _find_revoked(tx, tokens=tokens):
        raise Unauthenticated("a token is not valid any more", hint="Its socket is closed.")


def _dequeue_batch(store: Store, *, session: str, names_and_doors: list[tuple[str, str]], tokens: set[Token]) -> list[Delivery]:
    """Dequeue one message for each receiver, until the mailbox has no more or the batch is larger than `MAX_BATCH_BYTES`.

    Refuses all with `Unauthenticated` if one of the tokens is revoked: the next look closes its socket.
    """
    guarded = GuardedStore(store, partial(_refuse_revoked, tokens=tokens))
    with guarded.read():
        pass  # checks the tokens, once for a batch that is one transaction
    deliveries: list[Delivery] = []
    size = 0
    for receiver, door in names_and_doors:
        delivery = mailbox.dequeue(cast(Store, guarded.with_door(door)), session, receiver=receiver)
        if delivery is None:
            break
        deliveries.append(delivery)
        size += len(delivery.message.payload)
        if size > MAX_BATCH_BYTES:
            break
    return deliveries
