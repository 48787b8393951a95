"""Tasks that agents give each other: the inbox of a job, and the conductor that stores and routes tasks and results.

The command `inbox task` and the server call it. It may open threads of work, and must not know about people, the server or the
command line. A name is imported when it is first used: only the modules of the Python API import pydantic.

from postroom.tasks import A2AInbox, Conductor
conductor = Conductor(store)
conductor.submit("forge", "canyon", "Review architecture for module X")
"""

from __future__ import annotations

from postroom.core.lazy_names import import_on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.tasks.a2a.a2a_inbox import A2AInbox as A2AInbox
    from postroom.tasks.a2a.models import A2ATask as A2ATask
    from postroom.tasks.a2a.models import A2ATaskStatus as A2ATaskStatus
    from postroom.tasks.conductor import Conductor as Conductor
    from postroom.tasks.listing import list_tasks as list_tasks
    from postroom.tasks.listing import show_task as show_task
    from postroom.tasks.skills import choose_agent as choose_agent
    from postroom.tasks.taking import done_and_take as done_and_take
    from postroom.tasks.taking import next_available as next_available
    from postroom.tasks.taking import take as take
    from postroom.tasks.taking import take_task as take_task
    from postroom.tasks.taking import wait_take as wait_take

_MODULE_OF_NAME = {
    "A2AInbox": "a2a.a2a_inbox",
    "A2ATask": "a2a.models",
    "A2ATaskStatus": "a2a.models",
    "Conductor": "conductor",
    "choose_agent": "skills",
    "done_and_take": "taking",
    "list_tasks": "listing",
    "next_available": "taking",
    "show_task": "listing",
    "take": "taking",
    "take_task": "taking",
    "wait_take": "taking",
}
__all__ = sorted(_MODULE_OF_NAME)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _MODULE_OF_NAME)
