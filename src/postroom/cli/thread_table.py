"""The one table of the command `thread`: event queues. The word is its document's; elsewhere we say queue."""

from __future__ import annotations

from postroom.cli.grammar import HELP, INTEGER, JSON, NUMBER, VERBOSE, Command, Flag, Program

GLOBAL = (JSON, HELP, VERBOSE)

_THREAD = Flag("--thread", "PATH", "the folder of the queue; in a handler, by default its own")
_CONSUMER = Flag("--consumer", "ID", "who consumes; in a handler, by default its own")
_FILTER = Flag("--filter", "SQL", "a condition on id, created_at, source, type, subtype, content; default: all events")
_LIMIT = Flag("--limit", "N", "at most this many; default 100", INTEGER)

_COMMANDS = (
    Command(
        "init",
        "Make a queue in a folder.",
        "queueing:init",
        (),
        words=("PATH",),
        details="The folder's path, resolved, is the queue's id. Delete the folder, and the queue is gone.",
        example="thread init ./events",
    ),
    Command(
        "push",
        "Store an event, or many, and have the consumers that want it started.",
        "queueing:push",
        (
            _THREAD,
            Flag("--source", "ADDRESS", "self, internal:TYPE:SESSION:AGENT or external:CHANNEL:ID:TYPE:SESSION:PEER"),
            Flag("--type", "message|record", "what kind of event"),
            Flag("--subtype", "NAME", "of a record: toolcall, decision, …"),
            Flag("--content", "TEXT", "what happened"),
            Flag("--content-file", "PATH", "the same from a file; - for standard input"),
            Flag("--batch", "", "read events from standard input, one JSON object a line, stored all or none"),
        ),
        details=(
            "Prints the id. In a batch, --source, --type and --subtype are for lines that lack them. Nothing has to run for the"
            " consumers to be started; THREAD_NOTIFIER names another notifier to use instead of the built-in one."
        ),
        example='thread push --thread ./events --source internal:dm:default:warden --type message --content "disk is full"',
    ),
    Command(
        "pop",
        "Print the next events that a consumer wants, and note up to where it is done.",
        "queueing:pop",
        (
            _THREAD,
            _CONSUMER,
            Flag("--last-event-id", "N", "the newest event that is done with; default: print what comes after the last one noted", INTEGER),
            _LIMIT,
        ),
        details="One JSON object a line. Progress never goes back: a lower id only reads again.",
        example="thread pop --thread ./events --consumer worker-1 --last-event-id 0",
    ),
    Command(
        "ack",
        "Note up to where a consumer is done.",
        "queueing:ack",
        (
            _THREAD,
            _CONSUMER,
            Flag("--last-event-id", "N", "the newest event that is done with", INTEGER),
            Flag("--events", "PATH", "instead: what `pop` printed, all of which is done with; - for standard input"),
        ),
        details="Prints where its progress now is.",
        example="thread ack --thread ./events --consumer worker-1 --last-event-id 42",
    ),
    Command(
        "peek",
        "Print events, and change nothing.",
        "queueing:peek",
        (_THREAD, Flag("--last-event-id", "N", "print those that come after it; 0 for all", INTEGER), _LIMIT, _FILTER),
        example="thread peek --thread ./events --last-event-id 0 --filter \"type = 'message'\"",
    ),
    Command(
        "follow",
        "Print events as they come.",
        "queueing:follow",
        (
            _THREAD,
            Flag("--last-event-id", "N", "begin after it; default: with the next one that is stored", INTEGER),
            _FILTER,
            Flag("--limit", "N", "end after this many", INTEGER),
            Flag("--timeout-seconds", "N", "end after this long; 0 (the default): never", NUMBER),
        ),
        example="thread follow --thread ./events --filter \"source LIKE '%:alice'\"",
    ),
    Command(
        "subscribe",
        "Have a command started whenever there are events for it.",
        "queueing:subscribe",
        (
            _THREAD,
            _CONSUMER,
            Flag("--handler", "CMD", "a shell line; it finds the queue in $THREAD_DIR and its name in $THREAD_CONSUMER"),
            _FILTER,
            Flag("--last-event-id", "N", "begin after this event; default: where that name was, or at the first", INTEGER),
        ),
        details=(
            "The handler runs in the queue's folder, one at a time, its output in logs/. It should pop, work and ack, and need not name"
            " its queue and itself. When it ends and there is more, it is started again: at once if it acked something, else after a while."
        ),
        example='thread subscribe --thread ./events --consumer worker-1 --handler "./work.sh" --filter "type = \'message\'"',
    ),
    Command(
        "unsubscribe",
        "Start no more handlers for a consumer. How far it came is kept.",
        "queueing:unsubscribe",
        (_THREAD, _CONSUMER),
        example="thread unsubscribe --thread ./events --consumer worker-1",
    ),
    Command(
        "dispatch",
        "Start the handlers of consumers that have unread events. Pushing does this by itself.",
        "queueing:dispatch_",
        (_THREAD,),
        example="thread dispatch --thread ./events",
    ),
    Command(
        "info",
        "Show how many events there are, who consumes them, and how far each has come.",
        "queueing:info",
        (_THREAD,),
        example="thread info --thread ./events --json",
    ),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "queueing:completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(thread completion bash)"',
    ),
    Command("version", "Print the version.", "queueing:version", (), example="thread --version"),
    Command("help", "Show this help, or a command's.", "queueing:help_", (), words=("[COMMAND]",), example="thread help push"),
)

THREAD = Program(
    "thread",
    "event queues: record what happens, and start whom it concerns",
    GLOBAL,
    _COMMANDS,
    manner="plain",
    exits="Exit codes: 0 success, 1 it cannot be done as things are, 2 the command line is wrong.",
)
