"""Agents: their kinds, and when each was last seen. Every write of an agent updates its last-seen time."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidState, NotFound
from postroom.core.records.work import Agent, AgentPage, AgentPresence, PresencePage
from postroom.core.states import AGENT_KINDS
from postroom.core.text import shell_quote
from postroom.core.verbs import ANY_AGENT, DIRECTORY, LEADERS, OWN_VIEW, PEOPLE, READ, WRITE, verb
from postroom.store.agents import delete_pass, refuse_lookalike
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def add_agent(store: Store, name: str, *, kind: str = "agent") -> Agent:
    """Register an agent, or change its kind, and return it.

    Refuses with `InvalidInput` a new name that looks like that of a person, and with `InvalidState` to make a person of a name that belongs
    to a workspace or that has an agent's token.
    The sessions, links and tokens of a person who becomes an agent are void at once.
    """
    checks.name("name", name)
    checks.choice("kind", kind, AGENT_KINDS)
    with store.write() as tx:
        refuse_lookalike(tx, "name", name)
        tx.execute(tx.sql.agent_put, name=name, kind=kind, now=clock.format_stamp(tx.now()))
        # Read workspaces and passes after `agent_put`: the write locks the name, so none can be added in between.
        workspace = tx.fetch_one(tx.sql.workspace_of_agent, agent=name) if kind == "human" else None
        if workspace is not None:
            raise InvalidState(f"{name} is the agent of the workspace {workspace.workspace_id}", hint="Choose another name for the person.")
        passes = tx.fetch_all(tx.sql.passes_of, person=name)
        if kind == "human" and any(known.kind == "agent" for known in passes):
            raise InvalidState(f"{name} has an agent's token", hint=f"Void it first: `inbox agent token {shell_quote(name)} --revoke`.")
        for known in passes:
            if kind != "human" and known.kind != "agent":
                delete_pass(tx, known)
        return _get_agent(tx, name)


@verb(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
def list_agents(store: Store, *, limit: int = 1000, after: str = "") -> AgentPage:
    """List agents, sorted by name. `after` is the name of the last one of the page before."""
    checks.limit("limit", limit)
    checks.text("after", after)
    with store.read() as tx:
        return AgentPage(*_read_page(tx, limit, after))


@verb(caller="name", access=OWN_VIEW, mode=READ)
def show_agent(store: Store, name: str) -> AgentPresence:
    """Return an agent, the leases that it holds, and the number of its unread threads. Refuses with `NotFound`."""
    checks.name("name", name)
    with store.read() as tx:
        return _read_presence(tx, _get_agent(tx, name))


@verb(caller=LEADERS, mode=READ)
def list_presences(store: Store, *, limit: int = 1000, after: str = "") -> PresencePage:
    """List the presence of agents, sorted by name, from one snapshot of the store. `after` is the last name of the page before."""
    checks.limit("limit", limit)
    checks.text("after", after)
    with store.read() as tx:
        listed, more, cursor = _read_page(tx, limit, after)
        return PresencePage(tuple(_read_presence(tx, agent) for agent in listed), more, cursor)


def _read_page(tx: Transaction, limit: int, after: str) -> tuple[tuple[Agent, ...], bool, str | None]:
    """Return the agents behind a name, whether there are more, and the cursor of the next page."""
    found = tx.fetch_all(tx.sql.agents_all, limit=limit + 1, after=after)
    more = len(found) > limit
    return tuple(found[:limit]), more, found[limit - 1].name if more else None


def _read_presence(tx: Transaction, agent: Agent) -> AgentPresence:
    holds = tuple(tx.fetch_all(tx.sql.leases_of_agent, agent=agent.name, limit=100))
    return AgentPresence(agent, holds, tx.fetch_one(tx.sql.reads_unread_count, agent=agent.name) or 0)


def _get_agent(tx: Transaction, name: str) -> Agent:
    agent = tx.fetch_one(tx.sql.agent_find, name=name)
    if agent is None:
        raise NotFound(f"nobody called {name} has been seen", hint="See `inbox agent list`; `inbox agent add` makes one known.", name=name)
    return agent
