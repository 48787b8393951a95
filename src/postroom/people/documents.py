"""Documents: files that an entry points to, read live from a workspace, and nothing outside of it.

A path is walked name by name, each opened relative to the folder before it and never through a link that was not looked at: so
a folder that is swapped for a link while we walk leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat

from postroom.core import checks
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records import Record
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Self

COMPARED_BYTES = 256 * 1024  # of a larger file, or one that is no text, nothing is kept to compare with
LONGEST_PATH = 1024
MOST_DOCS = 50
MOST_LINKS = 20
HASHED_BYTES = 64 * 1024 * 1024  # of a larger file only the size tells that it changed
_BLOCK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO that was swapped in does not hold us up


class Described(Record):
    """Documents as they were when they were pushed: what an entry says of each, and the text of those that are compared later."""

    docs: tuple[dict[str, Any], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


class Document:
    """A file of a workspace, open."""

    def __init__(self, root: str, path: str) -> None:
        self.path = path
        self._file = _Walk(root, path).file()
        self.size = os.fstat(self._file).st_size

    def read(self, most: int) -> bytes:
        """The first bytes of it."""
        parts, left, at = [], most, 0
        while left > 0 and (part := os.pread(self._file, min(left, _BLOCK), at)):
            parts.append(part)
            left, at = left - len(part), at + len(part)
        return b"".join(parts)

    def block(self, at: int) -> bytes:
        return os.pread(self._file, _BLOCK, at)

    def sha256(self) -> str | None:
        """Its hash, unless it is so large that hashing would hold others up."""
        if self.size > HASHED_BYTES:
            return None
        from hashlib import sha256

        digest, at = sha256(), 0
        while at < self.size and (part := self.block(at)[: self.size - at]):  # it may be growing
            digest.update(part)
            at += len(part)
        return digest.hexdigest()

    def text(self) -> str | None:
        """All of it, if it is a text of a size that can be compared."""
        if self.size > COMPARED_BYTES:
            return None
        data = self.read(COMPARED_BYTES)
        try:
            return None if b"\0" in data else data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Walk:
    """The way to a file, one name after another."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self._names = path.split("/")
        self._links = 0
        try:
            self._folders = [os.open(root, _FOLDER)]
        except OSError:
            raise NotFound("the workspace's folder is not there any more", hint="Add it again, or restore it.", path=path) from None

    def file(self) -> int:
        try:
            while self._names:
                found = self._step(self._names.pop(0))
                if found is not None:
                    return found
        except FileNotFoundError:
            raise _missing(self._path) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _missing(self._path) from None
            raise self._refusal(f"cannot be read: {error.strerror}") from None
        finally:
            for folder in self._folders:
                os.close(folder)
        raise self._refusal("is a folder")

    def _step(self, name: str) -> int | None:
        here = self._folders[-1]
        if name in ("", "."):
            return None
        if name == "..":
            if len(self._folders) == 1:
                raise self._refusal("leads out of the workspace")
            os.close(self._folders.pop())
            return None
        mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            self._follow(os.readlink(name, dir_fd=here))
            return None
        if stat.S_ISDIR(mode):
            self._folders.append(os.open(name, _FOLDER, dir_fd=here))
            return None
        if self._names and any(left not in ("", ".") for left in self._names):
            raise _missing(self._path)  # a file is not a folder
        return self._open(name, mode)

    def _open(self, name: str, mode: int) -> int:
        if not stat.S_ISREG(mode):
            raise self._refusal("is not a regular file")
        file = os.open(name, _FILE, dir_fd=self._folders[-1])
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        raise self._refusal("is not a regular file")

    def _follow(self, target: str) -> None:
        """A link may lead anywhere inside."""
        self._links += 1
        if self._links > MOST_LINKS:
            raise self._refusal("is behind too many links")
        if target.startswith("/"):
            if not target.startswith(self._root.rstrip("/") + "/"):
                raise self._refusal("leads out of the workspace")
            target = target[len(self._root.rstrip("/")) + 1 :]
            while len(self._folders) > 1:
                os.close(self._folders.pop())
        self._names[:0] = target.split("/")

    def _refusal(self, why: str) -> InvalidInput:
        return InvalidInput(f"{shown(self._path)} {why}", field="docs", hint="Point to a file inside the workspace.", path=self._path)


def _missing(path: str) -> NotFound:
    return NotFound(f"there is no file {shown(path)} in the workspace", hint="Paths are relative to the workspace's folder.", path=path)


def checked(value: object) -> str:
    """A path as an agent may name it: relative, on one line, and never upward."""
    if not isinstance(value, str):
        raise InvalidInput(f"a path must be text, not {type(value).__name__}", field="docs")
    checks.path("docs", value)
    if len(value) > LONGEST_PATH:
        raise InvalidInput(f"a path is longer than {LONGEST_PATH} characters", field="docs")
    if value.startswith("/") or ".." in value.split("/"):
        raise InvalidInput(
            f"{shown(value)} is not a path inside the workspace", field="docs", hint="Write it relative to the workspace, without `..`."
        )
    return value


def named(docs: Iterable[Mapping[str, Any] | str]) -> list[str]:
    """The paths that an agent points to, each once, checked."""
    if isinstance(docs, str) or not hasattr(docs, "__iter__"):
        raise InvalidInput("docs must be a list", field="docs", hint='Write [{"path": "report.md"}].')
    paths = []
    for doc in docs:
        if not isinstance(doc, str) and (not hasattr(doc, "keys") or set(doc.keys()) != {"path"}):
            raise InvalidInput(
                "each of docs must be an object with a path, and nothing else", field="docs", hint='Write {"path": "report.md"}.'
            )
        paths.append(checked(doc if isinstance(doc, str) else doc["path"]))
    if len(paths) > MOST_DOCS:
        raise InvalidInput(f"at most {MOST_DOCS} documents can be pushed at once, not {len(paths)}", field="docs")
    return list(dict.fromkeys(paths))


def described(root: str, paths: Iterable[str]) -> Described:
    """Each document as it is now, so that a later look can tell what changed."""
    docs, texts = [], []
    for path in paths:
        with Document(root, path) as document:
            docs.append({"path": path, "sha256": document.sha256(), "size": document.size})
            text = document.text()
        if text is not None:
            texts.append((path, text))
    return Described(tuple(docs), tuple(texts))
