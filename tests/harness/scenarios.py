"""The scenarios that run with each harness. Every scenario returns a list of (what, whether it held, what was seen)."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.harness.harnesses import CONNECTED, HARNESSES, Claude, Codex, Harness
from tests.harness.stage import HarnessStage, words
from tests.harness.terminal import Terminal

Json = dict[str, Any]
Seen = list[tuple[str, bool, str]]
RING = "new in your Postroom inbox"
WAKES = 5
HANG_SECONDS = 90


# ---- The tools --------------------------------------------------------------------------------------------------------


def tools(name: str, transport: str) -> Seen:
    """All seven tools, in one run, with a person and a leader who answer from outside."""
    seen: Seen = []
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        (stage.work / "report.md").write_text("# Report\n")
        stage.inbox("send", "--from", "leader", "--to", stage.agent, "--thread", "login", "--subject", "Add the login page")
        stage.script(
            harness.call("inbox_push", comments="Hello", docs=[{"path": "report.md"}]),
            harness.call("inbox_ask", question="Ship it?", choices=["yes", "no"], waitSeconds=20),
            harness.call("inbox_read", entries=True),
            harness.call("work_fetch"),
            harness.call("work_claim"),
            harness.call("work_update", threadId="{{threadId}}", status="blocked", summary="Which colour?", waitSeconds=20),
            harness.call("work_done", threadId="{{threadId}}", outcome="done", summary="Added"),
            harness.call("inbox_push", docs=[{"path": "../outside"}]),
            {"say": "all done"},
        )
        threading.Thread(target=_answers, args=(stage,), daemon=True).start()
        began = time.time()
        ran = harness.run("Go on, as you were told.", 180)
        seen.append(
            ("ends well", ran.returncode == 0 and "all done" in ran.stdout, f"exit {ran.returncode} in {time.time() - began:.1f} s")
        )
        news = [record["news"] for record in stage.log.records if record["rule"] is not None]
        wanted = [
            ("push", '"entryId":'),
            ("ask, answered while it waits", '"state": ?"answered".*"choice": ?"yes"'),
            ("read", '"messages":.*"entries":'),
            ("fetch", '"threads":.*"login"'),
            ("claim", '"leaseToken":'),
            ("blocked, replied while it waits", '"reply":.*"Blue"'),
            ("done", '"status": ?"done"'),
            ("a refusal is understood", "invalid_input"),
        ]
        for (what, pattern), said in zip(wanted, news[1:], strict=False):
            plain = said.replace('\\"', '"')
            seen.append((what, re.search(pattern, plain, re.S) is not None, words(plain)[-120:]))
        seen += [(what, False, "never came to it") for what, _ in wanted[max(0, len(news) - 1) :]]
        thread = stage.inbox("show", "--thread", "login")["thread"]
        seen.append(("the store agrees", thread["status"] == "done", thread["status"]))
    return seen


def _answers(stage: HarnessStage) -> None:
    """A person answers the question, a leader answers the thread."""
    while not stage.over.wait(0.1):
        _says_yes(stage)
        if stage.inbox("show", "--thread", "login")["thread"]["status"] == "blocked":
            stage.inbox("reply", "--from", "leader", "--thread", "login", "--summary", "Blue")
            return


def _says_yes_once(stage: HarnessStage) -> None:
    while not stage.over.wait(0.2) and not _says_yes(stage):
        pass


def _says_yes(stage: HarnessStage) -> bool:
    """A person answers the question that is open; whether there was one."""
    for entry in stage.inbox("entries")["entries"]:
        if entry["kind"] == "question" and entry["question"]["state"] == "open":
            stage.inbox("entry", "reply", entry["id"], "--body", "yes", ok=(0, 10, 20, 30))
            return True
    return False


class PlainClaude(Claude):
    always_load = False

    def call(self, tool: str, **arguments: Any) -> Json:
        """Its tools are deferred; a model that guesses the name right may call it all the same."""
        return {"call": {"tool": "mcp__inbox__" + tool, "arguments": arguments}}


class PlainCodex(Codex):
    approve = False


def plain(name: str, transport: str) -> Seen:
    """Connected with no more than the address and the token: are the tools offered, are the instructions, may they be called?"""
    with HarnessStage() as stage:
        harness = {"claude": PlainClaude, "codex": PlainCodex}.get(name, HARNESSES[name])(stage, transport)
        stage.script(harness.call("inbox_push", comments="Hello"), {"say": "all done", "times": 0})
        harness.run("hello", 120)
        asked = [record for record in stage.log.records if record["tools"]]
        if not asked:
            return [("asks the model", False, "never")]
        whole = json.dumps(stage.body(asked[0]["n"]))
        named = [tool for tool in stage.body(asked[0]["n"]).get("tools", ()) if "inbox_push" in json.dumps(tool)]
        return [
            ("its names are known in the first request", "inbox_push" in whole, ""),
            ("its schemas are in the first request", bool(named) or name == "qwen", "" if named else "deferred"),
            ("the server's instructions are shown", "Postroom is your line" in whole, ""),
            ("a call is let through", any("entryId" in record["news"] for record in asked), words(asked[-1]["news"])[-120:]),
        ]


def skill(name: str, transport: str) -> Seen:
    """Where each harness finds the skill that `inbox skill --install` writes."""
    seen: Seen = []
    for place in (".claude/skills", ".agents/skills"):
        with HarnessStage() as stage:
            harness = HARNESSES[name](stage, transport)
            stage.inbox("skill", "--install", place)
            stage.script({"say": "all done", "times": 0})
            harness.run("hello", 120)
            asked = [record for record in stage.log.records if record["tools"]]
            listed = bool(asked) and "Durable work and messages" in json.dumps(stage.body(asked[0]["n"]))
            wanted = place == ".claude/skills" if name == "claude" else place == ".agents/skills"
            seen.append((f"listed from {place}", listed or not wanted, "listed" if listed else "not looked for there"))
    return seen


def patience(name: str, transport: str) -> Seen:
    """inbox_ask with its default wait, and nobody answers: does the client's own limit hold that long?"""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        stage.script(harness.call("inbox_ask", question="Anyone?"), {"say": "all done"})
        harness.run("ask", 150)
        asked = [record for record in stage.log.records if record["rule"] is not None]
        took = asked[1]["t"] - asked[0]["t"] if len(asked) > 1 else 0.0
        told = words(asked[1]["news"]).replace('\\"', '"') if len(asked) > 1 else ""
        return [("still open, after its own time", '"state": "open"' in told or '"state":"open"' in told, f"{took:.1f} s")]


