#!/usr/bin/env python3
"""A scripted model on localhost that real agent harnesses can be pointed at. Standard library only.

It speaks four protocols, streaming and not:

    POST /v1/messages                                 Anthropic Messages (and /v1/messages/count_tokens)
    POST /v1/responses                                OpenAI Responses
    POST /v1/chat/completions                         OpenAI chat completions
    POST /v1beta/models/NAME:streamGenerateContent    Gemini (and :generateContent, :countTokens)

A script says what it answers; every request is written down with the instant at which it came. See README.md.

    python3 fake_model.py --port 8765 --script script.json --log DIR
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import gzip
import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


# ---- What a request asks, whatever its protocol ------------------------------------------------------------------------


class Asked:
    """One request to the model, read out of its protocol."""

    def __init__(self, protocol: str, body: Json) -> None:
        self.protocol = protocol
        self.body = body
        self.stream = bool(body.get("stream"))
        self.model = str(body.get("model", ""))
        self.tools: list[str] = []
        self.namespaces: dict[str, str] = {}
        self.system = ""
        self.news = ""  # what was said to the model since it last spoke
        self.whole = ""  # all that was ever said to it
        getattr(self, "_" + protocol)()

    def _anthropic(self) -> None:
        self.tools = [tool["name"] for tool in self.body.get("tools", ()) if "name" in tool]
        self.system = _text(self.body.get("system", ""))
        messages = self.body.get("messages", [])
        self._said([("model" if one["role"] == "assistant" else "other", _text(one["content"])) for one in messages])

    def _responses(self) -> None:
        for tool in self.body.get("tools", ()):
            if tool.get("type") == "namespace":
                for inner in tool.get("tools", ()):
                    self.tools.append(inner["name"])
                    self.namespaces[inner["name"]] = tool["name"]
            else:
                self.tools.append(tool.get("name") or tool.get("type", ""))
        self.system = _text(self.body.get("instructions", ""))
        items = self.body.get("input", [])
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        turns = []
        for item in items:
            ours = item.get("role") == "assistant" or item.get("type") in ("function_call", "custom_tool_call", "reasoning")
            turns.append(("model" if ours else "other", _text(item)))
        self._said(turns)

    def _chat(self) -> None:
        self.tools = [tool["function"]["name"] for tool in self.body.get("tools") or () if "function" in tool]
        messages = self.body.get("messages", [])
        self.system = "\n".join(_text(one.get("content")) for one in messages if one["role"] in ("system", "developer"))
        self._said(
            [
                ("model" if one["role"] == "assistant" else "other", _text(one.get("content")))
                for one in messages
                if one["role"] not in ("system", "developer")
            ]
        )

    def _gemini(self) -> None:
        for tool in self.body.get("tools", ()):
            self.tools += [one["name"] for one in tool.get("functionDeclarations", ())]
        self.system = _text(self.body.get("systemInstruction", ""))
        contents = self.body.get("contents", [])
        self._said([("model" if one.get("role") == "model" else "other", _text(one.get("parts"))) for one in contents])

    def _said(self, turns: list[tuple[str, str]]) -> None:
        last = max((at for at, (who, _) in enumerate(turns) if who == "model"), default=-1)
        self.news = "\n".join(text for _, text in turns[last + 1 :])
        self.whole = "\n".join(text for _, text in turns)


def _text(thing: Any) -> str:
    """All text in a piece of a request, in order."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, list):
        return "\n".join(filter(None, map(_text, thing)))
    if isinstance(thing, dict):
        kept = [value for key, value in thing.items() if key in ("text", "content", "output", "parts", "response", "functionResponse")]
        if isinstance(thing.get("response"), dict):  # a function's answer, as Gemini sends it
            return json.dumps(thing["response"], ensure_ascii=False)
        return _text(kept)
    return ""


# ---- What the script answers ---------------------------------------------------------------------------------------------


