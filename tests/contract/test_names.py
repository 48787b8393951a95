"""Names that can be seen and told apart: no hidden characters, one form of each letter, and none that looks like a person's."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom import people, work
from postroom.core.errors import InvalidInput
from postroom.people.passes import issue_agent_token
from postroom.store.interface import Store
from postroom.work.agents import add_agent
from tests.contract.thread_data import sent

HIDDEN = ["user\u3164", "us\u200ber", "user\ufe0f", "user\U000e0041", "us\u115fer", "us\u034fer"]
LOOKALIKES = ["User", "usеr", "ｕｓｅｒ", "UЅER", "υser"]


@pytest.mark.parametrize("name", [*HIDDEN, "Jose\u0301"])
def test_a_name_that_cannot_be_seen_as_it_is_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput):
        sent(store, sender=name)
    with pytest.raises(InvalidInput):
        add_agent(store, name)
    assert work.list_threads(store).threads == ()


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_new_name_that_looks_like_a_persons_is_refused(store: Store, name: str, tmp_path: Path) -> None:
    for act in (
        lambda: add_agent(store, name),
        lambda: issue_agent_token(store, name=name),
        lambda: people.add_workspace(store, str(tmp_path), label="Project", agent=name),
        lambda: sent(store, sender=name),
    ):
        with pytest.raises(InvalidInput, match="looks like the name of a person, 'user'"):
            act()
    assert [agent.name for agent in work.list_agents(store)] == ["user"]


def test_other_names_in_any_script_are_fine(store: Store) -> None:
    for name in ("José", "Юлия", "小明", "Users", "user2"):
        add_agent(store, name)
        sent(store, sender=name)


def test_an_older_name_may_stay(store: Store) -> None:
    with store.write() as tx:
        tx.execute(tx.sql.agent_put, name="User", kind="agent", now="2026-01-01T00:00:00.000000Z")
    assert sent(store, sender="User")
