"""The command table of `inbox`."""

from __future__ import annotations

from postroom.cli.framework.spec import AFTER, DB, HELP, INTEGER, JSON, LIST, LOG_FORMAT, NUMBER, SHARED, Command, CommandTable, Flag

GLOBAL = (DB, Flag("--agent", "NAME", "your name; default: $INBOX_AGENT"), JSON, HELP)

_THREAD = Flag("--thread", "THREAD_ID", "the thread; default: $INBOX_THREAD")
_TOKEN = Flag("--lease-token", "TOKEN", "refuse unless this is still the current lease; default: $INBOX_LEASE_TOKEN for $INBOX_THREAD")
_LEASE = Flag("--lease-seconds", "N", "seconds until the lease runs out unless it is renewed; default 900", NUMBER)
_TIMEOUT = Flag("--timeout-seconds", "N", "give up after N seconds, with exit 10; 0 (the default) waits forever", NUMBER)
_KEY = Flag("--key", "TEXT", "makes a retry safe: a second message of yours with the same key is not posted again")
_FROM = Flag("--from", "AGENT", "the sender; default: --agent")
_LIMIT = Flag("--limit", "N", "at most this many", INTEGER)
_LIVE = Flag("--watch", "", "keep showing it live in the terminal, as `inbox top` does")
_TEXTS = (
    Flag("--summary", "TEXT", "one line"),
    Flag("--body", "TEXT", "the whole text"),
    Flag("--body-file", "PATH", "the whole text from a file; - for standard input"),
    Flag("--payload-json", "STRING", "a JSON object for programs"),
)
_ARTIFACTS = (
    Flag("--artifact", "PATH", "attach a reference to a file; may be repeated", repeat=True),
    Flag("--artifact-kind", "KIND", "what the artifacts are, for example file, log, patch; default file"),
    Flag("--artifact-metadata-json", "STRING", "a JSON object kept with each artifact"),
)

