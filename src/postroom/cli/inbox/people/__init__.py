"""The commands about people: spec.py lists them, commands.py holds their handlers, views.py their text.

The table of `inbox` includes them. They call `postroom.people`, and must not know about SQL or the server.
"""