# ---- What breaks ------------------------------------------------------------------------------------------------------


def interrupted(name: str, transport: str) -> Seen:
    """A person presses Escape while inbox_read waits; then a message comes. It must wait for the agent, not be marked as seen."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        entry = stage.pushed()
        stage.script({**harness.call("inbox_read", waitSeconds=40), "if": "PLEASE"}, {"say": "ok", "times": 0})
        screen = open_terminal(stage, harness)
        try:
            screen.type("PLEASE read")
            stage.asked("PLEASE", seconds=30)
            time.sleep(4)
            for _ in range(2 if name == "opencode" else 1):
                screen.type("\x1b", enter=False)
                time.sleep(0.6)
            time.sleep(3)
            stage.reply(entry, "an important word")
            time.sleep(2)
            waits = stage.inbox("peek", "--session", stage.agent, command="mailbox")["total"]
            steps = [receipt["step"] for receipt in stage.inbox("entry", "show", entry)["receipts"]]
            return [("the message still waits", waits == 1 and "reply_seen" not in steps, ", ".join(steps[-3:]))]
        finally:
            screen.end()


def strangers(name: str, transport: str) -> Seen:
    """Arguments that a harness adds by itself (Gemini CLI: wait_for_previous), and a wait that is longer than we allow."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        added = {"wait_for_previous": True} if name == "gemini" else {}
        stage.script(
            harness.call("inbox_push", comments="Hello", **added),
            harness.call("inbox_ask", question="Ship it?", waitSeconds=300),
            {"say": "all done", "times": 0},
        )
        threading.Thread(target=_says_yes_once, args=(stage,), daemon=True).start()
        harness.run("go", 120)
        news = [words(record["news"]) for record in stage.log.records if record["rule"] is not None]
        told = [*news[1:3], "", ""]
        return [
            ("an argument of the harness's own", "entryId" in told[0], told[0][-140:]),
            ("a wait of 300 s is shortened", "entryId" in told[1], told[1][-140:]),
        ]


