"""The SQLite driver without importing `sqlite3`: the C module below it, which has the same names. The SQLite engine calls it.

`_sqlite3` needs only `lru_cache` of `functools`, and importing `functools` takes a quarter of the time in which a bare interpreter starts.
If `functools` is not yet loaded, a stand-in that has only `lru_cache` replaces it while `_sqlite3` is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False


def _import_without_functools() -> None:
    from _functools import _lru_cache_wrapper

    class FunctoolsStandIn:
        @staticmethod
        def lru_cache(maxsize: int):  # type: ignore[no-untyped-def]
            return lambda function: _lru_cache_wrapper(function, maxsize, False, tuple)

    sys.modules["functools"] = FunctoolsStandIn  # type: ignore[assignment]
    try:
        import _sqlite3  # noqa: F401
    finally:
        del sys.modules["functools"]


if TYPE_CHECKING:
    import sqlite3 as driver
else:
    try:
        if "functools" not in sys.modules:
            _import_without_functools()
        import _sqlite3 as driver
    except (ImportError, TypeError):  # TypeError: this interpreter builds `lru_cache` differently
        import sqlite3 as driver

Connection = driver.Connection
Cursor = driver.Cursor
Error = driver.Error
connect = driver.connect

__all__ = ["Connection", "Cursor", "Error", "connect", "driver"]
