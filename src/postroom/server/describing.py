"""What the description of the HTTP interface is made of: shapes, parameters, operations and how each of them refuses."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
MAYBE: Schema = {"type": ["string", "null"]}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}


def shape(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_WRONG = {
    "400": "The request cannot be carried out as it stands",
    "401": "Nobody knows who asks",
    "403": "Not for this caller, or from another site",
    "404": "What was named is not there",
    "405": "Another method is meant",
    "409": "Something is in the way",
    "413": "Too large",
    "421": "Not a name of this server",
    "429": "Too many; Retry-After says when to come back",
    "503": "The store could not do it; Retry-After says when to come back",
}


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": description, "required": required}


ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}}
FLAG = {"enum": ["true", "false", "1", "0"]}
HTML = query("html", FLAG, "With what was said as HTML that can do nothing")
LIMIT = query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "At most this many")


def body(required: str, *, needed: bool = True, **properties: Schema) -> Schema:
    schema = {**shape(required, **properties), "additionalProperties": False}
    return {"required": needed, "content": {"application/json": {"schema": schema}}}


def operation(
    summary: str, status: str, answer: Schema | None, *, body: Schema | None = None, parameters: tuple[Schema, ...] = ()
) -> Schema:
    good: Schema = {"description": summary}
    if answer is not None:
        good["content"] = {"application/json": {"schema": answer}}
    wrong = {code: {"description": text, "content": {"application/json": {"schema": ref("Error")}}} for code, text in _WRONG.items()}
    operation: Schema = {"summary": summary, "responses": {status: good, **wrong}}
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = body
    return operation
