"""Runs a verb that a client calls by name over HTTP or a WebSocket: checks the call, then runs it as its declaration requires."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__, mail, people, tasks, work
from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput, NotFound, Refusal, TooLarge, Unauthenticated, WrongVersion
from postroom.core.limits import MAX_BATCH_ITEMS, MAX_KEY_CHARS, MAX_RESULT_BYTES
from postroom.core.rpc import wire
from postroom.core.rpc.waits import is_wait_time
from postroom.core.text import short_repr
from postroom.core.verbs import READ, VERBS, WAIT, WRITE, Verb
from postroom.server.http.auth import Caller, verify_token
from postroom.server.http.endpoint import check_fields, parse_object
from postroom.server.http.large_json import LARGE_BYTES, parse_in_steps
from postroom.server.http.responses import refusal_response
from postroom.server.http.security import REFUSAL_KEY
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import Signature, VerbCall, signature_of
from postroom.server.runtime.fair_share import CurrentRequest, current_request, set_current_request
from postroom.server.runtime.idempotency import Key, Listeners, run_stored
from postroom.server.runtime.wait_pool import CancellableStore

_log = logging.getLogger("postroom.server")
POLL_SECONDS = 0.01  # a wait up to this long is a single check, and needs no thread of the pool
MAX_WAIT_SECONDS = 25.0  # of one request
RECEIVED_RECORDS = ("Attachment", "A2ATask")  # the records that a client may send
VERSION_HEADERS = {wire.VERSION_HEADER: __version__}
_VERSION_NAME = wire.VERSION_HEADER.lower().encode()
_RESULT_HEADERS = [(b"content-type", b"application/json"), (_VERSION_NAME, __version__.encode())]
_VERSIONED_TYPE = re.compile(r"application/vnd\.postroom\.v([0-9]{1,9})\+json")


class ClientCall(NamedTuple):
    """A call of a verb by a client. `digest` is a hash of the arguments. `has_left` returns whether the client has disconnected.

    `write_has_left` does the same for calls that write, if those that were sent before an orderly end are still to be done.
    """

    caller: Caller
    verb: str
    given: dict[str, Any]
    key: str | None
    digest: bytes
    has_left: Callable[[], bool]
    write_has_left: Callable[[], bool]
    client_version: str


class _Result(Response):
    """The response to a verb. Its headers are set directly: Starlette's `init_headers` costs as much as all checks of a call."""

    def __init__(self, result: bytes) -> None:
        self.status_code, self.background = 200, None
        self.body = b'{"ok":true,"result":%b}' % result
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), *_RESULT_HEADERS]


@cache
def routing_table() -> dict[str, Verb]:
    """Load the modules of all rooms, and return every verb by name."""
    for room in (work, mail, people, tasks):
        for name in room.__all__:
            getattr(room, name)  # loads its module
    return dict(VERBS)


async def handle_request(request: Request, state: AppState, caller: Caller) -> Response:
    """Run a verb that was called over HTTP. Every response carries the server's version, refusals too."""
    try:
        headers = dict(request.scope["headers"])  # `Headers.get` searches the whole list each time
        check_content_type(headers.get(b"content-type", b"").decode("latin-1"))
        body = await request.body()
        if len(body) <= LARGE_BYTES:
            given, digest = _parse_call(body, jsontext.loads)
        else:
            given, digest = await state.store_access.run_off_loop(partial(_parse_call, body, parse_in_steps))
        call = ClientCall(
            caller,
            request.path_params["verb"],
            given,
            key.decode("latin-1") if (key := headers.get(b"idempotency-key")) is not None else None,
            digest,
            *(current_request().has_left,) * 2,
            headers.get(_VERSION_NAME, b"").decode("latin-1"),
        )
        return _Result(await execute_call(state, call))
    except Refusal as refusal:
        if isinstance(refusal, Unauthenticated):
            state.forget(request)
        request.scope[REFUSAL_KEY] = refusal.code
        answer = refusal_response(refusal)
        answer.headers.update(VERSION_HEADERS)
        return answer


def _parse_call(body: bytes, loads: Callable[[str], Any]) -> tuple[dict[str, Any], bytes]:
    """Return the arguments in the body of a request, and a hash of them."""
    return check_fields(parse_object(body, loads), args=list, named=dict), sha256(body).digest()


