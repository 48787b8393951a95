"""Import the compiled modules of Postroom without the search of `importlib`. The programs call it before they import anything else.

A command imports about fifty modules of ours. `importlib` makes a dozen system calls for each, because it expects any kind of file in any
folder. Ours are `NAME.py` or `NAME/__init__.py` with the compiled file where `compileall` writes it, which takes five calls. A module whose
compiled file is missing, or belongs to another source or another Python, is left to `importlib`, which compiles it.

Half of what is left is the locks, checks and attributes of `importlib`. `import_in_order` does without them.
"""

from __future__ import annotations

import gc
import os
import sys
from marshal import loads

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


def import_quickly(*names: str) -> None:
    """Import the modules of Postroom by their compiled files from now on, and those of these names at once, as `import_in_order` does.

    The process also collects garbage seldom.
    """
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    tag = sys.implementation.cache_tag
    if MAGIC_NUMBER and tag and not sys.flags.optimize and not sys.pycache_prefix:  # otherwise the compiled files have other names
        sys.meta_path.insert(0, CompiledFinder(MAGIC_NUMBER + _CHECKED_BY_TIME, f".{tag}.pyc"))
    import_in_order(*names)


def import_in_order(*names: str) -> None:
    """Import modules, each of which imports none of ours but those before it, without the locks of `importlib`.

    Only for a process that has one thread yet. After `import_quickly`; otherwise, and from the first module that has no compiled file
    that fits or that fails, nothing is done, and `importlib` imports each module when it is needed.
    """
    finder = sys.meta_path[0]
    if isinstance(finder, CompiledFinder):
        for name in names:
            try:
                if name not in sys.modules and not _import_directly(finder, name):
                    return
            except Exception:  # it fails again when it is needed, where the program prints its refusal
                return


def _import_directly(finder: CompiledFinder, name: str) -> bool:
    """Import a module whose package is imported. Return whether it has a compiled file."""
    package_name, _, own_name = name.rpartition(".")
    package = sys.modules[package_name]
    spec = finder.find_spec(name, package.__path__)
    if spec is None:
        return False
    code = spec.loader.get_code(name)  # type: ignore[union-attr]
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

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module, or None if it is not ours or has no compiled file that fits."""
        if not path or not fullname.startswith(_PACKAGE):
            return None
        folder, name = path[0], fullname.rpartition(".")[2]
        return self._read_compiled(fullname, f"{folder}/{name}", "__init__") or self._read_compiled(fullname, folder, name)

    def _read_compiled(self, fullname: str, folder: str, name: str) -> ModuleSpec | None:
        source, cached = f"{folder}/{name}.py", f"{folder}/__pycache__/{name}{self._suffix}"
        try:
            compiled = _read_file(cached)
            status = os.stat(source)
        except OSError:
            return None
        source_mark = _four_bytes(int(status.st_mtime)) + _four_bytes(status.st_size)
        if compiled[:_HEADER_BYTES] != self._header_start + source_mark:
            return None
        loader = CompiledLoader(fullname, source)
        loader.compiled = compiled
        spec = ModuleSpec(fullname, loader, origin=source)
        spec.has_location, spec.cached = True, cached
        if name == "__init__":
            spec.submodule_search_locations = [folder]
        return spec


def _read_file(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _four_bytes(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")
