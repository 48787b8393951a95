"""The bounds of everything that callers may send and receive, by library, command line and network alike.

SECURITY.md shows them as one table, and a test compares it with this module. Values that are stored already and exceed a bound stay
readable. `_BYTES` counts UTF-8.

The operator sets them with the variable INBOX_LIMITS, such as `MAX_BODY_BYTES=256KiB MAX_ITEMS=2000`. It is read when this module is
imported, so all modules have the same values. If it is not valid, the import is refused, and with it everything that would check a limit.
"""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput

KIB, MIB = 1024, 1024 * 1024
VARIABLE = "INBOX_LIMITS"

# Text
MAX_NAME_CHARS = 200  # names of agents, threads, sessions and the like
MAX_MESSAGE_ID_CHARS = 400  # of a mail
MAX_KEY_CHARS = 200  # the idempotency key of a call
MAX_TITLE_CHARS = 200  # of an entry
MAX_ADDRESS_CHARS = 500  # the source of an event in a queue
MAX_PATH_CHARS = 4096
MAX_DOCUMENT_PATH_CHARS = 1024  # of a document in a workspace
MAX_FILTER_CHARS = 4000  # of a consumer
MAX_TARGET_CHARS = 2000  # of a channel
MAX_SECRET_CHARS = 1000  # of a channel
MAX_LINE_BYTES = 4 * KIB  # subject, summary
MAX_INDEXED_BYTES = KIB  # texts in an index that are no names: run, task, the id of a mail, paths of documents, workspaces and queues
MAX_REASON_CHARS = 10_000  # reasons of a nack, a failed or a cancelled task
MAX_BODY_BYTES = MIB  # bodies of messages, and every text without a bound of its own
MAX_QUESTION_BYTES = 16 * KIB
MAX_COMMENT_BYTES = 256 * KIB  # comments and replies of entries
MAX_DESCRIPTION_CHARS = 100_000  # of a task
MAX_MAIL_PAYLOAD_BYTES = 10 * MIB
MAX_EVENT_BYTES = 64 * MIB  # the content of an event in a queue
MAX_HOOK_EVENT_BYTES = 64 * MIB  # an event that a program of agents writes to its hook
MAX_BATCH_FILE_BYTES = 256 * MIB  # a file or standard input with many events, which a command reads

# JSON
MAX_JSON_LEVELS = 100
MAX_JSON_VALUES = 100_000
MAX_PAYLOAD_JSON_BYTES = MIB
MAX_METADATA_JSON_BYTES = 64 * KIB  # metadata of an artifact, unknown fields of a mail
MAX_TASK_CONTEXT_BYTES = MIB
MAX_TASK_ARTIFACTS_BYTES = 10 * MIB
MAX_TASK_BYTES = 64 * MIB  # a task with everything in it
MAX_JOB_STATE_BYTES = 10 * MIB

# Numbers of things
MAX_ITEMS = 10_000  # in one page of a list
MAX_PAGE_ENTRIES = 500  # in one page of entries
MAX_BATCH_ITEMS = 1000  # messages of one batch, skills of an agent
MAX_BATCH_BYTES = 32 * MIB  # payloads of one batch
MAX_ARTIFACTS = 100  # of one message
MAX_CHOICES = 20  # of one question
MAX_DOCUMENTS = 50  # of one push
MAX_DOCUMENT_BYTES = 64 * MIB  # a larger document is not hashed
MAX_PUSH_BYTES = 128 * MIB  # documents of one push that are hashed; the others count as changed only if their size differs

# Requests
MAX_HEAD_BYTES = 64 * KIB  # of the head of a request
MAX_HEADERS = 100
MAX_REQUEST_BYTES = MIB
MAX_MESSAGE_REQUEST_BYTES = 32 * MIB  # a mail, or the arguments of a verb
MAX_BUFFERED_BYTES = 256 * MIB  # bodies of all requests that run
MAX_BUFFERED_BYTES_PER_CALLER = 64 * MIB
MAX_FRAME_BYTES = 32 * MIB  # one WebSocket message of a client: a mail of 10 MiB fits in, with its escapes
MAX_PARTIAL_FRAMES_BYTES = 256 * MIB  # messages of all WebSockets that are not complete
MAX_CALL_BYTES = 256 * KIB  # one call of a verb over a WebSocket. Larger ones go over HTTP
MAX_CONCURRENT_REQUESTS = 5000

