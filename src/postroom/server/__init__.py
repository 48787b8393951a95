"""The server: HTTP, Server-Sent Events and MCP over the same verbs as the commands. The only async code of the house."""
