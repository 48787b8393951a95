"""The SQL that is the same on every engine, one module for each room.

Each engine's own `statements` modules add the statements whose text differs. A statement that returns rows is a `Query`, which names the
record that a row becomes. Nothing here knows what a statement is used for.
"""
