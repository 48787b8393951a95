"""The commands of `inbox` for channels: the ways to reach people who are away."""

from __future__ import annotations

from postroom.cli.framework.spec import ENV, NUMBER, Command, Flag

CHANNELS = (
    Command(
        "channel add",
        "Add a way to reach a person who is away: webhook, email, command or ntfy.",
        "inbox.channels.commands:handle_add",
        (
            Flag("--person", "NAME", "the person whom it reaches; default user"),
            Flag("--sends", "questions|everything|digest", "what it sends; default questions"),
            Flag("--quiet", "HH:MM-HH:MM", "hours in which it sends nothing; messages wait until their end"),
            Flag("--time-zone", "ZONE", "for quiet hours and the digest, for example Europe/Berlin; default: $TZ, else UTC"),
            Flag("--digest-at", "HH:MM", "when the daily digest comes; default 08:00"),
            Flag("--delay-seconds", "N", "wait so long, and send nothing if it was read by then; default 30", NUMBER),
            Flag("--remind-seconds", "N", "how long before its deadline to remind of a question; 0 for never; default 600", NUMBER),
            Flag("--url", "URL", "the address of the server as that person reaches it; default: the server that runs"),
            Flag("--secret-file", "PATH", "a file with the secret; - for standard input; a webhook's is made if there is none"),
            Flag("--secret-env", "NAME", "the variable, of the server or of `channel run`, that holds the secret"),
            Flag("--smtp", "URL", "email: the mail server, smtps://USER@HOST:PORT or smtp://… with STARTTLS"),
            Flag("--from", "ADDRESS", "email: the sender"),
            Flag("--reply-to", "ADDRESS", "email: where replies go that `channel receive` reads; +TOKEN is added to its name"),
            Flag("--allow-plain", "", "send without TLS to another machine"),
            ENV,
        ),
        words=("webhook|email|command|ntfy", "TARGET"),
        details="TARGET is a URL, an e-mail address, a shell command, or the URL of an ntfy topic. The secret signs a webhook (Standard"
        " Webhooks), or is the password of the mail server or the token of ntfy. It is kept in the store and never shown. A command gets"
        " the message as JSON on its standard input, and runs in the folder where the sender was started."
        " One message comes for each matter, and none for what was read, answered, snoozed or put away."
        " `inbox serve` sends them, or `inbox channel run`.",
        example="inbox channel add webhook https://hooks.example.org/in --secret-file hook.secret --quiet 22:00-07:00",
    ),
    Command(
        "channel list",
        "List the channels.",
        "inbox.channels.commands:handle_list",
        (Flag("--person", "NAME", "only those of this person"),),
        example="inbox channel list",
    ),
    Command(
        "channel show", "Show one channel.", "inbox.channels.commands:handle_show", (), words=("ID",), example="inbox channel show ch_123"
    ),
    Command(
        "channel remove",
        "Remove a channel, its secret, and what it has not sent yet.",
        "inbox.channels.commands:handle_remove",
        (),
        words=("ID",),
        example="inbox channel remove ch_123",
    ),
    Command(
        "channel test",
        "Send a test message by a channel, now, and say whether it was accepted.",
        "inbox.channels.commands:handle_test",
        (),
        words=("ID",),
        example="inbox channel test ch_123",
    ),
    Command(
        "channel run",
        "Send what is due, as a server does. For stores without a server.",
        "inbox.channels.commands:handle_run",
        (Flag("--until-empty", "", "send what is due now, and end; for example from cron"),),
        details="A message that is not accepted is tried again after 5, 10, 20 … seconds, nine times in 21 minutes. Then it is a dead"
        " letter of the mailbox that `inbox channel show` names: see `mailbox peek-dead-letter` and `mailbox retry-dead-letter`.",
        example="inbox channel run",
    ),
    Command(
        "channel receive",
        "Read a mail from standard input, and take it as the answer to the question that it replies to.",
        "inbox.channels.commands:handle_receive",
        (),
        details='For a mail server, as in /etc/aliases: inbox: "|inbox channel receive --db PATH". The token that Postroom put into the'
        " reply address and the Message-ID says which person answers which question. Automatic replies are ignored.",
        example="inbox channel receive < reply.eml",
    ),
)
