"""Open the files that an entry points to. They are read live from a workspace. Files outside of it are refused.

A path is opened name by name, each relative to the folder before it and with O_NOFOLLOW. Links are resolved here. So a folder that
another process replaces by a link during the walk cannot lead out of the workspace.
"""

from __future__ import annotations

import errno
import os
import stat

from postroom.core import checks, limits
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records import Record
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Self

MAX_COMPARED_BYTES = 256 * 1024  # the text of a larger file is not kept for a later comparison
MAX_LINKS = 20
_BLOCK_BYTES = 1 << 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: opening a FIFO must not block


class Described(Record):
    """Documents as they were when they were pushed: path, hash and size of each, and the texts that are compared later."""

    docs: tuple[dict[str, Any], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def heading(self) -> str:
        """The first heading of the first document that is Markdown, or ""."""
        from postroom.core.titles import first_heading

        return next((heading for path, text in self.texts if path.endswith((".md", ".markdown")) and (heading := first_heading(text))), "")


class Document:
    """An open file of a workspace."""

    def __init__(self, root: str, path: str) -> None:
        self.path = path
        self._file = _PathWalk(root, path).open_file()
        status = os.fstat(self._file)
        self.size = status.st_size
        self.version = f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"  # changes whenever the file is written

    def read_start(self, max_bytes: int) -> bytes:
        """Return the first bytes of the file, at most `max_bytes`."""
        content = bytearray()
        while len(content) < max_bytes:
            block = os.pread(self._file, min(max_bytes - len(content), _BLOCK_BYTES), len(content))
            if not block:
                break
            content += block
        return bytes(content)

    def read_block(self, offset: int) -> bytes:
        return os.pread(self._file, _BLOCK_BYTES, offset)

    def compute_sha256(self, max_bytes: int = limits.MAX_DOCUMENT_BYTES) -> str | None:
        """Return the hash of the file in hex, or None if it is larger than `max_bytes`."""
        if self.size > max_bytes:
            return None
        from hashlib import sha256

        digest = sha256()
        offset = 0
        while offset < self.size and (block := self.read_block(offset)[: self.size - offset]):  # the file may be growing
            digest.update(block)
            offset += len(block)
        return digest.hexdigest()

    def read_text(self) -> str | None:
        """Return the whole file as text, or None if it is not UTF-8 text or larger than `MAX_COMPARED_BYTES`."""
        if self.size > MAX_COMPARED_BYTES:
            return None
        data = self.read_start(MAX_COMPARED_BYTES)
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


class _PathWalk:
    """Opens the file at a relative path, one name after another, without leaving the root folder."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self._names = path.split("/")
        self._links = 0
        try:
            self._folders = [os.open(root, _FOLDER_FLAGS)]
        except OSError:
            raise NotFound("the workspace's folder is not there any more", hint="Add it again, or restore it.", path=path) from None

    def open_file(self) -> int:
        try:
            while self._names:
                file = self._enter_name(self._names.pop(0))
                if file is not None:
                    return file
        except FileNotFoundError:
            raise _file_not_found(self._path) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _file_not_found(self._path) from None
            raise self._invalid_path(f"cannot be read: {error.strerror}") from None
        finally:
            for folder in self._folders:
                os.close(folder)
        raise self._invalid_path("is a folder")

    def _enter_name(self, name: str) -> int | None:
        here = self._folders[-1]
        if name in ("", "."):
            return None
        if name == "..":
            if len(self._folders) == 1:
                raise self._invalid_path("leads out of the workspace")
            os.close(self._folders.pop())
            return None
        mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            self._follow_link(os.readlink(name, dir_fd=here))
            return None
        if stat.S_ISDIR(mode):
            self._folders.append(os.open(name, _FOLDER_FLAGS, dir_fd=here))
            return None
        if self._names and any(left not in ("", ".") for left in self._names):
            raise _file_not_found(self._path)  # a file is not a folder
        return self._open_regular_file(name, mode)

    def _open_regular_file(self, name: str, mode: int) -> int:
        if not stat.S_ISREG(mode):
            raise self._invalid_path("is not a regular file")
        file = os.open(name, _FILE_FLAGS, dir_fd=self._folders[-1])
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        raise self._invalid_path("is not a regular file")

    def _follow_link(self, target: str) -> None:
        """Put the target of a link in front of the remaining names. Refuses a target outside of the root folder."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise self._invalid_path("is behind too many links")
        if target.startswith("/"):
            if not target.startswith(self._root.rstrip("/") + "/"):
                raise self._invalid_path("leads out of the workspace")
            target = target[len(self._root.rstrip("/")) + 1 :]
            while len(self._folders) > 1:
                os.close(self._folders.pop())
        self._names[:0] = target.split("/")

    def _invalid_path(self, why: str) -> InvalidInput:
        return InvalidInput(f"{short_repr(self._path)} {why}", field="docs", hint="Point to a file inside the workspace.", path=self._path)


def _file_not_found(path: str) -> NotFound:
    return NotFound(
        f"there is no file {short_repr(path)} in the workspace", hint="Paths are relative to the workspace's folder.", path=path
    )


def check_path(value: object) -> str:
    """Return a valid path in its shortest form: of a file, relative to the workspace, on one line, and without `..`."""
    if not isinstance(value, str):
        raise InvalidInput(f"a path must be text, not {type(value).__name__}", field="docs")
    checks.path("docs", value)
    if len(value) > limits.MAX_DOCUMENT_PATH_CHARS:
        raise InvalidInput(f"a path is longer than {limits.MAX_DOCUMENT_PATH_CHARS} characters", field="docs")
    checks.indexed("docs", value)
    if value.startswith("/") or ".." in value.split("/"):
        raise InvalidInput(
            f"{short_repr(value)} is not a path inside the workspace",
            field="docs",
            hint="Write it relative to the workspace, without `..`.",
        )
    if value.rpartition("/")[2] in ("", "."):
        raise InvalidInput(f"{short_repr(value)} is the path of a folder", field="docs", hint="Name a file, without a slash at the end.")
    return "/".join(name for name in value.split("/") if name not in ("", "."))


def check_doc_paths(docs: Iterable[Mapping[str, Any] | str]) -> list[str]:
    """Check the documents that an agent names. Return their paths, each once."""
    if isinstance(docs, str) or not hasattr(docs, "__iter__"):
        raise InvalidInput("docs must be a list", field="docs", hint='Write [{"path": "report.md"}].')
    paths = []
    for doc in checks.items("docs", docs, maximum=limits.MAX_DOCUMENTS):
        if not isinstance(doc, str) and (not hasattr(doc, "keys") or set(doc.keys()) != {"path"}):
            raise InvalidInput(
                "each of docs must be an object with a path, and nothing else", field="docs", hint='Write {"path": "report.md"}.'
            )
        paths.append(check_path(doc if isinstance(doc, str) else doc["path"]))
    return list(dict.fromkeys(paths))


def describe_files(root: str, paths: Iterable[str]) -> Described:
    """Read each document as it is now, so that a later reader can see whether it changed.

    Documents beyond `MAX_PUSH_BYTES` in total have no hash. They count as changed only if their size differs.
    """
    docs, texts = [], []
    left = limits.MAX_PUSH_BYTES
    for path in paths:
        with Document(root, path) as document:
            sha256 = document.compute_sha256(min(left, limits.MAX_DOCUMENT_BYTES))
            left -= 0 if sha256 is None else document.size
            docs.append({"path": path, "sha256": sha256, "size": document.size})
            text = document.read_text()
        if text is not None:
            texts.append((path, text))
    return Described(tuple(docs), tuple(texts))