def check_content_type(given: str) -> None:
    """Refuse a request with another version of the wire format, before the body is read."""
    kind = given.partition(";")[0].strip().lower()
    if kind == wire.CONTENT_TYPE:
        return
    versioned = _VERSIONED_TYPE.fullmatch(kind)
    if versioned is not None and int(versioned[1]) > wire.WIRE_VERSION:
        raise _wrong_version("the server is older than the client", "Upgrade the server.")
    if versioned is not None or kind == "application/json":
        raise _wrong_version("the client is older than the server", f"Upgrade the client. Others send `Content-Type: {wire.CONTENT_TYPE}`.")
    raise InvalidInput("the body must be JSON", field="content-type", hint=f"Send `Content-Type: {wire.CONTENT_TYPE}`.")


def check_subprotocol(offered: list[str]) -> None:
    """Refuse a WebSocket with another version of the wire format, before it is accepted."""
    if wire.VERB_PROTOCOL in offered:
        return
    versions = [one.rpartition(".v")[2] for one in offered if one.startswith("postroom.verbs.v")]
    if any(one.isdigit() and int(one) > wire.WIRE_VERSION for one in versions):
        raise _wrong_version("the server is older than the client", "Upgrade the server.")
    raise _wrong_version("the client is older than the server", f"Upgrade the client. Others offer the subprotocol {wire.VERB_PROTOCOL}.")


def _wrong_version(which: str, hint: str) -> WrongVersion:
    """Return the refusal. Without `status`, an old client takes it for a temporary failure of the store and tries again."""
    return WrongVersion(f"{which}: the server is version {__version__}; nothing was done", hint=hint, status=400)


async def execute_call(state: AppState, call: ClientCall) -> bytes:
    """Check a call, run the verb, and return its result as JSON. A call that fails a check writes nothing."""
    verb = routing_table().get(call.verb)
    if verb is None:
        message = f"there is no verb {short_repr(call.verb)}"
        if call.client_version:
            raise _unknown_name_error(call, message)
        raise NotFound(message, hint="Write {room}.{verb}, as in the library: work.send, mail.enqueue.")
    if call.key is not None and len(call.key) > MAX_KEY_CHARS:
        raise InvalidInput(f"a key has at most {MAX_KEY_CHARS} characters", field="key")
    verb_call = VerbCall(call.caller, verb, bind_arguments(signature_of(verb), call))
    waits = verb.mode == WAIT and not _is_single_check(verb_call.arguments)
    has_run = False

    key = None if not call.key else (call.caller.name, verb.name, call.key, call.digest)

    async def run_verb(listeners: Listeners) -> bytes:
        nonlocal has_run
        has_run = True
        set_current_request(CurrentRequest(call.caller.name, listeners.have_left))  # a `VerbCall` verifies the token
        return await _run_verb(state, verb_call, listeners, key)

    result = await state.idempotency.run_once(key, run_verb, call.has_left if waits else call.write_has_left)
    if not has_run:  # the result of an earlier request: its caller was checked then, and this one now
        await state.store_access.read(partial(verify_token, caller=call.caller))
    return result


def bind_arguments(signature: Signature, call: ClientCall) -> dict[str, Any]:
    """Return the arguments by name. Refuses arguments that the verb does not have, and calls that lack one."""
    args = call.given.get("args") or ()
    for value in (*args, *call.given.get("named", {}).values()):  # before they are decoded, which costs more than to parse them
        if isinstance(value, list) and len(value) > MAX_BATCH_ITEMS:
            raise _argument_error(call, f"a list has at most {MAX_BATCH_ITEMS} items")
    if args:
        args = wire.decode(args, sender=wire.CLIENT, versions=(call.client_version, __version__), only=RECEIVED_RECORDS)
    named = call.given.get("named", {})
    named = wire.decode(named, sender=wire.CLIENT, versions=(call.client_version, __version__), only=RECEIVED_RECORDS)
    if not isinstance(args, tuple) or not isinstance(named, dict):
        raise _argument_error(call, "args is a list, and named is an object")
    if len(args) > len(signature.positional):
        raise _argument_error(call, f"it takes at most {len(signature.positional)} arguments by position")
    arguments = dict(zip(signature.positional, args))
    for name, value in named.items():
        if name not in signature.names:
            if call.client_version:
                raise _unknown_name_error(call, f"{call.verb} has no argument {short_repr(name)}")
            raise _argument_error(call, f"it has no argument {short_repr(name)}")
        if name in arguments:
            raise _argument_error(call, f"{name} is given twice")
        arguments[name] = value
    for name in signature.texts & arguments.keys():  # a list or an object would reach the database, which cannot bind it
        if not isinstance(arguments[name], str | None):
            raise _argument_error(call, f"{name} must be text")
    if not signature.required <= arguments.keys():
        missing = ", ".join(sorted(signature.required - arguments.keys()))
        raise _argument_error(call, f"{missing} is missing")
    return arguments


