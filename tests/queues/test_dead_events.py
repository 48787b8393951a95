"""Events that were set aside for a consumer: listed, tried again alone, and dropped. Also which batches may be acknowledged."""

from __future__ import annotations

import pytest

from postroom import queues
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.queues import Queue, dead_events
from postroom.queues.queue import ack_events
from postroom.queues.subscriptions import read_subscription_state
from tests.queues.conftest import fill, ids


@pytest.fixture
def dead(queue: Queue) -> Queue:
    """A queue of four events, of which the second was set aside for a consumer that has read three."""
    fill(queue, *"abcd")
    queues.subscribe(queue, "c", handler="true")
    queues.ack(queue, "c", last_event_id=1)
    dead_events.set_aside(queue, "c", 2, tries=20, reason="exit 3")
    queues.ack(queue, "c", last_event_id=3)
    return queue


def test_an_event_that_is_set_aside_is_passed_by_and_listed(dead: Queue) -> None:
    (event,) = dead_events.list_dead(dead, "c")
    assert (event.event_id, event.tries, event.reason, event.to_json()["retrying"]) == (2, 20, "exit 3", False)
    assert ids(queues.pop(dead, "c")) == [4]
    assert dead_events.list_dead(dead, "other") == ()


def test_an_event_that_is_tried_again_comes_first_and_alone_and_is_done_with_its_ack(dead: Queue) -> None:
    assert dead_events.retry_dead(dead, "c") == (2,)
    assert ids(queues.pop(dead, "c")) == [2]
    assert queues.ack(dead, "c", last_event_id=2).last_acked_id == 3
    assert dead_events.list_dead(dead) == ()
    assert ids(queues.pop(dead, "c")) == [4]


def test_a_consumer_that_keeps_its_own_cursor_gets_it_too_and_goes_on_where_it_was(dead: Queue) -> None:
    dead_events.retry_dead(dead, "c", 2)
    assert ids(queues.pop(dead, "c", last_event_id=3)) == [2]
    assert ids(queues.pop(dead, "c", last_event_id=2)) == [4]
    assert dead_events.list_dead(dead) == ()


def test_an_event_that_fails_once_more_is_set_aside_with_all_its_tries(dead: Queue) -> None:
    dead_events.retry_dead(dead, "c")
    state = read_subscription_state(dead, "c")
    assert state is not None
    assert (state.is_retrying, state.next_event and state.next_event.id) == (True, 2)
    dead_events.set_aside(dead, "c", 2, tries=20, reason="signal 9")
    (event,) = dead_events.list_dead(dead)
    assert (event.tries, event.reason, bool(event.retrying)) == (40, "signal 9", False)
    assert queues.info(dead).progress[0].last_acked_id == 3


def test_an_event_that_is_dropped_stays_in_the_queue(dead: Queue) -> None:
    assert dead_events.drop_dead(dead, "c", 2) == (2,)
    assert dead_events.list_dead(dead) == ()
    assert ids(queues.peek(dead, last_event_id=0)) == [1, 2, 3, 4]


def test_an_event_that_is_not_set_aside_is_neither_tried_again_nor_dropped(dead: Queue) -> None:
    for verb in (dead_events.retry_dead, dead_events.drop_dead):
        with pytest.raises(NotFound, match="event 3 is not set aside for 'c'"):
            verb(dead, "c", 3)
        with pytest.raises(NotFound, match="no event is set aside for 'other'"):
            verb(dead, "other")


@pytest.mark.parametrize("tries", [-1, 10_001])
def test_the_number_of_tries_has_bounds(queue: Queue, tries: int) -> None:
    with pytest.raises(InvalidInput, match="max-tries must be"):
        queues.subscribe(queue, "c", handler="true", max_tries=tries)


# which batch is whose


def test_a_batch_that_another_consumer_popped_is_refused(queue: Queue) -> None:
    fill(queue, *"abc")
    for name in ("one", "other"):
        queues.subscribe(queue, name, handler="true")
    batch = ids(queues.pop(queue, "one"))
    with pytest.raises(InvalidState, match="'other' has popped no events, and these go up to 3"):
        ack_events(queue, "other", batch)
    assert queues.info(queue).progress == ()
    assert ack_events(queue, "one", batch).last_acked_id == 3


def test_a_batch_that_lacks_an_unread_event_is_refused(queue: Queue) -> None:
    fill(queue, *"abcd")
    queues.subscribe(queue, "c", handler="true", filter="content <> 'b'")
    queues.pop(queue, "c")
    with pytest.raises(InvalidState, match="event 1 is unread"):
        ack_events(queue, "c", [3, 4])
    assert ack_events(queue, "c", [1, 3]).last_acked_id == 3, "event 2 does not match the filter"
    assert ack_events(queue, "c", []).last_acked_id == 3
    assert ack_events(queue, "c", [1, 3]).last_acked_id == 3, "once more: nothing changes"
