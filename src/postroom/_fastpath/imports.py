"""Import the compiled modules of Postroom without the search of `importlib`. The programs call it before they import anything else.

A command imports about fifty modules of ours. `importlib` makes a dozen system calls for each, because it expects any kind of file in any
folder. Ours are `NAME.py` or `NAME/__init__.py` with the compiled file where `compileall` writes it, which takes five calls. A module whose
compiled file is missing, or belongs to another source or another Python, is left to `importlib`, which compiles it.

Half of what is left is the locks, checks and attributes of `importlib`. `import_in_order` does without them. It reads the modules of a
list from one file, an archive, which it writes beside its own compiled file where Python may write. An archive counts as long as each
source has the time and the size of which it was made.
"""

from __future__ import annotations

import gc
import os
import sys
from marshal import dumps, loads

try:  # `importlib.machinery` has these too, and imports the rest of `importlib`
    from _frozen_importlib import ModuleSpec
    from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
    from _imp import _fix_co_filename  # type: ignore[attr-defined]
except ImportError:
    MAGIC_NUMBER, SourceFileLoader = b"", object  # type: ignore[misc,assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

GC_THRESHOLD_OBJECTS = 20_000  # between two garbage collections; most commands end before the first one
_PACKAGE = "postroom."
_HEADER_BYTES = 16  # of a compiled file: the version of the format, how it is checked, and the time and the size of its source
_CHECKED_BY_TIME = bytes(4)


def import_quickly(*names: str, archive: str = "") -> None:
    """Import the modules of Postroom by their compiled files from now on, and those of these names at once, as `import_in_order` does.

    The process also collects garbage seldom.
    """
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    tag = sys.implementation.cache_tag
    if MAGIC_NUMBER and tag and not sys.flags.optimize and not sys.pycache_prefix:  # otherwise the compiled files have other names
        sys.meta_path.insert(0, CompiledFinder(MAGIC_NUMBER + _CHECKED_BY_TIME, f".{tag}.pyc"))
    import_in_order(*names, archive=archive)


def import_in_order(*names: str, archive: str = "") -> None:
    """Import modules, each of which imports none of ours but those before it, without the locks of `importlib`.

    Only for a process that has one thread yet. After `import_quickly`; otherwise, and from the first module that has no compiled file
    that fits or that fails, nothing is done, and `importlib` imports each module when it is needed. `archive` is the name of the
    archive of these modules. It is written if it does not fit.
    """
    finder = sys.meta_path[0]
    if not isinstance(finder, CompiledFinder) or all(name in sys.modules for name in names):
        return
    archived = finder.read_archive(archive, names) if archive else {}
    for name in names:
        try:
            if name not in sys.modules and not _import_directly(finder, name, archived.get(name)):
                return
        except Exception:  # it fails again when it is needed, where the program prints its refusal
            return
    if archive and not archived:
        finder.write_archive(archive, names)


def _import_directly(finder: CompiledFinder, name: str, archived: tuple[ModuleSpec, CodeType] | None) -> bool:
    """Import a module whose package is imported, from the archive if it is there. Return whether it is compiled."""
    package_name, _, own_name = name.rpartition(".")
    package = sys.modules[package_name]
    if archived is None:
        spec = finder.find_spec(name, package.__path__)
        if spec is None:
            return False
        code = spec.loader.get_code(name)  # type: ignore[union-attr]
    else:
        spec, code = archived
    module = type(sys)(name)
    module.__dict__.update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent, __file__=spec.origin, __cached__=spec.cached)
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - as `importlib` does
    except BaseException:
        del sys.modules[name]
        raise
    setattr(package, own_name, module)
    return True


