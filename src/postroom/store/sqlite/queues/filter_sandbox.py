"""A sandbox for the SQL filters of subscriptions, which are untrusted. `queues/filters.py` calls it.

A filter runs on a read-only connection of its own, under an authorizer that allows the columns of `events` and simple functions only.
A fragment must be valid both bare and in parentheses, so that it cannot close the parentheses around it. A query that takes too many
steps is stopped.
"""

from __future__ import annotations

from time import monotonic

from postroom._fastpath import RLock
from postroom._fastpath.sqlite import Connection, Error, connect, driver
from postroom.core.errors import FilterFailed, InvalidInput
from postroom.core.limits import MAX_EVENT_BYTES, MAX_FILTER_CHARS
from postroom.core.records.queues import QueueEvent
from postroom.core.text import short_repr
from postroom.store.sqlite.open_database import BUSY_TIMEOUT_SECONDS, map_error
from postroom.store.sqlite.queues.queue_statements import EVENT_COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Row

_COLUMN_NAMES = frozenset((*EVENT_COLUMNS.split(", "), "events", "rowid"))
EVENTS_PER_QUERY = 10_000  # each query has its own budget of steps, so that a long queue does not exceed it
_MAX_STEPS, _STEPS_PER_CHECK = 20_000_000, 200
_MAX_SECONDS = 10.0  # of one query, for functions that are slow within one step
_MAX_VALUE_BYTES = 2 * MAX_EVENT_BYTES  # a filter may write a value again, with escapes
_FRAGMENT_ERROR_CODES = (driver.SQLITE_ERROR, driver.SQLITE_AUTH, driver.SQLITE_TOOBIG, driver.SQLITE_RANGE)
_CLOCK_FUNCTIONS = frozenset(
    (
        *("date", "time", "datetime", "julianday", "unixepoch", "strftime"),
        *("current_date", "current_time", "current_timestamp"),
    )
)
# Functions of one value. None of them makes a long text of a short one, or runs for seconds in one step.
_ALLOWED_FUNCTIONS = frozenset(
    (
        *("abs", "coalesce", "glob", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif", "round", "sign"),
        *("substr", "substring", "typeof", "unicode", "upper", "likely", "unlikely", "likelihood"),
        *_CLOCK_FUNCTIONS,
        *("json", "json_array_length", "json_extract", "json_type", "json_valid", "->", "->>"),
        *("avg", "count", "sum", "total"),
    )
)
_SQLITE_LIMITS = (
    (driver.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES),
    (driver.SQLITE_LIMIT_SQL_LENGTH, 4 * MAX_FILTER_CHARS + 1000),
    (driver.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (driver.SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (driver.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500),
    (driver.SQLITE_LIMIT_ATTACHED, 0),
    (driver.SQLITE_LIMIT_VARIABLE_NUMBER, 0),
)


class FilterSandbox:
    """The events of a queue, filtered by an untrusted fragment of SQL. Threads may share it."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._connection = _open_read_only(location)
        self._requested_actions: list[object] | None = None  # the actions of a fragment, while it is checked
        self._connection.set_authorizer(self._authorize_action)
        self._mutex = RLock()  # without it, one thread could hold SQLite's lock and wait for the GIL, and another the other way round
        self._stability_by_fragment: dict[str, bool] = {}
        self._checks_left, self._deadline = 0, 0.0

    def check_filter(self, fragment: str) -> str:
        """Return the fragment if it is a condition on the columns of `events`. Refuses every other text with `InvalidInput`."""
        if fragment in self._stability_by_fragment:
            return fragment
        if not isinstance(fragment, str) or not fragment.strip():
            raise InvalidInput("filter is empty", field="filter", hint="Leave it out to take all events.")
        if len(fragment) > MAX_FILTER_CHARS or "\0" in fragment:
            raise InvalidInput(f"filter must have at most {MAX_FILTER_CHARS} characters, and no NUL", field="filter", hint="Shorten it.")
        _refuse_unknown_names(fragment)
        with self._mutex:
            actions: list[object] = []
            self._requested_actions = actions
            try:
                for condition in (fragment, f"id > 0 AND ({fragment}) ORDER BY id LIMIT 1"):
                    self._prepare_condition(condition, fragment)
            finally:
                self._requested_actions = None
            has_subquery = actions.count(driver.SQLITE_SELECT) != 2  # each of the two conditions has one SELECT
            self._stability_by_fragment[fragment] = not has_subquery and not _CLOCK_FUNCTIONS.intersection(actions)
        return fragment

    def is_stable(self, fragment: str) -> bool:
        """Return whether the result for an event never changes: the fragment reads only that event, and not the clock."""
        return self._stability_by_fragment[self.check_filter(fragment)]

    def _prepare_condition(self, condition: str, fragment: str) -> None:
        """Let SQLite compile a condition, so that the authorizer sees its actions. Refuses one that is invalid or forbidden."""
        try:
            self._connection.execute(f"EXPLAIN SELECT 1 FROM events WHERE {condition}").fetchall()  # noqa: S608 - confined
        except (Error, driver.Warning, UnicodeEncodeError) as error:
            if getattr(error, "sqlite_errorcode", None) not in _FRAGMENT_ERROR_CODES and isinstance(error, driver.OperationalError):
                raise map_error(error, self._location) from None
            hint = "Write one condition on id, created_at, source, type, subtype, content: \"type = 'message'\"."
            forbidden = getattr(error, "sqlite_errorcode", None) == driver.SQLITE_AUTH
            why = "it may use only the columns of events and simple functions" if forbidden else error
            raise InvalidInput(f"filter {short_repr(fragment)} is refused: {why}", field="filter", hint=hint) from None

    def read_matching_after(self, fragment: str, start: int, head: int, limit: int) -> list[QueueEvent]:
        """Return the first `limit` events that match, in order, with an id above `start` and up to `head`."""
        self.check_filter(fragment)
        events: list[QueueEvent] = []
        while start < head and len(events) < limit:
            end = min(start + EVENTS_PER_QUERY, head)
            rows = self._run_query(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE id > {start:d} AND id <= {end:d} AND ({fragment})"  # noqa: S608 - confined
                f" ORDER BY id ASC LIMIT {limit - len(events):d}",
                fragment,
            )
            events += [QueueEvent(*row) for row in rows]
            start = end
        return events

    def close(self) -> None:
        self._connection.close()

    def _run_query(self, statement: str, fragment: str) -> list[Row]:
        """Run a statement within the budget of steps and seconds. Refuses with `FilterFailed` beyond it."""
        with self._mutex:
            self._checks_left, self._deadline = _MAX_STEPS // _STEPS_PER_CHECK, monotonic() + _MAX_SECONDS
            self._connection.set_progress_handler(self._is_over_budget, _STEPS_PER_CHECK)
            try:
                return self._connection.execute(statement).fetchall()
            except Error as error:
                why = "it takes too many steps" if getattr(error, "sqlite_errorcode", 0) == driver.SQLITE_INTERRUPT else str(error)
                hint = "Make it simpler, or guard it: json_valid(content) AND …"
                raise FilterFailed(f"filter {short_repr(fragment)} cannot be applied: {why}", hint=hint) from None
            finally:
                self._connection.set_progress_handler(None, 0)

    def _authorize_action(self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
        if self._requested_actions is not None:
            self._requested_actions.append(second.lower() if action == driver.SQLITE_FUNCTION and second else action)
        if action == driver.SQLITE_READ:
            allowed = first == "events"
        elif action == driver.SQLITE_FUNCTION:
            allowed = second is not None and second.lower() in _ALLOWED_FUNCTIONS
        else:
            allowed = action == driver.SQLITE_SELECT
        return driver.SQLITE_OK if allowed else driver.SQLITE_DENY

    def _is_over_budget(self) -> bool:
        self._checks_left -= 1
        return self._checks_left < 0 or monotonic() > self._deadline


def _refuse_unknown_names(fragment: str) -> None:
    """Refuse a double-quoted name that is not a column. SQLite would take it for a text, and the filter would match nothing."""
    for index, part in enumerate(fragment.split("'")):
        for name in part.split('"')[1::2] if index % 2 == 0 else ():
            if name.lower() not in _COLUMN_NAMES:
                hint = f"Write text in single quotes: '{name[:40]}'."
                raise InvalidInput(
                    f"filter {short_repr(fragment)} is refused: there is no column {short_repr(name)}", field="filter", hint=hint
                )


def _open_read_only(location: str) -> Connection:
    path = location.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        connection = connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("SELECT 1 FROM events LIMIT 1").fetchone()  # reads the schema before the authorizer is set
    except Error as error:
        raise map_error(error, location) from None
    for limit, maximum in _SQLITE_LIMITS:
        connection.setlimit(limit, maximum)
    return connection
