"""`inbox status` and `inbox top`: gathering.py reads the state of all rooms, views.py prints it, live_screen.py keeps it on a terminal.

`cli/inbox/spec.py` lists both commands. It calls verbs of every room, which only read, and must not know SQL. Only
live_screen.py imports textual.
"""
