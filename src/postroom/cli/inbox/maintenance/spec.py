"""The commands of `inbox` that maintain a whole store."""

from __future__ import annotations

from postroom.cli.framework.spec import LIST, Command, Flag

_OLDER = Flag("--older-than", "90d", "what ended longer ago than this: a number and s, m, h, d or w")
_KEEP_RUNS = Flag("--keep-runs", "RUN,RUN", "keep the threads of these runs", LIST)

STORE_COMMANDS = (
    Command(
        "store prune",
        "Remove what ended long ago: threads, mail, tasks, jobs, entries, and events.",
        "inbox.maintenance.commands:handle_prune",
        (
            Flag("--older-than", "90d", "what ended longer ago than this: a number and s, m, h, d or w; default 90d"),
            _KEEP_RUNS,
            Flag("--dry-run", "", "only count what would be removed"),
            Flag("--by-policy", "", "as `inbox store policy` says, instead of the flags above"),
        ),
        details="Nothing that waits for anyone is removed: open threads, tasks and questions, unread and pinned entries, mail that was not"
        " acked, dead letters. Ids and keys that make a repeat safe stay known. Old events of the store's queues go too, once all"
        " consumers have read them. Others can go on writing meanwhile. An --after-event before what was removed is refused from"
        " then on, with cursor_expired and where to go on.",
        example="inbox store prune --older-than 90d --dry-run",
    ),
    Command(
        "store policy",
        "Set what is pruned automatically every day. Without flags, show it.",
        "inbox.maintenance.commands:handle_policy",
        (
            _OLDER,
            _KEEP_RUNS,
            Flag("--no-timer", "", "only a server prunes; otherwise a timer of `notifier` does too, for a store in a file"),
            Flag("--off", "", "prune nothing automatically any more"),
        ),
        details="The policy is kept in the store. A server that runs prunes by it, and so does the timer that this adds to `notifier`.",
        example="inbox store policy --older-than 90d",
    ),
    Command(
        "store erase",
        "Remove one thread, entry or message with every trace of its text, such as a pasted secret.",
        "inbox.maintenance.commands:handle_erase",
        (
            Flag("--thread", "THREAD_ID", "a thread with its messages, its task, and the entries that show it"),
            Flag("--entry", "ENTRY_ID", "an entry with its replies, and the messages that it shows"),
            Flag("--msg-id", "ID", "a message of a mailbox or of a thread"),
        ),
        details="The state does not matter, nor does it matter whether somebody waits for it. Then the mirror, the search index and the"
        " whole store are rewritten, so that the bytes are gone from every file of the store. Others wait meanwhile, about a"
        " second for 200 MB. If it is interrupted, run it again. Backups, documents that an entry names, and memory of running"
        " programs are not touched. Change a secret that was read.",
        example="inbox store erase --thread thr_123",
    ),
    Command(
        "store backup",
        "Write the whole store into a new file, while it stays in use, and verify it.",
        "inbox.maintenance.commands:handle_backup",
        (Flag("--with-queues", "", "also the events of each queue that the store watches, into the folder FILE.queues"),),
        words=("FILE",),
        details="The file is a SQLite store, also of a store on PostgreSQL. Entries are in it. Queues have folders of their own and are"
        " not, unless --with-queues copies them. Each copy is of one moment, but not all are of the same.",
        example="inbox store backup backups/monday.db",
    ),
    Command(
        "store restore",
        "Make a store from a backup, or overwrite one with it.",
        "inbox.maintenance.commands:handle_restore",
        (
            Flag("--replace", "", "overwrite the store that is there; what it has is written into a backup beside it first"),
            Flag("--with-queues", "FOLDER", "also the queues of the backup, each into a new folder in this one, which the store watches"),
        ),
        words=("FILE",),
        details="A store in a file may be in use meanwhile: programs that have it open see the restored content at their next call. Event"
        " ids go on behind those that were used, and a cursor from before is refused with cursor_expired. A store on PostgreSQL must be"
        " new.",
        example="inbox store restore backups/monday.db --db .agents/coord.db",
    ),
    Command(
        "store export",
        "Print the whole store as JSON Lines.",
        "inbox.maintenance.commands:handle_export",
        (Flag("--to-file", "FILE", "write a new file, for you alone, instead of standard output"),),
        details="The first line names the format and the schema, each other line is a row. Guard it like the store itself: every message"
        " and the secrets of channels are in it.",
        example="inbox store export --to-file monday.jsonl",
    ),
    Command(
        "store import",
        "Read an export into a new store, the issues of beads as threads, or the messages of AMQ as mail.",
        "inbox.maintenance.commands:handle_import",
        (
            Flag("--format", "postroom|beads|amq", "what FILE is: an export (the default), .beads/issues.jsonl, or a folder of AMQ"),
            Flag("--to", "AGENT", "beads: for issues without an assignee; default: user"),
            Flag("--include-read", "", "amq: also the messages that their receiver has read"),
        ),
        words=("FILE",),
        details="An issue of beads that is not closed becomes a thread with its id, pending for its assignee. The whole issue is the"
        " payload of its first message. Closed and deleted issues are left out, and ids that the store knows: an import can be repeated."
        " A message of AMQ goes to the mailbox of its agent, with its id and all fields of its header. FILE is the folder with `agents` in"
        " it. A file that is not a message is refused by name, and nothing is imported.",
        example="inbox store import .beads/issues.jsonl --format beads --to builder",
    ),
    Command(
        "store compact",
        "Rewrite the store without free space. Others wait meanwhile.",
        "inbox.maintenance.commands:handle_compact",
        (),
        details="`store prune` returns free space by itself. A file that an older version created needs this once. It takes about a second"
        " for 200 MB, and as much free disk space as the store.",
        example="inbox store compact",
    ),
)
