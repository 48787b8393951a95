"""The wheel works in a clean virtual environment that has its declared dependencies and nothing else."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import postroom
from tests.cli.process import LIMIT

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def run(*command: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, check=False, **settings)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("postroom-*.whl")
    return path


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands in a virtual environment without extras."""
    return _install(wheel, tmp_path_factory.mktemp("clean"), "")


@pytest.fixture(scope="module")
def all_programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands in a virtual environment with all extras."""
    return _install(wheel, tmp_path_factory.mktemp("complete"), "all")


def _install(wheel: Path, folder: Path, extra: str) -> Path:
    """Install the wheel into a new virtual environment, and return the folder of its commands.

    No index is asked: the dependencies are links to those of the environment that runs the tests.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    [site_packages] = folder.glob("lib/python3*/site-packages")
    for name in _dependencies(wheel, extra):
        _link_distribution(name, site_packages)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-index", "--no-compile")
    installed = run(*pip, f"{wheel}[{extra}]" if extra else wheel)
    assert installed.returncode == 0, installed.stderr
    return folder / "bin"


def _dependencies(wheel: Path, extra: str = "") -> set[str]:
    """The names of everything that the wheel needs with an extra, or without one."""
    shown = run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--no-index",
        "--report",
        "-",
        wheel,
    )
    own = json.loads(shown.stdout)["install"][0]["metadata"]["requires_dist"]
    waiting = [(line, extra) for line in own]
    found: set[tuple[str, str]] = set()
    while waiting:
        line, wanted = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
            continue
        for inner in {"", *requirement.extras}:
            if (requirement.name, inner) not in found:
                found.add((requirement.name, inner))
                more = own if requirement.name == "postroom" else distribution(requirement.name).requires or []
                waiting += [(each, inner) for each in more]
    return {str(canonicalize_name(name)) for name, _ in found} - {"postroom"}


def _link_distribution(name: str, site_packages: Path) -> None:
    installed = distribution(name)
    for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        (site_packages / top).symlink_to(str(installed.locate_file(top)))


def environment(programs: Path, home: Path) -> dict[str, str]:
    return {"PATH": f"{programs}:{os.defpath}", "HOME": str(home), "NOTIFIER_HOME": str(home / "notifier"), "LANG": "C.UTF-8"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_starts(name: str, programs: Path, tmp_path: Path) -> None:
    ended = run(programs / name, "version", cwd=tmp_path, env=environment(programs, tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert postroom.__version__ in ended.stdout


def test_the_server_the_terminal_screen_and_postgres_come_with_all_extras(all_programs: Path, tmp_path: Path) -> None:
    home = environment(all_programs, tmp_path)
    assert run("inbox", "init", cwd=tmp_path, env=home).returncode == 0
    server = subprocess.Popen(
        [all_programs / "inbox", "serve", "--json", "--port", "0"], cwd=tmp_path, env=home, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        address = ready["url"].replace("http", "ws")
        token = Path(ready["token_file"]).read_text().strip()
        listed = run("inbox", "list", "--db", address, cwd=tmp_path, env={**home, "INBOX_TOKEN": token})
        assert (listed.returncode, listed.stderr) == (0, "")
        page = _fetch(ready["url"] + "/", token)
        files = re.findall(r'(?:src|href)="(/[^"]+)"', page)
        assert all(_fetch(ready["url"] + path, token) for path in files), files
        assert any(path.endswith("app.js") for path in files)
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT)
    away = run("inbox", "list", "--db", "postgresql://127.0.0.1:1/none", cwd=tmp_path, env=home)
    assert away.returncode == 50
    assert "postgres" not in away.stderr.partition("hint:")[2]  # the library is there, the database is not
    imported = run(all_programs / "python", "-c", "import postroom.cli.inbox.status.live_screen", cwd=tmp_path, env=home)
    assert (imported.returncode, imported.stderr) == (0, "")


def _fetch(url: str, token: str) -> str:
    with urlopen(Request(url, headers={"Authorization": f"Bearer {token}"}), timeout=LIMIT) as answer:
        return str(answer.read().decode())


def test_each_room_works_without_an_extra(programs: Path, tmp_path: Path) -> None:
    script = """
        inbox init
        inbox send --from lead --to ada --thread t1 --subject "Count"
        inbox work --agent ada --until-empty --command 'wc -l'
        mailbox enqueue --from lead --to ada --msg-id m1 --payload hello
        mailbox deliver --session ada --until-empty --command 'wc -w'
        thread init events
        thread push --thread events --source self --type record --content "done"
        thread peek --thread events --last-event-id 0
        notifier timer add --author ada --timer-id yearly --cron @yearly --command true
        notifier timer remove --timer-id yearly
        notifier stop
        inbox skill --install skills"""
    ended = run("sh", "-ec", script, cwd=tmp_path, env=environment(programs, tmp_path))
    assert ended.returncode == 0, ended.stderr
    for expected in ("1 done, 0 failed", "1 acked, 0 nacked", '"content": "done"'):
        assert expected in ended.stdout
    assert list((tmp_path / "skills").rglob("SKILL.md")) != []


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("server", ["inbox", "serve", "--port", "0"]),
        ("server", ["inbox", "list", "--db", "ws://127.0.0.1:1"]),
        ("postgres", ["inbox", "list", "--db", "postgresql://127.0.0.1:1/none"]),
        ("terminal", ["inbox", "top"]),
    ],
    ids=["serve", "websocket", "postgres", "top"],
)
def test_a_missing_extra_is_named_with_the_wheel_that_this_copy_came_from(
    extra: str, command: list[str], programs: Path, wheel: Path, tmp_path: Path
) -> None:
    run(programs / "inbox", "init", cwd=tmp_path, env=environment(programs, tmp_path))
    _, terminal = pty.openpty()  # `inbox top` refuses anything else
    command = [str(programs / command[0]), *command[1:]]
    settings: dict[str, Any] = {"cwd": tmp_path, "env": environment(programs, tmp_path), "stdin": terminal, "stdout": terminal}
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False, **settings)
    assert ended.returncode == 50, ended
    assert ended.stderr.splitlines()[-1] == f"hint: Install its extra: pip install '{wheel}[{extra}]'"


