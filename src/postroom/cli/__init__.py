"""The five command-line programs: inbox, mailbox, thread, notifier, and postroom, which leads to the others.

The console scripts in pyproject.toml start them. A program calls verbs and must not know SQL. Only `inbox/serve.py` may import the server.
"""

# Modules that commands need, each behind those that it imports. A program imports them in this order at its start, which takes a third of
# the time of `importlib`. A module that is missing here is imported as usual. tests/cli/test_quick_imports.py checks the order, and that
# `inbox renew`, `mailbox enqueue` and `inbox hook prompt` need each of them.
COMMAND_MODULES = (
    *("postroom.core", "postroom.core.errors", "postroom.core.text", "postroom._fastpath.json_text", "postroom.cli.framework"),
    *("postroom.cli.framework.output", "postroom.cli.framework.spec", "postroom.cli.framework.parser", "postroom.cli.framework.runner"),
    *("postroom.core.limits", "postroom.core.checks", "postroom.core.records", "postroom.core.clock", "postroom.core.states"),
    *("postroom.store", "postroom.store.location", "postroom.cli.inbox", "postroom.cli.inbox.inputs"),
    *(
        "postroom.core.lazy_names",
        "postroom.core.tracing",
        "postroom.core.verbs",
        "postroom.store.event_log",
        "postroom.store.agents",
        "postroom.store.retries",
    ),
)
SQLITE_MODULES = (  # for a store in a file
    *("postroom.store.sqlite", "postroom._fastpath.sqlite", "postroom.core.ids", "postroom.store.forks", "postroom.store.tables"),
    *("postroom.store.base_transaction", "postroom.store.statements", "postroom.store.statements.events"),
    *("postroom.store.sqlite.statements", "postroom.store.sqlite.writer_queue"),
    *("postroom.store.sqlite.open_database", "postroom.store.sqlite.wake_files", "postroom.store.sqlite.engine"),
)
WORK_STATEMENTS = ("postroom.store.statements.taking", "postroom.store.statements.work", "postroom.store.sqlite.work_statements")
MAIL_STATEMENTS = ("postroom.store.statements.mail", "postroom.store.sqlite.mail_statements")
WORK_MODULES = ("postroom.core.records.work", "postroom.cli.inbox.spec", "postroom.work", "postroom.work.messages", "postroom.work.leases")
MAIL_MODULES = (
    *("postroom.cli.mailbox.spec", "postroom.mail", "postroom.core.records.mail", "postroom.mail.drafts", "postroom.mail.transitions"),
    *("postroom.mail.identity", "postroom.store.mail_values", "postroom.mail.mailbox", "postroom.cli.mailbox.commands"),
)
HOOK_MODULES = (  # for a hook that reads the store, beside those of `inbox` and of a store in a file
    *(
        "postroom._fastpath.sha1",
        "postroom.people",
        "postroom.people.agents",
        "postroom.core.records.handovers",
        "postroom.core.records.mail",
    ),
    *(
        "postroom.mail",
        "postroom.mail.transitions",
        "postroom.mail.identity",
        "postroom.mail.sweeping",
        "postroom.people.agents.handed_items",
    ),
    *("postroom.core.records.people", "postroom.people.questions", "postroom.people.questions.due_questions"),
    *("postroom.people.agents.waiting", "postroom.core.records.agent_sessions", "postroom.core.records.passes"),
    *("postroom.core.records.room_search", "postroom.store.statements.people", "postroom.store.sqlite.people_statements"),
    *("postroom.store.mail_values", *MAIL_STATEMENTS),
)