def cancelled(name: str, transport: str) -> Seen:
    """No harness: the protocol alone. A cancelled inbox_read must not take what comes after."""
    with HarnessStage() as stage:
        entry = stage.pushed()

        def post(message: Json) -> None:
            kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            headers = {**kinds, "Authorization": f"Bearer {stage.token}", "MCP-Protocol-Version": "2025-11-25"}
            asked = urllib.request.Request(stage.mcp_url, json.dumps({"jsonrpc": "2.0", **message}).encode(), headers, method="POST")
            urllib.request.urlopen(asked, timeout=60).read()

        call = {"id": 7, "method": "tools/call", "params": {"name": "inbox_read", "arguments": {"waitSeconds": 20}}}
        threading.Thread(target=post, args=(call,), daemon=True).start()
        time.sleep(2)
        post({"method": "notifications/cancelled", "params": {"requestId": 7, "reason": "the person interrupted"}})
        time.sleep(1)
        stage.reply(entry, "an important word")
        time.sleep(2)
        waits = stage.inbox("peek", "--session", stage.agent, command="mailbox")["total"]
        return [("notifications/cancelled is heeded", waits == 1, f"{waits} waiting")]


def uninstalled(name: str, transport: str) -> Seen:
    """Connected, and then `inbox` is missing, or another program of that name exits with 2: every turn goes on as without us."""
    seen: Seen = []
    for what, script in (("without inbox", ""), ("with another inbox, which exits with 2", "#!/bin/sh\necho usage >&2\nexit 2\n")):
        with HarnessStage() as stage:
            harness = HARNESSES[name](stage, transport)
            harness.connect()
            own = stage.folder / "bin"
            own.mkdir()
            if script:
                (own / "inbox").write_text(script)
                (own / "inbox").chmod(0o755)
            stage.script({**harness.shell("echo hello"), "times": 1}, {"say": "all done", "times": 0})
            path = os.pathsep.join([str(own), os.environ["KIT_NODE"], os.environ["KIT_BIN"], "/usr/bin", "/bin"])
            ran = harness.run("hello", 150, PATH=path)
            time.sleep(3)
            asked = [record for record in stage.log.records if record["tools"]]
            is_well = ran.returncode == 0 and "all done" in ran.stdout and len(asked) == 2
            seen.append((f"goes on {what}", is_well, f"exit {ran.returncode}, {len(asked)} requests"))
    return seen


# ---- The last metre ---------------------------------------------------------------------------------------------------


