"""The commands of agents, tasks, jobs and sheets: a part of the table of `inbox`."""

from __future__ import annotations

from postroom.cli.framework.spec import AFTER, INTEGER, NUMBER, Command, Flag, name_subjects

_FROM = Flag("--from", "AGENT", "the sender; default: --agent")
_TASK = Flag("--task", "TASK_ID", "the task")
_TASK_TOKEN = Flag(
    "--lease-token", "TOKEN", "refuse unless this is still the current lease of the task; default: the one that this shell got"
)
_LEASE = Flag("--lease-seconds", "N", "seconds until the lease runs out unless it is renewed; default 900", NUMBER)
_TIMEOUT = Flag("--timeout-seconds", "N", "give up after N seconds, with exit 10; 0 (the default) waits forever", NUMBER)
_LIMIT = Flag("--limit", "N", "at most this many; default 100", INTEGER)
_JOB = Flag("--job", "JOB_ID", "the job")
_JOB_TOKEN = Flag("--lease-token", "TOKEN", "refuse if another process continued the job since; default: the token that this shell got")
_BUDGET = Flag("--budget", "N", "at most this many characters; default 10000", INTEGER)

_COMMANDS = (
    Command(
        "agent add",
        "Add an agent, or change its kind.",
        "inbox.store:handle_agent_add",
        (Flag("--kind", "agent|human", "default agent"),),
        words=("NAME",),
        example="inbox agent add maria --kind human",
    ),
    Command(
        "agent token",
        "Issue a token with which an agent connects over the network. The previous token is void at once.",
        "inbox.store:handle_agent_token",
        (
            Flag("--revoke", "", "only revoke the current token"),
            Flag("--scope", "own|all", "default own. all: the agent is a leader, which sees every thread, task and mailbox"),
        ),
        words=("NAME",),
        details="The token is shown only once. It opens the threads, tasks and mailbox of the agent's name."
        " A workspace's agent uses the workspace's token.",
        example="inbox agent token analyst",
    ),
    Command(
        "agent register",
        "Give an agent a card, so that others can give it tasks. Replaces its earlier card.",
        "inbox.tasks.commands:handle_agent_register",
        (
            Flag("--description", "TEXT", "what the agent does"),
            Flag("--skill", "NAME", "a skill of the agent; may be repeated", repeat=True),
        ),
        words=("NAME",),
        example="inbox agent register canyon --description 'Reviews designs' --skill review",
    ),
    Command(
        "agent find",
        "List the agents that have a skill. Exit 10 when there are none.",
        "inbox.tasks.commands:handle_agent_find",
        (Flag("--skill", "NAME", "the skill to look for"), _LIMIT, AFTER),
        example="inbox agent find --skill review",
    ),
    Command(
        "agent list",
        "List every agent and person that the store knows.",
        "inbox.store:handle_agent_list",
        (Flag("--limit", "N", "at most this many; default 1000", INTEGER), AFTER),
        example="inbox agent list",
    ),
    Command(
        "agent show",
        "Show one agent and the threads that it holds.",
        "inbox.store:handle_agent_show",
        (),
        words=("NAME",),
        example="inbox agent show builder",
    ),
    Command(
        "task submit",
        "Give a task to another agent, by name or by skill. The task waits if that agent is not running.",
        "inbox.tasks.commands:handle_task_submit",
        (
            _FROM,
            Flag("--to", "AGENT", "the agent that should do it"),
            Flag("--skill", "NAME", "instead of --to: the agent with this skill that has the fewest waiting tasks"),
            Flag("--description", "TEXT", "what to do"),
            Flag("--description-file", "PATH", "the same from a file; - for standard input"),
            Flag("--context-json", "OBJECT", "a JSON object with more information"),
            Flag("--context-file", "PATH", "the same from a file; - for standard input"),
            Flag("--priority", "urgent|high|normal|low", "default normal"),
            Flag("--deadline-seconds", "N", "the task fails if it is not done within N seconds", NUMBER),
            Flag("--job", "ID", "the job that gives the task"),
            Flag("--parent", "TASK", "the task that this task is a part of"),
        ),
        example='inbox task submit --from forge --to canyon --description "Review architecture for module X"',
    ),
    Command(
        "task list",
        "List tasks and results, newest first.",
        "inbox.tasks.listing:handle_task_list",
        (
            Flag("--from", "AGENT", "only those that this agent gave"),
            Flag("--to", "AGENT", "only those for this agent; default: --agent"),
            Flag("--status", "pending|accepted|completed|failed", "only tasks with this status"),
            _LIMIT,
            Flag("--before-event", "EVENT_ID", "the page after the one that returned this as next_before_event", INTEGER),
        ),
        example="inbox task list --from forge --status pending",
    ),
    Command(
        "task show",
        "Show one task and its history.",
        "inbox.tasks.listing:handle_task_show",
        (_TASK,),
        example="inbox task show 5f0e…",
    ),
    Command(
        "task accept",
        "Accept a task. It is yours until its lease runs out.",
        "inbox.tasks.commands:handle_task_accept",
        (
            _TASK,
            _LEASE,
            Flag("--wait", "", "if there is none, sleep until one comes"),
            _TIMEOUT,
            Flag("--job", "ID", "accept it for this job"),
        ),
        details="Without --task: the most urgent one. Exit 10 when there is none.",
        example="inbox task accept --agent canyon --wait --json",
    ),
    Command(
        "task renew",
        "Renew the lease of a task that you accepted.",
        "inbox.tasks.commands:handle_task_renew",
        (_TASK, _LEASE, _TASK_TOKEN),
        example="inbox task renew 5f0e… --agent canyon",
    ),
    Command(
        "task complete",
        "Report that a task is done. The agent that gave it receives the result.",
        "inbox.tasks.commands:handle_task_complete",
        (
            _TASK,
            Flag("--artifacts-json", "OBJECT", "a JSON object with the result"),
            Flag("--artifact", "PATH", "a file with the result; may be repeated", repeat=True),
            _TASK_TOKEN,
        ),
        example='inbox task complete 5f0e… --agent canyon --artifacts-json \'{"review": "fine"}\'',
    ),
    Command(
        "task fail",
        "Report that a task cannot be done. The agent that gave it receives the reason.",
        "inbox.tasks.commands:handle_task_fail",
        (_TASK, Flag("--reason", "TEXT", "why"), _TASK_TOKEN),
        example='inbox task fail 5f0e… --agent canyon --reason "there is no module X"',
    ),
    Command(
        "task cancel",
        "Withdraw a task that you gave.",
        "inbox.tasks.commands:handle_task_cancel",
        (_TASK, Flag("--reason", "TEXT", "why")),
        example="inbox task cancel 5f0e… --agent forge",
    ),
    Command(
        "task ack",
        "Mark a result, or all results, as read.",
        "inbox.tasks.commands:handle_task_ack",
        (_TASK, Flag("--all", "", "all results of the agent")),
        example="inbox task ack 9c1b… --agent forge",
    ),
    Command(
        "task render",
        "Print an agent's waiting tasks and results as Markdown for its prompt. Accepts none of them.",
        "inbox.tasks.commands:handle_task_render",
        (_BUDGET,),
        example="inbox task render --agent canyon",
    ),
    Command(
        "task wait",
        "Sleep until tasks have ended. Exit 10 when the time is over.",
        "inbox.tasks.commands:handle_task_wait",
        (
            Flag("--task", "TASK_ID", "the task; may be repeated", repeat=True),
            Flag("--any", "", "until one of them has ended, not all"),
            _TIMEOUT,
        ),
        example="inbox task wait 5f0e… --timeout-seconds 600",
    ),
    Command(
        "task open-thread",
        "Open a work thread for a task. The task ends when the thread ends.",
        "inbox.tasks.commands:handle_task_open_thread",
        (_TASK,),
        example="inbox task open-thread 5f0e… --agent canyon",
    ),
    Command(
        "job start",
        "Start a job: one run of an agent, which gets its tasks and results as sheets.",
        "inbox.tasks.jobs:handle_job_start",
        (Flag("--job", "JOB_ID", "a fixed id: if its process died, the job goes on under a new token"), _LEASE),
        details="The job has a lease. `sheet begin` and `job renew` renew it. When it runs out, its tasks go back to the agent.",
        example="inbox job start nightly --agent canyon",
    ),
    Command(
        "job list",
        "List jobs, newest first.",
        "inbox.tasks.jobs:handle_job_list",
        (_LIMIT, AFTER),
        details="With --agent: only those of this agent.",
        example="inbox job list --agent canyon",
    ),
    Command(
        "job show",
        "Show a job and what waits in its inbox.",
        "inbox.tasks.jobs:handle_job_show",
        (_JOB,),
        example="inbox job show nightly",
    ),
    Command(
        "job renew",
        "Renew the lease of a job, and of the tasks that it has accepted.",
        "inbox.tasks.jobs:handle_job_renew",
        (_JOB, _LEASE, _JOB_TOKEN),
        example="inbox job renew nightly",
    ),
    Command(
        "job end",
        "End a job. Its open tasks and results go back to the agent.",
        "inbox.tasks.jobs:handle_job_end",
        (_JOB, _JOB_TOKEN),
        example="inbox job end nightly",
    ),
    Command(
        "sheet begin",
        "Print the pending tasks and results of a job as Markdown for a prompt, and accept exactly those.",
        "inbox.tasks.jobs:handle_sheet_begin",
        (_JOB, _LEASE, _BUDGET, _JOB_TOKEN),
        details="Exit 10 when there is nothing to show.",
        example="inbox sheet begin nightly",
    ),
    Command(
        "sheet end",
        "End a sheet: unfinished tasks are pending again, and the results that it showed are read.",
        "inbox.tasks.jobs:handle_sheet_end",
        (
            _JOB,
            Flag("--sheet", "TOKEN", "the sheet; default: every open sheet of the job"),
            Flag("--answers", "FILE", "first apply the answers in this text of the agent; - for standard input"),
            _JOB_TOKEN,
        ),
        details="Answers are lines `@complete ID: result`, `@fail ID: reason` and `@delegate NAME: task`, with further lines indented."
        " List items, bold, other case and fences are understood. All are applied in one transaction. Lines that were not applied are"
        " printed with the reason.",
        example="inbox sheet end nightly --answers reply.md",
    ),
)

name_subjects(tuple(command for command in _COMMANDS if command.name.startswith("task ") and command.name != "task submit"), "--task")
name_subjects(tuple(command for command in _COMMANDS if command.name.startswith(("job ", "sheet "))), "--job")
AGENTS_AND_TASKS = _COMMANDS
