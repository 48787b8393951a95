"""Maintenance of a whole store, across the rooms: pruning, erasing, backups, export and import. The command line and the server call it."""
