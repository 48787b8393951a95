"""Each verb that can travel gives the same result over HTTP, a Unix socket and a WebSocket as on a local store.

This is what `make test` runs over the wires. `make test-all` runs the whole contract over them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom.core.verbs import SERVER_MACHINE
from postroom.server.rpc.dispatch import routing_table
from postroom.store.interface import Store
from postroom.store.remote.engine import RemoteStore
from postroom.tasks import Conductor
from tests.conftest import Clock, fresh_file, open_with
from tests.server.verb_scenarios import CHANGES, SCENARIOS
from tests.server_in_thread import ServerInThread
from tests.wired import WIRES

_RANDOM = re.compile(r"\b[a-z]{2,4}_(?:[0-9a-hjkmnp-tv-z]{17}|[0-9a-f]{32}|[0-9a-f]{12})\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_DOOR = re.compile(r"((?:^|\W)\w*door=)'\w+'|('(?:verified|\w*[dD]oor)': )(?:'\w+'|True|False)")


# Over the network, only the holder of a lease is shown its token.
_TOKEN = re.compile(r"lease_token='[^']*'")
TOKENS_HIDDEN = ("work.show", "work.show_agent", "work.list_presences", "work.show_run")


def call(store: Store, verb: str, arguments: dict[str, Any]) -> object:
    """Call a verb as a program that imports the library does."""
    room, _, name = verb.partition(".")
    if room == "tasks" and hasattr(Conductor, name):
        return getattr(Conductor(store), name)(**arguments)
    return getattr(getattr(postroom, room), name)(store, **arguments)


def describe(*values: object, hides_tokens: bool = False) -> str:
    """Types, fields and values as text. Random ids are numbered, and the door, which is the wire's, is left out."""
    numbers: dict[str, str] = {}
    text = _TOKEN.sub("lease_token", repr(values)) if hides_tokens else repr(values)
    text = _RANDOM.sub(lambda found: numbers.setdefault(found[0], f"id-{len(numbers)}"), text)
    return _DOOR.sub(r"\1\2…", text)


def _nothing(store: Store) -> object:
    return None


@contextmanager
def opened(folder: Path, clock: Clock) -> Iterator[Store]:
    """A fresh store in a folder of its own."""
    folder.mkdir()
    with closing(open_with(fresh_file(folder), clock)) as store:
        yield store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", sorted(SCENARIOS))


def test_a_verb_gives_the_same_result_over_each_wire_as_on_a_local_store(
    scenario: str, relay: ServerInThread, clock: Clock, tmp_path: Path
) -> None:
    start, arrange, look = clock.instant, SCENARIOS[scenario], CHANGES.get(scenario, _nothing)
    hidden = scenario in TOKENS_HIDDEN
    with opened(tmp_path / "local", clock) as local:
        expected = describe(call(local, scenario, arrange(local)), look(local), hides_tokens=hidden)
    for wire in WIRES:
        clock.instant = start
        with opened(tmp_path / wire, clock) as behind, relay.serving(behind.location, clock):
            with closing(RemoteStore(relay.url(wire))) as remote:
                found = describe(call(remote, scenario, arrange(behind)), look(behind), hides_tokens=hidden)
            assert (wire, found) == (wire, expected)


def test_every_verb_that_can_travel_has_a_scenario() -> None:
    assert set(SCENARIOS) == {name for name, verb in routing_table().items() if verb.caller != SERVER_MACHINE}


def test_what_differs_is_seen() -> None:
    assert describe({"a": 1}) != describe({"a": 1.0})
    assert describe(("thr_1kh3q9zjr4m7x2cdw", "x")) == describe(("thr_1kh3q9zjr4m7x2cdv", "x"))