class CompiledLoader(SourceFileLoader):
    """Loads one module from the compiled file that the finder has read."""

    compiled: bytes | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module: at first from the file that was found, later from what is on the disk by then."""
        compiled, self.compiled = self.compiled, None
        if compiled is not None:
            try:
                code: CodeType = loads(memoryview(compiled)[_HEADER_BYTES:])  # noqa: S302 - the file that importlib would load
            except (EOFError, TypeError, ValueError):  # cut off or damaged
                return self.source_to_code(self.get_data(self.path), self.path)
            _fix_co_filename(code, self.path)  # for tracebacks: it may have been compiled in another folder
            return code
        return super().get_code(fullname)


class CompiledFinder:
    """Finds the modules of Postroom by their compiled files. In `sys.meta_path` it stands before the finders of `importlib`."""

    def __init__(self, header_start: bytes, suffix: str) -> None:
        self._header_start = header_start
        self._suffix = suffix
        self._root = __file__.removesuffix("/_fastpath/imports.py")  # the folder of the package
        self._archive_header = header_start + b"postroom"

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module, or None if it is not ours or has no compiled file that fits."""
        if not path or not fullname.startswith(_PACKAGE):
            return None
        folder, name = path[0], fullname.rpartition(".")[2]
        return self._read_compiled(fullname, f"{folder}/{name}", "__init__") or self._read_compiled(fullname, folder, name)

    def _read_compiled(self, fullname: str, folder: str, name: str) -> ModuleSpec | None:
        try:
            compiled = _read_file(f"{folder}/__pycache__/{name}{self._suffix}")
            source_mark = _read_source_mark(f"{folder}/{name}.py")
        except OSError:
            return None
        if compiled[:_HEADER_BYTES] != self._header_start + source_mark:
            return None
        spec = self._make_spec(fullname, folder, name)
        spec.loader.compiled = compiled  # type: ignore[union-attr]
        return spec

    def _make_spec(self, fullname: str, folder: str, name: str) -> ModuleSpec:
        source = f"{folder}/{name}.py"
        spec = ModuleSpec(fullname, CompiledLoader(fullname, source), origin=source)
        spec.has_location, spec.cached = True, f"{folder}/__pycache__/{name}{self._suffix}"
        if name == "__init__":
            spec.submodule_search_locations = [folder]
        return spec

    def read_archive(self, archive: str, names: tuple[str, ...]) -> dict[str, tuple[ModuleSpec, CodeType]]:
        """Return how to load these modules, and their code, from an archive. Empty if one of its sources has changed since."""
        found = {}
        try:
            content = _read_file(self._archive_path(archive))
            if content[:_HEADER_BYTES] != self._archive_header:
                return {}
            listed, codes = loads(memoryview(content)[_HEADER_BYTES:])  # noqa: S302 - as safe as the compiled files beside it
            for (fullname, subfolder, name, source_mark), code in zip(listed, codes, strict=True):
                folder = self._root + subfolder
                if _read_source_mark(f"{folder}/{name}.py") != source_mark:
                    return {}
                spec = self._make_spec(fullname, folder, name)
                _fix_co_filename(code, spec.origin)
                found[fullname] = spec, code
        except (OSError, EOFError, TypeError, ValueError):  # it is missing, cut off or damaged
            return {}
        return found if tuple(found) == names else {}

    def write_archive(self, archive: str, names: tuple[str, ...]) -> None:
        """Write the compiled files of these modules, which are imported, into one file. A failure is ignored, as by `importlib`."""
        path = self._archive_path(archive)
        if sys.dont_write_bytecode or not os.access(path.rpartition("/")[0], os.W_OK):  # found out first: making the archive takes long
            return
        unfinished = f"{path}.{os.getpid()}"
        listed, codes = [], []
        try:
            for fullname in names:
                folder, _, name = sys.modules[fullname].__spec__.origin.removesuffix(".py").rpartition("/")  # type: ignore[union-attr]
                compiled = _read_file(f"{folder}/__pycache__/{name}{self._suffix}")
                listed.append((fullname, folder.removeprefix(self._root), name, compiled[8:_HEADER_BYTES]))
                codes.append(loads(memoryview(compiled)[_HEADER_BYTES:]))  # noqa: S302 - the file that importlib would load
            file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.write(file, self._archive_header + dumps((tuple(listed), tuple(codes))))
                os.replace(unfinished, path)
            except OSError:
                os.unlink(unfinished)
            finally:
                os.close(file)
        except (AttributeError, OSError, EOFError, TypeError, ValueError):
            return

    def _archive_path(self, archive: str) -> str:
        return f"{self._root}/_fastpath/__pycache__/imports{self._suffix.removesuffix('.pyc')}.{archive}"


def _read_source_mark(source: str) -> bytes:
    """Return the time and the size of a source, as in the header of its compiled file."""
    status = os.stat(source)
    return _four_bytes(int(status.st_mtime)) + _four_bytes(status.st_size)


def _read_file(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _four_bytes(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")
