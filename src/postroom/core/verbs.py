"""The declaration of a verb: a function of a room whose first argument is a store.

`@verb(caller=…, access=…, mode=…)` is the only place that defines which callers may use a verb over the network, what an agent may touch
with it, and how the server runs it. The server derives its routing table, permission check, write path, OpenAPI operations and reference
page from it. A verb that receives a remote store sends the call to the server, and returns its result or raises its refusal.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

# `caller` is the name of the argument that holds the acting agent, or one of these values. They contain a space, so that none of them can
# be the name of an argument.
MESSAGE_SENDER = "sender of each message"  # the field `from` of `message`, or of each of `messages`
ANY_AGENT = "any agent"  # the verb has no argument for the caller
PEOPLE = "people only"
LEADERS = "people and leaders"  # the verb only reads. A leader is an agent whose token has the scope `all`
SERVER_MACHINE = "server machine only"  # the verb uses files or tokens of the server's machine, and is refused over the network

# `access` is what an agent may touch with a verb, in the words of docs/permissions.md. `server.rpc.permissions` applies each rule. A verb
# for people, leaders or the server's machine needs none: `caller` says all.
OWN_NAME = "acts in its own name"
OWN_VIEW = "reads what belongs to its own name"  # a leader: to any name
DIRECTORY = "reads the names and cards of all agents"
THREAD_SEEN = "reads a thread that it sees"  # `thread_id`
THREAD_PART = "acts in a thread in which it takes part"
THREAD_SPEAK = "speaks in a thread in which it takes part, or opens one"
THREAD_TAKE = "claims a thread that is pending for it, or lapsed"
THREAD_CONTROL = "controls a thread that it created or holds"  # a leader: any thread
THREADS_SEEN = "lists the threads that it sees"  # the server sets `visible_to`
TASK_PARTY = "reads a task that it gave or got"  # `task_id`
TASK_RECEIVER = "acts on a task that it got"
TASK_GIVER = "acts on a task that it gave"
TASK_SUBMIT = "gives a task in its own name, below a task that it gave or got"  # `parent`
TASKS_SEEN = "lists the tasks that it gave or got"  # the server sets `visible_to`
JOB_SEEN = "reads a job of its own"  # `job_id`
JOB_OWNER = "acts for a job of its own"
MESSAGE_PARTY = "reads a message that it sent or received"  # `msg_id`
OWN_ENTRIES = "reads its own entries"
ACCESS_RULES = (
    *(OWN_NAME, OWN_VIEW, DIRECTORY, THREAD_SEEN, THREAD_PART, THREAD_SPEAK, THREAD_TAKE, THREAD_CONTROL, THREADS_SEEN),
    *(TASK_PARTY, TASK_RECEIVER, TASK_GIVER, TASK_SUBMIT, TASKS_SEEN, JOB_SEEN, JOB_OWNER, MESSAGE_PARTY, OWN_ENTRIES),
)

# `mode` is how the server runs a verb.
READ = "read"  # writes nothing
WRITE = "write"  # one transaction, after overdue transitions were applied. Shares a commit with other writes
STEPS = "steps"  # several transactions, or reads files. Runs in its own thread
WAIT = "wait"  # blocks until something happens, up to `timeout_seconds`
MODES = (READ, WRITE, STEPS, WAIT)


class Verb:
    """One declared verb. `function` runs it on a local store. The signature of `function` gives the arguments and the result."""

    __slots__ = ("access", "caller", "function", "mode", "name")

    def __init__(self, name: str, function: Callable[..., Any], *, caller: str, access: str | None, mode: str) -> None:
        if (access is None) != (caller in (PEOPLE, LEADERS, SERVER_MACHINE)) or (access is not None and access not in ACCESS_RULES):
            raise TypeError(f"{name} must declare what an agent may touch, or that it is not for agents: access={access!r}")
        self.name = name
        self.function = function
        self.caller = caller
        self.access = access
        self.mode = mode

    @property
    def result_type(self) -> str:
        """The annotation of the result, as text."""
        return str(_undecorate(self.function).__annotations__["return"])


_TRACING_SDK = "opentelemetry.sdk.trace"  # `core.tracing` is imported only beside it
called_modes: set[str] = set()  # of the verbs that this process called: the command line asks whether it has only read
VERBS: dict[str, Verb] = {}  # the verbs of all loaded modules, by `room.name`


def _undecorate(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def argument_names(function: Any) -> frozenset[str]:
    """Return the names of the arguments after the first."""
    code = _undecorate(function).__code__
    return frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def check_names(verb_name: str, names: frozenset[str], named: dict[str, Any]) -> None:
    """Raise `TypeError` for an argument that the verb does not have. Sent to a server, it would look like a call of a newer client."""
    if not named.keys() <= names:
        raise TypeError(f"{verb_name}() got unexpected arguments: {', '.join(sorted(named.keys() - names))}")


def call_observed(name: str, mode: str, run: Callable[[], T]) -> T:
    """Run a verb of this process. Its mode is noted in `called_modes`, and if the SDK of OpenTelemetry is loaded, the call is a span."""
    called_modes.add(mode)
    if _TRACING_SDK in sys.modules:
        from postroom.core.tracing import call_in_span

        return call_in_span(f"postroom {name}", run)
    return run()


def verb(*, caller: str, mode: str, access: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that declares a function as a verb of its room. Nothing is allowed by default.

    `access` may be left out only if `caller` excludes agents. Otherwise a declaration without it raises `TypeError` at import.
    """

    def declare_verb(function: Callable[P, T]) -> Callable[P, T]:
        name = f"{function.__module__.split('.')[1]}.{function.__name__}"
        code = _undecorate(function).__code__
        positional = code.co_varnames[1 : code.co_argcount]  # without the store
        names = argument_names(function)

        def run_verb(store: Any, *args: Any, **named: Any) -> Any:
            if store.is_remote:
                check_names(name, names, named)
                return store.call(name, args[len(positional) :], {**dict(zip(positional, args)), **named})
            return function(store, *args, **named)

        def call_verb(store: Any, *args: Any, **named: Any) -> Any:
            return call_observed(name, mode, lambda: run_verb(store, *args, **named))

        call_verb.__name__ = function.__name__
        call_verb.__doc__ = function.__doc__
        call_verb.__module__ = function.__module__
        call_verb.__wrapped__ = function  # type: ignore[attr-defined]
        call_verb.verb = VERBS[name] = Verb(name, function, caller=caller, access=access, mode=mode)  # type: ignore[attr-defined]
        return call_verb  # type: ignore[return-value]

    return declare_verb
