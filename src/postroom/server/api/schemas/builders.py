"""Build the parts of an OpenAPI document: schemas, parameters, request bodies, and operations with their error responses."""

from __future__ import annotations

from typing import Any

from postroom.core import limits

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}


def object_of(required: str, **properties: Schema) -> Schema:
    """Return the schema of an object. `required` lists the required properties, separated by spaces."""
    return {"type": "object", "properties": properties, "required": required.split()}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def schema_ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_ERROR_RESPONSES = {
    "400": "The request is not valid",
    "401": "The caller is not authenticated",
    "403": "The caller is not allowed to do this, or the request comes from another site",
    "404": "The named object does not exist",
    "405": "The address does not support this method",
    "409": "The current state does not allow this",
    "413": "The request is too large",
    "421": "The Host header does not name this server",
    "429": "Too many requests; retry after the seconds in Retry-After",
    "503": "The store is not available; retry after the seconds in Retry-After",
}


def query_parameter(name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": description, "required": required}


ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}}
FLAG = {"enum": ["true", "false", "1", "0"]}
HTML = query_parameter("html", FLAG, "Also return the Markdown texts as sanitized HTML")
LIMIT = query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": limits.MAX_PAGE_ENTRIES}, "At most this many")


def request_body(required: str, *, needed: bool = True, **properties: Schema) -> Schema:
    schema = {**object_of(required, **properties), "additionalProperties": False}
    return {"required": needed, "content": {"application/json": {"schema": schema}}}


def describe_operation(
    summary: str, status: str, answer: Schema | None, *, body: Schema | None = None, parameters: tuple[Schema, ...] = ()
) -> Schema:
    """Return an operation: its response with `status`, its error responses, its parameters and its body."""
    success: Schema = {"description": summary}
    if answer is not None:
        success["content"] = {"application/json": {"schema": answer}}
    errors = {
        code: {"description": text, "content": {"application/json": {"schema": schema_ref("Error")}}}
        for code, text in _ERROR_RESPONSES.items()
    }
    description: Schema = {"summary": summary, "responses": {status: success, **errors}}
    if parameters:
        description["parameters"] = list(parameters)
    if body is not None:
        description["requestBody"] = body
    return description
