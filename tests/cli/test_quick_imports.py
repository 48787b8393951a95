"""The programs import their modules by the compiled files. Nothing else about a module differs, and a changed source always counts."""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import postroom
from postroom import work
from tests.cli.test_fastpath import _off

OLD = 10**9  # the time of a source, in seconds
DESCRIBE = """
import importlib, sys
if "quickly" in sys.argv:
    from postroom._fastpath.imports import import_quickly
    import_quickly()
if "in_order" in sys.argv:
    from postroom._fastpath.imports import import_quickly
    import_quickly("postroom.core", "postroom.core.errors", "postroom.store", "postroom.store.statements", archive="described")
for name in ("postroom.core", "postroom.core.errors", "postroom.store.statements", "postroom.work.threads"):
    module = importlib.import_module(name)
    spec = module.__spec__
    print(name, module.__name__, module.__file__, module.__cached__, module.__package__, getattr(module, "__path__", None), module.__doc__)
    print(spec.origin, spec.cached, spec.has_location, spec.parent, spec.submodule_search_locations)
    loader = spec.loader
    print(loader.get_filename(name), len(loader.get_source(name)), loader.get_code(name).co_filename, loader.is_package(name))
"""
LOADERS = """
import sys
from postroom._fastpath.imports import import_quickly
import_quickly()
import postroom.core.limits
print(type(postroom.core.limits.__loader__).__name__, postroom.core.limits.MAX_BATCH)
"""
FIND = """
import importlib.util
from postroom._fastpath.imports import import_quickly
import_quickly()
print(importlib.util.find_spec("postroom.core.limits"))
"""
FILE_NAME = """
from postroom._fastpath.imports import import_quickly
import_quickly()
from postroom.core.errors import Refusal
print(Refusal.__init__.__code__.co_filename)
"""
FINDERS = (
    "import sys; from postroom._fastpath.imports import import_quickly; import_quickly(); print('CompiledFinder' in str(sys.meta_path))"
)


ORDER = """
import sys
from postroom._fastpath.imports import CompiledFinder, import_in_order, import_quickly
from postroom import cli
import postroom.cli.mailbox
asked = []
find_spec = CompiledFinder.find_spec
def note_name(finder, name, *rest):
    if name.startswith("postroom."):
        asked.append(name)
    return find_spec(finder, name, *rest)
CompiledFinder.find_spec = note_name
import_quickly()
names = sum((getattr(cli, part) for part in sys.argv[1:]), ())
import_in_order(*names)
print([name for name in asked if name not in names], [name for name in names if name not in asked], asked == list(names))
"""
NEEDED = """
import os, sys
from postroom._fastpath import imports
if "directly" not in sys.argv:
    imports.import_in_order = lambda *names, archive: None
from postroom import cli
from postroom.cli import inbox, mailbox
parts, program = sys.argv[1].split(","), sys.argv[2]
sys.argv[1:] = [word for word in sys.argv[3:] if word != "directly"]
leave = os._exit
def show_and_leave(code):
    sys.stdout.flush()
    missing = [name for part in parts for name in getattr(cli, part) if name not in sys.modules]
    os.write(1, f"{code} {missing} {imports.__name__ in sys.modules}".encode())
    leave(0)
os._exit = show_and_leave
{"inbox": inbox, "mailbox": mailbox}[program].main()
"""


FAILING = """
import sys
from postroom._fastpath.imports import import_in_order, import_quickly
import_quickly()
import_in_order("postroom.core", "postroom.core.limits")
print("postroom.core.limits" in sys.modules)
try:
    import postroom.core.limits
except RuntimeError as error:
    print(error)
"""
SKIPPED = """
import sys
from postroom._fastpath.imports import import_in_order, import_quickly
import_quickly("postroom.core", "postroom.core.limits", "postroom.core.errors")
print([name for name in sys.modules if name.startswith("postroom.core")])
import postroom.core.limits
print(type(postroom.core.limits.__loader__).__name__)
"""


ARCHIVED = """
import sys
from postroom._fastpath import imports
read = []
read_file = imports._read_file
def note_path(path):
    content = read_file(path)
    read.append(path.rpartition("/")[2].partition(".")[0])
    return content
imports._read_file = note_path
imports.import_quickly("postroom.core", "postroom.core.limits", archive="test")
import postroom.core.limits
print(postroom.core.limits.MAX_BATCH, *read)
"""


