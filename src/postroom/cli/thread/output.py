"""Output of `thread`. A failure of a queue's database is also written into the log of the queue, as its document requires."""

from __future__ import annotations

import os

from postroom.cli.framework import plain_output
from postroom.cli.framework.plain_output import print_outcome, trouble_code
from postroom.core.errors import NotAStore, StoreBusy, StoreTrouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.spec import CommandTable
    from postroom.core.errors import Refusal

__all__ = ["print_outcome", "print_refusal", "trouble_code"]

opened_folder = ""  # of the queue that this command uses


def print_refusal(program: CommandTable, refusal: Refusal, json: bool) -> int:
    """Print a refusal, and return the exit code."""
    if opened_folder and isinstance(refusal, StoreTrouble) and not isinstance(refusal, StoreBusy):
        _log_failure(refusal)
    return plain_output.print_refusal(program, refusal, json)


def _log_failure(refusal: Refusal) -> None:
    from postroom.queues.journal import append_error
    from postroom.store.sqlite.queues.queue_databases import damage_hint

    if isinstance(refusal, NotAStore):
        refusal.hint = damage_hint(os.path.join(opened_folder, "events.db"))
    append_error(opened_folder, f"{refusal.command or 'thread'}: {refusal}")
