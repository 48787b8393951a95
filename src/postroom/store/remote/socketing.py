"""Verbs as frames of a WebSocket, which stays open between them."""

from __future__ import annotations

from contextlib import ExitStack

from postroom.core import jsontext
from postroom.core.errors import StorageFailure
from postroom.core.wire import MOST_FRAME, VERB_PROTOCOL
from postroom.store.remote.calling import CONNECT_SECONDS, Kept, Line, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from websockets.sync.client import ClientConnection

ROOM = 1024  # bytes of a frame beside what a verb is given
CLOSE_SECONDS = 1.0
REFUSED = 400  # as far as one can tell from a frame


class SocketLine:
    """One verb at a time. What is too long for a frame is said over HTTP."""

    def __init__(self, place: Place, token: str) -> None:
        self.place = place
        self.open = self.reached = False
        self._token = token
        self._socket: ClientConnection | None = None
        self._ends = ExitStack()
        self._number = 0
        self._beside = Kept(Line(place, token))

    def once(self, verb: str, given: bytes, key: str, seconds: float) -> tuple[int, bytes]:
        if len(given) > MOST_FRAME - ROOM:
            return self._beside.say(verb, given, key, seconds)
        websockets = _library()
        try:
            if self._socket is None:
                self._socket = self._ends.enter_context(self._connected())
                self.open = self.reached = True
            self._number += 1
            head = jsontext.dumps({"op": "say", "id": self._number, "verb": verb, "key": key})
            self._socket.send(head[:-1].encode() + b"," + given[1:], text=True)  # `given` is an object as well
            while True:
                frame = self._socket.recv(seconds, decode=False)
                answer = jsontext.loads(frame.decode())
                if answer.get("id") == self._number:
                    return (200 if answer["op"] == "said" else REFUSED), frame
        except websockets.InvalidStatus as refused:  # before it was a socket
            self.reached = True
            return refused.response.status_code, refused.response.body or b""
        except (websockets.WebSocketException, KeyError, AttributeError) as error:
            raise OSError(str(error) or "the server closed the connection") from None

    def _connected(self) -> ClientConnection:
        from websockets.sync.client import connect

        url = f"{'wss' if self.place.secure else 'ws'}://{self.place.name}/api/verbs"
        return connect(
            url,
            additional_headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
            subprotocols=[VERB_PROTOCOL],  # type: ignore[list-item] # text, whatever it is called there
            compression=None,
            proxy=None,
            max_size=None,
            user_agent_header=None,
            open_timeout=CONNECT_SECONDS,
            close_timeout=CLOSE_SECONDS,
        )

    def close(self) -> None:
        self._socket = None
        self._ends.close()
        self._beside.close()
        self.open = False


def _library() -> ModuleType:
    try:
        import websockets.exceptions
    except ImportError:
        raise StorageFailure("a WebSocket needs a library", hint="Install it: pip install 'postroom[server]'; or write http://.") from None
    return websockets.exceptions
