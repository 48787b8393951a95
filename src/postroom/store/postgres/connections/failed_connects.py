"""The SQLSTATE of a refused connection. libpq gives only a text, in the language of the server, for a connection that was never made."""

from __future__ import annotations

import os
import re
import select
import sys
from time import monotonic

from psycopg import pq

ATTEMPT_SECONDS = 5.0
ACCEPTED = "00000"
_CODE = re.compile(rb'\tB\t\d+\tErrorResponse\t.*? C "([0-9A-Z]{5})"')


def find_sqlstate(url: str) -> str | None:
    """Connect once more, and return the SQLSTATE with which the server refuses, or `ACCEPTED`. None if no server answers.

    Reads it from libpq's trace of the messages, which psycopg has on Linux only. The trace stays in memory: it may contain a password.
    """
    if sys.platform != "linux":
        return None
    trace = os.memfd_create("postroom-trace")
    try:
        if _connect_traced(url, trace):
            return ACCEPTED
        codes = _CODE.findall(os.pread(trace, os.fstat(trace).st_size, 0))
    finally:
        os.close(trace)
    return codes[-1].decode() if codes else None


def _connect_traced(url: str, trace: int) -> bool:
    """Return whether the server accepted the connection, which is closed again."""
    connection = pq.PGconn.connect_start(url.encode())
    connection.trace(trace)
    deadline = monotonic() + ATTEMPT_SECONDS
    waits_for = {pq.PollingStatus.READING: select.POLLIN, pq.PollingStatus.WRITING: select.POLLOUT}
    while (status := pq.PollingStatus(connection.connect_poll())) in waits_for and monotonic() < deadline:
        poll = select.poll()
        poll.register(connection.socket, waits_for[status])
        poll.poll(max(deadline - monotonic(), 0) * 1000)
    connection.untrace()
    connection.finish()
    return status == pq.PollingStatus.OK
