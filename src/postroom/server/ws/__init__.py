"""WebSockets that deliver mail: the upgrade, the frames of the mailbox protocol, and the dispatch of messages to open sockets.

`server/app.py` mounts the endpoints. `server/rpc` uses the upgrade and the frames for its own sockets. This package calls mailbox verbs
through `api.mailbox_access` and `StoreAccess`, and must not know SQL.
"""
