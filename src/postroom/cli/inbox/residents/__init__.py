"""Resident agents (`inbox agent run`): a program of an agent that is started for work and mail, and continued when an answer comes.

`cli/inbox/spec.py` lists the command. It calls the worker of `work` and verbs of `people`, and must not know SQL or the server.
"""
