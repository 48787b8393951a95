"""Running a state machine on each engine: every example in a store of its own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import Clock, fresh_file
from tests.postgres_server import Postgres

EXAMPLES_SHARE = {"sqlite": 1.0, "postgres": 0.25}  # of the profile's examples; a step on a server costs many times more


def run(machine: type[RuleBasedStateMachine], engine: str, request: pytest.FixtureRequest) -> None:
    """The machine makes its stores with `fresh(folder, clock)`."""
    with ExitStack() as stores:

        def fresh_sqlite(folder: str, clock: Clock) -> Store:
            return SqliteStore(fresh_file(Path(folder)), now=clock)

        def fresh_postgres(folder: str, clock: Clock) -> Store:
            server: Postgres = request.getfixturevalue("postgres")
            stores.close()  # the example before has ended
            return PostgresStore(stores.enter_context(server.store()), now=clock)

        fresh = {"sqlite": fresh_sqlite, "postgres": fresh_postgres}[engine]
        run_state_machine_as_test(
            type("Machine", (machine,), {"fresh": staticmethod(fresh)}),
            settings=settings(
                max_examples=int(settings().max_examples * EXAMPLES_SHARE[engine]),
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
                report_multiple_bugs=False,
            ),
        )
