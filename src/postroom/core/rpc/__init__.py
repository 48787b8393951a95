"""The wire format of the arguments and results of verbs, and the rules of blocking verbs.

The remote store and the server call it. It reads the declarations of `core/verbs.py`, and must not know HTTP, sockets or SQL.
"""
