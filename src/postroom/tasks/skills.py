"""Choose an agent by a skill. The command line and the server call it."""

from __future__ import annotations

from postroom.core import checks
from postroom.core.errors import NotFound
from postroom.core.states import TASK
from postroom.core.text import short_repr
from postroom.core.verbs import ANY_AGENT, DIRECTORY, READ, verb
from postroom.tasks.lookups import check_skill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

MAX_COMPARED_AGENTS = 50
MAX_COMPARED_TASKS = 20  # an agent with more waiting tasks is as busy as one with so many


@verb(caller=ANY_AGENT, access=DIRECTORY, mode=READ)
def choose_agent(store: Store, skill: str, *, without: str | None = None) -> str:
    """Return the name of the agent with this skill that has the fewest waiting tasks, but never `without`.

    Refuses with `NotFound` if there is none.
    """
    wanted = check_skill(skill).casefold()
    if without is not None:
        checks.name("without", without)
    with store.read() as tx:
        skilled = tx.fetch_all(tx.sql.agents_of_skill, skill=wanted, after="", limit=MAX_COMPARED_AGENTS)
        names = [agent.name for agent in skilled if agent.name != without]
        if not names:
            hint = "See `inbox agent list`, or register one: inbox agent register NAME --skill SKILL"
            raise NotFound(f"no other agent has the skill {short_repr(skill)}", hint=hint, skill=skill)
        return min(names, key=lambda name: (_count_waiting(tx, name), name))


def _count_waiting(tx: Transaction, agent: str) -> int:
    return len(tx.fetch_all(tx.sql.tasks_waiting, agent=agent, kind=TASK, limit=MAX_COMPARED_TASKS))
