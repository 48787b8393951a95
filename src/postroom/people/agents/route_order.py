"""The order of an agent's routes: which session is rung for a message, and when the next one is.

The routes are tried in the order of `ROUTES`, until the agent has the message: the process that waits beside each session asks again when
`seconds` have passed. A route that was tried holds the message for a bounded time. It holds nothing if it was removed, if its last ring
failed, or if its process is gone.
"""

from __future__ import annotations

import os

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.people.agents.waiting import read_waiting
from postroom.processes.owning_program import is_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.agent_sessions import WakeRoute
    from postroom.core.records.handovers import WaitingItem
    from postroom.store.interface import Transaction

    RouteKey = tuple[str, str]  # the kind of a route, and its session

HOOK, QUEUE, INPUT, RESIDENT = "hook", "queue", "input", "resident"
ROUTES = (HOOK, QUEUE, INPUT, RESIDENT)  # in the order in which they are tried
READY, OFF = "ready", "off"
OFFERED, INJECTED = "offered", "injected"
HEAD_START_SECONDS = 1.0  # for each earlier route that was not tried: its session may be at work
UNHEARD_SECONDS = 10.0  # from a ring until the next session is rung, if the words did not reach the first one
UNREAD_SECONDS = 60.0  # from the words in the context of a session until the next session is rung, if the message was not read
MAX_ITEMS = 10_000
MAX_ROUTES = 1000
_HOLD_SECONDS = {f"wake.{OFFERED}": UNHEARD_SECONDS, f"wake.{INJECTED}": UNREAD_SECONDS}


class RouteOrder:
    """The routes of an agent, as a transaction reads them. `own` is the route that asks."""

    def __init__(self, tx: Transaction, own: WakeRoute) -> None:
        self._tx = tx
        self._own = (own.route, own.session)
        self._agent = own.agent
        known = tx.fetch_all(tx.sql.routes_of, agent=own.agent, after_route="", after_session="", limit=MAX_ROUTES)
        others = [route for route in known if (route.route, route.session) != self._own and route.state == READY and not route.failures]
        self._holding = {(route.route, route.session) for route in others if route.route == HOOK or is_present(route)}
        self._earlier = {(route.route, route.session) for route in others if self._is_earlier(route) and is_present(route)}

    def _is_earlier(self, route: WakeRoute) -> bool:
        return (ROUTES.index(route.route), route.session) < (ROUTES.index(self._own[0]), self._own[1])

    def find_free_from(self, item_ids: Iterable[str]) -> dict[str, int]:
        """Return when each message may be rung for, in microseconds. What does not wait any more is left out."""
        wanted = frozenset(item_ids)
        waiting = read_waiting(self._tx, self._agent, limit=MAX_ITEMS) if wanted else []
        return {item.id: self._find_free(item) for item in waiting if item.id in wanted}

    def _find_free(self, item: WaitingItem) -> int:
        tried: set[RouteKey] = set()
        free = 0
        for event in self._tx.fetch_all(self._tx.sql.events_of_subject, message_id=item.id, types="wake.%"):
            if event.event_type not in _HOLD_SECONDS or event.source != self._agent:
                continue
            facts = jsontext.loads(event.payload_json)
            route = (facts["route"], facts["session"])
            tried.add(route)
            if route in self._holding:
                free = max(free, clock.parse_stamp(event.created_at) + clock.microseconds(_HOLD_SECONDS[event.event_type]))
        if self._own in tried:
            return free
        return max(free, clock.parse_stamp(item.at) + clock.microseconds(HEAD_START_SECONDS * len(self._earlier - tried)))


def is_present(route: WakeRoute) -> bool:
    """Return whether the process of a route lives. A process on another machine cannot be probed: its record counts.

    The process of a hook ends when it rings: its session goes on.
    """
    return route.host != os.uname().nodename or is_running(route.pid)
