"""What transactions of every engine share: threads of one process that share a store take turns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class Turn:
    """Opened and closed under the store's mutex, whatever happens in between."""

    _mutex: Any

    def __enter__(self) -> Self:
        self._mutex.acquire()
        try:
            self._open()
        except BaseException:
            self._mutex.release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._close(commit=exc[0] is None)
        finally:
            self._mutex.release()

    def _open(self) -> None:
        """BEGIN, as the engine does it."""

    def _close(self, *, commit: bool) -> None:
        """COMMIT or ROLLBACK, as the engine does it."""
