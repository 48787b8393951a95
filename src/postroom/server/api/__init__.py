"""The HTTP routes under /api, one module per room. `server.app` mounts them.

A route checks the request, calls a verb of a room, and encodes the result. It contains no SQL and no rules of a room.
"""
