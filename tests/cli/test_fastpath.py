"""Without CPython's private modules, on the public ones, everything is as with them, only slower."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import Finished, Inbox

PRIVATE = ("_json", "_sqlite3", "_sha1", "_thread", "_frozen_importlib_external")
HOOK = str(Path(__file__).parents[1] / "fastpath_off")

TEXTS = """
import sys
from postroom._fastpath import json_text as jsontext
from postroom.core.text import sha1_hex as digest

loop = []
loop.append(loop)
VALUES = [
    None, True, 0, -1, 10**40, 0.1, -0.0, 1e400, float("nan"), [float("inf")], "", "é☃\\u2028", "\\ud800", "\\x00\\x1f\\x7f\\"\\\\/",
    [], {}, [1, [2, {"a": None}]], {"b": 1, "a": [True]}, {1: 2, None: 3, True: 4, 1.5: 5}, {(1,): 2}, object(), b"", {"a": {1}}, (1, 2),
    loop,
]
TEXTS = [
    "", " ", "null", " [1, 2.5, -3e2]\\n", '{"a": {"b": []}}', '"\\\\ud800"', '"a\\tb"', '"\\\\u00e9"', "NaN", "[Infinity]", "-Infinity",
    "1 2", "[1,]", "{", '{"a" 1}', "tru", "01", "1.", "+1", "'a'", "[" * 100_000, '{"a": 1, "a": 2}', "\\ufeff1", "9" * 4000, "9" * 5000,
]

def told(function, value):
    try:
        return repr(function(value))
    except (TypeError, ValueError, RecursionError) as error:  # in other words, as `json` has them with and without its C module
        return type(error).__name__

result = [told(jsontext.dumps, value) for value in VALUES] + [told(jsontext.loads, text) for text in TEXTS]
result += [digest(text) for text in ("", "é", "\\udc80", "x" * 10_000)]
sys.stdout.write(ascii(result))
"""
WHICH = """
from postroom import _fastpath
from postroom._fastpath import json_text, sha1, sqlite
print(sqlite.driver.__name__, json_text._encode is None, json_text._scan is None, sha1.sha1.__module__)
"""


def _off(*modules: str) -> dict[str, str]:
    """The environment in which these modules are kept from Postroom."""
    return {"PYTHONPATH": HOOK, "FASTPATH_OFF": " ".join(modules)} if modules else {}


def _python(script: str, *modules: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=_off(*modules), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_without_the_private_modules_the_public_ones_are_used() -> None:
    assert _python(WHICH).split()[:3] == ["_sqlite3", "False", "False"]
    assert _python(WHICH, *PRIVATE) == "sqlite3 True True _hashlib"


def test_where_the_cache_of_functools_is_another_the_public_driver_is_used() -> None:
    assert _python(WHICH, "_functools").split()[:3] == ["sqlite3", "False", "False"]


@pytest.mark.parametrize("modules", [PRIVATE, ("_json",), ("_sha1",)], ids=" ".join)
def test_json_and_digests_are_the_same_without_them(modules: tuple[str, ...]) -> None:
    assert _python(TEXTS, *modules) == _python(TEXTS)


@pytest.mark.parametrize(
    "modules", [(), PRIVATE, *((name,) for name in PRIVATE), ("_functools",)], ids=lambda names: " ".join(names) or "fast"
)
def test_a_thread_goes_from_send_to_done_without_them(tmp_path: Path, modules: tuple[str, ...]) -> None:
    inbox = Inbox(tmp_path, cold=True)

    def run(*argv: str) -> Finished:
        return inbox.execute([*argv, "--json"], _off(*modules))

    def ok(*argv: str) -> Any:
        finished = run(*argv)
        assert (finished.code, finished.stderr) == (0, ""), finished
        return finished.json

    ok("init")
    thread = ok("send", "--from", "leader", "--to", "builder", "--subject", "é", "--payload-json", '{"a": [1, 2.5]}')["thread"]["thread_id"]
    ok("take", "--agent", "builder")
    ok("update", "--agent", "builder", "--thread", thread, "--summary", "Halfway")
    refused = run("claim", "--agent", "other", "--thread", thread)
    malformed = run("update", "--agent", "builder", "--thread", thread, "--payload-json", "{")
    ok("done", "--agent", "builder", "--thread", thread, "--summary", "Done")
    shown = ok("show", "--thread", thread)
    assert (refused.code, malformed.code) == (20, 30)
    assert shown["thread"]["status"] == "done"
    assert [message["kind"] for message in shown["messages"]] == ["task", "progress", "result"]


def test_a_waiter_is_woken_without_them(inbox: Inbox) -> None:
    thread = inbox.send()
    inbox.ok("claim", "--agent", "builder", "--thread", thread)
    waiter = inbox.start("wait-reply", "--agent", "builder", "--thread", thread, "--json", **_off(*PRIVATE)).sleeping()
    inbox.ok("reply", "--from", "leader", "--thread", thread, "--body", "Go on")
    finished = waiter.finish()
    assert finished.code == 0, finished
    assert "Go on" in finished.stdout
