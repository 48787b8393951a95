"""Mailboxes: queues of messages that are acked, retried or dead-lettered. These are the verbs of the `mailbox` command.

    from postroom import mail
    mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": "analyze the auth module"})
    delivery = mail.dequeue(store, "analyst")

The command line, the server and `postroom.people` call it. It must not know about them, nor about SQL dialects.
A name is imported when it is first used, so that a command loads only the modules that it needs.
"""

from __future__ import annotations

from postroom.core.lazy_names import import_on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.mail.dead_letters import peek_dead_letter as peek_dead_letter
    from postroom.mail.dead_letters import purge_dead_letter as purge_dead_letter
    from postroom.mail.dead_letters import retry_dead_letter as retry_dead_letter
    from postroom.mail.mailbox import ack as ack
    from postroom.mail.mailbox import ack_and_dequeue as ack_and_dequeue
    from postroom.mail.mailbox import dequeue as dequeue
    from postroom.mail.mailbox import enqueue as enqueue
    from postroom.mail.mailbox import enqueue_all as enqueue_all
    from postroom.mail.mailbox import extend as extend
    from postroom.mail.mailbox import nack as nack
    from postroom.mail.mailbox import release as release
    from postroom.mail.reading import delivery_state as delivery_state
    from postroom.mail.reading import peek as peek
    from postroom.mail.reading import sessions as sessions
    from postroom.mail.reading import show as show
    from postroom.mail.settings import aliases as aliases
    from postroom.mail.settings import find_alias as find_alias
    from postroom.mail.settings import policy as policy
    from postroom.mail.settings import remove_alias as remove_alias
    from postroom.mail.settings import set_alias as set_alias
    from postroom.mail.settings import set_policy as set_policy
    from postroom.mail.sweeping import purge as purge
    from postroom.mail.sweeping import sweep as sweep
    from postroom.mail.waiting import next_available as next_available
    from postroom.mail.waiting import wait as wait

_MODULE_OF_VERB = {
    "find_alias": "settings",
    "delivery_state": "reading",
    "next_available": "waiting",
    "peek_dead_letter": "dead_letters",
    "purge_dead_letter": "dead_letters",
    "retry_dead_letter": "dead_letters",
    "ack": "mailbox",
    "ack_and_dequeue": "mailbox",
    "dequeue": "mailbox",
    "enqueue": "mailbox",
    "enqueue_all": "mailbox",
    "extend": "mailbox",
    "nack": "mailbox",
    "release": "mailbox",
    "peek": "reading",
    "sessions": "reading",
    "show": "reading",
    "aliases": "settings",
    "policy": "settings",
    "remove_alias": "settings",
    "set_alias": "settings",
    "set_policy": "settings",
    "purge": "sweeping",
    "sweep": "sweeping",
    "wait": "waiting",
}
__all__ = sorted(_MODULE_OF_VERB)  # noqa: PLE0605
__getattr__, __dir__ = import_on_first_use(globals(), _MODULE_OF_VERB)
