"""The command table of `mailbox`."""

from __future__ import annotations

from postroom.cli.framework.spec import (
    AFTER,
    DB,
    HELP,
    INTEGER,
    JSON,
    LOG_FORMAT,
    NUMBER,
    SHARED,
    Command,
    CommandTable,
    Flag,
    name_subjects,
)

GLOBAL = (DB, JSON, HELP)

_SESSION = Flag("--session", "NAME", "the mailbox; default: $MAILBOX_SESSION")
_MSG = Flag("--msg-id", "ID", "the message; default: $MAILBOX_MSG_ID")
_TOKEN = Flag(
    "--delivery-token", "TOKEN", "refuse unless this is still the current delivery; default: $MAILBOX_DELIVERY_TOKEN for $MAILBOX_MSG_ID"
)
_AGENT = Flag(
    "--agent", "NAME", "your name, for the receipt; default: this host and process, or, on a server, the caller", alias="--receiver"
)
_FROM = Flag("--from", "SESSION", "the sender of the message; needed only if several senders used its id")
_EXTENSION = Flag("--for-seconds", "N", "from now; default: the in-flight timeout of the policy", NUMBER, alias="--seconds")
_LIMIT = Flag("--limit", "N", "at most this many", INTEGER)
_LETTERS = Flag("--msg-id", "ID", "only this one; may be repeated", repeat=True)

