"""`inbox status` and `inbox top`: gathering.py reads the state of all rooms, views.py prints it, live_screen.py keeps it on a terminal."""
