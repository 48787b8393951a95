"""The parts of docs/benchmarks.md: what each compares, which of its subjects are other programs, and why one of them is ahead."""

from __future__ import annotations

from typing import NamedTuple

REDIS = "Redis streams, appendfsync always"
NATS = "NATS JetStream"
NATS_WITHOUT_SYNC = "NATS JetStream, whose version syncs every 2 min"


class Group(NamedTuple):
    """One part of the page. Subjects that have no reason are floors: the least that does the same work."""

    key: str
    title: str
    text: str
    reasons: dict[str, str] = {}  # by program: why it is ahead where it is
    size_label: str = "waiting"
    clients_label: str = "clients"
    by_size: bool = False  # whether an operation is compared with itself at the smallest size, instead of with others


_NATS_REASON = (
    "a compiled server that appends to a file. The version that Debian has cannot sync each message, so it answers before the message"
    " is on disk: this is not the same durability."
)
GROUPS = (
    Group(
        "mail on SQLite",
        "Mail on SQLite, beside other queues that are one file",
        "Every call is one transaction with `synchronous=FULL`. 30 calls of one program in a row, then of the next. A round of"
        " puts is followed by a round of takes, so the number of waiting messages stays. `enqueue + dequeue + ack` is done by 1, 4 and"
        " 16 processes that share one queue.",
        {
            "litequeue": "it writes one row with two indexes. Postroom writes a message, its unique id, its place in two orders, counts"
            " and an event that wakes the receiver: about 9 pages of the log instead of 2 to 3. litequeue knows no lease that ends, no"
            " token and no order for each sender. Its take sorts everything that waits, so it falls behind as the queue grows.",
            "persist-queue": "it writes one row, 2 to 3 pages instead of about 9, and takes 14 µs of processor time for a put where"
            " Postroom takes 70. A message that is not acked is only offered again after `resume_unack_tasks`. Its processes do not"
            " exclude each other: in an earlier study, four of them received 45 messages twice.",
            "huey": "it has no ack. A job is deleted when it is taken, in one transaction instead of two, and it is lost if its worker"
            " ends. Processes do not take turns: whichever runs goes on, and others starve. Postroom gives the turn to the process that"
            " waits longest. With many processes on few cores that costs throughput (a study measured 0.74 x for such a queue), and every"
            " process gets its share.",
        },
    ),
    Group(
        "rooms on SQLite",
        "Threads, events and tasks on SQLite, beside the same statements by hand",
        "The floor writes the same rows with the same guards by plain `sqlite3`, and checks nothing in Python.",
    ),
    Group(
        "mail over the network",
        "Mail over the network, beside brokers",
        "Every message is on disk before its answer. The clients are small raw clients in one other process. `credit` is how many"
        " messages the WebSocket sends before an ack. The library in its own process shows what the network and the server add.",
        {
            REDIS: "a compiled server that appends to a log, once for all clients that it has read in a turn of its loop. Postroom handles"
            " an HTTP request in Python, which takes as long as the write, and writes a message, its counts and its event into tables.",
            NATS: "a compiled server that appends to a file.",
            NATS_WITHOUT_SYNC: _NATS_REASON,
        },
    ),
    Group(
        "PostgreSQL",
        "PostgreSQL, 1 to 16 clients",
        "A throwaway server on the same machine, `synchronous_commit` on. Each client is a process. The bare queue is one table that is"
        " read with `FOR UPDATE SKIP LOCKED`.",
        {
            "Procrastinate": "it finishes a bare job with two statements. Postroom takes and ends a thread in two transactions with"
            " eight statements, which write messages, events and the rows that waiters and readers look at.",
            "pgmq": "two statements for a message, which are functions inside the server. Postroom also writes an event and counts,"
            " and keeps the order of each sender.",
        },
    ),
    Group(
        "server",
        "The server, beside the same work without ours",
        "A page of 20 entries beside a Starlette endpoint that returns the same bytes, and durable pushes with group commit beside one"
        " commit for each request.",
    ),
    Group(
        "commands",
        "The cost of a command",
        "Whole processes, in turns with a bare interpreter of the same environment, which is the floor. The first row is what three"
        " imports cost.",
    ),
    Group(
        "waking",
        "Wake latency",
        "From a commit (or from the start of a push) until a waiter in another process has it. The floor is one byte through a pipe, or"
        " a bare `LISTEN`.",
    ),
    Group(
        "waiters",
        "Waiters: idle CPU, memory, and fan-out of one event",
        "Waiters of the library are processes; their memory counts shared pages once. Waiters of the server are connections to its"
        " event stream, beside connections to Redis that wait in `XREAD`; memory is what they add to the server. `the last one has an"
        " event` counts from the start of a durable write. NATS is left out here: it delivers before it has stored."
        " Linux allows 128 inotify instances for each user. Waiting processes beyond that poll, which is the idle CPU of 1,000"
        " processes: raise `fs.inotify.max_user_instances`, or wait at a server.",
        {
            REDIS: "a compiled server that sends the same bytes to each connection. Postroom's server is Python, and encodes and writes"
            " a frame of an HTTP stream for each listener through the event loop.",
        },
        clients_label="waiters",
    ),
    Group(
        "retention",
        "Pruning and a backup, beside four writers",
        "A write without them, in turns with a write beside them: writers that write as fast as they can, and writers of 50 messages a"
        " second each. Pruning removes threads of four events and three messages.",
        clients_label="writers",
    ),
    Group(
        "size",
        "The same operation on larger stores",
        "Time of one call, and in brackets the ratio to the smallest store with its spread: 1 means that the cost does not grow.",
        size_label="stored",
        by_size=True,
    ),
)
