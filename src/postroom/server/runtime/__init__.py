"""Services that the requests of a running server share: store access, group commit, event broadcast, waits, idempotency, rendering.

`AppState` owns one of each, and the handlers call them. They must not know routes, responses or single verbs.
"""
