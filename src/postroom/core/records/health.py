"""The record of `inbox doctor`: the finding of one check."""

from __future__ import annotations

from postroom.core.records import Record

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(Record):
    """The result of one check: its subject, its state, and what was found.

    `fail` breaks a promise of the store. `warn` needs somebody's attention. If the state is not `ok`, `why` says why it matters, and
    `mend` is the command, or the step, that mends it.
    """

    what: str
    state: str
    says: str
    why: str = ""
    mend: str = ""
