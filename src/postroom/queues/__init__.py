"""Event queues: append-only event logs in folders, the consumers that read them, and the notifier that starts their handlers.

The commands `thread` and `notifier` and `postroom.people` call these functions. This package uses SQLite only, and must not know
about threads of work, mailboxes, people or the server.

    from postroom import queues
    queues.init_queue("./events")
    with queues.open_queue("./events") as queue:
        queues.push(queue, source="self", type="record", subtype="decision", content="use the cache")
        queues.schedule(queue, author="self")

Names are imported on first use, so that a command loads only the modules that it needs.
"""

from __future__ import annotations

from postroom.core.lazy_names import import_on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.dispatching import dispatch as dispatch
    from postroom.queues.notifier import add_task as add_task
    from postroom.queues.notifier import add_timer as add_timer
    from postroom.queues.notifier import list_runs as list_runs
    from postroom.queues.notifier import list_tasks as list_tasks
    from postroom.queues.notifier import list_timers as list_timers
    from postroom.queues.notifier import open_notifier as open_notifier
    from postroom.queues.notifier import remove_task as remove_task
    from postroom.queues.notifier import remove_timer as remove_timer
    from postroom.queues.notifier import schedule as schedule
    from postroom.queues.queue import Queue as Queue
    from postroom.queues.queue import ack as ack
    from postroom.queues.queue import head as head
    from postroom.queues.queue import info as info
    from postroom.queues.queue import init_queue as init_queue
    from postroom.queues.queue import open_queue as open_queue
    from postroom.queues.queue import peek as peek
    from postroom.queues.queue import pop as pop
    from postroom.queues.queue import push as push
    from postroom.queues.queue import push_batch as push_batch
    from postroom.queues.queue import wait_for_events as wait_for_events
    from postroom.queues.rates import rate as rate
    from postroom.queues.subscriptions import subscribe as subscribe
    from postroom.queues.subscriptions import unsubscribe as unsubscribe

_MODULE_OF = {
    **dict.fromkeys(("dispatch",), "dispatching"),
    **dict.fromkeys(
        (
            "add_task",
            "add_timer",
            "list_runs",
            "list_tasks",
            "list_timers",
            "open_notifier",
            "remove_task",
            "remove_timer",
            "schedule",
        ),
        "notifier",
    ),
    **dict.fromkeys(
        ("Queue", "ack", "head", "info", "init_queue", "open_queue", "peek", "pop", "push", "push_batch", "wait_for_events"), "queue"
    ),
    **dict.fromkeys(("rate",), "rates"),
    **dict.fromkeys(("subscribe", "unsubscribe"), "subscriptions"),
}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _MODULE_OF)