_WORK_COMMANDS = (
    Command(
        "init",
        "Create a store, or upgrade one. Safe to repeat.",
        "inbox.store:handle_init",
        (SHARED,),
        details="Without --db, the store is $INBOX_DB, else .agents/coord.db in this folder, even if a folder above has one. The files"
        " are for you alone, whatever the umask is; those of an existing store are made so. In a git work tree, they are ignored by git.",
        example="inbox init --db .agents/coord.db",
    ),
    Command(
        "send",
        "Open a thread for an agent, or add a message to an existing one.",
        "inbox.threads:handle_send",
        (
            _FROM,
            Flag("--to", "AGENT", "the agent that should work on it"),
            Flag("--subject", "TEXT", "the subject; default: the summary"),
            Flag("--thread", "THREAD_ID", "add the message to this thread; an unknown id creates the thread"),
            Flag("--run", "RUN_ID", "the run that the thread belongs to"),
            Flag("--task", "TASK_ID", "the task that the thread represents"),
            Flag("--kind", "task|question|answer|progress|result|control|event", "default task"),
            *_TEXTS,
            Flag("--priority", "low|normal|high", "default normal; in an existing thread, changes it"),
            *_ARTIFACTS,
            _KEY,
            Flag("--strict", "", "refuse a receiver that was never seen"),
            Flag("--batch", "PATH", "open a thread for each line, a JSON object, of a file; - for standard input"),
        ),
        details=(
            "A batch is sent in one transaction: all of it, or nothing. A line has to, subject or summary, and may have body, run,"
            " task, kind, priority, payload (an object), artifacts (a list of paths) and key. Flags are the defaults of every line."
            " With --key K, the lines without a key have the keys K:1, K:2 and so on: the same batch sent twice opens its threads once."
        ),
        example='inbox send --from leader --to builder --subject "Add the login page"',
    ),
    Command(
        "fetch",
        "List the threads that an agent can claim, without claiming one.",
        "inbox.leases:handle_fetch",
        (
            Flag("--status", "pending,blocked", "the agent's threads with these statuses; default: threads that can be claimed now", LIST),
            _LIMIT,
            AFTER,
            Flag("--unread", "", "threads with messages to the agent that it has not read"),
        ),
        details="Lists the agent's pending threads, and every agent's threads with a lapsed lease. Exit 10 when there are none.",
        example="inbox fetch --agent builder --status pending --json",
    ),
    Command(
        "take",
        "Claim the best candidate in one step: by priority, then age.",
        "inbox.leases:handle_take",
        (_LEASE, Flag("--wait", "", "sleep until there is one; --timeout-seconds implies this"), _TIMEOUT),
        details="Takes threads and tasks, by priority, then age. A task gets a thread of its own. Exit 10 when there is nothing to take.",
        example="inbox take --agent builder --wait --timeout-seconds 600 --json",
    ),
    Command(
        "claim",
        "Acquire the lease on a thread: the only way to own it.",
        "inbox.leases:handle_claim",
        (_THREAD, _LEASE, Flag("--takeover", "", "replace your own live lease, if you lost its token")),
        words=("[THREAD_ID]",),
        example="inbox claim thr_123 --agent builder --lease-seconds 900 --json",
    ),
    Command(
        "renew",
        "Extend your lease from now.",
        "inbox.leases:handle_renew",
        (_THREAD, Flag("--lease-seconds", "N", "seconds from now until the lease runs out; default: as long as before", NUMBER), _TOKEN),
        words=("[THREAD_ID]",),
        example="inbox renew thr_123 --agent builder",
    ),
    Command(
        "update",
        "Report progress, or ask a question that blocks you. Renews the lease.",
        "inbox.leases:handle_update",
        (
            _THREAD,
            Flag("--status", "in_progress|blocked", "default in_progress; blocked asks a question"),
            *_TEXTS,
            Flag("--to", "AGENT", "the receiver; default: the thread's creator"),
            _TOKEN,
            *_ARTIFACTS,
        ),
        words=("[THREAD_ID]",),
        example='inbox update thr_123 --agent builder --status blocked --summary "Which auth?" --json',
    ),
    Command(
        "reply",
        "Answer in a thread. A worker that waits for the answer wakes.",
        "inbox.threads:handle_reply",
        (
            _FROM,
            Flag("--to", "AGENT", "default: the other side of the thread"),
            _THREAD,
            Flag("--kind", "answer|question|progress|control", "default answer"),
            Flag("--question", "MESSAGE_ID", "the question that this answers; default: the only open one that you may answer"),
            *_TEXTS,
            *_ARTIFACTS,
            _KEY,
        ),
        words=("[THREAD_ID]",),
        details="An answer settles one question. What was asked of a person, only a person settles: other answers are remarks.",
        example='inbox reply thr_123 --from leader --summary "Use email and password"',
    ),
    Command(
        "done",
        "Finish a thread with its result.",
        "inbox.leases:handle_done",
        (_THREAD, *_TEXTS, _TOKEN, Flag("--take-next", "", "also take the next thread or task, in one transaction"), _LEASE, *_ARTIFACTS),
        words=("[THREAD_ID]",),
        example='inbox done thr_123 --agent builder --summary "Login page added" --body-file result.md',
    ),
    Command(
        "fail",
        "End a thread that could not be done.",
        "inbox.leases:handle_fail",
        (_THREAD, *_TEXTS, _TOKEN, *_ARTIFACTS),
        words=("[THREAD_ID]",),
        example='inbox fail thr_123 --agent builder --summary "The API is gone"',
    ),
    Command(
        "release",
        "Give a thread back without ending it.",
        "inbox.leases:handle_release",
        (_THREAD, Flag("--reason", "TEXT", "why"), Flag("--to", "AGENT", "the agent to assign it to; default: the same agent"), _TOKEN),
        words=("[THREAD_ID]",),
        example='inbox release thr_123 --agent builder --reason "out of context"',
    ),
    Command(
        "cancel",
        "End a thread that is no longer needed. Any agent may do this.",
        "inbox.threads:handle_cancel",
        (_THREAD, Flag("--reason", "TEXT", "why"), Flag("--payload-json", "STRING", "a JSON object for programs"), *_ARTIFACTS),
        words=("[THREAD_ID]",),
        example='inbox cancel thr_123 --agent leader --reason "superseded"',
    ),
    Command(
        "reassign",
        "Give a thread that is pending, or whose lease ran out, to another agent.",
        "inbox.threads:handle_reassign",
        (_THREAD, Flag("--to", "AGENT", "the agent that should work on it now"), Flag("--reason", "TEXT", "why")),
        words=("[THREAD_ID]",),
        details="While a lease is live, only its holder can give the thread away: `inbox release --to`.",
        example="inbox reassign thr_123 --agent leader --to reviewer",
    ),
    Command(
        "retry",
        "Reopen a thread that failed or was cancelled, with its history.",
        "inbox.threads:handle_retry",
        (_THREAD, Flag("--reason", "TEXT", "why")),
        words=("[THREAD_ID]",),
        details="The thread is pending again, for the same agent. A thread that is done stays done. A thread of a task is refused:"
        " submit the task again.",
        example='inbox retry thr_123 --agent leader --reason "the API is back"',
    ),
    Command(
        "list",
        "List threads, latest activity first.",
        "inbox.threads:handle_list",
        (
            Flag("--status", "pending,claimed,in_progress,blocked,done,failed,cancelled", "only threads with these statuses", LIST),
            Flag("--created-by", "AGENT", "only threads that this agent created"),
            Flag("--assigned-to", "AGENT", "only threads that are assigned to this agent"),
            Flag("--run", "RUN_ID", "only threads of this run"),
            Flag("--task", "TASK_ID", "only threads of this task"),
            _LIMIT,
            AFTER,
        ),
        details="With --agent: only threads that this agent created or that are assigned to it. A lapsed lease is marked.",
        example="inbox list --status blocked",
    ),
    Command(
        "show",
        "Show one thread as a conversation.",
        "inbox.threads:handle_show",
        (
            _THREAD,
            Flag("--limit", "N", "at most this many messages; default 100", INTEGER),
            Flag("--before-event", "EVENT_ID", "the messages before this event", INTEGER),
            Flag("--after-event", "EVENT_ID", "the messages after this event", INTEGER),
            Flag("--mark-read", "", "record that --agent has read it"),
        ),
        words=("[THREAD_ID]",),
        details="A long thread is shown in pages: its first message and the newest ones. The output names the flag that shows more.",
        example="inbox show thr_123",
    ),
    Command(
        "watch",
        "Sleep until something happens.",
        "inbox.waiting:handle_watch",
        (
            Flag("--status", "pending,blocked,done,failed,lapsed", "only events that leave a thread in one of these statuses", LIST),
            Flag("--run", "RUN_ID", "only events of this run"),
            Flag("--after-event", "EVENT_ID", "start after this event; default: now", INTEGER),
            _TIMEOUT,
        ),
        details="With --agent: only what others do, in threads that this agent created, in threads assigned to it, or in messages to it."
        " The status lapsed stands for a lease that ran out.",
        example="inbox watch --agent leader --status blocked,done,failed,lapsed --timeout-seconds 600 --json",
    ),
    Command(
        "wait-reply",
        "Sleep until a reply comes in a thread.",
        "inbox.waiting:handle_wait_reply",
        (
            _THREAD,
            Flag("--after-message", "MESSAGE_ID", "only replies after this message"),
            Flag("--after-event", "EVENT_ID", "only replies after this event; default: the thread's latest question", INTEGER),
            Flag("--question", "MESSAGE_ID", "wait for the answer to this question; default: the latest one of --agent"),
            Flag("--kinds", "answer|control|result", "the kinds of message that count as a reply; default: these three", LIST),
            _TIMEOUT,
            _TOKEN,
        ),
        words=("[THREAD_ID]",),
        details="While the holder waits, its lease is renewed. Exit 10 when the time is over.",
        example="inbox wait-reply thr_123 --agent builder --timeout-seconds 1800 --json",
    ),
    Command(
        "work",
        "Run a shell command as a worker, once for each thread or task.",
        "inbox.worker:handle_work",
        (
            Flag("--command", "CMD", "the shell command; it receives the thread as JSON on standard input"),
            Flag("--jobs", "N", "how many threads at the same time; default 1", INTEGER),
            _LEASE,
            Flag("--until-empty", "", "exit when nothing is left, instead of waiting for more"),
            Flag("--retries", "N", "run a failed command again, up to N times; default 0", INTEGER),
            Flag("--backoff-seconds", "N", "the pause before the first retry, doubled for each further one; default 5", NUMBER),
            Flag("--timeout-seconds", "N", "stop a command after N seconds; that counts as a failure; default: no limit", NUMBER),
            LOG_FORMAT,
        ),
        details="The command's environment has INBOX_DB, INBOX_AGENT, INBOX_THREAD and INBOX_LEASE_TOKEN, so `inbox update` and the"
        " others need no flags there, and INBOX_ANSWER, the newest answer to a question of the thread. Exit 0 finishes the thread:"
        " the last line of standard output is the result, and the end of standard error is in its payload. Any other exit code"
        " fails it, after the retries, with the last line of standard error, if there is one. Threads whose lease ran out come from"
        " any agent of the store: give workers with other commands another store. If the command cannot be run at all (126, 127),"
        " the thread is given back and the worker ends with 30. A command that ends after `inbox update --status blocked` is run"
        " again when the answer comes. The worker exits with 1 if a thread failed. A task comes as a thread, and ends with it."
        " Both come by priority.",
        example="inbox work --agent builder --command './build.sh'",
    ),
    Command(
        "run list",
        "List runs, latest activity first.",
        "inbox.runs:handle_run_list",
        (_LIMIT, AFTER),
        details="Counts the latest 500 threads of each status. `inbox run show` counts all threads of a run.",
        example="inbox run list",
    ),
    Command(
        "run show",
        "Show the numbers of a run, and its threads.",
        "inbox.runs:handle_run_show",
        (_LIMIT, AFTER),
        words=("RUN_ID",),
        example="inbox run show nightly-7",
    ),
    Command(
        "run wait",
        "Sleep until every thread of a run has ended. Exit 10 when the time is over.",
        "inbox.runs:handle_run_wait",
        (_TIMEOUT,),
        words=("RUN_ID",),
        details="On a terminal, a line shows how many threads have ended. Exit 0 does not mean that none failed: see the numbers.",
        example="inbox run wait nightly-7 --timeout-seconds 3600 --json",
    ),
)

