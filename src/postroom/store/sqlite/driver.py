"""The C module under `sqlite3`, without what it drags in.

`_sqlite3` wants one thing of `functools`, its cache, and importing that costs a command a quarter of a bare interpreter's
start. So, where nobody has imported `functools` yet, the cache alone is lent for the duration of the import.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False


def _lend_cache() -> None:
    from _functools import _lru_cache_wrapper

    class Lent:
        @staticmethod
        def lru_cache(maxsize: int):  # type: ignore[no-untyped-def]
            return lambda function: _lru_cache_wrapper(function, maxsize, False, tuple)

    sys.modules["functools"] = Lent  # type: ignore[assignment]
    try:
        import _sqlite3  # noqa: F401
    finally:
        del sys.modules["functools"]


if not TYPE_CHECKING and "functools" not in sys.modules:
    _lend_cache()

from _sqlite3 import Connection, Error, connect  # noqa: E402

__all__ = ["Connection", "Error", "connect"]
