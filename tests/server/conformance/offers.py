"""The tools, resources and prompts of its names, with the answers it wants."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

Json = dict[str, Any]


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(image).decode()


def _wav() -> str:
    """One silent sample."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = b"WAVE" + form + struct.pack("<4sI", b"data", 1) + b"\x80"
    return base64.b64encode(struct.pack("<4sI", b"RIFF", len(data)) + data).decode()


PNG = _png()


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def image() -> Json:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, mime: str, words: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


EMPTY: Json = {"type": "object", "properties": {}, "additionalProperties": False}


def takes(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


# Tools that always say the same: name → content.
SAYINGS: dict[str, list[Json]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [{"type": "audio", "data": _wav(), "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_custom_header": [text("The header says what the argument says.")],
    "json_schema_2020_12_tool": [text("Only its schema is looked at.")],
}

# Keywords of JSON Schema 2020-12 that must reach the client as they were written.
SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

# Tools whose arguments matter; every other takes none.
SCHEMAS: dict[str, Json] = {
    "test_custom_header": takes(region={"type": "string", "x-mcp-header": "Region"}),
    "json_schema_2020_12_tool": SCHEMA_2020_12,
    "test_sampling": takes(prompt={"type": "string"}),
    "test_elicitation": takes(message={"type": "string"}),
}

RESOURCES: dict[str, Json] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "This is watched."},
}
TEMPLATE = "test://template/{id}/data"


def templated(uri: str) -> Json | None:
    """Return the resource that the template makes of a URI, or None if the URI does not fit."""
    before, after = TEMPLATE.split("{id}")
    if not (uri.startswith(before) and uri.endswith(after)):
        return None
    name = uri[len(before) : -len(after)]
    return {"mimeType": "application/json", "text": f'{{"id":"{name}","templateTest":true,"data":"Data for ID: {name}"}}'}


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def prompt(name: str, arguments: dict[str, str]) -> list[Json]:
    """The content of a prompt's messages, all of them the user's."""
    match name:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            return [text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            return [image(), text("Please analyze the image above.")]
        case _:
            return [text("This prompt knows its context.")]
