"""The records of passes: the secrets by which callers are known, without the secrets."""

from __future__ import annotations

from postroom.core.records import Record


class Pass(Record):
    """A stored pass: a link, a session or a token. Only the hash of its secret is kept. `person` is the name that it identifies.

    `scope` is `own`, or `all` on the token of a leader.
    """

    token_hash: str
    kind: str
    person: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None = None
    scope: str = "own"

    @property
    def pass_id(self) -> str:
        """The public name of the pass. It opens nothing."""
        return f"pass_{self.token_hash[:PASS_ID_DIGITS]}"

    def listed(self) -> ListedPass:
        """Return the pass as people see it, without the hash."""
        return ListedPass(self.pass_id, self.kind, self.person, self.created_at, self.expires_at, self.last_used_at, self.scope)


PASS_ID_DIGITS = 12  # of the hash, in hexadecimal


class ListedPass(Record):
    """A pass as people see it. `name` is the person or the agent. `last_used_at` is exact to a day, and None if it was never used.

    `scope` is `all` on the token of a leader, else `own`.
    """

    pass_id: str
    kind: str
    name: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    scope: str


class PassPage(Record):
    """A page of passes. If there are `more`, pass `after` to get the next page."""

    passes: tuple[ListedPass, ...]
    more: bool
    after: str | None


class PersonSession(Record):
    """The session of a person who signed in with a link, and the token that the browser keeps."""

    person: str
    token: str
    expires_at: str
