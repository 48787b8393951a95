"""A thread is read in pages: bounded, in order, forwards and backwards."""

from __future__ import annotations

from itertools import chain

import pytest

from postroom import work
from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_PAGE_CHARS, MAX_PAGE_MESSAGES
from postroom.core.records.work import Attachment, Conversation
from postroom.store.interface import Store
from postroom.store.postgres import statements
from postroom.store.postgres.engine import PostgresStore
from tests.contract.thread_data import sent
from tests.postgres_server import Postgres

pytestmark = pytest.mark.travels("http")


def talk(store: Store, count: int, body: str = "") -> str:
    """A thread whose messages are called 0, 1, 2 and so on."""
    thread_id = sent(store, "0")
    for number in range(1, count):
        work.reply(store, thread_id, sender="leader", summary=str(number), body=body)
    return thread_id


def summaries(page: Conversation) -> list[str]:
    return [message.summary for message in page.messages]


def pages_backwards(store: Store, thread_id: str, **size: int) -> list[list[str]]:
    page = work.show(store, thread_id, **size)
    found = [summaries(page)]
    while page.next_before_event is not None:
        page = work.show(store, thread_id, before_event=page.next_before_event, **size)
        found.append(summaries(page))
    return found


def pages_forwards(store: Store, thread_id: str, **size: int) -> list[list[str]]:
    page = work.show(store, thread_id, after_event=0, **size)
    found = [summaries(page)]
    while page.next_after_event is not None:
        page = work.show(store, thread_id, after_event=page.next_after_event, **size)
        found.append(summaries(page))
    return found


def test_a_short_thread_is_one_page(store: Store) -> None:
    page = work.show(store, talk(store, 3))
    assert summaries(page) == ["0", "1", "2"]
    assert (page.more, page.next_before_event, page.next_after_event, page.first_message) == (False, None, None, None)


def test_a_long_thread_shows_its_newest_messages_and_its_first(store: Store) -> None:
    page = work.show(store, talk(store, 5), limit=2)
    assert summaries(page) == ["3", "4"]
    assert page.more
    assert page.next_before_event == page.messages[0].event_id
    assert page.first_message is not None
    assert page.first_message.summary == "0"


def test_a_page_has_a_hundred_messages_unless_told_otherwise(store: Store) -> None:
    page = work.show(store, talk(store, MAX_PAGE_MESSAGES + 2))
    assert summaries(page) == [str(number) for number in range(2, MAX_PAGE_MESSAGES + 2)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_hold_every_message_once_in_both_directions(store: Store, limit: int) -> None:
    thread_id = talk(store, 5)
    backwards, forwards = pages_backwards(store, thread_id, limit=limit), pages_forwards(store, thread_id, limit=limit)
    assert list(chain(*reversed(backwards))) == ["0", "1", "2", "3", "4"] == list(chain(*forwards))
    assert {len(page) for page in backwards[:-1] + forwards[:-1]} <= {limit}


def test_what_is_said_between_two_pages_moves_neither(store: Store) -> None:
    thread_id = talk(store, 4)
    newest, oldest = work.show(store, thread_id, limit=2), work.show(store, thread_id, limit=2, after_event=0)
    work.reply(store, thread_id, sender="leader", summary="4")
    assert summaries(work.show(store, thread_id, before_event=newest.next_before_event)) == ["0", "1"]
    assert summaries(work.show(store, thread_id, after_event=oldest.next_after_event)) == ["2", "3", "4"]


def test_a_page_after_the_newest_message_is_empty(store: Store) -> None:
    thread_id = talk(store, 2)
    last = work.show(store, thread_id).messages[-1].event_id
    page = work.show(store, thread_id, after_event=last)
    assert (page.messages, page.more, page.next_after_event) == ((), False, None)
    assert work.show(store, thread_id, before_event=1).messages == ()


def test_only_the_newest_page_repeats_the_first_message(store: Store) -> None:
    thread_id = talk(store, 4)
    newest = work.show(store, thread_id, limit=1)
    assert work.show(store, thread_id, limit=1, before_event=newest.next_before_event).first_message is None
    assert work.show(store, thread_id, limit=4).first_message is None


def test_a_page_ends_before_its_text_is_too_long(store: Store) -> None:
    thread_id = talk(store, 4, body="x" * 99)
    assert pages_backwards(store, thread_id, max_characters=204) == [["2", "3"], ["0", "1"]]
    assert pages_backwards(store, thread_id, max_characters=203) == [["3"], ["2"], ["0", "1"]]
    assert pages_forwards(store, thread_id, max_characters=204) == [["0", "1"], ["2", "3"]]


def test_a_message_that_is_longer_than_a_page_travels_whole_and_alone(store: Store) -> None:
    thread_id = sent(store, "0")
    work.reply(store, thread_id, sender="leader", summary="1", body="x" * MAX_PAGE_CHARS)
    work.reply(store, thread_id, sender="leader", summary="2")
    assert pages_backwards(store, thread_id) == [["2"], ["1"], ["0"]]
    assert pages_forwards(store, thread_id) == [["0"], ["1"], ["2"]]


def test_artifacts_come_with_their_message_and_count(store: Store) -> None:
    thread_id = sent(store, "0")
    for number in "12":
        work.reply(store, thread_id, sender="leader", summary=number, artifacts=[Attachment(number * 50), Attachment(number * 40)])
    page = work.show(store, thread_id, limit=1)
    assert [artifact.path for artifact in page.messages[0].artifacts] == ["2" * 50, "2" * 40]
    assert pages_backwards(store, thread_id, max_characters=120) == [["2"], ["0", "1"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 10_001},
        {"before_event": -1},
        {"after_event": -1},
        {"before_event": 3, "after_event": 1},
        {"max_characters": 0},
        {"max_characters": MAX_PAGE_CHARS + 1},
    ],
)
@pytest.mark.input_check
def test_a_page_that_cannot_be_is_refused(store: Store, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        work.show(store, sent(store), **wrong)


@pytest.mark.parametrize("name", ["messages_page_before", "messages_page_after", "messages_between", "artifacts_between"])
def test_postgresql_finds_a_page_by_its_indexes(postgres: Postgres, name: str) -> None:
    with postgres.store() as url, PostgresStore(url) as store:
        binds = {"thread_id": talk(store, 3), "before": 2**63 - 1, "after": 0, "limit": 10, "characters": 1000, "first": 1, "last": 20}
        with store.read() as tx:
            tx.execute("SET LOCAL enable_seqscan = off")  # with so few rows it would be chosen, although an index serves
            plan = [row[0] for row in tx.fetch_all(f"EXPLAIN {getattr(statements, name)}", **_binds(getattr(statements, name), binds))]
    assert [line for line in plan if "Index" in line], plan
    assert not [line for line in plan if "Seq Scan" in line], plan


def _binds(statement: str, binds: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in binds.items() if f":{name}" in statement}
