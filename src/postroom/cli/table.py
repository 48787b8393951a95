"""The one table of the command `inbox`."""

from __future__ import annotations

from postroom.cli.grammar import DB, HELP, INTEGER, JSON, LIST, NUMBER, Command, Flag, Program
from postroom.cli.people_table import PEOPLE

GLOBAL = (DB, Flag("--agent", "NAME", "who you are; default: $INBOX_AGENT"), JSON, HELP)

_THREAD = Flag("--thread", "THREAD_ID", "the thread; default: $INBOX_THREAD")
_TOKEN = Flag("--lease-token", "TOKEN", "refuse unless this is still the current lease; default: $INBOX_LEASE_TOKEN for $INBOX_THREAD")
_LEASE = Flag("--lease-seconds", "N", "how long the lease lasts without a sign of life; default 900", NUMBER)
_TIMEOUT = Flag("--timeout-seconds", "N", "give up after this long, with exit 10; 0 (the default) waits for ever", NUMBER)
_TASK = Flag("--task", "ID", "which task")
_FROM = Flag("--from", "AGENT", "who says it; default: --agent")
_LIMIT = Flag("--limit", "N", "at most this many", INTEGER)
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

_COMMANDS = (
    Command(
        "init",
        "Create a store, or upgrade one. Safe to repeat.",
        "setup:init",
        (),
        details="Without --db: $INBOX_DB, else .agents/coord.db in this folder, whatever there is above.",
        example="inbox init --db .agents/coord.db",
    ),
    Command(
        "send",
        "Open a thread for an agent, or say something in an existing one.",
        "conversation:send",
        (
            _FROM,
            Flag("--to", "AGENT", "who should work on it"),
            Flag("--subject", "TEXT", "what it is about; default: the summary"),
            Flag("--thread", "THREAD_ID", "say it in this thread; an unknown id makes that thread"),
            Flag("--run", "RUN_ID", "the run that the thread belongs to"),
            Flag("--task", "TASK_ID", "the task that the thread stands for"),
            Flag("--kind", "task|question|answer|progress|result|control|event", "default task"),
            *_TEXTS,
            Flag("--priority", "low|normal|high", "default normal; in an existing thread, changes it"),
            *_ARTIFACTS,
        ),
        example='inbox send --from leader --to builder --subject "Add the login page"',
    ),
    Command(
        "fetch",
        "List what an agent could work on, without claiming it.",
        "ownership:fetch",
        (
            Flag("--status", "pending,blocked", "the agent's threads of these statuses; default: what can be claimed now", LIST),
            _LIMIT,
            Flag("--unread", "", "threads in which something was said to the agent that it has not read"),
        ),
        details="Lists the agent's pending threads, and anyone's whose lease ran out (lapsed). Exit 10 when there are none.",
        example="inbox fetch --agent builder --status pending --json",
    ),
    Command(
        "take",
        "Claim the best candidate in one step: by priority, then age.",
        "ownership:take",
        (_LEASE, Flag("--wait", "", "sleep until there is one; --timeout-seconds says so too"), _TIMEOUT),
        details="Exit 10 when there is nothing to take.",
        example="inbox take --agent builder --wait --timeout-seconds 600 --json",
    ),
    Command(
        "claim",
        "Acquire the lease on a thread: the only way to own it.",
        "ownership:claim",
        (_THREAD, _LEASE, Flag("--takeover", "", "replace your own live lease, when its token was lost")),
        example="inbox claim --agent builder --thread thr_123 --lease-seconds 900 --json",
    ),
    Command(
        "renew",
        "Extend your lease from now.",
        "ownership:renew",
        (_THREAD, Flag("--lease-seconds", "N", "how long it lasts from now; default: as long as before", NUMBER), _TOKEN),
        example="inbox renew --agent builder --thread thr_123",
    ),
    Command(
        "update",
        "Report progress, or say what you are blocked on. Renews the lease.",
        "ownership:update",
        (
            _THREAD,
            Flag("--status", "in_progress|blocked", "default in_progress; blocked asks a question"),
            *_TEXTS,
            Flag("--to", "AGENT", "who is asked or told; default: the thread's creator"),
            _TOKEN,
            *_ARTIFACTS,
        ),
        example='inbox update --agent builder --thread thr_123 --status blocked --summary "Which auth?" --json',
    ),
    Command(
        "reply",
        "Answer inside a thread. Its worker wakes.",
        "conversation:reply",
        (
            _FROM,
            Flag("--to", "AGENT", "default: the other side of the thread"),
            _THREAD,
            Flag("--kind", "answer|question|progress|control", "default answer"),
            *_TEXTS,
            *_ARTIFACTS,
        ),
        example='inbox reply --from leader --thread thr_123 --summary "Use email and password"',
    ),
    Command(
        "done",
        "Finish a thread with its result.",
        "ownership:done",
        (_THREAD, *_TEXTS, _TOKEN, Flag("--take-next", "", "and take the next thread, in the same transaction"), _LEASE, *_ARTIFACTS),
        example='inbox done --agent builder --thread thr_123 --summary "Login page added" --body-file result.md',
    ),
    Command(
        "fail",
        "End a thread that could not be done.",
        "ownership:fail",
        (_THREAD, *_TEXTS, _TOKEN, *_ARTIFACTS),
        example='inbox fail --agent builder --thread thr_123 --summary "The API is gone"',
    ),
    Command(
        "release",
        "Give a thread back without ending it.",
        "ownership:release",
        (_THREAD, Flag("--reason", "TEXT", "why"), Flag("--to", "AGENT", "for whom; default: the same agent"), _TOKEN),
        example='inbox release --agent builder --thread thr_123 --reason "out of context"',
    ),
    Command(
        "cancel",
        "End a thread that is not wanted any more. Anyone may.",
        "conversation:cancel",
        (_THREAD, Flag("--reason", "TEXT", "why"), Flag("--payload-json", "STRING", "a JSON object for programs"), *_ARTIFACTS),
        example='inbox cancel --agent leader --thread thr_123 --reason "superseded"',
    ),
    Command(
        "list",
        "List threads, latest activity first.",
        "conversation:list_",
        (
            Flag("--status", "pending,claimed,in_progress,blocked,done,failed,cancelled", "only these", LIST),
            Flag("--created-by", "AGENT", "only those that it created"),
            Flag("--assigned-to", "AGENT", "only those assigned to it"),
            _LIMIT,
        ),
        details="With --agent: the threads that it created or that are assigned to it.",
        example="inbox list --status blocked",
    ),
    Command(
        "show",
        "Show one thread as a conversation.",
        "conversation:show",
        (_THREAD, Flag("--mark-read", "", "note that --agent has read it")),
        example="inbox show --thread thr_123",
    ),
    Command(
        "watch",
        "Sleep until something happens.",
        "waiting:watch",
        (
            Flag("--status", "pending,blocked,done,failed", "only what leaves a thread in one of these", LIST),
            Flag("--after-event", "EVENT_ID", "start after this event; default: now", INTEGER),
            _TIMEOUT,
        ),
        details="With --agent: what others do in threads that it created, that are assigned to it, or in messages to it.",
        example="inbox watch --agent leader --status blocked,done,failed --timeout-seconds 600 --json",
    ),
    Command(
        "wait-reply",
        "Sleep until a reply comes in a thread.",
        "waiting:wait_reply",
        (
            _THREAD,
            Flag("--after-message", "MESSAGE_ID", "only what came after this message"),
            Flag("--after-event", "EVENT_ID", "only what came after this event; default: the thread's latest question", INTEGER),
            Flag("--kinds", "answer|control|result", "what counts as a reply; default: these three", LIST),
            _TIMEOUT,
            _TOKEN,
        ),
        details="The lease of a waiting holder is renewed. Exit 10 when the time is over.",
        example="inbox wait-reply --agent builder --thread thr_123 --timeout-seconds 1800 --json",
    ),
    Command(
        "work",
        "Turn a command into a worker: it is run for one thread after another.",
        "worker:work",
        (
            Flag("--command", "CMD", "a shell line; the thread comes as JSON on standard input"),
            Flag("--jobs", "N", "how many at once; default 1", INTEGER),
            _LEASE,
            Flag("--until-empty", "", "end when there is nothing left to do, instead of waiting for more"),
        ),
        details=(
            "The command's environment has INBOX_DB, INBOX_AGENT, INBOX_THREAD and INBOX_LEASE_TOKEN, so `inbox update` and the"
            " others need no flags in it. Exit 0 finishes the thread with its output, anything else fails it. A command that"
            " ends after `inbox update --status blocked` is run again when the answer comes."
        ),
        example="inbox work --agent builder --command './build.sh'",
    ),
    Command(
        "agent add",
        "Make an agent known, or change its kind.",
        "setup:agent_add",
        (Flag("--kind", "agent|human", "default agent"),),
        words=("NAME",),
        example="inbox agent add maria --kind human",
    ),
    Command(
        "agent token",
        "Give an agent a token of its name, for the network. The one before is void at once.",
        "setup:agent_token",
        (Flag("--revoke", "", "only make the one that it has void"),),
        words=("NAME",),
        details="The token is shown this once. With it the agent has the mailbox of its name. Agents of a workspace have that one's token.",
        example="inbox agent token analyst",
    ),
    Command(
        "agent register",
        "Give an agent a card, so that others can give it tasks. Said again, the card is replaced.",
        "tasking:register",
        (
            Flag("--description", "TEXT", "what it does"),
            Flag("--skill", "NAME", "something that it can do; may be repeated", repeat=True),
        ),
        words=("NAME",),
        example="inbox agent register canyon --description 'Reviews designs' --skill review",
    ),
    Command(
        "agent find",
        "List the agents that have a skill. Exit 10 when there are none.",
        "tasking:find",
        (Flag("--skill", "NAME", "what it should be able to do"),),
        example="inbox agent find --skill review",
    ),
    Command("agent list", "List everybody who was ever seen.", "setup:agent_list", (), example="inbox agent list"),
    Command(
        "agent show", "Show one agent, and what it holds.", "setup:agent_show", (), words=("NAME",), example="inbox agent show builder"
    ),
    Command(
        "task submit",
        "Give a task to another agent, by name. It waits if that agent is not running.",
        "tasking:submit",
        (
            _FROM,
            Flag("--to", "AGENT", "who is to do it"),
            Flag("--description", "TEXT", "what is to be done"),
            Flag("--description-file", "PATH", "the same from a file; - for standard input"),
            Flag("--context-json", "OBJECT", "what else it should know"),
            Flag("--context-file", "PATH", "the same from a file; - for standard input"),
            Flag("--priority", "urgent|high|normal|low", "default normal"),
            Flag("--deadline-seconds", "N", "fails by itself when it is not done within", NUMBER),
            Flag("--job", "ID", "the job in whose course it is given"),
            Flag("--parent", "TASK", "the task in whose course it is given"),
        ),
        example='inbox task submit --from forge --to canyon --description "Review architecture for module X"',
    ),
    Command(
        "task list",
        "List tasks and results, newest first.",
        "tasking:list_",
        (
            Flag("--status", "pending|accepted|completed|failed", "only these"),
            Flag("--limit", "N", "at most this many; default 100", INTEGER),
        ),
        details="With --agent: those that are for it.",
        example="inbox task list --agent canyon --status pending",
    ),
    Command("task show", "Show one task.", "tasking:show", (_TASK,), example="inbox task show --task 5f0e…"),
    Command(
        "task accept",
        "Take a task: yours until its lease runs out.",
        "tasking:accept",
        (_TASK, Flag("--lease-seconds", "N", "default 900", NUMBER)),
        details="Without --task, the most urgent one. Exit 10 when there is none.",
        example="inbox task accept --agent canyon --json",
    ),
    Command(
        "task complete",
        "Say that a task is done. Whoever gave it gets the result.",
        "tasking:complete",
        (
            _TASK,
            Flag("--artifacts-json", "OBJECT", "what came of it"),
            Flag("--artifact", "PATH", "a file that came of it; may be repeated", repeat=True),
            Flag("--lease-token", "TOKEN", "refuse unless this is still the current lease"),
        ),
        example='inbox task complete --agent canyon --task 5f0e… --artifacts-json \'{"review": "fine"}\'',
    ),
    Command(
        "task fail",
        "Say that a task cannot be done. Whoever gave it is told why.",
        "tasking:fail",
        (_TASK, Flag("--reason", "TEXT", "why"), Flag("--lease-token", "TOKEN", "refuse unless this is still the current lease")),
        example='inbox task fail --agent canyon --task 5f0e… --reason "there is no module X"',
    ),
    Command(
        "task cancel",
        "Take a task back that you gave.",
        "tasking:cancel",
        (_TASK, Flag("--reason", "TEXT", "why")),
        example="inbox task cancel --agent forge --task 5f0e…",
    ),
    Command("task ack", "Note that a result was read.", "tasking:ack", (_TASK,), example="inbox task ack --agent forge --task 9c1b…"),
    Command(
        "task render",
        "Print what waits for an agent as Markdown for its prompt. Accepts nothing.",
        "tasking:render",
        (Flag("--budget", "N", "at most this many characters; default 10000", INTEGER),),
        example="inbox task render --agent canyon",
    ),
    Command(
        "task wait",
        "Sleep until a task has ended. Exit 10 when the time is over.",
        "tasking:wait",
        (_TASK, Flag("--timeout-seconds", "N", "give up after this long; 0 (the default) waits for ever", NUMBER)),
        example="inbox task wait --task 5f0e… --timeout-seconds 600",
    ),
    Command(
        "task open-thread",
        "Answer a task through a work thread: when that ends, so does the task.",
        "tasking:open_thread",
        (_TASK,),
        example="inbox task open-thread --agent canyon --task 5f0e…",
    ),
    *PEOPLE,
    Command(
        "skill",
        "Print the skill that teaches an agent this command, or install it.",
        "setup:skill",
        (
            Flag("--install", "DIR", "write DIR/inbox/SKILL.md, for example into .claude/skills or .agents/skills"),
            Flag("--force", "", "replace a SKILL.md that differs"),
        ),
        example="inbox skill --install .claude/skills",
    ),
    Command(
        "copy",
        "Copy a whole store to another, of either engine.",
        "setup:copy",
        (Flag("--from", "URL", "the store to copy; it may stay in use"), Flag("--to", "URL", "where to; made if it is not there")),
        details="Copies the state of one moment, and checks the counts. After an interruption, run it again.",
        example="inbox copy --from .agents/coord.db --to postgresql://inbox@db.example/work",
    ),
    Command("doctor", "Check the store and this machine.", "doctor:doctor", (), example="inbox doctor"),
    Command("demo", "Watch a leader and two workers at work, on a store of their own.", "demo:demo", (), example="inbox demo"),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "setup:completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(inbox completion bash)"',
    ),
    Command("version", "Print the version.", "setup:version", (), example="inbox --version"),
    Command("help", "Show this help, or a command's.", "setup:help_", (), words=("[COMMAND]",), example="inbox help claim"),
)

INBOX = Program("inbox", "the durable inbox for AI agents and the people they work for", GLOBAL, _COMMANDS)
