"""The declaration of a verb: a function of a room whose first argument is a store.

`@verb(caller=…, mode=…)` is the only place that defines which callers may use a verb over the network and how the server runs it. The
server derives its routing table, permission check, write path, OpenAPI operations and reference page from it. A verb that receives a
remote store sends the call to the server, and returns its result or raises its refusal.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

# `caller` is the name of the argument that holds the acting agent, or one of these values. They contain a space, so that none of them can
# be the name of an argument.
MESSAGE_SENDER = "sender of each message"  # the field `from` of `message`, or of each of `messages`
ANY_AGENT = "any agent"  # the verb only reads, and has no argument for the caller
PEOPLE = "people only"
SERVER_MACHINE = "server machine only"  # the verb uses files or tokens of the server's machine, and is refused over the network

# `mode` is how the server runs a verb.
READ = "read"  # writes nothing
WRITE = "write"  # one transaction, after overdue transitions were applied. Shares a commit with other writes
STEPS = "steps"  # several transactions, or reads files. Runs in its own thread
WAIT = "wait"  # blocks until something happens, up to `timeout_seconds`
MODES = (READ, WRITE, STEPS, WAIT)


class Verb:
    """One declared verb. `function` runs it on a local store. The signature of `function` gives the arguments and the result."""

    __slots__ = ("caller", "function", "mode", "name")

    def __init__(self, name: str, function: Callable[..., Any], caller: str, mode: str) -> None:
        self.name = name
        self.function = function
        self.caller = caller
        self.mode = mode


VERBS: dict[str, Verb] = {}  # the verbs of all loaded modules, by `room.name`


def verb(*, caller: str, mode: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that declares a function as a verb of its room. Both arguments are required, so nothing is allowed by default."""

    def declare_verb(function: Callable[P, T]) -> Callable[P, T]:
        name = f"{function.__module__.split('.')[1]}.{function.__name__}"
        undecorated: Any = function
        while hasattr(undecorated, "__wrapped__"):
            undecorated = undecorated.__wrapped__
        code = undecorated.__code__
        positional = code.co_varnames[1 : code.co_argcount]  # without the store

        def call_verb(store: Any, *args: Any, **named: Any) -> Any:
            if store.is_remote:
                return store.call(name, args[len(positional) :], {**dict(zip(positional, args)), **named})
            return function(store, *args, **named)

        call_verb.__name__ = function.__name__
        call_verb.__doc__ = function.__doc__
        call_verb.__module__ = function.__module__
        call_verb.__wrapped__ = function  # type: ignore[attr-defined]
        VERBS[name] = Verb(name, function, caller, mode)
        return call_verb  # type: ignore[return-value]

    return declare_verb