_COMMANDS = (
    Command(
        "enqueue",
        "Store a message for a session. Storing the same message under the same id again changes nothing.",
        "mailbox.commands:handle_enqueue",
        (
            Flag("--from", "SESSION", "the sender"),
            Flag("--to", "SESSION", "the receiver: a session or an alias"),
            Flag("--payload", "TEXT", "the message"),
            Flag("--payload-file", "PATH", "the message from a file; - for standard input"),
            Flag("--msg-id", "ID", "the id, which stands for one message of this sender; default: {from}:{nanoseconds}"),
            Flag("--created-at", "N", "Unix seconds; default: now", INTEGER),
            Flag("--strict", "", "refuse a receiver that was never seen"),
            Flag("--message-file", "PATH", "instead of these flags: the whole message as one JSON object; - for standard input"),
            Flag(
                "--batch",
                "PATH",
                "instead of these flags: one such object a line, stored in one transaction; - for standard input",
            ),
        ),
        example='mailbox enqueue --from lead --to analyst --payload "analyze the auth module"',
    ),
    Command(
        "dequeue",
        "Take the next message. It is in flight until it is acked or nacked, or until its time is over.",
        "mailbox.commands:handle_dequeue",
        (_SESSION, _AGENT),
        details="Only the first message of each sender is offered, and of these the oldest goes first. Exit 10 when there is none.",
        example="mailbox dequeue analyst --json",
    ),
    Command(
        "wait",
        "Sleep until there is a message, and take it.",
        "mailbox.commands:handle_wait",
        (
            _SESSION,
            Flag("--timeout-seconds", "N", "give up after N seconds, with exit 10; 0 (the default) waits forever", NUMBER),
            _AGENT,
        ),
        details="Wakes when a message comes and when a retry is due.",
        example="mailbox wait analyst --timeout-seconds 600 --json",
    ),
    Command(
        "ack",
        "Confirm that a message was delivered.",
        "mailbox.commands:handle_ack",
        (_SESSION, _MSG, _TOKEN, _FROM, Flag("--take-next", "", "also take the next message, in the same transaction"), _AGENT),
        example="mailbox ack lead:1743999600123456789 --session analyst",
    ),
    Command(
        "nack",
        "Report a failed delivery. The message comes again after its backoff, or is dead after the last retry.",
        "mailbox.commands:handle_nack",
        (_SESSION, _MSG, Flag("--reason", "TEXT", "why"), _TOKEN, _FROM),
        example='mailbox nack lead:1743999600123456789 --session analyst --reason "no such module"',
    ),
    Command(
        "extend",
        "Keep a message in flight. Its time starts again.",
        "mailbox.commands:handle_extend",
        (_SESSION, _MSG, _EXTENSION, _TOKEN, _FROM),
        example="mailbox extend lead:1743999600123456789 --session analyst --for-seconds 300",
    ),
    Command(
        "peek",
        "List the waiting messages of a mailbox, without taking one.",
        "mailbox.commands:handle_peek",
        (_SESSION, Flag("--acked", "", "list the acked messages that are still kept instead, the newest first"), _LIMIT, AFTER),
        example="mailbox peek analyst",
    ),
    Command(
        "purge",
        "Remove every message of a mailbox that has not ended. Their ids stay known.",
        "mailbox.commands:handle_purge",
        (_SESSION,),
        example="mailbox purge analyst",
    ),
    Command(
        "peek-dead-letter",
        "List the messages that exhausted their retries.",
        "mailbox.commands:handle_peek_dead_letter",
        (_SESSION, _LIMIT, AFTER),
        example="mailbox peek-dead-letter analyst --json",
    ),
    Command(
        "retry-dead-letter",
        "Make dead letters pending again. Each goes to the end, as if new.",
        "mailbox.commands:handle_retry_dead_letter",
        (_SESSION, _LETTERS, _FROM),
        example="mailbox retry-dead-letter --session analyst",
    ),
    Command(
        "purge-dead-letter",
        "Remove dead letters. Their ids stay known.",
        "mailbox.commands:handle_purge_dead_letter",
        (_SESSION, _LETTERS, _FROM, Flag("--all", "", "all of them, also those that a listing does not show")),
        details="Without --msg-id and --all, it refuses to remove more than peek-dead-letter shows.",
        example="mailbox purge-dead-letter --session analyst",
    ),
    Command(
        "show",
        "Show one message and everything that happened to it.",
        "mailbox.commands:handle_show",
        (_MSG, _FROM, _LIMIT, AFTER),
        example="mailbox show lead:1743999600123456789",
    ),
    Command(
        "sessions",
        "List the mailboxes, with how many messages are in each state.",
        "mailbox.commands:handle_sessions",
        (_LIMIT, AFTER),
        example="mailbox sessions",
    ),
    Command(
        "policy",
        "Show or set how a mailbox retries.",
        "mailbox.commands:handle_policy",
        (
            _SESSION,
            Flag(
                "--base-backoff-seconds",
                "N",
                "until the first retry; each later one waits twice as long; default 5",
                NUMBER,
                alias="--base-backoff-secs",
            ),
            Flag("--retries", "N", "how many retries before it is a dead letter; default 3", INTEGER, alias="--max-retries"),
            Flag(
                "--inflight-timeout-seconds",
                "N",
                "in flight until it is nacked automatically; default 30",
                NUMBER,
                alias="--inflight-timeout-secs",
            ),
            Flag("--ttl-seconds", "N", "from storing until it expires; 0 (the default): never", NUMBER, alias="--ttl-secs"),
        ),
        example="mailbox policy analyst --retries 5 --inflight-timeout-seconds 600",
    ),
    Command(
        "alias",
        "Give a mailbox another name, for senders and receivers. Without NAME, list the aliases.",
        "mailbox.commands:handle_alias",
        (Flag("--remove", "", "remove the alias"), _LIMIT, AFTER),
        words=("[NAME]", "[SESSION]"),
        details="Stored messages stay in their mailbox if the alias changes. A mailbox that holds messages cannot become an alias.",
        example="mailbox alias reviewer aigentry-analyst-claude",
    ),
    Command(
        "sweep",
        "Apply due timeouts, retries and expirations in every mailbox.",
        "mailbox.commands:handle_sweep",
        (Flag("--keep-days", "N", "also forget what was acked or expired over N days ago: only ids, states and times stay", NUMBER),),
        details="Every other command does this for the mailbox that it uses.",
        example="mailbox sweep --keep-days 30",
    ),
    Command(
        "deliver",
        "Run a shell command for each message: exit 0 acks it, any other exit code nacks it.",
        "mailbox.commands:handle_deliver",
        (
            Flag("--session", "NAME", "a mailbox; may be repeated: they are served in parallel; default: $MAILBOX_SESSION", repeat=True),
            Flag("--command", "CMD", "the shell command; it receives the payload on standard input"),
            Flag("--once", "", "deliver at most one message of each mailbox, and exit"),
            Flag("--until-empty", "", "exit when nothing is pending, instead of waiting for more"),
            Flag("--timeout-seconds", "N", "end a command, and all that it started, after N seconds, and nack; default: no limit", NUMBER),
            LOG_FORMAT,
            _AGENT,
        ),
        details=(
            "The command's environment has INBOX_DB, MAILBOX_SESSION, MAILBOX_MSG_ID, MAILBOX_FROM, MAILBOX_TO, MAILBOX_CREATED_AT,"
            " MAILBOX_ATTEMPT and MAILBOX_DELIVERY_TOKEN. The in-flight time is extended while it runs. The end of its output is"
            " the reason of a nack. After SIGTERM the running commands are finished. A second SIGTERM ends them."
        ),
        example="mailbox deliver analyst --command './handle.sh'",
    ),
    Command(
        "init",
        "Create a store, or upgrade one. Safe to repeat.",
        "inbox.store:handle_init",
        (SHARED,),
        example="mailbox init --db .agents/coord.db",
    ),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "inbox.store:handle_completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(mailbox completion bash)"',
    ),
    Command("version", "Print the version.", "inbox.store:handle_version", (), example="mailbox --version"),
    Command(
        "help",
        "Show this help, or the help of a command.",
        "inbox.store:handle_help",
        (),
        words=("[COMMAND]",),
        example="mailbox help enqueue",
    ),
)

name_subjects(tuple(command for command in _COMMANDS if command.name != "enqueue"), "--msg-id", "--session")

MAILBOX = CommandTable(
    "mailbox",
    "ordered, acknowledged delivery between sessions",
    GLOBAL,
    _COMMANDS,
    snake_case_fields=True,
    value_lister="inbox.live_values:list_values",
    id_expander="inbox.short_ids:expand_ids",
    aliases={"status": "sessions", "send": "enqueue", "receive": "dequeue", "read": "peek", "ls": "sessions", "list": "sessions"},
    first_commands=("init", "enqueue", "dequeue", "ack", "nack", "wait", "deliver", "show", "sessions", "peek-dead-letter"),
)
