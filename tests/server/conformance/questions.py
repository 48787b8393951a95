"""The fixture's tools that need more from the client before they can end: 2026-07-28's answer to server requests.

A call without the answers gets the questions; the client calls again with the answers and the state that it was given. The
state is sealed by the SDK's middleware, so what arrives here is what was sent from here.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

Json = dict[str, Any]
Round = tuple[Json, str | None]  # the questions by name, and the state that says which round it is


def elicit(message: str, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(prompt: str, tokens: int) -> Json:
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


ROOTS: Json = {"method": "roots/list", "params": {}}
WORD: Json = {"type": "string"}
NAME = elicit("What is your name?", name=WORD)
CONFIRM = elicit("Please confirm", ok={"type": "boolean"})

ROUNDS: dict[str, list[Round]] = {
    "test_input_required_result_elicitation": [({"user_name": NAME}, None)],
    "test_input_required_result_sampling": [({"capital_question": sample("What is the capital of France?", 100)}, None)],
    "test_input_required_result_list_roots": [({"client_roots": ROOTS}, None)],
    "test_input_required_result_request_state": [({"confirm": CONFIRM}, "asked to confirm")],
    "test_input_required_result_tampered_state": [({"confirm": CONFIRM}, "asked to confirm")],
    "test_input_required_result_multiple_inputs": [
        ({"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}, "asked for three")
    ],
    "test_input_required_result_multi_round": [
        ({"step1": elicit("Step 1: What is your name?", name=WORD)}, "asked for the name"),
        ({"step2": elicit("Step 2: What is your favorite color?", color=WORD)}, "asked for the color"),
    ],
    "test_input_required_result_capabilities": [({"user_name": NAME, "greeting": sample("Generate a greeting", 50)}, None)],
    "test_streaming_elicitation": [({"user_name": NAME}, None)],
    "test_input_required_result_prompt": [({"user_context": elicit("What context should the prompt use?", context=WORD)}, None)],
}
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def question(name: str, asked: types.InputResponseRequestParams, able: types.ClientCapabilities | None) -> types.InputRequiredResult | None:
    """Return a result with the questions that are still to be asked, or None when all are answered."""
    rounds = ROUNDS[name]
    given = asked.input_responses or {}
    answered = [at for at, (questions, state) in enumerate(rounds, 1) if asked.request_state == state and questions.keys() <= given.keys()]
    at = answered[0] if answered else 0
    if at == len(rounds):
        return None
    questions, state = rounds[at]
    if name == "test_input_required_result_capabilities":
        questions = {key: put for key, put in questions.items() if able is not None and getattr(able, NEEDS[put["method"]]) is not None}
    return types.InputRequiredResult.model_validate({"inputRequests": questions, "requestState": state}, by_name=False)


def answer(asked: types.InputResponseRequestParams) -> str:
    """Return the client's answer in words."""
    given = {key: said.model_dump(by_alias=True, mode="json", exclude_none=True) for key, said in (asked.input_responses or {}).items()}
    return f"state-ok: {json.dumps(given)}"