class Script:
    """Rules, tried in order. The first that fits and is not used up answers.

    {"if": REGEX, "unless": REGEX, "tools": "any" | "some" | "none", "times": N, "sleep": SECONDS, "say": TEXT,
     "call": {"tool": GLOB, "arguments": {...}}}

    Without "times" a rule is used once; 0 is for ever. "if" is searched in what came since the model last spoke. "{{name}}" in the
    arguments is the last "name": "value" that was said to the model. Requests without tools are side errands of a harness (titles,
    summaries): rules fit them only with "tools": "none" or "any".
    """

    def __init__(self, rules: list[Json]) -> None:
        self._lock = threading.Lock()
        self.load(rules)

    def load(self, rules: list[Json]) -> None:
        with self._lock:
            self._rules = [dict(rule, left=rule.get("times", 1) or -1) for rule in rules]

    def answer(self, asked: Asked) -> Json:
        with self._lock:
            for number, rule in enumerate(self._rules):
                if rule["left"] == 0 or not self._fits(rule, asked):
                    continue
                rule["left"] -= 1
                return self._filled({**rule, "rule": number}, asked)
        return {"rule": None, "say": "ok"}

    def _fits(self, rule: Json, asked: Asked) -> bool:
        wanted = rule.get("tools", "some")
        if wanted != "any" and bool(asked.tools) != (wanted == "some"):
            return False
        if "if" in rule and not re.search(rule["if"], asked.news):
            return False
        if "unless" in rule and re.search(rule["unless"], asked.news):
            return False
        return "call" not in rule or self._tool(rule["call"]["tool"], asked) is not None

    def _tool(self, glob: str, asked: Asked) -> str | None:
        """The first tool that fits; a name without an asterisk is taken as it is, offered or not."""
        return next((name for name in asked.tools if fnmatch.fnmatchcase(name, glob)), None if "*" in glob else glob)

    def _filled(self, rule: Json, asked: Asked) -> Json:
        if "call" not in rule:
            return rule
        call = rule["call"]

        def value(match: re.Match[str]) -> str:
            found = re.findall(r'\\*"' + match[1] + r'\\*":\s*\\*"([^"\\]+)', asked.whole)
            return found[-1] if found else match[0]

        given = json.loads(re.sub(r"\{\{(\w+)\}\}", value, json.dumps(call.get("arguments", {}))))
        return {**rule, "call": {"tool": self._tool(call["tool"], asked), "arguments": given}}


# ---- The answer, in each protocol --------------------------------------------------------------------------------------


def anthropic_events(asked: Asked, answer: Json) -> Iterator[tuple[str, Json]]:
    head: Json = {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }
    yield "message_start", {"type": "message_start", "message": head}
    for at, (block, delta) in enumerate(anthropic_blocks(answer)):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": empty}
        yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    why = "tool_use" if "call" in answer else "end_turn"
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": {"output_tokens": 5}}
    yield "message_stop", {"type": "message_stop"}


def anthropic_blocks(answer: Json) -> Iterator[tuple[Json, Json]]:
    if answer.get("say"):
        yield {"type": "text", "text": answer["say"]}, {"type": "text_delta", "text": answer["say"]}
    if "call" in answer:
        block = {"type": "tool_use", "id": _id("toolu_"), "name": answer["call"]["tool"], "input": answer["call"]["arguments"]}
        yield block, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


