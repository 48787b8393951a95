"""The command of `inbox` that keeps an agent running."""

from __future__ import annotations

from postroom.cli.framework.spec import INTEGER, NUMBER, Command, Flag

RESIDENTS = (
    Command(
        "agent run",
        "Keep an agent running in a program: start it for work and mail, and go on when an answer comes.",
        "inbox.residents.commands:handle_agent_run",
        (
            Flag("--with", "claude|codex|opencode|gemini|qwen|acp:'COMMAND'|'COMMAND'", "the program, or a shell command"),
            Flag("--jobs", "N", "how many threads at the same time; default 1", INTEGER),
            Flag("--turns", "N", "fail a thread after N turns of the program; default 50", INTEGER),
            Flag("--timeout-seconds", "N", "stop a turn after N seconds; that counts as a failure; default 3600, 0: no limit", NUMBER),
            Flag("--lease-seconds", "N", "how long a killed agent holds its work; default 900", NUMBER),
            Flag("--retries", "N", "try a failed turn again, up to N times; default 0", INTEGER),
            Flag("--backoff-seconds", "N", "the pause before the first retry, doubled for each further one; default 5", NUMBER),
            Flag("--approve", "", "allow whatever the program asks permission for; default: only the tools of Postroom"),
            Flag("--until-empty", "", "exit when nothing is left to do, instead of waiting for more"),
        ),
        words=("NAME",),
        details="Each thread of work has its own session of the program, which goes on when a question is answered, also after a restart."
        " The program gets the tools of Postroom. Its last message is reported as the result, unless it ended the thread itself. Mail is"
        " announced in a session of its own. A program that speaks the Agent Client Protocol stays warm between turns. A plain command"
        " runs once for each thread, as with `inbox work`, and once for each message, as with `mailbox deliver`.",
        example="inbox agent run builder --with gemini",
    ),
)
