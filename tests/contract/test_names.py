"""Names that can be seen and told apart: no hidden characters, one form of each letter, and none that looks like a person's."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.core.errors import InvalidInput
from postroom.people.access.passes import issue_agent_token
from postroom.store.interface import Store
from postroom.tasks import Conductor
from postroom.work.agents import add_agent
from tests.contract.thread_data import sent

HIDDEN = ["user\u3164", "us\u200ber", "user\ufe0f", "user\U000e0041", "us\u115fer", "us\u034fer"]
LOOKALIKES = ["User", "usеr", "ｕｓｅｒ", "UЅER", "υser"]


@pytest.mark.parametrize("name", [*HIDDEN, "Jose\u0301"])
@pytest.mark.input_check
def test_a_name_that_cannot_be_seen_as_it_is_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput):
        sent(store, sender=name)
    with pytest.raises(InvalidInput):
        add_agent(store, name)
    assert work.list_threads(store).threads == ()


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_new_name_that_looks_like_a_persons_is_refused(store: Store, name: str, tmp_path: Path) -> None:
    thread = sent(store)
    for act in (
        lambda: add_agent(store, name),
        lambda: issue_agent_token(store, name=name),
        lambda: people.add_workspace(store, str(tmp_path), label="Project", agent=name),
        lambda: sent(store, sender=name),
        lambda: work.claim(store, thread, agent=name),
        lambda: work.mark_read(store, thread, agent=name, event_id=1),
        lambda: mail.enqueue(store, {"from": name, "to": "builder", "payload": "x"}),
        lambda: mail.enqueue_all(store, [{"from": "builder", "to": "b", "payload": "x"}, {"from": name, "to": "b", "payload": "x"}]),
        lambda: Conductor(store).register(name),
        lambda: people.notify(store, sender=name, text="Hello"),
        lambda: people.ask(store, question="May I?", agent=name),
        lambda: people.read_messages(store, agent=name),
    ):
        with pytest.raises(InvalidInput, match="looks like the name of a person, 'user'"):
            act()
    assert [agent.name for agent in work.list_agents(store)] == ["leader", "user"]
    assert mail.sessions(store).sessions == ()


def test_other_names_in_any_script_are_fine(store: Store) -> None:
    for name in ("José", "Юлия", "小明", "Users", "user2"):
        add_agent(store, name)
        sent(store, sender=name)


def test_digits_and_capitals_that_look_like_letters_are_compared_too(store: Store) -> None:
    add_agent(store, "Paul", kind="human")
    for name in ("pau1", "paul", "PAUL"):
        with pytest.raises(InvalidInput, match="looks like the name of a person, 'Paul'"):
            sent(store, sender=name)
    assert sent(store, sender="Paul")


def test_an_older_name_may_stay(store: Store) -> None:
    with store.write() as tx:
        tx.execute(tx.sql.agent_put, name="User", kind="agent", now="2026-01-01T00:00:00.000000Z")
    assert sent(store, sender="User")