def busy(name: str, transport: str) -> Seen:
    """A message comes while a tool runs: the next request to the model tells of it."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        harness.connect()
        entry = stage.pushed()
        stage.script(harness.call("work_fetch", waitSeconds=4), {"say": "all done", "times": 0})
        told: list[float] = []

        def later() -> None:
            first = stage.asked("BEGIN", seconds=HANG_SECONDS)
            if first:
                time.sleep(1.5)
                told.append(stage.reply(entry, "a word"))

        threading.Thread(target=later, daemon=True).start()
        child = stage.start(harness.argv("BEGIN"), harness.env, stdout=subprocess.DEVNULL)
        found = stage.asked(RING, seconds=HANG_SECONDS)
        stage.end(child)
        if not found or not told:
            return [("at the next tool's end", False, "never")]
        after = [record for record in stage.log.records if record["rule"] is not None].index(found)
        return [
            ("at the next tool's end", after == 1, f"{found['t'] - told[0]:.2f} s after it was stored, about 2.5 s before the tool's end")
        ]


def idle(name: str, transport: str) -> Seen:
    """A session in a terminal, at rest: a message starts a turn, with nobody typing; a half-typed line is left alone."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        harness.connect()
        entry = stage.pushed()
        stage.script({"say": "ok", "times": 0})
        screen = open_terminal(stage, harness)
        try:
            if not first_turn(stage, screen):
                return [("the first turn", False, f"never; on the screen: {words(screen.text)[-200:]}")]
            took = [measure_wake(stage, entry, harness, screen) for _ in range(WAKES)]
            came = [one for one in took if one is not None]
            times = f"median {statistics.median(came):.2f}, most {max(came):.2f} s" if came else "never"
            seen = [(f"woken {WAKES} times within 2 s", len(came) == WAKES and max(came) < 2, times)]
            if name != "gemini":
                screen.type("half a line ", enter=False)
                time.sleep(1)
                woken = measure_wake(stage, entry, harness, screen)
                screen.type("and the rest")
                whole = stage.asked("half a line and the rest", seconds=15)
                seen.append(("a half-typed line is left alone", woken is not None and whole is not None, f"woken after {woken}"))
            os.killpg(screen.child.pid, signal.SIGKILL)
            time.sleep(2)
            stage.reply(entry, "nobody is there")
            time.sleep(2)
            waits = stage.inbox("peek", "--session", stage.agent, command="mailbox")["total"]
            seen.append(("killed: the next message waits", waits == 1, f"{waits} waiting"))
            return seen
        finally:
            screen.end()


def first_turn(stage: HarnessStage, screen: Terminal) -> bool:
    """A person types the first prompt, and its turn ends. Returns whether the model was asked."""
    last = stage.last
    for _ in range(3):
        screen.type("BEGIN")
        for seconds in (10, 30):
            if stage.asked_with_tools("BEGIN", last, seconds):  # opencode asks for a title first
                screen.quiet(4, 60)
                return True
            screen.type("")  # Codex takes an Enter that comes too soon after the text for a part of the text
    return False


def measure_wake(stage: HarnessStage, entry: str, harness: Harness, screen: Terminal) -> float | None:
    """Return how many seconds after a reply was stored a session at rest asks the model. Its last turn may take long on a busy machine."""
    if harness.is_still_at_rest:
        screen.quiet(2, 30)
    last = stage.last
    stored = stage.reply(entry, "a word")
    found = stage.asked(RING, last, 15)
    time.sleep(2)
    stage.inbox("purge", "--session", stage.agent, command="mailbox")
    time.sleep(1)
    return round(found["t"] - stored, 3) if found else None


def open_terminal(stage: HarnessStage, harness: Any) -> Terminal:
    argv, ready = harness.terminal()
    screen = Terminal(argv, stage.environment(**harness.env, COLORTERM="truecolor"), stage.work)
    screen.wait(ready, 60)
    screen.quiet(3, 30)
    return screen


