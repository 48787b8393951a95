"""The SQLite databases of queues and of the notifier: their statements, their files, and the sandbox of a filter.

Only the room `queues` calls it. It knows SQL and files, and no rule of a queue.
"""
