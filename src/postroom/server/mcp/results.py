"""The arguments and results of tool calls, checked and encoded in the same way for HTTP and stdio."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from postroom.core import checks, limits
from postroom.core.errors import InvalidInput
from postroom.core.hidden_characters import escape_in_json
from postroom.server.mcp.tool_table import MAX_WAIT_SECONDS, TOOLS

JsonObject = dict[str, Any]
MAX_REASON_CHARS = 300
_VALIDATORS = {name: Draft202012Validator(tool.schema) for name, tool in TOOLS.items()}


def check_arguments(name: str, arguments: JsonObject) -> tuple[JsonObject, JsonObject | None]:
    """Return the arguments that a tool takes, and the refusal if one of them is wrong.

    Unknown arguments are left out, because some programs add their own. A wait that is too long is shortened.
    """
    properties = TOOLS[name].schema["properties"]
    known = {key: _convert_number(value, properties[key]) for key, value in arguments.items() if key in properties}
    wrong = min(_VALIDATORS[name].iter_errors(known), key=lambda error: list(map(str, error.path)), default=None)
    if wrong is not None:
        field = "/".join(map(str, wrong.path)) or "the arguments"
        error = {
            "message": f"{field}: {_describe_violation(wrong)}",
            "hint": "See the tool's schema.",
            "code": "invalid_input",
            "field": field,
        }
        return known, {"error": error, "ok": False}
    if "waitSeconds" in known:
        known["waitSeconds"] = min(known["waitSeconds"], MAX_WAIT_SECONDS)
    return known, None


def _describe_violation(wrong: ValidationError) -> str:
    """Return why an argument is refused. The SDK's text begins with the argument itself, which may be long."""
    limit, value = wrong.validator_value, wrong.instance
    reasons = {
        "maxItems": lambda: f"at most {limit} items, not {len(value)}",
        "minItems": lambda: f"at least {limit} items, not {len(value)}",
        "maxLength": lambda: f"at most {limit} characters, not {len(value)}",
        "minLength": lambda: f"at least {limit} characters, not {len(value)}",
    }
    reason = reasons.get(str(wrong.validator))
    if reason is not None:
        return reason()
    return wrong.message if len(wrong.message) <= MAX_REASON_CHARS else f"… {wrong.message[-MAX_REASON_CHARS:]}"


def _convert_number(value: Any, schema: JsonObject) -> Any:
    """Convert a float such as 3.0 to int where the schema wants an integer. JSON Schema accepts it, Python code does not."""
    return int(value) if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer() else value


def encode_result(answer: JsonObject) -> tuple[str, JsonObject]:
    """Return the text and the data of a result. A value that cannot be sent is replaced: an answer whose effect is stored must arrive."""
    try:
        text = checks.json_value("answer", answer, max_bytes=limits.MAX_EVENT_BYTES)
    except InvalidInput:
        text = json.dumps(_make_sendable(answer), ensure_ascii=False)
    text = escape_in_json(text)  # agents read it: invisible characters could hide an instruction
    data: JsonObject = json.loads(text)
    return text, data


def _make_sendable(value: Any, levels: int = limits.MAX_JSON_LEVELS) -> Any:
    """Return a value without lone surrogates, infinite numbers, unknown types and too many levels. Text stands in their place."""
    if isinstance(value, dict) and levels:
        return {_make_sendable(str(key)): _make_sendable(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple) and levels:
        return [_make_sendable(inner, levels - 1) for inner in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, dict | list | tuple):
        return "[nested too deeply]"
    return str(value).encode(errors="replace").decode()
