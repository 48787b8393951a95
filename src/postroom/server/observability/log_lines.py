"""Log lines of the server on standard error, as text or as JSON. Writing never blocks: a line that nobody reads is dropped and counted."""

from __future__ import annotations

import logging
import os
import select
from threading import Lock
from typing import Any

import orjson

from postroom.core import clock
from postroom.server.config import LOG_LEVELS

PIPE_BYTES = 4096  # a pipe that is reported as writable takes this many bytes without blocking
_NUMBERS = {name: number for number, name in enumerate(LOG_LEVELS)}
_SILENT_LOGGERS = ("uvicorn.access", "uvicorn.asgi")  # `RequestObserver` logs requests


class LogWriter:
    """Writes lines to a file descriptor. `level` is the lowest level that is written."""

    def __init__(self, *, level: str = "warning", log_format: str = "text", descriptor: int = 2) -> None:
        self._threshold = _NUMBERS[level]
        self._is_json = log_format == "json"
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lock = Lock()  # the event loop and other threads write, and a poll object serves one thread at a time
        self._is_cut = False  # whether the last line has no end
        self.dropped_lines = 0

    def is_on(self, level: str) -> bool:
        return _NUMBERS[level] >= self._threshold

    def write(self, level: str, event: str, text: str, fields: dict[str, Any]) -> None:
        """Write one line: `fields` if the format is JSON, else `text`. Fields that are None are left out."""
        if not self.is_on(level):
            return
        now = clock.format_stamp(clock.now())
        if self._is_json:
            facts = {"time": now, "level": level, "event": event, **{name: value for name, value in fields.items() if value is not None}}
            self._write_bytes(orjson.dumps(facts, default=str) + b"\n")
        else:
            self._write_bytes(f"{now} {level:7} {text}\n".encode("utf-8", "backslashreplace"))

    def _write_bytes(self, line: bytes) -> None:
        with self._lock:
            if self._is_cut:
                line = b"\n" + line
            for start in range(0, len(line), PIPE_BYTES):
                if not self._write_part(line[start : start + PIPE_BYTES]):
                    self._is_cut = self._is_cut or start > 0
                    self.dropped_lines += 1
                    return
            self._is_cut = False

    def _write_part(self, part: bytes) -> bool:
        """Write a part of a line if that does not block, and return whether it was written."""
        ready = self._poll.poll(0)
        if not ready or not ready[0][1] & select.POLLOUT:
            return False
        try:
            return os.write(self._descriptor, part) == len(part)
        except OSError:  # closed, or the disk is full: a log must not end a request
            return False


class _LoggingHandler(logging.Handler):
    """Passes records of Python's logging on to a `LogWriter`."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning" if record.levelno >= logging.WARNING else "info"
        message = record.getMessage()
        traceback = logging.Formatter().formatException(record.exc_info) if record.exc_info else None
        text = message if traceback is None else f"{message.rstrip()}\n{traceback}"
        self._writer.write(level, "log", text, {"logger": record.name, "message": message.rstrip(), "traceback": traceback})


def redirect_logging(writer: LogWriter) -> None:
    """Write what this process logs by Python's logging with a `LogWriter`: our own messages, and warnings of libraries."""
    root = logging.getLogger()
    root.handlers = [_LoggingHandler(writer)]
    root.setLevel(logging.WARNING)
    for name in _SILENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
