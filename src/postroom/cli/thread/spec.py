"""The command table of `thread`. Its document calls an event queue a thread. All other code calls it a queue."""

from __future__ import annotations

from postroom.cli.framework.spec import ENV, HELP, INTEGER, JSON, NUMBER, SHARED, VERBOSE, Command, CommandTable, Flag, name_subjects

GLOBAL = (JSON, HELP, VERBOSE)

_THREAD = Flag("--thread", "PATH", "the folder of the queue; in a handler, by default its own")
_CONSUMER = Flag("--consumer", "ID", "the name of the consumer; in a handler, by default its own")
_FILTER = Flag("--filter", "SQL", "a condition on id, created_at, source, type, subtype, content; default: all events")
_LIMIT = Flag("--limit", "N", "at most this many; default 100", INTEGER)

_DEAD_EVENT = Flag("--event-id", "N", "the event; default: all that were set aside for the consumer", INTEGER)

_COMMANDS = (
    Command(
        "init",
        "Make a queue in a folder.",
        "thread.commands:handle_init",
        (SHARED,),
        words=("PATH",),
        details="The resolved path of the folder is the id of the queue. Deleting the folder deletes the queue.",
        example="thread init ./events",
    ),
    Command(
        "push",
        "Store one event or many, and start the consumers that want them.",
        "thread.commands:handle_push",
        (
            _THREAD,
            Flag("--source", "ADDRESS", "self, internal:TYPE:SESSION:AGENT or external:CHANNEL:ID:TYPE:SESSION:PEER"),
            Flag("--type", "message|record", "the type of the event"),
            Flag("--subtype", "NAME", "the subtype of a record: toolcall, decision, …"),
            Flag("--content", "TEXT", "what happened"),
            Flag("--content-file", "PATH", "the same from a file; - for standard input"),
            Flag("--batch", "", "read events from standard input, one JSON object a line; all are stored or none"),
        ),
        details=(
            "Prints the id. In a batch, --source, --type and --subtype apply to lines that lack them. No process has to run"
            " beforehand to start the consumers. THREAD_NOTIFIER names a notifier to use instead of the built-in one."
        ),
        example='thread push ./events --source internal:dm:default:warden --type message --content "disk is full"',
    ),
    Command(
        "pop",
        "Print the next events for a consumer, and record which events it is done with.",
        "thread.commands:handle_pop",
        (
            _THREAD,
            _CONSUMER,
            Flag("--last-event-id", "N", "the newest event that is done; default: print the events after the last one recorded", INTEGER),
            _LIMIT,
        ),
        details="Prints one JSON object a line. Progress never goes back: a lower id only reads again.",
        example="thread pop ./events --consumer worker-1 --last-event-id 0",
    ),
    Command(
        "ack",
        "Record which events a consumer is done with.",
        "thread.commands:handle_ack",
        (
            _THREAD,
            _CONSUMER,
            Flag("--last-event-id", "N", "the newest event that is done", INTEGER),
            Flag("--events", "PATH", "instead of the id: a file with the output of `pop`, all of which is done; - for standard input"),
        ),
        details="Prints the id of the newest event that is done.",
        example="thread ack ./events --consumer worker-1 --last-event-id 42",
    ),
    Command(
        "peek",
        "Print events without changing anything.",
        "thread.commands:handle_peek",
        (_THREAD, Flag("--last-event-id", "N", "print the events after this one; 0 for all", INTEGER), _LIMIT, _FILTER),
        example="thread peek ./events --last-event-id 0 --filter \"type = 'message'\"",
    ),
    Command(
        "follow",
        "Print events as they come.",
        "thread.commands:handle_follow",
        (
            _THREAD,
            Flag("--last-event-id", "N", "begin after this event; default: with the next event that is stored", INTEGER),
            _FILTER,
            Flag("--limit", "N", "exit after N events", INTEGER),
            Flag("--timeout-seconds", "N", "exit after N seconds; 0 (the default): never", NUMBER),
        ),
        example="thread follow ./events --filter \"source LIKE '%:alice'\"",
    ),
    Command(
        "subscribe",
        "Start a shell command whenever there are events for it.",
        "thread.commands:handle_subscribe",
        (
            _THREAD,
            _CONSUMER,
            Flag("--handler", "CMD", "the shell command; it finds the queue in $THREAD_DIR and its name in $THREAD_CONSUMER"),
            _FILTER,
            ENV,
            Flag(
                "--last-event-id",
                "N",
                "begin after this event; default: where this consumer stopped before, or at the first event",
                INTEGER,
            ),
            Flag("--timeout-seconds", "N", "stop the handler, with all that it started, after N seconds; default: never", NUMBER),
            Flag("--max-tries", "N", "set an event aside that N runs did not ack; default 20, about an hour; 0: never", INTEGER),
            Flag("--replace", "", "replace the subscription of this consumer, and stop its handler; its progress is kept"),
        ),
        details=(
            "The handler runs in a folder of its own, handlers/ID in the queue, one at a time, with its output in logs/ID.out. It should"
            " pop, work and ack, and needs no --thread and --consumer for that. Its environment has HOME, PATH, LANG, LC_*, TZ, TMPDIR,"
            " USER, LOGNAME, SHELL, NOTIFIER_*, THREAD_* and the variables of --env. When it ends and there is more, it is started again:"
            " at once if it acked something, otherwise after a delay. Events that are set aside: thread dead list."
        ),
        example='thread subscribe ./events --consumer worker-1 --handler "./work.sh" --filter "type = \'message\'"',
    ),
    Command(
        "unsubscribe",
        "Stop the handler of a consumer, and start it no more. Its progress is kept.",
        "thread.commands:handle_unsubscribe",
        (_THREAD, _CONSUMER),
        example="thread unsubscribe ./events --consumer worker-1",
    ),
    Command(
        "dead list",
        "Show the events that were set aside, because a handler did not ack them in many tries.",
        "thread.dead_commands:handle_list",
        (_THREAD, Flag("--consumer", "ID", "only those of this consumer")),
        details="The events stay in the queue: `thread peek` prints them.",
        example="thread dead list ./events",
    ),
    Command(
        "dead retry",
        "Give events that were set aside to their handler once more, each alone.",
        "thread.dead_commands:handle_retry",
        (_THREAD, _CONSUMER, _DEAD_EVENT),
        example="thread dead retry ./events --consumer worker-1 --event-id 7",
    ),
    Command(
        "dead drop",
        "Forget that events were set aside. They stay in the queue.",
        "thread.dead_commands:handle_drop",
        (_THREAD, _CONSUMER, _DEAD_EVENT),
        example="thread dead drop ./events --consumer worker-1",
    ),
    Command(
        "dispatch",
        "Start the handlers of consumers that have unread events. `thread push` does this automatically.",
        "thread.commands:handle_dispatch",
        (_THREAD,),
        example="thread dispatch ./events",
    ),
    Command(
        "info",
        "Show the number of events, the consumers, and the progress of each.",
        "thread.commands:handle_info",
        (_THREAD,),
        example="thread info ./events --json",
    ),
    Command(
        "list",
        "List the queues that you have used, and what waits in them.",
        "thread.commands:handle_list",
        (),
        details="A queue is in this list since your first push or subscription, until its folder is deleted.",
        example="thread list",
    ),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "thread.commands:handle_completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(thread completion bash)"',
    ),
    Command("version", "Print the version.", "thread.commands:handle_version", (), example="thread --version"),
    Command(
        "help",
        "Show this help, or the help of a command.",
        "thread.commands:handle_help",
        (),
        words=("[COMMAND]",),
        example="thread help push",
    ),
)

name_subjects(_COMMANDS, "--thread")

THREAD = CommandTable(
    "thread",
    "event queues: record what happens, and start the consumers that it concerns",
    GLOBAL,
    _COMMANDS,
    output_module="thread.output",
    aliases={
        "new": "init",
        "create": "init",
        "read": "peek",
        "ls": "list",
        "send": "push",
        "add": "push",
        "show": "info",
        "status": "info",
    },
    first_commands=("init", "push", "subscribe", "pop", "ack", "peek", "follow", "list", "info", "dead list"),
    exits="Exit codes: 0 success, 1 the request cannot be carried out, 2 the command line is wrong.",
)
