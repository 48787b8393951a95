"""The commands of tasks, jobs and sheets: spec.py lists them, commands.py and jobs.py hold their handlers, views.py their text.

The table of `inbox` includes them. They call `postroom.tasks`, and must not know about SQL or the server.
"""
