"""Open stores across a fork. A child must not use the connections of its parent, and so each engine registers its resources here.

A child that shares a socket would read the answers of its parent. SQLite is stricter: it keeps its list of locks in memory that a fork
copies, while the locks themselves stay with the parent. A child that opens the same file again would believe that it holds them, and
lose what it writes. Therefore an idle SQLite connection is closed before the fork, and both processes open a new one when they need it.
"""

from __future__ import annotations

import os

from postroom._fastpath import ref
from postroom.core.errors import InvalidState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class ForkAware(Protocol):
        """A resource that must not be shared by two processes."""

        def before_fork(self) -> None:
            """Prepare for a fork, in the process that forks."""

        def after_fork_in_parent(self) -> None: ...

        def after_fork_in_child(self) -> None:
            """Forget the connections of the parent without ending them. No other thread runs yet."""


_tracked: dict[int, ref[Any]] = {}
_forking: list[ForkAware] = []


def track(resource: ForkAware) -> None:
    """Call the methods of a resource at each fork, as long as it exists."""
    key = id(resource)
    _tracked[key] = ref(resource, lambda _: _tracked.pop(key, None))


def forked_inside_transaction() -> InvalidState:
    """Return the refusal for a transaction that began in the parent process."""
    return InvalidState(
        "this process was forked inside a transaction, which belongs to its parent",
        hint="End the transaction before the fork, or start the process with `subprocess` or the `spawn` method of multiprocessing.",
    )


def _before_fork() -> None:
    for reference in list(_tracked.values()):
        resource = reference()
        if resource is not None:
            _forking.append(resource)
            resource.before_fork()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop().after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
