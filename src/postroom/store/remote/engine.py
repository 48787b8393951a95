"""The store behind a server. A verb is one request.

A blocking verb is a series of requests until its time is over, and survives restarts of the server.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from postroom import __version__
from postroom._fastpath import json_text as jsontext
from postroom.core import errors
from postroom.core.errors import InvalidInput, InvalidState, Refusal, StoreTrouble, StoreUnreachable, TooMany, WrongVersion
from postroom.core.rpc import wire
from postroom.core.rpc.waits import is_blocking, is_timeout, is_wait_time, next_cursor_args
from postroom.store import forks
from postroom.store.remote.transport import HttpAnswer, HttpTransport, RetryingTransport, ServerAddress, parse_addresses
from postroom.store.remote.versions import check_result_type, is_old_refusal, server_is_older

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self

    from postroom.store.remote.event_stream import EventStreamWatch

ANSWER_TIMEOUT_SECONDS = 60.0  # for a verb that does not block
MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.001, 25.0  # of one request
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 2.0  # before a lost connection is tried again
MAX_RATE_LIMIT_TRIES, MAX_RETRY_AFTER_SECONDS = 10, 2  # a 429 with a longer Retry-After is raised


class RemoteStore:
    """A store behind a server. Threads may share it: each call uses a connection of its own.

    A call carries an idempotency key, so that the server runs it once even if it is sent twice. If the location names several servers of
    one database, a call that one does not answer goes to the next. They keep the keys in the database, so it is still done once.
    """

    is_remote = True
    is_one_transaction = False
    replacements = 0
    data_folder = None

    def __init__(self, location: str, *, token: str | None = None) -> None:
        self.location = location
        self._addresses = parse_addresses(location)
        self._address = self._addresses[0]  # the server that new connections go to
        self._token = token if token is not None else os.environ.get("INBOX_TOKEN", "")
        if not all("!" <= char <= "~" for char in self._token):
            message = "the token has characters that no token of a server has"
            raise InvalidInput(message, field="token", hint="Check INBOX_TOKEN: it is one word.")
        exposed = next((address for address in self._addresses if not address.is_private), None)
        if self._token and exposed is not None and os.environ.get("INBOX_INSECURE") != "1":
            message = f"{exposed.host} is another machine, and a token would be sent to it without encryption"
            raise InvalidInput(message, field="db", hint="Use https:// or wss://, or set INBOX_INSECURE=1 if the network is yours alone.")
        self._was_reached = False  # whether a server ever answered
        self.server_version = ""  # of the latest answer
        self._idle_transports: list[RetryingTransport] = []
        self._inherited: list[RetryingTransport] = []
        forks.track(self)

    def call(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        """Run a verb on the server, and return its result or raise its refusal."""
        result = self._call_until_answered(verb, args, named)
        check_result_type(verb, result, self.server_version)
        return result

    def _call_until_answered(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        args = tuple(map(wire.materialize_iterator, args))
        named = {name: wire.materialize_iterator(value) for name, value in named.items()}
        if is_blocking(verb):
            return self._call_blocking(verb, args, named)
        key = _new_key()
        for _ in range(MAX_RATE_LIMIT_TRIES):
            try:
                return self._send_request(verb, args, named, ANSWER_TIMEOUT_SECONDS, key)
            except TooMany as refused:
                pause: Any = refused.facts.get("retry_after", MAX_RETRY_AFTER_SECONDS + 1)
                if pause > MAX_RETRY_AFTER_SECONDS:
                    raise
                sleep(pause)
        return self._send_request(verb, args, named, ANSWER_TIMEOUT_SECONDS, key)

    def _call_blocking(self, verb: str, args: tuple[object, ...], named: dict[str, Any]) -> Any:
        """Wait in turns of at most `MAX_WAIT_SECONDS`. Each turn continues after the events that the one before covered."""
        given = named.get("timeout_seconds", 0)
        if not is_wait_time(given):
            return self._send_request(verb, args, named, ANSWER_TIMEOUT_SECONDS, _new_key())  # the verb refuses it on the server
        deadline = monotonic() + given if given else None
        # A watch without a cursor gets its first cursor from a short turn, so that a restart of the server cannot lose events.
        starts_now = verb == "work.watch" and named.get("after_event") is None
        turn = MIN_WAIT_SECONDS if starts_now else _turn_seconds(deadline)
        result = self._run_first_turn(verb, args, {**named, "timeout_seconds": turn}, turn + ANSWER_TIMEOUT_SECONDS, deadline)
        while is_timeout(result) and (deadline is None or monotonic() < deadline):
            named, turn = next_cursor_args(named, result), _turn_seconds(deadline)
            result = self._retry_turn(verb, args, {**named, "timeout_seconds": turn}, turn + ANSWER_TIMEOUT_SECONDS, deadline, _new_key())
        return result

    def _run_first_turn(
        self, verb: str, args: tuple[object, ...], named: dict[str, Any], timeout_seconds: float, deadline: float | None
    ) -> Any:
        """Run the first turn. If no server was ever reached, raise instead of waiting for one."""
        key = _new_key()
        try:
            return self._send_request(verb, args, named, timeout_seconds, key)
        except WrongVersion:
            raise
        except (StoreTrouble, TooMany):
            if not self._was_reached:
                raise
        return self._retry_turn(verb, args, named, timeout_seconds, deadline, key)

    def _retry_turn(
        self, verb: str, args: tuple[object, ...], named: dict[str, Any], timeout_seconds: float, deadline: float | None, key: str
    ) -> Any:
        """Run one turn, and retry it while the server is away: a wait survives a restart of the server."""
        pause = MIN_RETRY_SECONDS
        while True:
            try:
                return self._send_request(verb, args, named, timeout_seconds, key)
            except (StoreTrouble, TooMany) as refused:
                if refused.facts.get("status", 500) < 500:  # type: ignore[operator]
                    raise  # another program answered, or a server of another version
                if deadline is not None and monotonic() >= deadline:
                    raise  # if the store was unreachable, do not report a timeout
                if isinstance(refused, TooMany):  # all threads of the server are waiting: poll instead
                    key, named = _new_key(), {**named, "timeout_seconds": MIN_WAIT_SECONDS}
            sleep(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)

    def _send_request(self, verb: str, args: tuple[object, ...], named: dict[str, Any], timeout_seconds: float, key: str) -> Any:
        arguments = {
            "args": [wire.encode_argument(value, "args") for value in args],
            "named": {name: wire.encode_argument(named[name], name) for name in named},
        }
        body = _encode_utf8(jsontext.dumps(arguments))
        return self._read_answer(self._call_servers(verb, body, key, timeout_seconds))

    def _call_servers(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        """Call the server that answered last, and if it is away, each of the others in turn."""
        for _ in self._addresses[1:]:
            address = self._address
            try:
                return self._call_server(verb, body, key, timeout_seconds)
            except StoreUnreachable:
                self._leave_server(address)
        return self._call_server(verb, body, key, timeout_seconds)

    def _call_server(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        transport = self._take_transport()
        try:
            answer = transport.call_verb(verb, body, key, timeout_seconds)
        except BaseException:
            transport.close()  # also on an interrupt, so that the server stops waiting
            raise
        finally:
            self._was_reached |= transport.was_reached
        self._idle_transports.append(transport)
        return answer

    def _leave_server(self, address: ServerAddress) -> None:
        """Use the next address from now on, because this one does not answer. Another thread may have left it already."""
        if self._address is address:
            self._address = self._addresses[(self._addresses.index(address) + 1) % len(self._addresses)]
            self.close()

    def _take_transport(self) -> RetryingTransport:
        """Reuse an idle connection, or make a new one."""
        try:
            return self._idle_transports.pop()
        except IndexError:
            pass
        if not self._address.is_websocket:
            return RetryingTransport(HttpTransport(self._address, self._token))
        from postroom.store.remote.websocket_transport import WebSocketTransport

        return RetryingTransport(WebSocketTransport(self._address, self._token))

    def _read_answer(self, answer: HttpAnswer) -> Any:
        """Return the result in an answer, or raise the refusal in it."""
        self.server_version = answer.version
        try:
            content = jsontext.loads(answer.body.decode())
            if answer.status == 200 and answer.version:  # every server of this format sends its version
                return wire.decode(content["result"], versions=(__version__, answer.version))
            error = content["error"]
            if is_old_refusal(answer.status, error, answer.version):
                raise server_is_older(self.location)
            refusal = _make_refusal(error.pop("code"), error.pop("message"), error.pop("hint"), error)
        except WrongVersion:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, InvalidInput):
            message = f"{self.location} answered with status {answer.status}, but not in the format of a Postroom server"
            hint = "Check the address, and that the server has this version."
            raise StoreUnreachable(message, hint=hint, status=answer.status) from None
        raise refusal

    # Only a local store has transactions.

    def read(self) -> NoReturn:
        raise _needs_local_store()

    def write(self) -> NoReturn:
        raise _needs_local_store()

    def watch(self, *topics: str) -> EventStreamWatch:
        from postroom.store.remote.event_stream import EventStreamWatch

        place = self._addresses.index(self._address)
        return EventStreamWatch(self._addresses[place:] + self._addresses[:place], self._token, topics)

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> NoReturn:
        raise _needs_local_store()

    def with_door(self, door: str) -> RemoteStore:
        return self

    def close(self) -> None:
        while self._idle_transports:
            self._idle_transports.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def before_fork(self) -> None:
        """Do nothing: the parent keeps its connections."""

    def after_fork_in_parent(self) -> None:
        """Do nothing: the parent keeps its connections."""

    def after_fork_in_child(self) -> None:
        """Forget the connections. To close a WebSocket would end it for the parent too."""
        self._inherited += self._idle_transports
        self._idle_transports = []

    def __del__(self) -> None:
        """Close the connections of a store that was not closed: the thread of a WebSocket would keep it open."""
        if sys.is_finalizing():
            return  # that thread no longer runs, and to wait for it would take for ever
        for transport in getattr(self, "_idle_transports", ()):
            transport.close()


def _encode_utf8(text: str) -> bytes:
    """Encode as UTF-8. Surrogates are sent as JSON escapes, so that the verb on the server refuses them."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join(f"\\u{ord(char):04x}" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text).encode()


def _turn_seconds(deadline: float | None) -> float:
    """Return how many seconds the next turn waits."""
    return MAX_WAIT_SECONDS if deadline is None else min(MAX_WAIT_SECONDS, max(deadline - monotonic(), MIN_WAIT_SECONDS))


def _new_key() -> str:
    return os.urandom(16).hex()


def _needs_local_store() -> InvalidState:
    return InvalidState("this needs a local store, and this one is behind a server", hint="Run it on the server's machine, with --db PATH.")


def _make_refusal(code: str, message: str, hint: str, facts: dict[str, Any]) -> Refusal:
    """Make the refusal that the verb raised on the server."""
    if code == "unauthenticated" and not facts:
        hint = "Set INBOX_TOKEN to a token of yours: `inbox serve` names the file of a person's, `inbox agent token NAME` makes an agent's."
    if code in ("interrupted", "client_left"):  # the server stopped the work, and this process was not interrupted
        return StoreUnreachable(message, hint=hint)
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, Refusal) and kind.code == code:
            return kind(message, hint=hint, **facts)
    return StoreTrouble(message, hint=hint, **facts) if code == "server_error" else Refusal(message, hint=hint, **facts)
