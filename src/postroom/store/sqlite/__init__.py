"""The SQLite engine: one file that many processes of one machine share, with no daemon.

`open_store` and `queues` (for their own databases) call it. It knows SQL and files, and no rule of a room.
"""
