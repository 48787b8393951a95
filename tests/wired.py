"""A store whose verbs travel: said over the network to a real server, while a test looks at the store itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from postroom.store.interface import Store, Transaction, Watch
from postroom.store.remote.engine import RemoteStore

if TYPE_CHECKING:
    from tests.server_in_thread import ServerInThread

WIRES = ("http", "unix", "ws")
Asleep = Callable[[float | None], object]


class StoreOverWire:
    """A store as rooms see it from afar. Whatever is no verb is the store itself, for tests that look."""

    is_remote = True
    is_one_transaction = False
    replacements = 0

    def __init__(self, here: Store, there: RemoteStore, relay: ServerInThread) -> None:
        self.location = here.location
        self.here = here
        self.there = there
        self._relay = relay

    def call(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        return self.there.call(verb, args, named)

    def overhearing(self, asleep: Asleep) -> AbstractContextManager[None]:
        return self._relay.overhearing(asleep)

    @property
    def data_folder(self) -> str | None:
        return self.here.data_folder

    def with_door(self, door: str) -> Store:
        return self.here.with_door(door)

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[Store]:
        return self.here.batch(isolate_verbs=isolate_verbs, committed_topics=committed_topics)

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


class ObservedWatch:
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
