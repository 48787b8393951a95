"""Tasks that agents give each other: the inbox of a job, and the conductor that stores and routes tasks and results.

The command `inbox task` and the server call it. Only this package imports pydantic. It may open threads of work, and must not know
about people, the server or the command line.

from postroom.tasks import A2AInbox, Conductor
conductor = Conductor(store)
conductor.submit("forge", "canyon", "Review architecture for module X")
"""

from __future__ import annotations

from postroom.tasks.a2a_inbox import A2AInbox
from postroom.tasks.conductor import Conductor
from postroom.tasks.models import A2ATask, A2ATaskStatus

__all__ = ["A2AInbox", "A2ATask", "A2ATaskStatus", "Conductor"]
