"""The statements of the mail room, for SQLite: the shared ones and those that differ from PostgreSQL."""

from __future__ import annotations

from postroom.store.statements.mail import *  # noqa: F403
from postroom.store.statements.mail import mailbox_find, mailbox_find_named, select_dead_sizes

# Differs from PostgreSQL: a write transaction is alone, so it needs no lock.
mailbox_lock = mailbox_find

# Differs from PostgreSQL: as `mailbox_lock`.
mailbox_lock_named = mailbox_find_named

# Differs from PostgreSQL: as `mailbox_lock`.
mailboxes_lock_all = "SELECT 1"

# Differs from PostgreSQL: the length of a text is in characters, and that of a blob in bytes.
deliveries_dead_sizes = select_dead_sizes("length(CAST(payload AS BLOB))")

# Differs from PostgreSQL: the counter of ids follows the inserted rows by itself.
deliveries_settle = "SELECT 1"
