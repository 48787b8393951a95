"""Messages from people to an agent: receiving.py reads its messages, handovers.py keeps them in flight, waiting.py lists what waits for it.

The verbs of `postroom.people` are the interface. These modules know mailboxes and entries, and nothing of HTTP, MCP or terminals.
"""
