"""The memory of the hooks of one session, in small files: what was announced, whether a turn runs, and which process waits."""

from __future__ import annotations

import fcntl
import os

from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.text import sha1_hex
from postroom.store.files.private_files import make_private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postroom.core.records.handovers import WaitingItem

MAX_FORCED_CONTINUATIONS = 3
KEPT_SECONDS = 30 * 86400


def state_root() -> str:
    """Return the folder for what the commands of this package remember."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.local/state"), "postroom")


def remove_old_sessions(now: int) -> None:
    """Remove the files of sessions in which no hook ran for `KEPT_SECONDS`: a program that is killed runs no end hook. `now` is in
    microseconds. The files of a session that a process waits for stay.
    """
    folder = os.path.join(state_root(), "hooks")
    sessions: dict[str, list[os.DirEntry[str]]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            sessions.setdefault(entry.name.partition(".")[0], []).append(entry)
    for name, files in sessions.items():
        try:
            is_old = max(file.stat().st_mtime for file in files) < now / MICROSECONDS_PER_SECOND - KEPT_SECONDS
            if is_old and not _is_locked(os.path.join(folder, f"{name}.waiter")):
                for file in files:
                    _remove_file(file.path)
        except FileNotFoundError:
            continue  # another session removes them


def _is_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class HookSession:
    """The files of one agent in one session of a program."""

    def __init__(self, agent: str, session_id: str) -> None:
        folder = os.path.join(state_root(), "hooks")
        make_private_folder(folder)
        self._path = os.path.join(folder, sha1_hex(f"{agent}\0{session_id}")[:20])
        self._waiting: int | None = None

    def take_new(
        self,
        wake_file_time: int | None,
        list_items: Callable[[], Sequence[WaitingItem]],
        choose: Callable[[list[WaitingItem]], list[WaitingItem]] | None = None,
    ) -> list[WaitingItem]:
        """Return what was not announced in this session yet, and note it as announced. `choose` leaves out what is not to be announced now.

        `wake_file_time` is when the agent's wake file was last written. If that is as at the last look, the store is not read.
        """
        descriptor = os.open(f"{self._path}.announced", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            first, *known = os.read(descriptor, 1 << 24).decode().splitlines() or [""]
            if wake_file_time is not None and first == str(wake_file_time):
                return []
            announced = set(known)
            items = list_items()
            new = [item for item in items if _key_of(item) not in announced]
            chosen = choose(new) if new and choose is not None else new
            if new and not chosen:
                return []
            left = {_key_of(item) for item in new} - {_key_of(item) for item in chosen}
            # Note all items that wait, except those that were not chosen: they are announced later.
            kept = [key for key in map(_key_of, items) if key not in left]
            text = "\n".join((str(wake_file_time or ""), *dict.fromkeys((*known[-5000:], *kept)))) + "\n"
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, text.encode())
            return chosen
        finally:
            os.close(descriptor)

    def forget(self, items: Sequence[WaitingItem]) -> None:
        """Note that some items were not announced after all, because ringing failed."""
        descriptor = os.open(f"{self._path}.announced", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            lost = {_key_of(item) for item in items}
            known = os.read(descriptor, 1 << 24).decode().splitlines()[1:]
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, ("\n".join(("", *(key for key in known if key not in lost))) + "\n").encode())
        finally:
            os.close(descriptor)

    def note_rung(self, item_ids: Sequence[str]) -> None:
        """Note what was rung for. The session's next event shows that the words are in its context."""
        _write_file(f"{self._path}.rung", "\n".join(item_ids))

    def take_rung(self) -> list[str]:
        """Return what was rung for since the session's last event."""
        if not os.path.exists(f"{self._path}.rung"):
            return []
        ids = _read_file(f"{self._path}.rung").splitlines()
        _remove_file(f"{self._path}.rung")
        return ids

    def set_busy(self, is_busy: bool) -> None:
        """Note whether a turn runs. A ringer leaves a session at work alone: its own hooks look."""
        if is_busy:
            _write_file(f"{self._path}.busy", "")
        else:
            _remove_file(f"{self._path}.busy")

    @property
    def is_busy(self) -> bool:
        return os.path.exists(f"{self._path}.busy")

    def may_continue(self) -> bool:
        """Count a forced continuation. Returns False after too many in a row."""
        number = int(_read_file(f"{self._path}.forced") or "0") + 1
        _write_file(f"{self._path}.forced", str(number))
        return number <= MAX_FORCED_CONTINUATIONS

    def reset_continuations(self) -> None:
        _remove_file(f"{self._path}.forced")

    def become_waiter(self) -> bool:
        """Return whether no other process waits for this session. The lock ends with the process."""
        self._waiting = os.open(f"{self._path}.waiter", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        for suffix in ("announced", "busy", "forced", "rung", "waiter"):
            _remove_file(f"{self._path}.{suffix}")


def _key_of(item: WaitingItem) -> str:
    return (
        f"{item.kind if item.kind in ('mail', 'reply', 'thread', 'message') else 'answer'}:{sha1_hex(item.from_ + chr(0) + item.id)[:20]}"
    )


def _write_file(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _read_file(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