# Shares of one caller
MAX_THREADS_PER_CALLER = 1  # of the threads for verbs with many steps, and of those that hash documents
MAX_READS_PER_CALLER = 2  # of the threads for reads
MAX_QUEUED_CALLS = 64  # of one caller that wait for such a thread
MAX_QUEUED_WRITES = 500  # of one caller that wait for the next commit
MAX_BYTES_PER_MINUTE = 256 * MIB  # that one caller may send
MAX_ALERTS_PER_HOUR = 60  # for the entries of one agent, by one channel. More wait
MAX_STREAMS_PER_AGENT = 100
MAX_SOCKETS_PER_AGENT = 100
MAX_WAITS_PER_AGENT = 50
MAX_CALLS_PER_SOCKET = 16

# Answers
MAX_ANSWER_BYTES = 4 * MIB  # a list is cut there, with `more`; a single larger item is an answer by itself
MAX_PAGE_MESSAGES = 100  # of a thread, in one answer
MAX_PAGE_CHARS = MIB  # of the messages of a thread, in one answer
MAX_CLAIM_MESSAGES = 10  # the newest ones that a claim carries, beside the first one
MAX_PROMPT_CHARS = 32 * KIB  # of the messages in the answer of a tool, which goes into a prompt
MAX_RECEIVED_BYTES = MIB  # messages that an agent takes at once; a single larger one is an answer by itself
MAX_RENDERED_BYTES = MIB  # of a document, as the page shows it
MAX_RESULT_BYTES = 64 * MIB  # of a verb that only reads; a larger one is refused
MAX_EVENT_SUMMARY_CHARS = 500  # of a summary in the stream of events
MAX_UNREAD_EVENTS = 1000  # a stream with more is ended, and its client resumes after its last event

# Child interpreters
MAX_CHILD_MEMORY_BYTES = 2048 * MIB  # of address space
MAX_CHILD_CPU_SECONDS = 600

# Values that a limit may have. A key of an index has at most 2,704 bytes on PostgreSQL, and some consist of two names and another text. So
# these cannot be longer. The lower ends are what Postroom itself needs: its ids, its lists, the heads of browsers.
_RANGES = {
    "MAX_NAME_CHARS": (64, MAX_NAME_CHARS),
    "MAX_MESSAGE_ID_CHARS": (64, MAX_MESSAGE_ID_CHARS),
    "MAX_LINE_BYTES": (256, MAX_LINE_BYTES),
    "MAX_INDEXED_BYTES": (256, MAX_INDEXED_BYTES),
    "MAX_JSON_LEVELS": (8, 200),  # readers of JSON are recursive
    "MAX_ITEMS": (1000, 1_000_000),
    "MAX_HEAD_BYTES": (8 * KIB, MIB),
    "MAX_HEADERS": (32, 1000),
    "MAX_CHILD_MEMORY_BYTES": (512 * MIB, 2**60),
    "MAX_CALLS_PER_SOCKET": (2, 1000),
    "MAX_BYTES_PER_MINUTE": (MIB, 2**50),
}
_BYTES_RANGE, _OTHER_RANGE = (KIB, 1_000_000_000), (1, 1_000_000_000)  # SQLite and PostgreSQL keep no larger value
_UNITS = {"": 1, "KiB": KIB, "MiB": MIB}


def parse_limits(text: str) -> dict[str, int]:
    """Return the limits that a text sets. Refuses with `InvalidInput` a name, a number or a unit that there is not."""
    given: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in _NAMES:
            raise _wrong_limits(f"there is no limit {name[:60]!r}")
        digits = value.rstrip("KMiB")
        unit = _UNITS.get(value[len(digits) :])
        if name in given:
            raise _wrong_limits(f"{name} is given twice")
        if unit is None or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise _wrong_limits(f"{name} must be a whole number, with KiB or MiB behind it or without, not {value[:40]!r}")
        lowest, highest = range_of(name)
        if not lowest <= int(digits) * unit <= highest:
            raise _wrong_limits(f"{name} must be from {lowest} to {highest}, not {int(digits) * unit}")
        given[name] = int(digits) * unit
    return given


def range_of(name: str) -> tuple[int, int]:
    """Return the lowest and the highest value that a limit may be set to."""
    return _RANGES.get(name, _BYTES_RANGE if "_BYTES" in name else _OTHER_RANGE)


def _wrong_limits(why: str) -> InvalidInput:
    return InvalidInput(f"{VARIABLE}: {why}", field=VARIABLE, hint="Write NAME=NUMBER, such as MAX_BODY_BYTES=256KiB. See SECURITY.md.")


_NAMES = frozenset(name for name in globals() if name.startswith("MAX_"))
if VARIABLE in os.environ:
    globals().update(parse_limits(os.environ[VARIABLE]))
