"""The five command-line programs: inbox, mailbox, thread, notifier, and postroom, which leads to the others.

The console scripts in pyproject.toml start them. A program calls verbs and must not know SQL. Only `inbox/serve.py` may import the server.
"""
