"""The files in deploy/ name commands, flags, paths and addresses that exist, and the image's command passes its own health check."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from postroom.cli.framework.parser import parse
from postroom.cli.inbox.spec import INBOX
from postroom.cli.notifier.spec import NOTIFIER
from tests.cli.process import LIMIT, SCRIPTS

FOLDER = Path(__file__).parents[2] / "deploy"
DOCKERFILE, COMPOSE = (FOLDER / "Dockerfile").read_text(), (FOLDER / "docker-compose.yml").read_text()
UNITS = sorted(FOLDER.glob("*.service"))


def _lists(pattern: str, text: str) -> list[list[str]]:
    return [json.loads(found) for found in re.findall(pattern, text, re.MULTILINE)]


def _commands_of_units() -> list[list[str]]:
    lines = [line for unit in UNITS for line in re.findall(r"^ExecStart(?:Pre)?=(.*)$", unit.read_text(), re.MULTILINE)]
    return [line.removeprefix("/opt/postroom/bin/").split() for line in lines]


def test_every_command_in_these_files_is_one_that_parses() -> None:
    in_containers = [*_lists(r"^CMD (\[.*\])$", DOCKERFILE), *_lists(r"^    command: (\[.*\])$", COMPOSE)]
    commands = [*(["inbox", *words] for words in in_containers), *_commands_of_units()]
    parsed = [parse({"inbox": INBOX, "notifier": NOTIFIER}[words[0]], words[1:]).command.name for words in commands]
    assert sorted(parsed) == ["init", "init", "run", "serve", "serve", "serve"]


def test_every_file_that_the_image_copies_exists_and_is_not_ignored() -> None:
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()]
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert copied
    assert [name for name in copied if not (FOLDER.parent / name).exists() or f"!{name}" not in ignored] == []


def test_the_image_does_not_run_as_root() -> None:
    last_stage = DOCKERFILE.split("\nFROM ")[-1]
    [user] = re.findall(r"^USER (\d+)$", last_stage, re.MULTILINE)  # by number: a host that refuses root cannot resolve a name
    assert f"--uid {user} " in last_stage


def test_the_proxy_and_the_units_agree_on_the_port() -> None:
    ports = re.findall(r"(?:--port\"?,? \"?|127\.0\.0\.1:|server:|EXPOSE )(\d+)", "".join(path.read_text() for path in FOLDER.iterdir()))
    assert len(ports) >= 6
    assert set(ports) == {"8420"}


def test_the_command_of_the_image_passes_its_health_check(tmp_path: Path) -> None:
    [command] = _lists(r"^CMD (\[.*\])$", DOCKERFILE)
    [check] = _lists(r"^  CMD (\[.*\])$", DOCKERFILE)
    environment = {**os.environ, "HOME": str(tmp_path), "INBOX_DB": str(tmp_path / "coord.db")}
    environment.pop("XDG_STATE_HOME", None)
    subprocess.run([SCRIPTS / "inbox", "init"], env=environment, check=True, capture_output=True)
    words = [{"0.0.0.0": "127.0.0.1", "8420": "0"}.get(word, word) for word in command]
    with subprocess.Popen([SCRIPTS / "inbox", *words, "--json"], env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = re.findall(r":(\d+)", json.loads(server.stdout.readline())["url"])[0]
            ended = subprocess.run(
                [sys.executable, "-c", check[2].replace("8420", port)], capture_output=True, text=True, timeout=LIMIT, check=False
            )
            assert (ended.returncode, ended.stderr) == (0, "")
        finally:
            server.terminate()


def _find_program(name: str, *unpacked: str) -> str:
    """Return the path of a program, of the machine or as `make test` fetched it. Without it, the test is skipped, and fails under CI."""
    unpacked_program = Path(sys.prefix, name, *unpacked, name)
    found = shutil.which(name) or (str(unpacked_program) if unpacked_program.exists() else None)
    if found is None:
        assert "CI" not in os.environ, f"{name} is missing: run `make test` once to fetch it"
        pytest.skip(f"{name} is missing")
    return found


def test_the_image_passes_the_linter() -> None:
    ended = subprocess.run([SCRIPTS / "hadolint", "--no-color", FOLDER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_containers_name_services_and_volumes_that_are_defined() -> None:
    compose = yaml.safe_load(COMPOSE)
    services = compose["services"]
    assert {name for service in services.values() for name in service.get("depends_on", {})} <= set(services)
    sources = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert {source for source in sources if not source.startswith(".")} == set(compose["volumes"])
    assert all((FOLDER / source).exists() for source in sources if source.startswith("."))
    waits = {name: wait["condition"] for service in services.values() for name, wait in service.get("depends_on", {}).items()}
    assert all("healthcheck" in services[name] or "build" in services[name] for name, how in waits.items() if how == "service_healthy")
    host, port = services["proxy"]["environment"]["POSTROOM_UPSTREAM"].split(":")
    assert services[host]["command"][services[host]["command"].index("--port") + 1] == port


def test_the_proxy_accepts_its_file(tmp_path: Path) -> None:
    caddy = _find_program("caddy", "usr", "bin")
    environment = {"HOME": str(tmp_path), "POSTROOM_HOST": "office.example", "POSTROOM_UPSTREAM": "server:8420"}
    argv = [caddy, "adapt", "--config", str(FOLDER / "Caddyfile"), "--adapter", "caddyfile", "--validate"]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    [route] = json.loads(ended.stdout)["apps"]["http"]["servers"]["srv0"]["routes"]
    [proxy] = route["handle"][0]["routes"][0]["handle"]
    assert route["match"] == [{"host": ["office.example"]}]
    assert (proxy["upstreams"], proxy["flush_interval"]) == ([{"dial": "server:8420"}], -1)
    formatted = subprocess.run([caddy, "fmt", FOLDER / "Caddyfile"], env=environment, capture_output=True, text=True, check=False)
    assert formatted.stdout == (FOLDER / "Caddyfile").read_text()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        assert "CI" not in os.environ, "systemd-analyze is missing"
        pytest.skip("systemd-analyze is missing")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/postroom/bin/", f"{SCRIPTS}/"))
    ended = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert [line for line in (ended.stdout + ended.stderr).splitlines() if unit.name in line] == []
    assert ended.returncode == 0, ended.stderr
