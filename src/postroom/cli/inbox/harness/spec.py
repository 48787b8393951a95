"""The commands of `inbox` that connect agents in other programs: read, wait, hook, prime, harness."""

from __future__ import annotations

from postroom.cli.framework.spec import INTEGER, NUMBER, Command, Flag
from postroom.cli.inbox.spec import HOOK

_AFTER = Flag("--after-event", "EVENT_ID", "only what came after this event; next_event_id of an earlier answer", INTEGER)
_LIMIT = Flag("--limit", "N", "at most this many; default 100", INTEGER)

HARNESS = (
    Command(
        "harness check",
        "Prove the connections of this folder, and whether a message wakes the agent.",
        "inbox.harness.roundtrip:handle_check",
        (
            Flag("--roundtrip", "", "send a message to the agent, and print its receipts with times"),
            Flag("--timeout-seconds", "N", "how long the message may take; default 20", NUMBER),
        ),
        words=("[claude|codex|opencode|gemini|qwen]",),
        details="Without a name, checks every program that is connected here. With --roundtrip, one of the sessions that wait now has to"
        " be told: offered is when it was rung, injected when the words were in its context, seen when the agent had read the message."
        " Exit 20 if a check fails, or if no session waits.",
        example="inbox harness check claude --roundtrip",
    ),
    Command(
        "read",
        "Show what waits for an agent, and take nothing.",
        "inbox.harness.reading:handle_read",
        (_AFTER, _LIMIT),
        details="Shows mail, replies and answers of people, threads sent to the agent, and messages to it in its threads, each with its"
        " sender and whether a server checked it. Exit 10 when nothing waits. The tool inbox_read, `mailbox wait` and `inbox take` take.",
        example="inbox read --agent builder --json",
    ),
    Command(
        "wait",
        "Sleep until something waits for an agent, and take nothing.",
        "inbox.harness.reading:handle_wait",
        (_AFTER, _LIMIT, Flag("--timeout-seconds", "N", "give up after N seconds, with exit 10; 0 (the default) waits forever", NUMBER)),
        details="Prints what `inbox read` prints. Without --after-event it returns at once if something waits already.",
        example="inbox wait --agent builder --after-event 118 --json",
    ),
    HOOK,
    Command(
        "prime",
        "Print what an agent should know at its start: its name, what waits, and how to use it.",
        "inbox.harness.hook:handle_prime",
        (),
        example="inbox prime --agent builder",
    ),
    Command(
        "harness connect",
        "Connect a program in which an agent runs: tools, hooks, permissions, skill and instructions.",
        "inbox.harness.connect:handle_connect",
        (
            Flag("--dry-run", "", "show what would be written, and write nothing", alias="--plan"),
            Flag("--check", "", "prove each part by running it"),
            Flag("--undo", "", "restore every file as it was"),
            Flag("--user", "", "write the settings of the user; default for codex and qwen"),
            Flag("--project", "", "write the settings of this folder; default for the others"),
            Flag("--hold", "", "gemini: keep each turn open until a message comes; what you type waits until Escape"),
        ),
        words=("claude|codex|opencode|gemini|qwen|generic",),
        details="Entries are added one by one, and every other byte of a file stays. It can be repeated, also after `inbox` was moved: what"
        " it wrote is recorded and replaced, and --undo restores it. It writes no token, and refuses a URL with a password. Files that are"
        " broken, read-only, links or of another user are reported and left alone. The folder becomes a workspace with --agent as its"
        " agent, if it is none; --undo removes that workspace, unless it has entries.",
        example="inbox harness connect claude --dry-run",
    ),
)
