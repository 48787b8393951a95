"""The mirror of the entries in a server: kept up to date after each commit, by one of the servers that share a database."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic

from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.people.entries_mirror import EntriesMirror, concerns_entries
from postroom.server.runtime.writer import wait_for_thread
from postroom.store.interface import Store

MIRROR_RETRY_SECONDS = 5.0  # after the mirror of the entries could not be written
MIRROR_CHECK_SECONDS = 2.0  # between checks for changes that other programs made to the mirror
LEASE_SECONDS = 10.0  # for which a server is elected; it is renewed at each check
CURSOR_NAME = "people.mirror"  # its value is the instant at which the lease of the elected server ends, in microseconds since 1970


class MirrorElection:
    """Elects the server that writes the mirror. A server that dies is followed by another when its lease has run out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lease_end = 0
        self._held_until = 0.0

    @property
    def is_won(self) -> bool:
        return monotonic() < self._held_until

    def run(self) -> bool:
        """Get or renew the lease, and return whether this server holds it now."""
        began = monotonic()
        try:
            with self._store.write() as tx:
                seen = tx.fetch_one(tx.sql.cursor_lock, name=CURSOR_NAME) or 0
                if seen != self._lease_end and seen > tx.now():
                    self._held_until = 0.0
                    return False
                end = tx.now() + int(LEASE_SECONDS * clock.MICROSECONDS_PER_SECOND)
                tx.execute(tx.sql.cursor_move, name=CURSOR_NAME, event_id=end, seen=seen)
        except Refusal:  # the store is unreachable: the lease lasts as long as it was given
            return self.is_won
        self._lease_end, self._held_until = end, began + LEASE_SECONDS
        return True

    def resign(self) -> None:
        """Give the lease back, so that another server need not wait for its end."""
        if self.is_won:
            try:
                with self._store.write() as tx:
                    tx.execute(tx.sql.cursor_move, name=CURSOR_NAME, event_id=0, seen=self._lease_end)
            except Refusal:
                pass  # it runs out by itself


class EntriesFollower:
    """Keeps the mirror of the entries up to date. Slow work runs in a thread of its own, so that no request waits for it.

    `is_elected`: other servers may follow the same store, so that only the elected one writes its mirror.
    """

    def __init__(self, store: Store, data: str | None, *, is_elected: bool = False) -> None:
        folder = data or store.data_folder
        self._followed = None if folder is None else EntriesMirror(store, folder)
        self._election = MirrorElection(store) if is_elected and folder is not None else None
        self._wake, self._stop = Flag(), False
        self._catching_up, self._retry_at = Lock(), 0.0
        self._elect()
        self._append_entries()  # a killed process may have left entries out
        self._thread = Thread(target=self._run_thread, name="entries-mirror", daemon=True)
        self._thread.start()

    @property
    def _mirror(self) -> EntriesMirror | None:
        """The mirror, if this server writes it."""
        return self._followed if self._election is None or self._election.is_won else None

    def _elect(self) -> None:
        if self._election is not None:
            self._election.run()

    def update_after_commit(self, topics: Iterable[str]) -> None:
        """Update the mirror after a commit if its topics concern entries. Commits of mail do not touch the file."""
        if concerns_entries(topics):
            self._append_entries()

    def _append_entries(self) -> None:
        """Append new entries if that is quick. Otherwise wake the thread."""
        mirror = self._mirror
        if mirror is None or self._catching_up.locked() or not mirror.sync(briefly=True):
            self._wake.set()

    def _run_thread(self) -> None:
        while not self._stop:
            is_woken = self._wake.wait(MIRROR_CHECK_SECONDS)
            self._wake.clear()
            self._elect()
            if is_woken or self.is_mirror_changed() or self._is_behind():
                self.catch_up()
        self.catch_up()
        if self._election is not None:
            self._election.resign()

    def is_mirror_changed(self) -> bool:
        """Return whether another program changed the mirror since the last sync. Costs one `stat`."""
        mirror = self._mirror
        return mirror is not None and self._is_idle() and mirror.is_changed_since_sync()

    def _is_behind(self) -> bool:
        """Return whether the mirror lacks entries: other processes made them, or the last sync failed."""
        mirror = self._mirror
        return mirror is not None and self._is_idle() and mirror.is_behind()

    def _is_idle(self) -> bool:
        return not self._catching_up.locked() and monotonic() >= self._retry_at

    def catch_up(self) -> None:
        """Sync the mirror and the entries in both directions. Blocks."""
        mirror = self._mirror
        if mirror is not None:
            with self._catching_up:
                if not mirror.sync():
                    self._retry_at = monotonic() + MIRROR_RETRY_SECONDS

    async def close(self) -> None:
        self._stop = True
        self._wake.set()
        await wait_for_thread(self._thread)
