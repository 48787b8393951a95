"""The room of tasks that agents give each other: the document's inbox, and the conductor that routes them.

from postroom.tasks import A2AInbox, Conductor
conductor = Conductor(store)
conductor.submit("forge", "canyon", "Review architecture for module X")
"""

from __future__ import annotations

from postroom.tasks.conductor import Conductor
from postroom.tasks.inbox import A2AInbox
from postroom.tasks.models import A2ATask, A2ATaskStatus

__all__ = ["A2AInbox", "A2ATask", "A2ATaskStatus", "Conductor"]
