"""A SQLite VFS that records what a process writes and when it syncs, so that a power cut can be played at any moment afterwards.

It needs no rights and no other program. It is the VFS of the system with a few methods replaced, made the default with ctypes: every
connection that the process opens from then on writes through it. The replaced methods record the call and pass it on. Memory that is mapped
(the -shm file) is not recorded: SQLite builds it again after a crash.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, POINTER, addressof, c_char_p, c_int, c_int64, c_void_p, memmove, sizeof
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITE, TRUNCATE, SYNC, DELETE, MARK = "write", "truncate", "sync", "delete", "mark"


@dataclass(frozen=True)
class WriteRecord:
    """One recorded call. `path` is the name of the file. A mark is what the program said in between, such as what was acknowledged."""

    action: str
    path: str
    offset: int = 0
    data: bytes = b""


class _Vfs(ctypes.Structure):
    """`struct sqlite3_vfs`, version 3. Its methods behind `xDelete` are passed on as they are."""

    _fields_ = [
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        ("others", c_void_p * 14),
    ]


class _Methods(ctypes.Structure):
    """`struct sqlite3_io_methods`, version 3."""

    _fields_ = [
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", c_void_p),
        ("xTruncate", c_void_p),
        ("xSync", c_void_p),
        ("others", c_void_p * 13),
    ]


# The name is a pointer, not text: SQLite keeps it, and reads what stands around it.
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class WriteRecorder:
    """Records the writes of all connections that are opened after it was installed. It cannot be taken out again."""

    def __init__(self) -> None:
        self.records: list[WriteRecord] = []
        self._library = load_library()
        self._library.sqlite3_vfs_find.restype = c_void_p
        real = _Vfs.from_address(self._library.sqlite3_vfs_find(None))
        self._real_open, self._real_delete = _Open(real.xOpen), _Delete(real.xDelete)
        self._vfs = _Vfs()
        memmove(addressof(self._vfs), addressof(real), sizeof(_Vfs) if real.iVersion >= 3 else sizeof(_Vfs) - 14 * sizeof(c_void_p))
        self._callbacks: list[Any] = [_Open(self._open), _Delete(self._delete)]
        self._vfs.zName, self._vfs.pNext = b"write-recorder", None
        self._vfs.xOpen, self._vfs.xDelete = (ctypes.cast(callback, c_void_p).value for callback in self._callbacks)
        self._paths: dict[int, str] = {}  # of open files, by the address of their structure
        self._methods: dict[int, _Methods] = {}  # ours, by the address of those they replace
        if self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) != 0:
            raise OSError("SQLite did not take the VFS")
        if hasattr(os, "fdatasync"):
            vars(os)["fdatasync"] = self._record_syncs(os.fdatasync)  # the store syncs its log by itself, too

    def mark(self, text: str) -> None:
        """Record something between the writes."""
        self.records.append(WriteRecord(MARK, text))

    def _record_syncs(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def sync(descriptor: int) -> None:
            real(descriptor)
            self.records.append(WriteRecord(SYNC, os.readlink(f"/proc/self/fd/{descriptor}")))

        return sync

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        result: int = self._real_open(vfs, name, file, flags, out)
        real = c_void_p.from_address(file).value
        if result == 0 and real is not None and name is not None:
            self._paths[file] = ctypes.string_at(name).decode()
            c_void_p.from_address(file).value = addressof(self._wrap(real))
        return result

    def _wrap(self, real: int) -> _Methods:
        """Return the methods of a kind of file with ours in their place."""
        if real in self._methods:
            return self._methods[real]
        theirs, ours = _Methods.from_address(real), _Methods()
        memmove(addressof(ours), real, sizeof(_Methods))
        write, truncate, sync = _Write(theirs.xWrite), _Truncate(theirs.xTruncate), _Sync(theirs.xSync)

        def on_write(file: int, data: int, size: int, offset: int) -> int:
            self._note(WRITE, file, offset, ctypes.string_at(data, size))
            return int(write(file, data, size, offset))

        def on_truncate(file: int, size: int) -> int:
            self._note(TRUNCATE, file, size)
            return int(truncate(file, size))

        def on_sync(file: int, flags: int) -> int:
            result = int(sync(file, flags))
            self._note(SYNC, file)  # after it: only then it counts
            return result

        callbacks = (_Write(on_write), _Truncate(on_truncate), _Sync(on_sync))
        ours.xWrite, ours.xTruncate, ours.xSync = (ctypes.cast(callback, c_void_p).value for callback in callbacks)
        self._callbacks += [write, truncate, sync, *callbacks]
        self._methods[real] = ours
        return ours

    def _note(self, action: str, file: int, offset: int = 0, data: bytes = b"") -> None:
        self.records.append(WriteRecord(action, self._paths[file], offset, data))

    def _delete(self, vfs: int, name: bytes, sync_folder: int) -> int:
        result: int = self._real_delete(vfs, name, sync_folder)
        self.records.append(WriteRecord(DELETE, name.decode(), offset=sync_folder))
        return result


def load_library() -> ctypes.CDLL:
    """Return the SQLite library that this interpreter uses. Raises `OSError` if it is linked in such a way that it cannot be reached."""
    for candidate in _candidates():
        library = ctypes.CDLL(candidate)
        if hasattr(library, "sqlite3_vfs_register"):
            library.sqlite3_libversion.restype = c_char_p
            if library.sqlite3_libversion().decode() == sqlite3.sqlite_version:
                return library
    raise OSError("the SQLite library of this interpreter cannot be reached")


def _candidates() -> Iterator[str | None]:
    import _sqlite3

    maps = Path("/proc/self/maps")
    if maps.exists():
        yield from sorted({line.split()[-1] for line in maps.read_text().splitlines() if "libsqlite3" in line})
    yield getattr(_sqlite3, "__file__", None)
    yield None
