"""The statements of the mail room, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records.mail import MailboxRow
from postroom.store.statements.mail import *  # noqa: F403
from postroom.store.statements.mail import mailbox_find, mailbox_find_named, select_dead_sizes
from postroom.store.tables import Query

# Differs from SQLite: the row of the mailbox is locked until COMMIT, so that verbs on one mailbox run one after another.
mailbox_lock = Query(f"{mailbox_find} FOR UPDATE", MailboxRow)

# Differs from SQLite: as `mailbox_lock`.
mailbox_lock_named = Query(f"{mailbox_find_named} FOR UPDATE", MailboxRow)

# Differs from SQLite: waits for every transaction that has locked a mailbox, and lets none lock one until COMMIT. It can only be read.
mailboxes_lock_all = "LOCK TABLE mailboxes IN EXCLUSIVE MODE"

# Differs from SQLite: octet_length, which SQLite has from 3.43 on.
deliveries_dead_sizes = select_dead_sizes("octet_length(payload)")

# Differs from SQLite: as `events_settle`.
deliveries_settle = (
    "SELECT setval(pg_get_serial_sequence('deliveries', 'delivery_id'), greatest(max(delivery_id), 1), max(delivery_id) IS NOT NULL)"
    " FROM deliveries"
)