def _python(*argv: str, path: Path | None = None, environment: dict[str, str] | None = None) -> str:
    env = {"PATH": os.environ["PATH"], **(environment or {}), **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    """A copy of the compiled package that a test may change."""
    source = Path(postroom.__file__).parent
    for part in ("__init__.py", "_fastpath", "core"):
        target = tmp_path / "postroom" / part
        if part.endswith(".py"):
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(source / part, target)
        else:
            shutil.copytree(source / part, target, ignore=shutil.ignore_patterns("__pycache__"))
    limits = tmp_path / "postroom" / "core" / "limits.py"
    limits.write_text("MAX_BATCH = 1\n")
    os.utime(limits, (OLD, OLD))
    assert compileall.compile_dir(tmp_path, quiet=1)
    return tmp_path


def _compiled_limits(package: Path) -> Path:
    (compiled,) = (package / "postroom" / "core" / "__pycache__").glob("limits.*.pyc")
    return compiled


def test_a_module_is_described_as_by_importlib() -> None:
    compileall.compile_dir(Path(postroom.__file__).parent, quiet=1)
    described = _python("-c", DESCRIBE)
    assert _python("-c", DESCRIBE, "quickly") == described
    assert _python("-c", DESCRIBE, "in_order") == described


HOOK = "WORK_MODULES SQLITE_MODULES WORK_STATEMENTS HOOK_MODULES"


@pytest.mark.parametrize("parts", ["WORK_MODULES SQLITE_MODULES WORK_STATEMENTS", "MAIL_MODULES SQLITE_MODULES MAIL_STATEMENTS", HOOK])
def test_each_listed_module_stands_behind_those_that_it_imports(parts: str) -> None:
    compileall.compile_dir(Path(postroom.__file__).parent, quiet=1)
    assert _python("-c", ORDER, "COMMAND_MODULES", *parts.split()) == "[] [] True"


RENEW = ("COMMAND_MODULES,WORK_MODULES,SQLITE_MODULES,WORK_STATEMENTS", "inbox", "renew", "--agent", "w", "--thread", "t1", "--json")
ENQUEUE = (
    "COMMAND_MODULES,MAIL_MODULES,SQLITE_MODULES,MAIL_STATEMENTS",
    "mailbox",
    "enqueue",
    "--from",
    "a",
    "--to",
    "b",
    "--payload",
    "x",
    "--json",
)


@pytest.mark.parametrize("argv", [RENEW, ENQUEUE], ids=["renew", "enqueue"])
def test_each_listed_module_is_needed_by_a_command(tmp_path: Path, argv: tuple[str, ...]) -> None:
    compileall.compile_dir(Path(postroom.__file__).parent, quiet=1)
    database = str(tmp_path / "coord.db")
    postroom.init(database)
    with postroom.open(database) as store:
        work.send(store, sender="a", to="w", thread_id="t1", subject="x")
        work.claim(store, "t1", agent="w")
    for way in ((), ("directly",)):  # the command does the same in both ways
        answer, _, modules = _python("-c", NEEDED, *argv, "--db", database, *way).rpartition("}")
        assert '"ok": true' in answer
        assert modules == "\n0 [] True"


def test_each_listed_module_is_needed_by_a_hook(tmp_path: Path) -> None:
    compileall.compile_dir(Path(postroom.__file__).parent, quiet=1)
    database = str(tmp_path / "coord.db")
    postroom.init(database)
    parts = "COMMAND_MODULES,SQLITE_MODULES,WORK_STATEMENTS,HOOK_MODULES"
    argv = (parts, "inbox", "hook", "prompt", "--harness", "claude", "--agent", "w", "--session", "s")
    for way in ((), ("directly",)):
        assert _python("-c", NEEDED, *argv, "--db", database, *way, environment={"HOME": str(tmp_path)}) == "0 [] True"


def test_a_module_that_fails_while_it_is_imported_is_not_kept_and_fails_where_it_is_needed(copied_package: Path) -> None:
    limits = copied_package / "postroom" / "core" / "limits.py"
    limits.write_text("raise RuntimeError('too much')\n")
    assert compileall.compile_dir(copied_package, quiet=1)
    assert _python("-c", FAILING, path=copied_package).split() == ["False", "too", "much"]


def test_modules_without_compiled_files_are_left_to_importlib(copied_package: Path) -> None:
    _compiled_limits(copied_package).unlink()
    assert _python("-c", SKIPPED, path=copied_package) == "['postroom.core']\nSourceFileLoader"


def test_a_compiled_module_is_found_by_its_file(copied_package: Path) -> None:
    assert _python("-c", LOADERS, path=copied_package) == "CompiledLoader 1"


@pytest.mark.parametrize(
    ("text", "seconds"), [("MAX_BATCH = 2\n", OLD + 1), ("MAX_BATCH = 22\n", OLD), ("MAX_BATCH = 2\n", 2**33)], ids=["time", "size", "far"]
)
def test_a_changed_source_counts(copied_package: Path, text: str, seconds: int) -> None:
    limits = copied_package / "postroom" / "core" / "limits.py"
    limits.write_text(text)
    os.utime(limits, (seconds, seconds))
    assert _python("-c", LOADERS, path=copied_package) == f"SourceFileLoader {text.split()[2]}"


@pytest.mark.parametrize("content", [b"", b"\0" * 16, None], ids=["empty", "another Python", "missing"])
def test_a_compiled_file_that_does_not_fit_is_left_to_importlib(copied_package: Path, content: bytes | None) -> None:
    compiled = _compiled_limits(copied_package)
    if content is None:
        compiled.unlink()
    else:
        compiled.write_bytes(content)
    assert _python("-c", LOADERS, path=copied_package) == "SourceFileLoader 1"
    assert _python("-c", LOADERS, path=copied_package) == "CompiledLoader 1", "importlib has compiled it"


def test_modules_are_read_from_an_archive_from_the_second_time_on(copied_package: Path) -> None:
    assert _python("-B", "-c", ARCHIVED, path=copied_package) == "1 __init__ limits"
    assert _python("-c", ARCHIVED, path=copied_package) == "1 __init__ limits __init__ limits", "-B kept it from being written"
    assert _python("-c", ARCHIVED, path=copied_package) == "1 imports"
    assert not list(copied_package.rglob("*.test.*")), "no unfinished archive is left"


def test_what_is_imported_already_is_not_read_again(copied_package: Path) -> None:
    _python("-c", ARCHIVED, path=copied_package)
    again = 'read.clear()\nimports.import_in_order("postroom.core", "postroom.core.limits", archive="test")\nprint("again", *read)'
    assert _python("-c", f"{ARCHIVED}{again}", path=copied_package) == "1 imports\nagain"


@pytest.mark.parametrize("change", ["source", "cut off", "empty", "damaged", "another Python", "other modules", "gone"])
def test_an_archive_that_does_not_fit_is_written_again(copied_package: Path, change: str) -> None:
    _python("-c", ARCHIVED, path=copied_package)
    limits = copied_package / "postroom" / "core" / "limits.py"
    (archive,) = copied_package.rglob("*.test")
    content = archive.read_bytes()
    if change == "source":
        limits.write_text("MAX_BATCH = 22\n")
        assert compileall.compile_dir(copied_package, quiet=1)
    elif change == "other modules":
        script = ARCHIVED.replace('"postroom.core.limits", archive', '"postroom.core.errors", archive')
        assert "errors" in _python("-c", script, path=copied_package)
    elif change == "gone":
        archive.unlink()
    else:
        changed = {"cut off": content[:-10], "empty": b"", "damaged": content[:16] + b"?" + content[17:], "another Python": b"\0" * 16}
        archive.write_bytes(changed[change])
    value = "22" if change == "source" else "1"
    assert _python("-c", ARCHIVED, path=copied_package).endswith("__init__ limits __init__ limits")
    assert _python("-c", ARCHIVED, path=copied_package) == f"{value} imports"


def test_a_deleted_source_is_not_found(copied_package: Path) -> None:
    (copied_package / "postroom" / "core" / "limits.py").unlink()
    assert _python("-c", FIND, path=copied_package) == "None"


def test_compiled_files_elsewhere_are_left_to_importlib(tmp_path: Path) -> None:
    assert _python("-c", FINDERS) == "True"
    assert _python("-O", "-c", FINDERS) == "False"
    assert _python("-X", f"pycache_prefix={tmp_path}", "-c", FINDERS) == "False"
    assert _python("-c", FINDERS, environment=_off("_frozen_importlib_external")) == "False"


def test_a_compiled_file_that_was_cut_off_is_compiled_again(copied_package: Path) -> None:
    compiled = _compiled_limits(copied_package)
    compiled.write_bytes(compiled.read_bytes()[:-10])
    assert _python("-c", LOADERS, path=copied_package) == "CompiledLoader 1"


def test_a_compiled_file_that_is_checked_by_its_hash_is_left_to_importlib(copied_package: Path) -> None:
    source = copied_package / "postroom" / "core" / "limits.py"
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    assert _python("-c", LOADERS, path=copied_package) == "SourceFileLoader 1"


def test_a_package_counts_before_a_module_of_its_name(copied_package: Path) -> None:
    package = copied_package / "postroom" / "core" / "limits"
    package.mkdir()
    (package / "__init__.py").write_text("MAX_BATCH = 3\n")
    assert compileall.compile_dir(package, quiet=1)
    assert _python("-c", LOADERS, path=copied_package) == "CompiledLoader 3"


def test_a_module_that_was_compiled_elsewhere_names_its_own_source(copied_package: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(copied_package / "postroom", moved / "postroom")
    assert _python("-c", FILE_NAME, path=moved) == str(moved / "postroom" / "core" / "errors.py")


def test_a_package_without_sources_and_one_in_a_zip_file_are_left_to_importlib(copied_package: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", copied_package, "postroom")
    assert _python("-c", LOADERS, path=Path(archive)) == "zipimporter 1"
    assert compileall.compile_dir(copied_package, quiet=1, legacy=True)
    for source in copied_package.rglob("*.py"):
        source.unlink()
    assert _python("-c", LOADERS, path=copied_package) == "SourcelessFileLoader 1"


def test_nothing_is_written_where_python_may_not(copied_package: Path) -> None:
    compiled = _compiled_limits(copied_package)
    compiled.unlink()
    assert _python("-B", "-c", LOADERS, path=copied_package) == "SourceFileLoader 1"
    assert not compiled.exists()