def resumed(name: str, transport: str) -> Seen:
    """No terminal: `mailbox deliver` goes on with a headless session for each message. With what the product has today."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, transport)
        entry = stage.pushed()
        stage.script({"say": "ok", "times": 0})
        first, session, line = harness.resume()
        ran = stage.run(first, harness.env)
        deliver = ["mailbox", "deliver", "--session", stage.agent, "--command", line.format(session(ran.stdout))]
        stage.start(deliver, harness.env, stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        took = []
        for number in range(3):
            stored = stage.reply(entry, f"WAKE-{number}")
            found = stage.asked(f"WAKE-{number}", seconds=60)
            took.append(found["t"] - stored if found else None)
            time.sleep(4)
        came = [one for one in took if one is not None]
        whole = json.dumps(stage.body(stage.last))
        times = f"median {statistics.median(came):.2f}, most {max(came):.2f} s" if came else "never"
        return [("woken 3 times", len(came) == 3, times), ("in the same conversation", "FIRST-TURN" in whole and "WAKE-0" in whole, "")]


def resident(name: str, transport: str) -> Seen:
    """`inbox agent run`: a thread starts a session, an answer goes on with it, also after kill -9 of the resident and its program."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, CONNECTED)
        update = harness.call("work_update", threadId="login", status="blocked", summary="Which colour?")
        stage.script({**update, "if": "FIRST-THING", "times": 1}, {"say": "I asked", "times": 1}, {"say": "all done", "times": 0})
        argv = ["inbox", "agent", "run", stage.agent, "--with", name]
        first = stage.start(argv, harness.env, stdout=subprocess.DEVNULL)
        sent = time.time()
        stage.inbox("send", "--from", "leader", "--to", stage.agent, "--thread", "login", "--subject", "FIRST-THING")
        began = stage.asked("FIRST-THING", seconds=60)
        if began is None or not _reaches(stage, "login", "blocked"):
            return [("a thread starts a session", False, _tail(stage))]
        seen: Seen = [("a thread starts a session", True, f"{began['t'] - sent:.2f} s, with the program's start")]
        time.sleep(2)
        last = stage.last
        stage.inbox("reply", "--from", "leader", "--thread", "login", "--summary", "BLUE-1")
        stored = time.time()
        found = stage.asked("BLUE-1", last, 60)
        same = found is not None and "FIRST-THING" in json.dumps(stage.body(found["n"]))
        took = "never" if found is None else f"{found['t'] - stored:.2f} s"
        seen.append(("the answer goes on with the session", same and _reaches(stage, "login", "done"), took))
        last = stage.last
        stage.inbox("send", "--from", "leader", "--to", stage.agent, "--thread", "second", "--subject", "SECOND-THING")
        stage.asked("SECOND-THING", last, 60)
        _reaches(stage, "second", "done")
        last = stage.last
        stage.inbox("enqueue", "--from", "colleague", "--to", stage.agent, "--payload", "hello", command="mailbox")
        stored = time.time()
        rung = stage.asked("message from", last, 60)
        seen.append(("mail starts a turn", rung is not None, "never" if rung is None else f"{rung['t'] - stored:.2f} s"))
        first.kill()
        return seen


def resident_killed(name: str, transport: str) -> Seen:
    """kill -9 of a resident while its question waits: the next one goes on in the same conversation, and reports once."""
    with HarnessStage() as stage:
        harness = HARNESSES[name](stage, CONNECTED)
        update = harness.call("work_update", threadId="login", status="blocked", summary="Which colour?")
        stage.script({**update, "if": "FIRST-THING", "times": 1}, {"say": "I asked", "times": 1}, {"say": "all done", "times": 0})
        argv = ["inbox", "agent", "run", stage.agent, "--with", name]
        stage.inbox("send", "--from", "leader", "--to", stage.agent, "--thread", "login", "--subject", "FIRST-THING")
        first = stage.start(argv, harness.env, stdout=subprocess.DEVNULL)
        if not _reaches(stage, "login", "blocked"):
            return [("goes on after kill -9", False, _tail(stage))]
        time.sleep(2)
        first.kill()
        first.wait()
        stage.inbox("reply", "--from", "leader", "--thread", "login", "--summary", "BLUE-1")
        last = stage.last
        stage.start(argv, harness.env, stdout=subprocess.DEVNULL)
        found = stage.asked("BLUE-1", last, 60)
        same = found is not None and "FIRST-THING" in json.dumps(stage.body(found["n"]))
        is_done = _reaches(stage, "login", "done")
        kinds = [message["kind"] for message in stage.inbox("show", "--thread", "login")["messages"]]
        return [("goes on after kill -9, in the same conversation", same and is_done and kinds.count("result") == 1, ", ".join(kinds))]


def _reaches(stage: HarnessStage, thread: str, status: str, seconds: float = 60) -> bool:
    deadline = time.time() + seconds
    while time.time() < deadline:
        if stage.inbox("show", "--thread", thread)["thread"]["status"] == status:
            return True
        time.sleep(0.2)
    return False


def _tail(stage: HarnessStage) -> str:
    texts = [path.read_text()[-300:] for path in sorted(stage.folder.glob("stderr-*.txt"))]
    return words(" ".join(texts))[-300:]


_ALL = (tools, plain, skill, patience, interrupted, strangers, cancelled, uninstalled, busy, idle, resumed, resident, resident_killed)
SCENARIOS: dict[str, Callable[[str, str], Seen]] = {one.__name__: one for one in _ALL}
ALONE = {"cancelled"}  # no harness is in it
