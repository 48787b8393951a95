"""The bounds of everything that callers may send and receive, by library, command line and network alike.

SECURITY.md shows them as one table, and a test compares it with this module. Values that are stored already and exceed a bound stay
readable. `_BYTES` counts UTF-8.
"""

from __future__ import annotations

KIB, MIB = 1024, 1024 * 1024

# Text
MAX_NAME_CHARS = 200  # names of agents, threads, sessions and the like
MAX_PATH_CHARS = 4096
MAX_LINE_BYTES = 4 * KIB  # subject, summary, run, task
MAX_REASON_CHARS = 10_000  # reasons of a nack, a failed or a cancelled task
MAX_BODY_BYTES = MIB  # bodies of messages, and every text without a bound of its own
MAX_QUESTION_BYTES = 16 * KIB
MAX_COMMENT_BYTES = 256 * KIB  # comments and replies of entries
MAX_MAIL_PAYLOAD_BYTES = 10 * MIB
MAX_EVENT_BYTES = 64 * MIB  # the content of an event in a queue
MAX_BATCH_FILE_BYTES = 256 * MIB  # a file or standard input with many events, which a command reads

# JSON
MAX_JSON_LEVELS = 100
MAX_JSON_VALUES = 100_000
MAX_PAYLOAD_JSON_BYTES = MIB
MAX_METADATA_JSON_BYTES = 64 * KIB  # metadata of an artifact, unknown fields of a mail

# Numbers of things
MAX_ITEMS = 10_000  # in one page of a list
MAX_BATCH_ITEMS = 1000  # messages of one batch, skills of an agent
MAX_BATCH_BYTES = 32 * MIB  # payloads of one batch
MAX_ARTIFACTS = 100  # of one message
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
MAX_CALL_BYTES = 256 * KIB  # one call of a verb over a WebSocket. Larger ones go over HTTP

# Shares of one caller
MAX_THREADS_PER_CALLER = 1  # of the threads for verbs with many steps, and of those that hash documents
MAX_READS_PER_CALLER = 2  # of the threads for reads
MAX_QUEUED_CALLS = 64  # of one caller that wait for such a thread
MAX_QUEUED_WRITES = 500  # of one caller that wait for the next commit
MAX_BYTES_PER_MINUTE = 256 * MIB  # that one caller may send

# Answers
MAX_ANSWER_BYTES = 4 * MIB  # a list is cut there, with `more`; a single larger item is an answer by itself
MAX_RECEIVED_BYTES = MIB  # messages that an agent takes at once; a single larger one is an answer by itself
MAX_RESULT_BYTES = 64 * MIB  # of a verb that only reads; a larger one is refused
MAX_EVENT_SUMMARY_CHARS = 500  # of a summary in the stream of events
