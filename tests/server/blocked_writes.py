"""A server whose writes wait in its queue, because those before them wait for a lock of the store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from postroom import work
from postroom.server.runtime.store_access import SERVER_WRITE_THREADS
from postroom.store.interface import Store, Transaction
from postroom.store.postgres.engine import PostgresStore, PostgresTransaction
from tests.cli.process import LIMIT, eventually
from tests.postgres_server import count_waiters
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer
from tests.server.verb_calls import say


@contextmanager
def blocked_writes(server: RunningServer) -> Iterator[Transaction]:
    """Hold a lock of the store: the writes of the server wait in its queue until the block ends, and this transaction is committed."""
    with opened(server) as store:
        if isinstance(store, PostgresStore):
            with _busy_write_threads(server, store) as tx:
                yield tx
        else:
            with store.write() as tx:
                yield tx


def wait_until_queued(server: RunningServer) -> None:
    """Return when the server has put a write that was sent to it into its queue.

    On SQLite it does so on its event loop, and one thread at once takes the write, which waits for the lock. So nothing shows it, but
    requests that came later have been answered.
    """
    if "://" in server.place:
        eventually(lambda: "postroom_queued_writes 0.0" not in server.person.get("/metrics").text)
    else:
        for _ in range(10):
            pass_by(server)


def pass_by(server: RunningServer) -> None:
    assert server.stranger.get("/health").status_code == 200


@contextmanager
def _busy_write_threads(server: RunningServer, store: Store) -> Iterator[Transaction]:
    """Have each thread of group commit wait for the lock of a thread. Differs from SQLite: no lock keeps all writers out."""
    threads = [work.send(store, sender="leader", to="nobody", subject="Locked").thread.thread_id for _ in range(SERVER_WRITE_THREADS)]
    person = server.person
    with ThreadPoolExecutor() as crowd:
        with store.write() as tx:
            assert isinstance(tx, PostgresTransaction)
            assert all(tx.lock_thread(thread, wait=False) for thread in threads)
            writes = []
            for thread in threads:  # one by one: together they would share a batch, and leave a thread idle
                writes.append(crowd.submit(say, person, "work.send", sender="user", thread_id=thread, summary="Waits"))
                eventually(lambda: count_waiters(server.place, tx._connection.info.backend_pid) >= len(writes))
            yield tx
        assert [write.result(LIMIT).status_code for write in writes] == [200] * len(writes)
