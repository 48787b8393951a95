"""The MCP tools of agents, built on the official SDK: schemas, handlers, and the HTTP and stdio transports.

`server.app` mounts the HTTP endpoint and `inbox mcp` runs the stdio server. Tools call the verbs of the rooms and contain no SQL.
"""
