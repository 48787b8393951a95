"""Maintenance of a whole store, across the rooms: pruning, erasing, backups, export and import.

The command line and the server call it. It uses the rooms and `store/maintenance`, and must not know flags, routes or tokens.
"""
