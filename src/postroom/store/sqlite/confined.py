"""Fragments of SQL that strangers wrote, run where they can do no harm.

A connection of their own that can only read, under an authorizer that lets them read the columns of `events` and nothing else.
A fragment must make sense both bare and in brackets, so it cannot leave them; and what takes too many steps is stopped.
"""

from __future__ import annotations

import _sqlite3
from _thread import RLock
from time import monotonic

from postroom.core.errors import FilterFailed, InvalidInput
from postroom.core.words import shown
from postroom.store.sqlite.driver import Connection, Error, connect
from postroom.store.sqlite.engine import BUSY_SECONDS, refusal
from postroom.store.sqlite.queue_statements import EVENT_COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Row

LONGEST = 4000
_NAMES = frozenset((*EVENT_COLUMNS.split(", "), "events", "rowid"))
STRIDE = 10_000  # events a query; each has its own budget, so that a long way is no reason to stop
_STEPS, _LOOK_EVERY = 20_000_000, 200
_SECONDS = 10.0  # and no longer, for functions that take their time in one step
_MEMORY = 128 << 20  # of one value: more than the longest content
_OF_THE_FRAGMENT = (_sqlite3.SQLITE_ERROR, _sqlite3.SQLITE_AUTH, _sqlite3.SQLITE_TOOBIG, _sqlite3.SQLITE_RANGE)
_CLOCK = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "current_date", "current_time", "current_timestamp")
_PASSING = frozenset(_CLOCK)
# Those that look at a value. None makes a long text of a short one, or works for seconds in one step.
_FUNCTIONS = frozenset(
    (
        *("abs", "coalesce", "glob", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif", "round", "sign"),
        *("substr", "substring", "typeof", "unicode", "upper", "likely", "unlikely", "likelihood"),
        *_CLOCK,
        *("json", "json_array_length", "json_extract", "json_type", "json_valid", "->", "->>"),
        *("avg", "count", "sum", "total"),
    )
)
_LIMITS = (
    (_sqlite3.SQLITE_LIMIT_LENGTH, _MEMORY),
    (_sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 * LONGEST + 1000),
    (_sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (_sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (_sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500),
    (_sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (_sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 0),
)


class Confined:
    """A queue's events, for those who ask by a fragment."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._connection = _read_only(place)
        self._seen: list[object] | None = None  # what a fragment asks for, while it is checked
        self._connection.set_authorizer(self._authorize)
        self._mutex = RLock()  # a thread inside SQLite that asks for Python, and one the other way round, would wait for each other
        self._good: dict[str, bool] = {}
        self._budget, self._deadline = 0, 0.0

    def check(self, fragment: str) -> str:
        """The fragment, if it is one: a condition on the columns of `events`."""
        if fragment in self._good:
            return fragment
        if not isinstance(fragment, str) or not fragment.strip():
            raise InvalidInput("filter is empty", field="filter", hint="Leave it out to take all events.")
        if len(fragment) > LONGEST or "\0" in fragment:
            raise InvalidInput(f"filter must have at most {LONGEST} characters, and no NUL", field="filter", hint="Shorten it.")
        _refuse_quotes(fragment)
        with self._mutex:
            seen: list[object] = []
            self._seen = seen
            try:
                for condition in (fragment, f"id > 0 AND ({fragment}) ORDER BY id LIMIT 1"):
                    self._prepare(condition, fragment)
            finally:
                self._seen = None
            self._good[fragment] = seen.count(_sqlite3.SQLITE_SELECT) == 2 and not _PASSING.intersection(seen)  # one in each of the two
        return fragment

    def lasting(self, fragment: str) -> bool:
        """Whether it says of an event for ever what it says now: it looks at that event alone, and not at the clock."""
        return self._good[self.check(fragment)]

    def _prepare(self, condition: str, fragment: str) -> None:
        try:
            self._connection.execute(f"EXPLAIN SELECT 1 FROM events WHERE {condition}").fetchall()  # noqa: S608 - confined
        except (Error, _sqlite3.Warning, UnicodeEncodeError) as error:
            if getattr(error, "sqlite_errorcode", None) not in _OF_THE_FRAGMENT and isinstance(error, _sqlite3.OperationalError):
                raise refusal(error, self._place) from None
            hint = "Write one condition on id, created_at, source, type, subtype, content: \"type = 'message'\"."
            forbidden = getattr(error, "sqlite_errorcode", None) == _sqlite3.SQLITE_AUTH
            why = "it may look at the columns of events, by simple functions, and at nothing else" if forbidden else error
            raise InvalidInput(f"filter {shown(fragment)} is refused: {why}", field="filter", hint=hint) from None

    def after(self, fragment: str, start: int, head: int, limit: int) -> list[Row]:
        """Events after `start`, up to `head`, that fit: at most `limit` of them, in order."""
        self.check(fragment)
        found: list[Row] = []
        while start < head and len(found) < limit:
            end = min(start + STRIDE, head)
            found += self._ask(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE id > {start:d} AND id <= {end:d} AND ({fragment})"  # noqa: S608 - confined
                f" ORDER BY id ASC LIMIT {limit - len(found):d}",
                fragment,
            )
            start = end
        return found

    def close(self) -> None:
        self._connection.close()

    def _ask(self, statement: str, fragment: str) -> list[Row]:
        with self._mutex:
            self._budget, self._deadline = _STEPS // _LOOK_EVERY, monotonic() + _SECONDS
            self._connection.set_progress_handler(self._step, _LOOK_EVERY)
            try:
                return self._connection.execute(statement).fetchall()
            except Error as error:
                why = "it takes too many steps" if getattr(error, "sqlite_errorcode", 0) == _sqlite3.SQLITE_INTERRUPT else str(error)
                hint = "Make it simpler, or guard it: json_valid(content) AND …"
                raise FilterFailed(f"filter {shown(fragment)} cannot be applied: {why}", hint=hint) from None
            finally:
                self._connection.set_progress_handler(None, 0)

    def _authorize(self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
        if self._seen is not None:
            self._seen.append(second.lower() if action == _sqlite3.SQLITE_FUNCTION and second else action)
        if action == _sqlite3.SQLITE_READ:
            allowed = first == "events"
        elif action == _sqlite3.SQLITE_FUNCTION:
            allowed = second is not None and second.lower() in _FUNCTIONS
        else:
            allowed = action == _sqlite3.SQLITE_SELECT
        return _sqlite3.SQLITE_OK if allowed else _sqlite3.SQLITE_DENY

    def _step(self) -> bool:
        self._budget -= 1
        return self._budget < 0 or monotonic() > self._deadline


def _refuse_quotes(fragment: str) -> None:
    """Double quotes are for names. SQLite takes a name that it does not know for a text, and a misspelt filter fits nothing."""
    for place, part in enumerate(fragment.split("'")):
        for name in part.split('"')[1::2] if place % 2 == 0 else ():
            if name.lower() not in _NAMES:
                hint = f"Text stands in single quotes: '{name[:40]}'."
                raise InvalidInput(f"filter {shown(fragment)} is refused: there is no column {shown(name)}", field="filter", hint=hint)


def _read_only(place: str) -> Connection:
    path = place.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        opened = connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        opened.execute("PRAGMA query_only=ON")
        opened.execute("PRAGMA trusted_schema=OFF")
        opened.execute("SELECT 1 FROM events LIMIT 1").fetchone()  # reads the schema, while it may
    except Error as error:
        raise refusal(error, place) from None
    for limit, most in _LIMITS:
        opened.setlimit(limit, most)
    return opened
