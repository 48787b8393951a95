"""The server: HTTP, Server-Sent Events, WebSockets and MCP over the same verbs as the commands.

`inbox serve` starts it (`main.serve`). It is the only async code of the repository. It must not know SQL, and nothing below imports it.
"""
