"""The paths of wake files. Writers write to them after a COMMIT, and waiters watch them. It imports nothing that opens a database."""

from __future__ import annotations

from postroom.store.event_log import INBOX_TOPIC_PREFIX, inbox_topic

WAKE_FILE_COUNT = 1009  # prime, so that ids with the same ending do not share a file
INBOX_WAKE_FILE_COUNT = 2**61 - 1  # prime and so large that no two agents share a file


def wake_file_path(location: str, topic: str) -> str:
    """Return the path of the wake file of a topic. Some topics share a file: a waiter that wakes for another topic waits again.

    The file of an agent's inbox is its own. Programs watch it without a waiting process, and must not wake for others.
    """
    number = int.from_bytes(topic.encode(), "big")
    if topic.startswith(INBOX_TOPIC_PREFIX):
        return f"{location}.bells/inbox-{number % INBOX_WAKE_FILE_COUNT:x}/bell"
    return f"{location}.bells/{number % WAKE_FILE_COUNT}/bell"


def all_wake_file_path(location: str) -> str:
    """Return the path of the file for the waiters of all events."""
    return f"{location}.bells/all/bell"


def inbox_wake_file_path(location: str, agent: str) -> str:
    """Return the path of the file that is written for everything that is addressed to an agent, and for nothing else."""
    return wake_file_path(location, inbox_topic(agent))
