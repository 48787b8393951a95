"""A store whose verbs travel: said over the network to a real server, while a test looks at the store itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from postroom.store.port import Store, Transaction, Watch
from postroom.store.remote.engine import RemoteStore

if TYPE_CHECKING:
    from tests.relay import Relay

WIRES = ("http", "unix", "ws")
Asleep = Callable[[float | None], object]


class Wired:
    """A store as rooms see it from afar. Whatever is no verb is the store itself, for tests that look."""

    elsewhere = True

    def __init__(self, here: Store, there: RemoteStore, relay: Relay) -> None:
        self.place = here.place
        self.here = here
        self.there = there
        self._relay = relay

    def say(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        return self.there.say(verb, args, named)

    def overhearing(self, asleep: Asleep) -> AbstractContextManager[None]:
        return self._relay.overhearing(asleep)

    @property
    def data(self) -> str | None:
        return self.here.data

    def through(self, door: str) -> Store:
        return self.here.through(door)

    def together(self, *, careful: bool = False) -> AbstractContextManager[Store]:
        return self.here.together(careful=careful)

    def read(self) -> Transaction:
        return self.here.read()

    def write(self) -> Transaction:
        return self.here.write()

    def watch(self, *topics: str) -> Watch:
        return self.here.watch(*topics)

    def close(self) -> None:
        self.there.close()
        self.here.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Bedside:
    """A store's own watch, with somebody beside it who is told of each sleep."""

    def __init__(self, tell: Asleep, watch: Watch) -> None:
        self._tell = tell
        self._watch = watch

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        self._tell(seconds)
        self._watch.wait(seconds, wake)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._watch.__exit__(*exc)
