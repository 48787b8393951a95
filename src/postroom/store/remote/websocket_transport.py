"""The transport that sends verbs as frames of a WebSocket, which stays open between them."""

from __future__ import annotations

from contextlib import ExitStack

from postroom import __version__
from postroom._fastpath import json_text as jsontext
from postroom.core.limits import MAX_CALL_BYTES
from postroom.core.rpc.wire import VERB_PROTOCOL, VERSION_HEADER
from postroom.core.tracing import current_traceparent
from postroom.store.installation import missing_extra
from postroom.store.remote.transport import CONNECT_TIMEOUT_SECONDS, HttpAnswer, HttpTransport, RetryingTransport, ServerAddress
from postroom.store.remote.versions import server_is_older

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from websockets.sync.client import ClientConnection

ENVELOPE_BYTES = 1024  # the part of a frame that is not the arguments of the verb
CLOSE_TIMEOUT_SECONDS = 1.0
REFUSED_STATUS = 400  # a frame has no status of its own


class WebSocketTransport:
    """A transport that sends one verb at a time over a WebSocket. Arguments that are too long for a frame are sent over HTTP."""

    def __init__(self, address: ServerAddress, token: str) -> None:
        self.address = address
        self.is_open = self.was_reached = False
        self._token = token
        self._socket: ClientConnection | None = None
        self._version = ""
        self._resources = ExitStack()
        self._last_call_id = 0
        self._http = RetryingTransport(HttpTransport(address, token))

    def call_verb(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        if len(body) > MAX_CALL_BYTES - ENVELOPE_BYTES:
            return self._http.call_verb(verb, body, key, timeout_seconds)
        exceptions = _load_exceptions()
        try:
            if self._socket is None:
                self._open_connection()
            return self._exchange_frames(verb, body, key, timeout_seconds)
        except exceptions.InvalidStatus as refused:  # the server refused the upgrade
            self.was_reached = True
            version = refused.response.headers.get(VERSION_HEADER, "")
            return HttpAnswer(refused.response.status_code, refused.response.body or b"", version)
        except (exceptions.WebSocketException, KeyError, AttributeError) as error:
            raise OSError(str(error) or "the server closed the connection") from None

    def _open_connection(self) -> None:
        """Connect. Refuses a server that does not know this version of the protocol, before anything is sent."""
        connection = self._resources.enter_context(self._connect_websocket())
        self.was_reached = True
        if connection.subprotocol != VERB_PROTOCOL:
            self.close()
            raise server_is_older(self.address.url)
        response = connection.response
        self._version = "" if response is None else response.headers.get(VERSION_HEADER, "")
        self._socket = connection
        self.is_open = True

    def _exchange_frames(self, verb: str, body: bytes, key: str, timeout_seconds: float) -> HttpAnswer:
        assert self._socket is not None
        self._last_call_id += 1
        trace = current_traceparent()
        fields = {"op": "call", "id": self._last_call_id, "verb": verb, "key": key, **({"traceparent": trace} if trace else {})}
        head = jsontext.dumps(fields)
        self._socket.send(head[:-1].encode() + b"," + body[1:], text=True)  # `body` is an object as well
        while True:
            frame = self._socket.recv(timeout_seconds, decode=False)
            answer = jsontext.loads(frame.decode())
            if answer.get("id") == self._last_call_id:
                return HttpAnswer(200 if answer["op"] == "result" else REFUSED_STATUS, frame, self._version)

    def _connect_websocket(self) -> ClientConnection:
        from websockets.sync.client import connect

        url = f"{'wss' if self.address.is_secure else 'ws'}://{self.address.host_header}/api/verbs"
        headers = {VERSION_HEADER: __version__}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return connect(
            url,
            additional_headers=headers,
            subprotocols=[VERB_PROTOCOL],  # type: ignore[list-item] # the library has a type of its own for this text
            compression=None,
            proxy=None,
            max_size=None,
            user_agent_header=None,
            open_timeout=CONNECT_TIMEOUT_SECONDS,
            close_timeout=CLOSE_TIMEOUT_SECONDS,
        )

    def close(self) -> None:
        self._socket = None
        self._resources.close()
        self._http.close()
        self.is_open = False


def _load_exceptions() -> ModuleType:
    try:
        import websockets.exceptions
    except ImportError:
        raise missing_extra("a WebSocket needs a library; http:// needs none", "server") from None
    return websockets.exceptions
