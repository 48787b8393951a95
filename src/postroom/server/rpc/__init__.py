"""Verbs over HTTP and WebSocket: dispatch, permissions, and their schemas.

`server/app.py` mounts the endpoints, and clients of any kind call them. Everything about a single verb comes from its declaration in the
rooms. No module here may name a verb.
"""