_OTHER_COMMANDS = (
    Command(
        "skill",
        "Print the skill that teaches an agent this command, or install it.",
        "inbox.store:handle_skill",
        (
            Flag("--install", "DIR", "write DIR/inbox/SKILL.md, for example into .claude/skills or .agents/skills"),
            Flag("--replace", "", "replace a SKILL.md that differs", alias="--force"),
        ),
        example="inbox skill --install .claude/skills",
    ),
    Command(
        "copy",
        "Copy a whole store to another store, on the same or the other engine.",
        "inbox.store:handle_copy",
        (
            Flag("--from", "PATH", "the store to copy, a file or a URL; it may stay in use"),
            Flag("--to", "PATH", "the store to copy to, a file or a URL; created if it does not exist"),
        ),
        details="Copies the state of one moment, and compares the row counts. After an interruption, run it again.",
        example="inbox copy --from .agents/coord.db --to postgresql://inbox@db.example/work",
    ),
    Command(
        "doctor",
        "Check the store, the rooms in it, its server and this machine.",
        "inbox.doctor:handle_doctor",
        (Flag("--fix", "", "first mend the journal mode and the permissions of a SQLite file"),),
        details="What is not ok is followed by why it matters and the command that mends it. Exit 0 only if all is well, else 50.",
        example="inbox doctor",
    ),
    Command(
        "status",
        "Show on one screen what waits for whom, who holds what, open questions and what needs care.",
        "inbox.status.gathering:handle_status",
        (_LIVE,),
        example="inbox status",
    ),
    Command(
        "top",
        "Show the same live in the terminal, and answer questions there.",
        "inbox.status.gathering:handle_top",
        (),
        details="Needs the extra [terminal]. Keys: arrows choose a question, 1 to 9 give its answer, a writes one, q leaves.",
        example="inbox top",
    ),
    Command(
        "demo", "Watch a leader and two workers at work, on a store of their own.", "inbox.demo.story:handle_demo", (), example="inbox demo"
    ),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "inbox.store:handle_completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(inbox completion bash)"',
    ),
    Command("version", "Print the version.", "inbox.store:handle_version", (), example="inbox --version"),
    Command(
        "help", "Show this help, or the help of a command.", "inbox.store:handle_help", (), words=("[COMMAND]",), example="inbox help claim"
    ),
)


