"""HTTP and WebSocket connections: protocols with limits, the security middleware, sign-in, event streams and the files of the page.

`server/main.py` and `server/app.py` put it together. The handlers in `server/api` use its requests and responses. It must not know SQL or
the rules of the rooms.
"""
