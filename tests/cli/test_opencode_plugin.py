"""The plugin for opencode, run by Node with the real command, and a client that notes which turns are started."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import LIMIT, SCRIPTS, Inbox

AGENT, SESSION = "ada", "ses_1"
# argv: the plugin, the way to play, and the command that sends a message.
PLAY = """
import { execFileSync } from "node:child_process"
const [file, way, ...send] = process.argv.slice(1)
const { Postroom } = await import(file)
const told = []
let over
const ended = new Promise((resolve) => (over = resolve))
const promptAsync = async ({ path, body }) => over(told.push({ session: path.id, ...body.parts[0] }))
const plugin = await Postroom({ client: { session: { promptAsync } } })
const sessionID = "ses_1"
const results = [{ output: "one" }, { content: [{ type: "text", text: "two" }] }, { output: "three" }, { output: "four" }]
if (way === "busy") await plugin["chat.message"]({ sessionID })
await plugin.event({ event: { type: "session.created", properties: { info: { id: sessionID } } } })
if (way === "rest") {
  execFileSync(send[0], send.slice(1))
  await ended
} else if (way === "busy") {
  for (const result of results) {
    await plugin["tool.execute.after"]({ sessionID }, result)
    if (result === results[0] || result === results[2]) execFileSync(send[0], send.slice(1))
  }
} else for (let turn = 0; turn < 5; turn++) await plugin.event({ event: { type: "session.idle", properties: { sessionID } } })
console.log(JSON.stringify({ told, results }))
process.exit()
"""


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path)
    made.ok("init")
    made.ok("harness", "connect", "opencode", "--agent", AGENT)
    return made


def _play(inbox: Inbox, way: str, plugin: Path) -> dict[str, Any]:
    module = plugin.with_suffix(".mjs")  # opencode takes any file for a module, Node asks for the name
    module.write_text(plugin.read_text())
    send = [str(SCRIPTS / "mailbox"), "enqueue", "--from", "bo", "--to", AGENT, "--payload", "hello"]
    argv = [str(SCRIPTS / "node"), "--input-type=module", "-e", PLAY, str(module), way, *send]
    done = subprocess.run(argv, cwd=inbox.folder, env=inbox.environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    played: dict[str, Any] = json.loads(done.stdout)
    return played


@pytest.fixture
def plugin(inbox: Inbox) -> Path:
    return inbox.folder / ".opencode/plugin/postroom.js"


def test_a_message_starts_a_turn_of_a_session_at_rest(inbox: Inbox, plugin: Path) -> None:
    [turn] = _play(inbox, "rest", plugin)["told"]
    assert (turn["session"], turn["synthetic"], turn["text"].startswith("1 new in your Postroom inbox")) == (SESSION, True, True)


def test_a_session_at_work_is_told_once_with_the_results_of_its_tools(inbox: Inbox, plugin: Path) -> None:
    played = _play(inbox, "busy", plugin)
    assert played["told"] == []
    news = '<postroom>1 new in your Postroom inbox: 1 message from "bo" (unverified). inbox_read shows it.</postroom>'
    listed = [{"type": "text", "text": "two"}, {"type": "text", "text": news}]
    assert played["results"] == [{"output": "one"}, {"content": listed}, {"output": "three"}, {"output": f"four\n\n{news}"}]


def test_a_command_that_is_missing_or_broken_starts_no_turn(inbox: Inbox, plugin: Path) -> None:
    own, text = json.dumps(str(SCRIPTS / "inbox")), plugin.read_text()
    assert own in text
    broken = inbox.folder / "broken"
    broken.write_text("#!/bin/sh\necho usage >&2\nexit 2\n")
    broken.chmod(0o755)
    for command in (broken, inbox.folder / "missing"):
        plugin.write_text(text.replace(own, json.dumps(str(command))))
        assert _play(inbox, "broken", plugin)["told"] == []
