"""The routes by which an agent is woken: which there are, how often each was used, and what was announced by which.

A program registers a route for its session. A ringer calls `begin_ring` first, so that one budget and one backoff hold for all. What is
announced is written to the event log of each message: `wake.offered` when a route was rung, `wake.injected` when the words are in the
agent's context. A route that fails several times in a row is switched off, with the reason, until its session registers it again.
Which session is rung for a message, and when the next one is: route_order.py.
"""

from __future__ import annotations

from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput
from postroom.core.records.agent_sessions import RingPermit, WakeRoute, WakeRoutePage
from postroom.core.verbs import OWN_NAME, OWN_VIEW, READ, WRITE, verb
from postroom.people.agents.route_order import INJECTED, MAX_ITEMS, OFF, OFFERED, READY, ROUTES, RouteOrder
from postroom.store.event_log import append_event
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.store.interface import Store, Transaction

MAX_RINGS_PER_HOUR = 60
MAX_FAILURES = 3
BACKOFF_SECONDS = 5.0
_CURSOR_SEPARATOR = " "  # in no kind of route
_KEPT_MICROSECONDS = 7 * 86_400 * clock.MICROSECONDS_PER_SECOND  # of sessions that were killed
_HOUR_MICROSECONDS = 3600 * clock.MICROSECONDS_PER_SECOND


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def list_routes(store: Store, *, agent: str, limit: int = 100, after: str | None = None) -> WakeRoutePage:
    """List the routes that were registered for an agent, by kind and session. Whether one still works is for its machine to probe.

    `after` is the cursor of a page: the kind and the session of its last route.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    route, _, session = checks.line("after", after or "").partition(_CURSOR_SEPARATOR)
    with store.read() as tx:
        found = tx.fetch_all(tx.sql.routes_of, agent=agent, after_route=route, after_session=session, limit=limit + 1)
    cursor = f"{found[limit - 1].route}{_CURSOR_SEPARATOR}{found[limit - 1].session}" if len(found) > limit else None
    return WakeRoutePage(tuple(found[:limit]), cursor is not None, cursor)


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def register_route(store: Store, *, agent: str, route: str, session: str, program: str, host: str = "", pid: int = 0) -> WakeRoute:
    """Record that an agent can be woken in a session. A route that was switched off is ready again."""
    _check_route(agent, route, session)
    checks.line("program", program)
    checks.line("host", host)
    checks.event_id("pid", pid)
    with store.write() as tx:
        known = _find(tx, agent, route, session)
        used = (0, 0) if known is None else (known.hour, known.rings)
        found = WakeRoute(agent, route, session, program, host, pid, READY, "", 0, 0, *used, clock.format_stamp(tx.now()))
        tx.execute(tx.sql.routes_forget, agent=agent, before=clock.format_stamp(tx.now() - _KEPT_MICROSECONDS))
        tx.execute(tx.sql.route_put, **dict(found.items()))
        return found


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def remove_route(store: Store, *, agent: str, route: str, session: str) -> None:
    """Forget a route of an agent: its session has ended."""
    _check_route(agent, route, session)
    with store.write() as tx:
        tx.execute(tx.sql.route_delete, agent=agent, route=route, session=session)


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def begin_ring(store: Store, items: tuple[str, ...], *, agent: str, route: str, session: str) -> RingPermit:
    """Ask to ring a session for some messages. Those of the permit may be rung for now: they are counted, and written down as offered.

    The others have to wait: the route is switched off, has just failed, or was rung `MAX_RINGS_PER_HOUR` times, or another session is the
    one to ring for them. What does not wait for the agent any more is left out.
    """
    _check_route(agent, route, session)
    _check_items(items)
    with store.write() as tx:
        known = _find(tx, agent, route, session)
        if known is None:
            known = WakeRoute(agent, route, session, "", "", 0, READY, "", 0, 0, 0, 0, clock.format_stamp(tx.now()))
        if known.state == OFF:
            return RingPermit((), float(_HOUR_MICROSECONDS // clock.MICROSECONDS_PER_SECOND))
        hour, now = tx.now() // _HOUR_MICROSECONDS, tx.now()
        rings = known.rings if known.hour == hour else 0
        until = (hour + 1) * _HOUR_MICROSECONDS if rings >= MAX_RINGS_PER_HOUR else known.retry_at
        if until > now:
            return RingPermit((), _seconds_until(until, now))
        free_from = RouteOrder(tx, known).find_free_from(items)
        free = tuple(item for item in items if free_from.get(item, now + 1) <= now)
        if free:
            tx.execute(tx.sql.route_put, **dict(known.replace(hour=hour, rings=rings + 1).items()))
            _append_steps(tx, free, OFFERED, agent=agent, route=route, session=session, program=known.program)
        held = [until for until in free_from.values() if until > now]
        return RingPermit(free, _seconds_until(min(held), now) if held else 0.0)


def _seconds_until(until: int, now: int) -> float:
    return (until - now) / clock.MICROSECONDS_PER_SECOND


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def end_ring(store: Store, *, agent: str, route: str, session: str, failure: str = "") -> WakeRoute | None:
    """Record how a ring ended. Failures back off, and switch the route off after `MAX_FAILURES` in a row. Returns the route."""
    _check_route(agent, route, session)
    checks.line("failure", failure)
    with store.write() as tx:
        known = _find(tx, agent, route, session)
        if known is None:
            return None
        failures = known.failures + 1 if failure else 0
        pause = int(BACKOFF_SECONDS * 2 ** (failures - 1) * clock.MICROSECONDS_PER_SECOND) if failures else 0
        state = OFF if failures >= MAX_FAILURES else READY
        changed = known.replace(state=state, reason=failure, failures=failures, retry_at=tx.now() + pause if pause else 0)
        tx.execute(tx.sql.route_put, **dict(changed.items()))
        return changed


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def note_injected(store: Store, items: tuple[str, ...], *, agent: str, route: str, session: str) -> None:
    """Record that the announcement of some messages is in the context of a session."""
    _check_route(agent, route, session)
    _check_items(items)
    with store.write() as tx:
        known = _find(tx, agent, route, session)
        _append_steps(tx, items, INJECTED, agent=agent, route=route, session=session, program="" if known is None else known.program)


def _check_route(agent: str, route: str, session: str) -> None:
    checks.name("agent", agent)
    checks.choice("route", route, ROUTES)
    checks.indexed("session", session)


def _check_items(items: Iterable[str]) -> None:
    given = tuple(items)
    if len(given) > MAX_ITEMS:
        raise InvalidInput(f"there are more than {MAX_ITEMS} items", field="items")
    for item in given:
        checks.indexed("items", checks.name("items", item, max_chars=limits.MAX_MESSAGE_ID_CHARS))


def _find(tx: Transaction, agent: str, route: str, session: str) -> WakeRoute | None:
    return tx.fetch_one(tx.sql.route_find, agent=agent, route=route, session=session)


def _append_steps(tx: Transaction, items: Iterable[str], step: str, *, agent: str, **facts: str) -> None:
    """Write a step to the log of each message. No topic is notified: nobody waits for it, and it must not ring again."""
    for item in items:
        append_event(tx, (), event_type=f"wake.{step}", source=agent, payload=facts, message_id=item)