HOOK = Command(
    "hook",
    "Serve a hook of a program in which an agent runs: tell the agent what waits.",
    "inbox.harness.hook:handle_hook",
    (
        Flag("--harness", "claude|codex|gemini|qwen|opencode", "the program that runs the hook"),
        Flag("--session", "ID", "the session; default: the one that the event on standard input names"),
        Flag("--owner", "PID", "the process to ring for; default: the program that runs the hook", INTEGER),
        Flag("--wake-status", "N", "the exit code with which `wait` wakes the agent; default 2", INTEGER),
    ),
    words=("start|prompt|tool|stop|wait|ring|end",),
    details="`inbox harness connect` installs it. It takes nothing: what waits stays until the agent reads it. It announces each"
    " message once in a session, and exits with 0 whatever happens. Only `wait` exits with --wake-status, to wake the agent.",
    example="inbox hook tool --harness claude --agent builder",
)


def _list_more_commands() -> tuple[Command, ...]:
    """Return the commands behind those of work threads. Their tables are imported only if they are needed: the hot path is short."""
    from postroom.cli.inbox.channels.spec import CHANNELS
    from postroom.cli.inbox.harness.spec import HARNESS
    from postroom.cli.inbox.maintenance.spec import STORE_COMMANDS
    from postroom.cli.inbox.people.spec import PEOPLE
    from postroom.cli.inbox.residents.spec import RESIDENTS
    from postroom.cli.inbox.tasks.spec import AGENTS_AND_TASKS

    return (*AGENTS_AND_TASKS, *PEOPLE, *CHANNELS, *RESIDENTS, *HARNESS, *STORE_COMMANDS, *_OTHER_COMMANDS)


