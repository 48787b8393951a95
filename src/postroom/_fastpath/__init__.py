"""Private CPython modules that make a command start faster, each with the public module as its fallback.

`_json`, `_sqlite3`, `_sha1`, `_thread` and `_weakref` are the C parts of `json`, `sqlite3`, `hashlib`, `threading` and `weakref`. Importing
only these saves about 9 ms of the 22 ms that a command takes. CPython may change them at any time. Therefore only this package imports
them, and it uses the public module where a private one is missing or different. tests/cli/test_fastpath.py checks that both behave alike.
imports.py does the same for `importlib`.

`core` and the SQLite engine call this package. It must not know anything of Postroom.
"""

from __future__ import annotations

try:  # not in a separate module: loading one would cost as much as it saves
    from _thread import RLock
except ImportError:
    from threading import RLock
try:
    from _weakref import ref
except ImportError:
    from weakref import ref

__all__ = ["RLock", "ref"]
