"""The four command-line programs: inbox, mailbox, thread and notifier.

The console scripts in pyproject.toml start them. Only `inbox/serve.py` may import the server.
"""
