"""The values that fields of work records may hold, and the allowed transitions of a thread. The room `work` and its callers use them."""

from __future__ import annotations

KINDS = ("task", "progress", "question", "answer", "result", "control", "event")
REPLY_KINDS = ("answer", "question", "progress", "control")
WAITED_KINDS = ("answer", "control", "result")
PRIORITIES = ("high", "normal", "low")
TASK_PRIORITIES = ("urgent", *PRIORITIES)
TASK, RESULT = "task", "result"  # the kinds of rows of the room `tasks`
MAX_TASK_ATTEMPTS = 3  # leases of a task that may run out. The last one fails the task
AGENT_KINDS = ("agent", "human")
CHANNEL_PREFIX = "channel:"  # of the mailboxes of channels, which take alerts only

PENDING, CLAIMED, IN_PROGRESS, BLOCKED = "pending", "claimed", "in_progress", "blocked"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"

STATUSES = (PENDING, CLAIMED, IN_PROGRESS, BLOCKED, DONE, FAILED, CANCELLED)
TERMINAL_STATUSES = frozenset((DONE, FAILED, CANCELLED))
HELD_STATUSES = (CLAIMED, IN_PROGRESS, BLOCKED)
RETRIED_STATUSES = (FAILED, CANCELLED)  # from which a thread can be reopened; a result that was delivered stays

# A name for held threads whose lease has expired. No thread has it as its status, because time passes without a write.
LAPSED = "lapsed"
WATCHED_STATUSES = (*STATUSES, LAPSED)
THREAD_STATUS_OF_TASK = {"accepted": CLAIMED, "completed": DONE}  # for `watch`, which filters both by one list of statuses

# The statuses that may follow each status. Taking a lapsed lease leads to `claimed` again, releasing a lease to `pending`. A retry reopens
# a thread that failed or was cancelled.
_FROM_HELD = frozenset((CLAIMED, IN_PROGRESS, BLOCKED, DONE, FAILED, CANCELLED, PENDING))
ALLOWED_TRANSITIONS: dict[str, frozenset[str]] = {
    PENDING: frozenset((CLAIMED, CANCELLED)),
    CLAIMED: _FROM_HELD,
    IN_PROGRESS: _FROM_HELD,
    BLOCKED: _FROM_HELD,
    DONE: frozenset(),
    FAILED: frozenset((PENDING,)),
    CANCELLED: frozenset((PENDING,)),
}

# Doors: the ways by which a message comes in. The store records the door with each message.
RELAY_DOOR = "relay"  # a person wrote the message in the name of an agent
UNVERIFIED_DOORS = ("cli", "library", "file", "unix", RELAY_DOOR)  # no server checked the sender
