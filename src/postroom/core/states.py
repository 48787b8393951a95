"""The words that the records may hold, and the one machine that threads follow."""

from __future__ import annotations

KINDS = ("task", "progress", "question", "answer", "result", "control", "event")
REPLY_KINDS = ("answer", "question", "progress", "control")
WAITED_KINDS = ("answer", "control", "result")
PRIORITIES = ("high", "normal", "low")
AGENT_KINDS = ("agent", "human")

PENDING, CLAIMED, IN_PROGRESS, BLOCKED = "pending", "claimed", "in_progress", "blocked"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"

STATUSES = (PENDING, CLAIMED, IN_PROGRESS, BLOCKED, DONE, FAILED, CANCELLED)
TERMINAL = frozenset((DONE, FAILED, CANCELLED))
HELD = (CLAIMED, IN_PROGRESS, BLOCKED)

# From each status, where a thread may go. `claimed` is reached again when a lapsed lease is taken, `pending` by a release.
_FROM_HELD = frozenset((CLAIMED, IN_PROGRESS, BLOCKED, DONE, FAILED, CANCELLED, PENDING))
MOVES: dict[str, frozenset[str]] = {
    PENDING: frozenset((CLAIMED, CANCELLED)),
    CLAIMED: _FROM_HELD,
    IN_PROGRESS: _FROM_HELD,
    BLOCKED: _FROM_HELD,
    DONE: frozenset(),
    FAILED: frozenset(),
    CANCELLED: frozenset(),
}
