"""An MCP server with what the conformance suite calls, set up as ours is: stateless, one path a workspace, auth off.

Run as a program it binds a free port of the loopback, says `READY <port>`, and serves until it is told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from postroom.server.http import security
from postroom.server.mcp import server as mcp
from tests.server.conformance import offers, questions

Context = ServerRequestContext[Any, Any]
Called = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[Context, dict[str, Any]], Awaitable[types.CallToolResult]]

BUS = InMemorySubscriptionBus()
CACHE = CacheHint(ttl_ms=1000, scope="private")


def said(*content: offers.Json, error: bool = False) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(content), "isError": error}, by_name=False)


async def fail(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    return said(offers.text("This tool intentionally returns an error for testing"), error=True)


async def progress(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
    return said(offers.text("Progressed."))


async def log(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
    return said(offers.text("Logged."))


async def need_sampling(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    if not ctx.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
        needed: offers.Json = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", needed)
    return said(offers.text("The client samples."))


async def sample(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    prompt = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=arguments["prompt"]))
    answer = await ctx.session.create_message([prompt], max_tokens=100, related_request_id=ctx.request_id)
    return said(offers.text(f"LLM response: {answer.content}"))


def elicit(schema: offers.Json) -> Tool:
    async def ask(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
        answer = await ctx.session.elicit_form(arguments.get("message", "Please fill in"), schema, related_request_id=ctx.request_id)
        return said(offers.text(f"User response: {answer.action}, {answer.content}"))

    return ask


async def change_tools(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    await BUS.publish(ToolsListChanged())
    return said(offers.text("Said that the tools changed."))


async def change_prompts(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    await BUS.publish(PromptsListChanged())
    return said(offers.text("Said that the prompts changed."))


FORM: offers.Json = {"type": "object", "properties": {"answer": {"type": "string"}}}
TOOLS: dict[str, Tool] = {
    "test_error_handling": fail,
    "test_tool_with_progress": progress,
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_missing_capability": need_sampling,
    "test_sampling": sample,
    "test_elicitation": elicit(FORM),
    "test_elicitation_sep1034_defaults": elicit(FORM),
    "test_elicitation_sep1330_enums": elicit(FORM),
    "test_trigger_tool_change": change_tools,
    "test_trigger_prompt_change": change_prompts,
}
ASKING = [name for name in questions.ROUNDS if name not in offers.PROMPTS]
SCHEMAS = {name: offers.SCHEMAS.get(name, offers.EMPTY) for name in (*offers.SAYINGS, *TOOLS, *ASKING)}


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=n, description=f"Fixture {n}", input_schema=s) for n, s in SCHEMAS.items()])


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Called:
    name = params.name
    if name in ASKING:
        return questions.question(name, params, ctx.session.client_capabilities) or said(offers.text(questions.answer(params)))
    if name in offers.SAYINGS:
        return said(*offers.SAYINGS[name])
    if name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
    return await TOOLS[name](ctx, params.arguments or {})


async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    found = [types.Resource(uri=u, name=u, description=f"Fixture {u}", mime_type=r["mimeType"]) for u, r in offers.RESOURCES.items()]
    return types.ListResourcesResult(resources=found)


async def list_templates(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=offers.TEMPLATE, name="template", description="Fixture", mime_type="application/json")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = offers.RESOURCES.get(uri) or offers.templated(uri)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **found}]}, by_name=False)


async def accept(ctx: Context, params: Any) -> types.EmptyResult:
    """A subscription and a log level are taken note of, and outlive nothing: the server is stateless."""
    return types.EmptyResult()


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    def listed(name: str, arguments: list[str]) -> types.Prompt:
        taken = [types.PromptArgument(name=argument, description=argument, required=True) for argument in arguments]
        return types.Prompt(name=name, description=f"Fixture {name}", arguments=taken)

    return types.ListPromptsResult(prompts=[listed(name, arguments) for name, arguments in offers.PROMPTS.items()])


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name in questions.ROUNDS and (asked := questions.question(params.name, params, ctx.session.client_capabilities)):
        return asked
    messages = [{"role": "user", "content": content} for content in offers.prompt(params.name, params.arguments or {})]
    return types.GetPromptResult.model_validate({"messages": messages}, by_name=False)


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False))


def build() -> Server[Any]:
    server = Server(
        "postroom-conformance",
        version="1",
        cache_hints={
            "tools/list": CACHE,
            "prompts/list": CACHE,
            "resources/list": CACHE,
            "resources/templates/list": CACHE,
            "resources/read": CACHE,
            "server/discover": CACHE,
        },
        get_tool_input_schema=SCHEMAS.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(BUS),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, accept)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    return server


def app(port: int) -> ASGIApp:
    """Mounted as the server proper mounts its own, behind the same guard: here is what the suite tests."""
    manager = mcp.make_session_manager(build())

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    # POST alone: a stateless server has nothing to say on a GET, which the SDK would hold open, and nothing to DELETE.
    route = Route("/mcp/{ws_id}", StreamableHTTPASGIApp(manager), methods=["POST"])
    hosts, origins = security.allowed_hosts_and_origins("127.0.0.1", port, (), secure=False)
    return security.SecurityMiddleware(Starlette(routes=[route], lifespan=lifespan), hosts=hosts, origins=origins)


def main() -> None:
    # The protocol is said, or asyncio leaves Nagle's algorithm on and every JSON answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    print(f"READY {port}", flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app(port), log_level="warning", timeout_graceful_shutdown=1)).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
