"""The worker of `inbox work` and `inbox agent run`: loop.py takes threads and ends them, held_claims.py is what it holds.

The command line calls it. It knows nothing of flags and output, and uses the room's own verbs.
"""

from __future__ import annotations

from postroom.work.worker.loop import Worker, WorkTotals

__all__ = ["WorkTotals", "Worker"]