def anthropic_whole(asked: Asked, answer: Json) -> Json:
    return {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [block for block, _ in anthropic_blocks(answer)],
        "stop_reason": "tool_use" if "call" in answer else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def responses_items(asked: Asked, answer: Json) -> list[Json]:
    items: list[Json] = []
    if answer.get("say"):
        part = {"type": "output_text", "text": answer["say"], "annotations": []}
        items.append({"type": "message", "id": _id("msg_"), "status": "completed", "role": "assistant", "content": [part]})
    if "call" in answer:
        name, given = answer["call"]["tool"], json.dumps(answer["call"]["arguments"])
        item = {"type": "function_call", "id": _id("fc_"), "call_id": _id("call_"), "name": name, "arguments": given, "status": "completed"}
        if name in asked.namespaces:
            item["namespace"] = asked.namespaces[name]
        items.append(item)
    return items


def responses_whole(asked: Asked, answer: Json) -> Json:
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
    head = {"id": _id("resp_"), "object": "response", "created_at": int(time.time()), "model": asked.model, "status": "completed"}
    return {**head, "output": responses_items(asked, answer), "usage": usage, "error": None}


def responses_events(asked: Asked, answer: Json) -> Iterator[tuple[str, Json]]:
    whole = responses_whole(asked, answer)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for at, item in enumerate(whole["output"]):
        bare = {**item, "status": "in_progress", **({"content": []} if item["type"] == "message" else {"arguments": ""})}
        events.append({"type": "response.output_item.added", "output_index": at, "item": bare})
        where = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            part = item["content"][0]
            where["content_index"] = 0
            events.append({"type": "response.content_part.added", **where, "part": {**part, "text": ""}})
            events.append({"type": "response.output_text.delta", **where, "delta": part["text"]})
            events.append({"type": "response.output_text.done", **where, "text": part["text"]})
            events.append({"type": "response.content_part.done", **where, "part": part})
        else:
            events.append({"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **where, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def chat_whole(asked: Asked, answer: Json) -> Json:
    message: Json = {"role": "assistant", "content": answer.get("say") or None}
    if "call" in answer:
        function = {"name": answer["call"]["tool"], "arguments": json.dumps(answer["call"]["arguments"])}
        message["tool_calls"] = [{"id": _id("call_"), "type": "function", "function": function}]
    why = "tool_calls" if "call" in answer else "stop"
    head = {"id": _id("chatcmpl-"), "object": "chat.completion", "created": int(time.time()), "model": asked.model}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {**head, "choices": [{"index": 0, "message": message, "finish_reason": why}], "usage": usage}


def chat_events(asked: Asked, answer: Json) -> Iterator[tuple[str, Json]]:
    whole = chat_whole(asked, answer)
    message, why = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    if "tool_calls" in message:
        message["tool_calls"] = [{"index": at, **call} for at, call in enumerate(message["tool_calls"])]
    head = {**whole, "object": "chat.completion.chunk", "usage": None}
    yield "", {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]}
    yield "", {**head, "choices": [], "usage": whole["usage"]}


def gemini_whole(asked: Asked, answer: Json) -> Json:
    parts: list[Json] = []
    if answer.get("say"):
        parts.append({"text": answer["say"]})
    if "call" in answer:
        call = {"id": _id("call_"), "name": answer["call"]["tool"], "args": answer["call"]["arguments"]}
        parts.append({"functionCall": call, "thoughtSignature": "c2lnbmF0dXJl"})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model, "responseId": _id("r")}


def gemini_events(asked: Asked, answer: Json) -> Iterator[tuple[str, Json]]:
    yield "", gemini_whole(asked, answer)


SPEAKS = {
    "anthropic": (anthropic_events, anthropic_whole),
    "responses": (responses_events, responses_whole),
    "chat": (chat_events, chat_whole),
    "gemini": (gemini_events, gemini_whole),
}


def _id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


# ---- What was asked, kept ------------------------------------------------------------------------------------------------


class Log:
    """Every request, in order: in memory for /_log and /_wait, in DIR/requests.jsonl, and whole in DIR/bodies/."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._rang = threading.Condition()
        self.records: list[Json] = []
        if folder is not None:
            (folder / "bodies").mkdir(parents=True, exist_ok=True)

    def note(self, asked: Asked, came: float, answer: Json) -> Json:
        with self._rang:
            record: Json = {"n": len(self.records), "t": came, "protocol": asked.protocol, "model": asked.model}
            record |= {"tools": len(asked.tools), "news": asked.news, "rule": answer.get("rule")}
            record["answer"] = {key: answer[key] for key in ("say", "call") if key in answer}
            self.records.append(record)
            if self._folder is not None:
                with open(self._folder / "requests.jsonl", "a") as lines:
                    lines.write(json.dumps(record, ensure_ascii=False) + "\n")
                (self._folder / "bodies" / f"{record['n']:04}.json").write_text(json.dumps(asked.body, indent=1, ensure_ascii=False))
            self._rang.notify_all()
        return record

    def wait(self, match: str, after: int, seconds: float) -> Json | None:
        """The first request after number `after` whose news fits."""
        until, at = time.monotonic() + seconds, after + 1
        with self._rang:
            while True:
                while at < len(self.records):
                    if re.search(match, self.records[at]["news"]):
                        return self.records[at]
                    at += 1
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._rang.wait(left)


# ---- The server ------------------------------------------------------------------------------------------------------------


class ModelEndpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    log: Log

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if url.path == "/_log":
            self._json({"records": self.log.records[int(query.get("after", -1)) + 1 :]})
        elif url.path == "/_wait":
            found = self.log.wait(query.get("match", ""), int(query.get("after", -1)), float(query.get("timeout", 30)))
            self._json(found or {"timeout": True}, 200 if found else 408)
        elif url.path.endswith("/models"):
            names = ["fake-model", "claude-fake", "gemini-fake"]
            self._json({"object": "list", "has_more": False, "data": [{"id": name, "type": "model", "object": "model"} for name in names]})
        else:
            self._json({"error": {"type": "not_found", "message": self.path}}, 404)

    def do_POST(self) -> None:
        came = time.time()
        path = urlsplit(self.path).path
        body = self._body()
        if path == "/_script":
            self.script.load(body["rules"])
            return self._json({"ok": True})
        if path.endswith("/count_tokens"):
            return self._json({"input_tokens": 10})
        if path.endswith(":countTokens"):
            return self._json({"totalTokens": 10})
        protocol = _protocol(path)
        if protocol is None:
            return self._json({"error": {"type": "not_found", "message": path}}, 404)
        if protocol == "gemini":
            body["stream"] = ":streamGenerateContent" in path
            body["model"] = path.split("/models/")[-1].split(":")[0]
        asked = Asked(protocol, body)
        answer = self.script.answer(asked)
        self.log.note(asked, came, answer)
        time.sleep(answer.get("sleep", 0))
        events, whole = SPEAKS[protocol]
        return self._stream(protocol, events(asked, answer)) if asked.stream else self._json(whole(asked, answer))

    def _body(self) -> Json:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(parts)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        return body if isinstance(body, dict) else {"items": body}

    def _json(self, answer: Json, status: int = 200) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _stream(self, protocol: str, events: Iterator[tuple[str, Json]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for name, event in events:
                self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n")
            if protocol == "chat":
                self._chunk("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()


def _protocol(path: str) -> str | None:
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat"
    if "enerateContent" in path:
        return "gemini"
    return None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A harness that goes away is no failure."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(port: int = 0, rules: list[Json] | None = None, folder: Path | None = None) -> Server:
    """A server that is ready; `server.server_port` is its port. For tests: run `serve_forever` in a thread."""
    handler = type("OneDoor", (ModelEndpoint,), {"script": Script(rules or []), "log": Log(folder)})
    return Server(("127.0.0.1", port), handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8765, help="0 picks a free one")
    parser.add_argument("--script", type=Path, help="a JSON list of rules; POST /_script replaces them while it runs")
    parser.add_argument("--log", type=Path, help="a folder for requests.jsonl and bodies/")
    given = parser.parse_args()
    rules = json.loads(given.script.read_text()) if given.script else []
    server = serve(given.port, rules, given.log)
    print(json.dumps({"ready": True, "port": server.server_port}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