@pytest.fixture(scope="module")
def wheelhouse(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel for each library that Postroom needs with the extra for PostgreSQL, made from those installed here."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    for name in _dependencies(wheel, "postgres"):
        _pack_distribution(name, folder)
    return folder


def _pack_distribution(name: str, folder: Path) -> None:
    installed = distribution(name)
    tag = next(line.removeprefix("Tag: ") for line in (installed.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    path = folder / f"{name.replace('-', '_')}-{installed.version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file in installed.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts and file.name not in {"INSTALLER", "REQUESTED"}:
                packed.write(str(installed.locate_file(file)), str(file))


def _tool_environment(home: Path, wheelhouse: Path) -> dict[str, str]:
    """Return the variables under which pipx and uv write into one folder, and take libraries from another one instead of an index."""
    tools = Path(sys.executable).parent
    return {
        **environment(home / "bin", home),
        "PATH": f"{home / 'bin'}:{home / 'installers'}:{os.defpath}",
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PIPX_DEFAULT_PYTHON": str(tools / "python"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheelhouse),
        "UV_PYTHON": str(tools / "python"),
        "UV_TOOL_DIR": str(home / "uv"),
        "UV_TOOL_BIN_DIR": str(home / "bin"),
        "UV_CACHE_DIR": str(home / "cache"),
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheelhouse),
    }


@pytest.mark.parametrize("install", ["pipx install", "uv tool install"])
def test_a_tool_installer_installs_the_wheel_and_later_the_extra_that_a_hint_names(
    install: str, wheel: Path, wheelhouse: Path, tmp_path: Path
) -> None:
    variables = _tool_environment(tmp_path, wheelhouse)
    (tmp_path / "installers").mkdir()
    for name in ("pipx", "uv"):
        (tmp_path / "installers" / name).symlink_to(Path(sys.executable).with_name(name))
    installed = run(*install.split(), wheel, cwd=tmp_path, env=variables)
    assert installed.returncode == 0, installed.stderr
    for name in SCRIPTS:
        started = run(name, "version", cwd=tmp_path, env=variables)
        assert (started.returncode, started.stderr) == (0, "")
    away = ["inbox", "list", "--db", "postgresql://127.0.0.1:1/none"]
    hint = run(*away, cwd=tmp_path, env=variables).stderr.splitlines()[-1]
    assert hint == f"hint: Install its extra: {install} --force '{wheel}[postgres]'"
    again = run("sh", "-c", hint.removeprefix("hint: Install its extra: "), cwd=tmp_path, env=variables)
    assert again.returncode == 0, again.stderr
    refused = run(*away, cwd=tmp_path, env=variables)
    assert refused.returncode == 50
    assert "extra" not in refused.stderr  # the library is there, the database is not
    hint = run("inbox", "list", "--db", "ws://127.0.0.1:1", cwd=tmp_path, env=variables).stderr.splitlines()[-1]
    assert hint.endswith(f"{install} --force '{wheel}[postgres,server]'")  # otherwise the installer would remove the first extra
