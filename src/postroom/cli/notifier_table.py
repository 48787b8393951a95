"""The one table of the command `notifier`."""

from __future__ import annotations

from postroom.cli.grammar import HELP, INTEGER, JSON, NUMBER, VERBOSE, Command, Flag, Program

GLOBAL = (JSON, HELP, VERBOSE)

_AUTHOR = Flag("--author", "NAME", "who asks for it")
_TASK = Flag("--task-id", "ID", "which task")
_TIMER = Flag("--timer-id", "ID", "which timer")
_COMMAND = Flag("--command", "CMD", "a shell line")
_RETRIES = Flag("--retries", "N", "when it fails, try again so often, after 1, 2, 4 … 60 seconds; default 0", INTEGER)
_TIMEOUT = Flag("--timeout-seconds", "N", "end it when it takes longer; default: never", NUMBER)

_COMMANDS = (
    Command(
        "task add",
        "Queue a command, to be run soon. Exit 1 if it waits already.",
        "notifying:task_add",
        (_AUTHOR, _TASK, _COMMAND, _RETRIES, _TIMEOUT),
        details="Tasks are told apart by id and command. One that runs does not wait: it is queued again.",
        example="notifier task add --author warden --task-id nightly --command './clean.sh' --retries 3",
    ),
    Command("task list", "List what waits and what runs.", "notifying:task_list", (), example="notifier task list --json"),
    Command(
        "task remove",
        "Take a waiting task back.",
        "notifying:task_remove",
        (_TASK,),
        example="notifier task remove --task-id nightly",
    ),
    Command(
        "task runs",
        "Show what was run: how it ended, how long it took, what it said.",
        "notifying:task_runs",
        (Flag("--task-id", "ID", "only of this task"), Flag("--limit", "N", "at most this many, newest first; default 20", INTEGER)),
        example="notifier task runs --task-id nightly --limit 1",
    ),
    Command(
        "timer add",
        "Queue a command whenever its time comes.",
        "notifying:timer_add",
        (
            _AUTHOR,
            _TIMER,
            Flag("--cron", "EXPR", "minute hour day month weekday; with six fields, seconds first"),
            _COMMAND,
            Flag("--timezone", "NAME", "such as Europe/Berlin; default: this machine's"),
            _RETRIES,
            _TIMEOUT,
        ),
        details="It is queued as the task timer-ID. Times that were missed while nothing ran are made up for once.",
        example="notifier timer add --author warden --timer-id hourly --cron '0 * * * *' --command './report.sh'",
    ),
    Command("timer list", "List the timers.", "notifying:timer_list", (), example="notifier timer list"),
    Command("timer remove", "Remove a timer.", "notifying:timer_remove", (_TIMER,), example="notifier timer remove --timer-id hourly"),
    Command("start", "Have the runner stay, also when it has nothing to do.", "notifying:start", (), example="notifier start"),
    Command(
        "stop",
        "End the runner, after what it runs. What waits stays until the next task.",
        "notifying:stop",
        (),
        example="notifier stop",
    ),
    Command("status", "Show whether a runner is up, and what waits.", "notifying:status", (), example="notifier status --json"),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "queueing:completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(notifier completion bash)"',
    ),
    Command("version", "Print the version.", "queueing:version", (), example="notifier --version"),
    Command("help", "Show this help, or a command's.", "queueing:help_", (), words=("[COMMAND]",), example="notifier help task add"),
)

NOTIFIER = Program(
    "notifier",
    "commands that are queued durably and run soon; no daemon has to be started",
    GLOBAL,
    _COMMANDS,
    manner="plain",
    exits="Exit codes: 0 success, 1 already queued or not there and nothing else, 2 the command line is wrong, 50 storage trouble.",
)
