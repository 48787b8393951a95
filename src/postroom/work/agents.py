"""Agents: who exists, of what kind, and when last seen. Every write is a sign of life."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidState, NotFound
from postroom.core.records import Agent, Claim, Lease, Presence, Thread
from postroom.core.states import AGENT_KINDS
from postroom.core.verbs import verb
from postroom.core.words import quoted
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

_FIELDS = len(Thread.__fields__)


@verb
@retried
def add_agent(store: Store, name: str, *, kind: str = "agent") -> Agent:
    """Make an agent known, or change its kind."""
    checks.name("name", name)
    checks.choice("kind", kind, AGENT_KINDS)
    with store.write() as tx:
        workspace = tx.one(tx.sql.workspace_of_agent, agent=name) if kind == "human" else None
        if workspace is not None:
            raise InvalidState(f"{name} is the agent of the workspace {workspace[0]}", hint="Choose another name for the person.")
        tx.run(tx.sql.agent_put, name=name, kind=kind, now=clock.stamp(tx.now()))
        if kind == "human" and tx.all(tx.sql.passes_of, kind="agent", name=name):  # looked for once the name is ours
            raise InvalidState(f"{name} has an agent's token", hint=f"Void it first: `inbox agent token {quoted(name)} --revoke`.")
        return _agent(tx, name)


@verb
def list_agents(store: Store, *, limit: int = 1000) -> tuple[Agent, ...]:
    """Everybody known, by name."""
    checks.limit("limit", limit)
    with store.read() as tx:
        return tuple(Agent(*row) for row in tx.all(tx.sql.agents_all, limit=limit))


@verb
def show_agent(store: Store, name: str) -> Presence:
    """One agent, what it holds, and how much waits for it unread."""
    checks.name("name", name)
    with store.read() as tx:
        return _presence(tx, _agent(tx, name))


@verb
def list_presences(store: Store, *, limit: int = 1000) -> tuple[Presence, ...]:
    """The same of everybody known, by name, as of one moment."""
    checks.limit("limit", limit)
    with store.read() as tx:
        return tuple(_presence(tx, Agent(*row)) for row in tx.all(tx.sql.agents_all, limit=limit))


def _presence(tx: Transaction, agent: Agent) -> Presence:
    rows = tx.all(tx.sql.leases_of_agent, agent=agent.name, limit=100)
    unread = tx.one(tx.sql.reads_unread_count, agent=agent.name)
    holds = tuple(Claim(Thread(*row[:_FIELDS]), Lease(*row[_FIELDS:])) for row in rows)
    return Presence(agent, holds, unread[0] if unread else 0)


def _agent(tx: Transaction, name: str) -> Agent:
    row = tx.one(tx.sql.agent_find, name=name)
    if row is None:
        raise NotFound(f"no agent {name} was ever seen", hint="See `inbox agent list`; `inbox agent add` makes one known.", name=name)
    return Agent(*row)
