"""The command table of `notifier`."""

from __future__ import annotations

from postroom.cli.framework.spec import ENV, HELP, INTEGER, JSON, NUMBER, VERBOSE, Command, CommandTable, Flag, name_subjects

GLOBAL = (JSON, HELP, VERBOSE)

_AGENT = Flag("--agent", "NAME", "your name, which `list` shows", alias="--author")
_TASK = Flag("--task-id", "ID", "the id of the command")
_TIMER = Flag("--timer-id", "ID", "the timer")
_COMMAND = Flag("--command", "CMD", "the shell command")
_RETRIES = Flag("--retries", "N", "how often to try again when it fails, after 1, 2, 4 … 60 seconds; default 0", INTEGER)
_TIMEOUT = Flag("--timeout-seconds", "N", "end the command after N seconds; default: never", NUMBER)

_COMMANDS = (
    Command(
        "task add",
        "Queue a command that is run soon. Exit 1 if it is waiting already.",
        "notifier.commands:handle_task_add",
        (_AGENT, _TASK, _COMMAND, ENV, _RETRIES, _TIMEOUT),
        details="The id and the command identify a task. A task that is running is not waiting, so it can be queued again.",
        example="notifier task add --agent warden --task-id nightly --command './clean.sh' --retries 3",
    ),
    Command(
        "task list", "List the waiting and running tasks.", "notifier.commands:handle_task_list", (), example="notifier task list --json"
    ),
    Command(
        "task remove",
        "Remove a waiting task.",
        "notifier.commands:handle_task_remove",
        (_TASK,),
        example="notifier task remove nightly",
    ),
    Command(
        "task runs",
        "Show past runs: how each ended, how long it took, and its output.",
        "notifier.commands:handle_task_runs",
        (
            Flag("--task-id", "ID", "only runs of this task or timer"),
            Flag("--limit", "N", "at most this many, newest first; default 20", INTEGER),
        ),
        example="notifier task runs nightly --limit 1",
    ),
    Command(
        "timer add",
        "Queue a command at the times of a cron expression.",
        "notifier.commands:handle_timer_add",
        (
            _AGENT,
            _TIMER,
            Flag(
                "--cron",
                "EXPR",
                "minute hour day month weekday; with six fields, seconds first; or @hourly, @daily, @weekly, @monthly, @yearly, @reboot",
            ),
            _COMMAND,
            ENV,
            Flag("--time-zone", "ZONE", "for example Europe/Berlin; default: the time zone of this machine", alias="--timezone"),
            _RETRIES,
            _TIMEOUT,
        ),
        details="The command is queued as the task timer-ID. If times were missed while nothing ran, it is queued once.",
        example="notifier timer add --agent warden --timer-id hourly --cron '0 * * * *' --command './report.sh'",
    ),
    Command("timer list", "List the timers.", "notifier.commands:handle_timer_list", (), example="notifier timer list"),
    Command(
        "timer remove",
        "Remove a timer.",
        "notifier.commands:handle_timer_remove",
        (_TIMER,),
        example="notifier timer remove hourly",
    ),
    Command(
        "start", "Keep the runner running, even when it has nothing to do.", "notifier.commands:handle_start", (), example="notifier start"
    ),
    Command(
        "run",
        "Run the runner in the foreground, until SIGTERM. For service managers.",
        "notifier.commands:handle_run",
        (),
        details="If another runner is up, it waits until that one has ended.",
        example="notifier run",
    ),
    Command(
        "install",
        "Start the runner with the machine, so that timers and unread events survive a reboot.",
        "notifier.commands:handle_install",
        (
            Flag("--with", "systemd|cron", "write a unit of the user or a line of the crontab; default: what this machine has"),
            Flag("--undo", "", "remove what was installed"),
        ),
        details="Prints the path of the unit, or the line. The unit has the NOTIFIER_HOME and the PATH of this moment.",
        example="notifier install",
    ),
    Command(
        "stop",
        "Stop the runner when its running commands and handlers have ended. Tasks and timers wait until the next is added.",
        "notifier.commands:handle_stop",
        (),
        example="notifier stop",
    ),
    Command(
        "status",
        "Show whether a runner is up, and how many tasks wait.",
        "notifier.commands:handle_status",
        (),
        example="notifier status --json",
    ),
    Command(
        "completion",
        "Print the completion script of a shell.",
        "thread.commands:handle_completion",
        (),
        words=("bash|zsh|fish",),
        example='eval "$(notifier completion bash)"',
    ),
    Command("version", "Print the version.", "thread.commands:handle_version", (), example="notifier --version"),
    Command(
        "help",
        "Show this help, or the help of a command.",
        "thread.commands:handle_help",
        (),
        words=("[COMMAND]",),
        example="notifier help task add",
    ),
)

name_subjects(
    tuple(command for command in _COMMANDS if command.name in ("task remove", "task runs", "timer remove")), "--task-id", "--timer-id"
)

NOTIFIER = CommandTable(
    "notifier",
    "run commands soon, from a durable queue; no daemon has to be started",
    GLOBAL,
    _COMMANDS,
    output_module="framework.plain_output",
    aliases={"ls": "task list", "list": "task list", "add": "task add"},
    first_commands=("task add", "task list", "timer add", "status", "install"),
    exits="Exit codes: 0 success, 1 only for already queued or not there, 2 the command line is wrong, 50 storage trouble.",
)
