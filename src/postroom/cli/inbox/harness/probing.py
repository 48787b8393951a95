"""Probe the routes by which an agent can be woken: a recorded route counts only if its process lives."""

from __future__ import annotations

import os

from postroom.people.agents.route_order import OFF, ROUTES, is_present
from postroom.people.agents.wake_routes import list_routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.agent_sessions import WakeRoute
    from postroom.store.interface import Store

WAITING, GONE, ELSEWHERE = "waiting now", "gone", "on another machine"


def probe_routes(store: Store, agent: str) -> list[dict[str, Any]]:
    """Return the routes of an agent, in the order in which they are tried, each with what a probe of it showed."""
    found = sorted(list_routes(store, agent=agent).routes, key=lambda route: (ROUTES.index(route.route), route.session))
    return [{**route.to_json(), "probe": _probe(route)} for route in found]


def _probe(route: WakeRoute) -> str:
    if route.state == OFF:
        return f"switched off after {route.failures} failures"
    if route.host != os.uname().nodename:
        return ELSEWHERE
    return WAITING if is_present(route) else GONE
