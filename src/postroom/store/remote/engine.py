"""The store behind a server. A verb is one request; one that waits is asked again until its time is over, wherever the line was lost."""

from __future__ import annotations

import os
from time import monotonic, sleep

from postroom.core import errors, jsontext, wire
from postroom.core.errors import InvalidInput, InvalidState, Refusal, StoreAway, StoreTrouble, TooMany
from postroom.core.waits import IN_VAIN, is_time, onward
from postroom.store.remote.calling import Kept, Line, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from postroom.store.remote.ringing import RemoteBell

SECONDS = 60.0  # for an answer to what does not wait
FIRST, AT_ONCE = 0.001, 25.0  # that one request waits at most
PAUSE, LONGEST_PAUSE = 0.1, 2.0  # before a lost line is tried again
TRIES, PATIENT = 10, 2  # who says too much is told to pause, and does, if it is not for long


class RemoteStore:
    """Threads may share it: each that says something has a connection meanwhile. A verb is sent with a key, so that it is done once
    however often it is tried."""

    elsewhere = True
    data = None

    def __init__(self, place: str, *, token: str | None = None) -> None:
        self.place = place
        self._place = Place(place)
        self._token = token if token is not None else os.environ.get("INBOX_TOKEN", "")
        if not all("!" <= char <= "~" for char in self._token):
            raise InvalidInput("the token is none that a server gave out", field="token", hint="Check INBOX_TOKEN: it is one word.")
        self._reached = False  # whether anybody ever answered
        self._kept: list[Kept] = []

    def say(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        args, named = tuple(map(wire.settled, args)), {name: wire.settled(value) for name, value in named.items()}
        if verb in IN_VAIN:
            return self._wait(verb, args, named)
        key = _key()
        for _ in range(TRIES):
            try:
                return self._ask(verb, args, named, SECONDS, key)
            except TooMany as refused:
                pause: Any = refused.facts.get("retry_after", PATIENT + 1)
                if pause > PATIENT:
                    raise
                sleep(pause)
        return self._ask(verb, args, named, SECONDS, key)

    def _wait(self, verb: str, args: tuple[object, ...], named: dict[str, Any]) -> Any:
        """In turns of some seconds. What a turn learned about where to go on is said with the next."""
        given = named.get("timeout_seconds", 0)
        if not is_time(given):
            return self._ask(verb, args, named, SECONDS, _key())  # refused there, by the verb itself
        until = monotonic() + given if given else None
        # Whoever watches from now on learns first from where: so that is a short turn.
        turn = FIRST if verb == "work.watch" and named.get("after_event") is None else _time(until)
        found = self._first(verb, args, {**named, "timeout_seconds": turn}, turn + SECONDS, until)
        while IN_VAIN[verb](found) and (until is None or monotonic() < until):
            named, turn = onward(named, found), _time(until)
            found = self._turn(verb, args, {**named, "timeout_seconds": turn}, turn + SECONDS, until, _key())
        return found

    def _first(self, verb: str, args: tuple[object, ...], named: dict[str, Any], seconds: float, until: float | None) -> Any:
        """A server that was never reached is not waited for."""
        key = _key()
        try:
            return self._ask(verb, args, named, seconds, key)
        except (StoreTrouble, TooMany):
            if not self._reached:
                raise
        return self._turn(verb, args, named, seconds, until, key)

    def _turn(self, verb: str, args: tuple[object, ...], named: dict[str, Any], seconds: float, until: float | None, key: str) -> Any:
        """One turn, tried again while the server is away: whoever waits outlives its restart."""
        pause = PAUSE
        while True:
            try:
                return self._ask(verb, args, named, seconds, key)
            except (StoreTrouble, TooMany) as refused:
                if refused.facts.get("status", 500) < 500:  # type: ignore[operator]
                    raise  # somebody else answers there
                if until is not None and monotonic() >= until:
                    raise  # who could not look does not say that nothing came
                if isinstance(refused, TooMany):  # there is no seat to wait in: look now and then
                    key, named = _key(), {**named, "timeout_seconds": FIRST}
            sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _ask(self, verb: str, args: tuple[object, ...], named: dict[str, Any], seconds: float, key: str) -> Any:
        given = [wire.argument(value, "args") for value in args], {name: wire.argument(named[name], name) for name in named}
        said = _bytes(jsontext.dumps(dict(zip(("args", "named"), given))))
        line = self._line()
        try:
            status, body = line.say(verb, said, key, seconds)
        except BaseException:
            line.close()  # also when somebody interrupts: else it would go on waiting for nobody
            raise
        finally:
            self._reached |= line.reached
        self._kept.append(line)
        return self._answered(status, body)

    def _line(self) -> Kept:
        """One that was kept, or a new one."""
        try:
            return self._kept.pop()
        except IndexError:
            pass
        if not self._place.socket:
            return Kept(Line(self._place, self._token))
        from postroom.store.remote.socketing import SocketLine

        return Kept(SocketLine(self._place, self._token))

    def _answered(self, status: int, body: bytes) -> Any:
        try:
            answer = jsontext.loads(body.decode())
            if status == 200:
                return wire.decode(answer["result"])
            error = answer["error"]
            refusal = _refusal(error.pop("code"), error.pop("message"), error.pop("hint"), error)
        except (ValueError, KeyError, TypeError, AttributeError, InvalidInput):
            hint = "Is that a Postroom server, of this version?"
            raise StoreAway(f"{self.place} answered with {status}, and not as a server of ours", hint=hint, status=status) from None
        raise refusal

    # What only a store that is here can do

    def read(self) -> NoReturn:
        raise _not_here()

    def write(self) -> NoReturn:
        raise _not_here()

    def watch(self, *topics: str) -> RemoteBell:
        from postroom.store.remote.ringing import RemoteBell

        return RemoteBell(self._place, self._token, topics)

    def together(self, *, careful: bool = False) -> NoReturn:
        raise _not_here()

    def through(self, door: str) -> RemoteStore:
        return self

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def __del__(self) -> None:
        """A WebSocket has a thread that keeps it open: who forgot to close it does not keep its seat."""
        for line in getattr(self, "_kept", ()):
            line.close()


def _bytes(text: str) -> bytes:
    """As UTF-8. What is no text is sent as JSON may name it, and refused by who is to store it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join(f"\\u{ord(char):04x}" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text).encode()


def _time(until: float | None) -> float:
    """For how long a turn waits."""
    return AT_ONCE if until is None else min(AT_ONCE, max(until - monotonic(), FIRST))


def _key() -> str:
    return os.urandom(16).hex()


def _not_here() -> InvalidState:
    return InvalidState("this needs the store itself, and it is behind a server", hint="Run it on the server's machine, with --db PATH.")


def _refusal(code: str, message: str, hint: str, facts: dict[str, Any]) -> Refusal:
    """The refusal that the verb raised there."""
    if code == "unauthenticated" and not facts:
        hint = "Set INBOX_TOKEN to a token of yours: `inbox serve` prints a person's, `inbox agent token NAME` an agent's."
    if code == "interrupted":  # there, because the server stops; here, nobody has interrupted anything
        return StoreAway(message, hint=hint)
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, Refusal) and kind.code == code:
            return kind(message, hint=hint, **facts)
    return StoreTrouble(message, hint=hint, **facts) if code == "server_error" else Refusal(message, hint=hint, **facts)
