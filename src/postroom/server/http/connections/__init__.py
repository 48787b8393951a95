"""Connections before a request exists: limits of heads, frames and bodies, keep-alive, the Unix socket.

`server/main.py` hands these protocols to uvicorn. They must not know routes, callers or the store.
"""