INBOX = CommandTable(
    "inbox",
    "the durable inbox for AI agents and the people they work for",
    GLOBAL,
    _WORK_COMMANDS,
    list_more_commands=_list_more_commands,
    quick_commands=(HOOK,),
    value_lister="inbox.live_values:list_values",
    id_expander="inbox.short_ids:expand_ids",
    aliases={
        "ls": "list",
        "threads": "list",
        "add": "send",
        "new": "send",
        "get": "show",
        "answer": "reply",
        "questions": "entries",
        **{f"{group}s": f"{group} list" for group in ("agent", "channel", "job", "queue", "run", "task", "workspace")},
        "passes": "pass list",
    },
    first_commands=("init", "send", "take", "update", "reply", "done", "work", "ask", "status", "serve"),
    start_help=(
        "\nWhich one? Work for one agent, with questions on the way: `inbox send`, `take`, `done`. A person asked or shown something:"
        "\n`inbox ask`, `push`. A task for an agent by name or skill: `inbox task`. A message that must arrive: `mailbox`. A program that"
        "\nstarts when something happens: `thread`. docs/choose.md of the repository says more.\n"
    ),
    more_help="""
Which one?
  work by one agent, with questions on the way     inbox send, take, update, done
  any program as a worker for such work            inbox work --command …
  a message that arrives and is acknowledged       mailbox enqueue, dequeue, ack
  a program started by an event, or at a time      thread push, thread subscribe, notifier timer add
  another agent asked by its name or skill         inbox agent register, inbox task submit, accept, complete
  a person shown something                         inbox push
  a person asked something                         inbox ask
  a person told something by a script              inbox notify
docs/choose.md of the repository has a story for each.
""",
)