def _argument_error(call: ClientCall, why: str) -> InvalidInput:
    return InvalidInput(f"{call.verb} does not fit: {why}", field="named", hint="Call it as in the library.")


def _unknown_name_error(call: ClientCall, what: str) -> WrongVersion:
    """Return the refusal for a verb or an argument that a Postroom client knows and this server does not. Nothing was done."""
    return wire.wrong_version(f"{what} here, and nothing was done", wire.SERVER, (call.client_version, __version__))


async def _run_verb(state: AppState, call: VerbCall, listeners: Listeners, key: Key | None) -> bytes:
    verb = call.verb
    try:
        if verb.mode == WRITE and key is not None:
            execute = partial(run_stored, key, call.check_store, lambda store: _encode_result(call(store)))
            return await state.store_access.write(execute, call.door)
        if verb.mode == WRITE:
            return _encode_result(await state.store_access.write(call, call.door))
        if verb.mode == WAIT and not _is_single_check(call.arguments):
            return await _run_wait(state, call, listeners)
        if verb.mode == READ:
            return await state.store_access.read_in_thread(lambda store: _require_small(_encode_result(call(store))))
        return await state.store_access.run_in_thread(lambda store: _encode_result(call(store)), call.door)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # verbs do not check the types of their arguments
        _log.warning("%s rejected its arguments: %s", verb.name, type(error).__name__)  # the text of the error may quote them
        raise InvalidInput(f"{verb.name} rejected its arguments: {error}", field="named", hint="Call it as in the library.") from None


async def _run_wait(state: AppState, call: VerbCall, listeners: Listeners) -> bytes:
    store = state.store_access.blocking_store(call.door)
    is_over = partial(_is_over, state, listeners)
    cancellable = CancellableStore(store, is_over, partial(call.check_store, store))
    return await state.wait_pool.run_blocking(call.caller, partial(_wait_for_result, cancellable, call))


def _wait_for_result(store: CancellableStore, call: VerbCall) -> bytes:
    """Run a verb that blocks, for a bounded time. The store ends it before it takes something for a client that is gone."""
    arguments = call.arguments
    given = arguments.get("timeout_seconds", 0)
    if is_wait_time(given):  # else the verb refuses it
        arguments = {**arguments, "timeout_seconds": min(given or MAX_WAIT_SECONDS, MAX_WAIT_SECONDS)}
    return _encode_result(call(store, arguments))


def _encode_result(result: Any) -> bytes:
    return jsontext.dumps(wire.encode(result)).encode()


def _require_small(result: bytes) -> bytes:
    """Return the result of a verb that only reads. Refuses with `TooLarge` one that no client should wait for."""
    if len(result) > MAX_RESULT_BYTES:
        raise TooLarge(f"the answer has {len(result) >> 20} MiB", hint="Ask for less, for example with a lower limit.")
    return result


def _is_over(state: AppState, listeners: Listeners) -> bool:
    return state.store_access.broadcaster.stopping or listeners.have_left()


def may_wait(name: str, given: dict[str, Any]) -> bool:
    """Return whether a call may block."""
    verb = routing_table().get(name)
    return verb is not None and verb.mode == WAIT and not _is_single_check(given.get("named", {}))


def _is_single_check(arguments: dict[str, Any]) -> bool:
    """Return whether a waiting verb checks only once. That needs no thread of the pool, so it works when the pool is full."""
    given = arguments.get("timeout_seconds")
    return given is not None and is_wait_time(given) and 0 < given <= POLL_SECONDS
