"""The faces of watched queues: which ones the page shows."""

from __future__ import annotations

from postroom.cli import inputs
from postroom.cli.envelope import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments


def queue_add(args: Arguments) -> Outcome:
    from postroom.people.watched import add_queue

    return Outcome({"queue": add_queue(inputs.store(args), args.words[0], label=args.label).plain()}, human="people queue added")


def queue_list(args: Arguments) -> Outcome:
    from postroom.people.watched import list_queues

    return Outcome({"queues": [queue.plain() for queue in list_queues(inputs.store(args))]}, human="people queues")


def queue_remove(args: Arguments) -> Outcome:
    from postroom.people.watched import remove_queue

    return Outcome({"queue": remove_queue(inputs.store(args), args.words[0]).plain()}, human="people queue removed")
