"""Pruning of the queues that a store knows: those that its page shows."""

from __future__ import annotations

from postroom.core.errors import Refusal
from postroom.maintenance.paced_batches import PacedBatches
from postroom.people.watched_queues import list_queues
from postroom.queues import pruning
from postroom.queues.queue import open_queue
from postroom.store.maintenance import space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store


def prune_watched_queues(store: Store, before: int, *, dry_run: bool) -> tuple[int, list[str]]:
    """Remove old events of every queue that the store knows. Return how many, and a sentence for each queue that could not be pruned."""
    total, problems = 0, []
    for watched in list_queues(store):
        try:
            total += _prune_queue(watched.path, before, dry_run=dry_run)
        except Refusal as refusal:
            problems.append(f"The queue {watched.path} was not pruned: {refusal}.")
    return total, problems


def _prune_queue(path: str, before: int, *, dry_run: bool) -> int:
    with open_queue(path) as queue:
        oldest, upto = pruning.find_removable(queue, before)
        if dry_run:
            return max(upto - oldest + 1, 0)
        batches = PacedBatches(queue.file)
        removed = pruning.remove_events(queue, oldest, upto, batches.run_parts)
        batches.sync()
        space.return_free_pages(queue.file, batches.run_all)
        return removed
