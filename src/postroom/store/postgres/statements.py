"""The catalogue of statements for PostgreSQL. The module of a room is imported when one of its statements is first used."""

from __future__ import annotations

from postroom.store.tables import make_statement_finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.postgres.mail_statements import *  # noqa: F403
    from postroom.store.postgres.people_statements import *  # noqa: F403
    from postroom.store.postgres.retention_statements import *  # noqa: F403
    from postroom.store.postgres.work_statements import *  # noqa: F403
    from postroom.store.statements.channels import *  # noqa: F403
    from postroom.store.statements.tasks import *  # noqa: F403
    from postroom.store.statements.watched_queues import *  # noqa: F403

MODULES = {
    "work": "postroom.store.postgres.work_statements",
    "mail": "postroom.store.postgres.mail_statements",
    "tasks": "postroom.store.statements.tasks",
    "people": "postroom.store.postgres.people_statements",
    "retention": "postroom.store.postgres.retention_statements",
    "watched queues": "postroom.store.statements.watched_queues",
    "channels": "postroom.store.statements.channels",
}

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__ = make_statement_finder(globals(), MODULES)
