"""The one table of the command `mailbox`."""

from __future__ import annotations

from postroom.cli.grammar import DB, HELP, INTEGER, JSON, NUMBER, Command, Flag, Program

GLOBAL = (DB, JSON, HELP)

_SESSION = Flag("--session", "NAME", "the mailbox; default: $MAILBOX_SESSION")
_MSG = Flag("--msg-id", "ID", "the message; default: $MAILBOX_MSG_ID")
_TOKEN = Flag(
    "--delivery-token", "TOKEN", "refuse unless this is still the current delivery; default: $MAILBOX_DELIVERY_TOKEN for $MAILBOX_MSG_ID"
)
_RECEIVER = Flag("--receiver", "NAME", "who takes it, for the receipt; default: this host and process, or, behind a server, who asks")
_LIMIT = Flag("--limit", "N", "at most this many", INTEGER)

_COMMANDS = (
    Command(
        "enqueue",
        "Store a message for a session. Said again with the same id, it changes nothing.",
        "mail:enqueue",
        (
            Flag("--from", "SESSION", "who sends it"),
            Flag("--to", "SESSION", "who receives it: a session, or an alias"),
            Flag("--payload", "TEXT", "the message"),
            Flag("--payload-file", "PATH", "the message from a file; - for standard input"),
            Flag("--msg-id", "ID", "unique for ever; default: {from}:{nanoseconds}"),
            Flag("--created-at", "N", "Unix seconds; default: now", INTEGER),
            Flag("--message-file", "PATH", "instead of all these: the whole message as one JSON object; - for standard input"),
            Flag("--batch", "PATH", "instead: one such object a line, stored all or none in one transaction; - for standard input"),
        ),
        example='mailbox enqueue --from lead --to analyst --payload "analyze the auth module"',
    ),
    Command(
        "dequeue",
        "Take the next message: in flight until it is acked, nacked, or its time is over.",
        "mail:dequeue",
        (_SESSION, _RECEIVER),
        details="Of each sender only its first message is offered; among senders, the oldest goes first. Exit 10 when there is none.",
        example="mailbox dequeue --session analyst --json",
    ),
    Command(
        "wait",
        "Take the next message, sleeping until there is one.",
        "mail:wait",
        (
            _SESSION,
            Flag("--timeout-seconds", "N", "give up after this long, with exit 10; 0 (the default) waits for ever", NUMBER),
            _RECEIVER,
        ),
        details="Wakes when a message comes, and when a retry falls due.",
        example="mailbox wait --session analyst --timeout-seconds 600 --json",
    ),
    Command(
        "ack",
        "Say that a message was delivered.",
        "mail:ack",
        (_SESSION, _MSG, _TOKEN, Flag("--take-next", "", "and take the next message, in the same transaction"), _RECEIVER),
        example="mailbox ack --session analyst --msg-id lead:1743999600123456789",
    ),
    Command(
        "nack",
        "Say that it was not: it comes again after its backoff, and is dead after the last retry.",
        "mail:nack",
        (_SESSION, _MSG, Flag("--reason", "TEXT", "why"), _TOKEN),
        example='mailbox nack --session analyst --msg-id lead:1743999600123456789 --reason "no such module"',
    ),
    Command(
        "extend",
        "Keep a message in flight: its time starts anew.",
        "mail:extend",
        (_SESSION, _MSG, Flag("--seconds", "N", "how long from now; default: as the policy says", NUMBER), _TOKEN),
        example="mailbox extend --session analyst --msg-id lead:1743999600123456789 --seconds 300",
    ),
    Command(
        "peek",
        "List what waits in a mailbox, without taking it.",
        "mail:peek",
        (_SESSION, _LIMIT),
        example="mailbox peek --session analyst",
    ),
    Command(
        "purge",
        "Remove every message of a mailbox that has not ended. Their ids stay known.",
        "mail:purge",
        (_SESSION,),
        example="mailbox purge --session analyst",
    ),
    Command(
        "peek-dead-letter",
        "List the messages that exhausted their retries.",
        "mail:peek_dead_letter",
        (_SESSION, _LIMIT),
        example="mailbox peek-dead-letter --session analyst --json",
    ),
    Command(
        "retry-dead-letter",
        "Try dead letters again: each joins the tail, as if new.",
        "mail:retry_dead_letter",
        (_SESSION, Flag("--msg-id", "ID", "only this one")),
        example="mailbox retry-dead-letter --session analyst",
    ),
    Command(
        "purge-dead-letter",
        "Throw dead letters away. Their ids stay known.",
        "mail:purge_dead_letter",
        (_SESSION, Flag("--msg-id", "ID", "only this one")),
        example="mailbox purge-dead-letter --session analyst",
    ),
    Command(
        "show",
        "Show one message and everything that happened to it.",
        "mail:show",
        (_MSG,),
        example="mailbox show --msg-id lead:1743999600123456789",
    ),
    Command(
        "sessions",
        "List the mailboxes, with how many messages are in each state.",
        "mail:sessions",
        (_LIMIT,),
        example="mailbox sessions",
    ),
    Command(
        "policy",
        "Show or set how a mailbox retries.",
        "mail:policy",
        (
            _SESSION,
            Flag("--base-backoff-secs", "N", "the first retry waits this long, each later one twice as long; default 5", NUMBER),
            Flag("--max-retries", "N", "then it is a dead letter; default 3", INTEGER),
            Flag("--inflight-timeout-secs", "N", "nacked by itself when not acked within; default 30", NUMBER),
            Flag("--ttl-secs", "N", "expires this long after it was stored; 0 (the default): never", NUMBER),
        ),
        example="mailbox policy --session analyst --max-retries 5 --inflight-timeout-secs 600",
    ),
    Command(
        "alias",
        "Give a mailbox another name for senders; without words, list them.",
        "mail:alias",
        (Flag("--remove", "", "take the name back"),),
        words=("[NAME]", "[SESSION]"),
        details="Resolved when a message is stored; what is stored already stays where it is.",
        example="mailbox alias reviewer aigentry-analyst-claude",
    ),
    Command(
        "sweep",
        "Carry out what is due in every mailbox. Whoever touches one does that anyway.",
        "mail:sweep",
        (Flag("--keep-days", "N", "and forget what was acked or expired longer ago; ids stay known, dead letters stay", NUMBER),),
        example="mailbox sweep --keep-days 30",
    ),
    Command(
        "deliver",
        "Hand each message to a command: exit 0 acks, anything else nacks.",
        "mail:deliver",
        (
            Flag("--session", "NAME", "a mailbox; may be repeated: they go side by side; default: $MAILBOX_SESSION", repeat=True),
            Flag("--command", "CMD", "a shell line; the payload comes on standard input"),
            Flag("--once", "", "one message of each mailbox, if there is one now"),
            Flag("--until-empty", "", "end when nothing is pending, instead of waiting for more"),
            _RECEIVER,
        ),
        details=(
            "The command's environment has INBOX_DB, MAILBOX_SESSION, MAILBOX_MSG_ID, MAILBOX_FROM, MAILBOX_TO, MAILBOX_CREATED_AT,"
            " MAILBOX_ATTEMPT and MAILBOX_DELIVERY_TOKEN. The in-flight time is extended while it runs; the end of what it said is the"
            " reason of a nack. SIGTERM finishes what is in hand; a second one ends the commands."
        ),
        example="mailbox deliver --session analyst --command './handle.sh'",
    ),
    Command("init", "Create a store, or upgrade one. Safe to repeat.", "setup:init", (), example="mailbox init --db .agents/coord.db"),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "setup:completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(mailbox completion bash)"',
    ),
    Command("version", "Print the version.", "setup:version", (), example="mailbox --version"),
    Command("help", "Show this help, or a command's.", "setup:help_", (), words=("[COMMAND]",), example="mailbox help enqueue"),
)

MAILBOX = Program("mailbox", "ordered, acknowledged delivery between sessions", GLOBAL, _COMMANDS, snake=True)
